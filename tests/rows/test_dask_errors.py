import dask
import dask.array as da
import numpy as np
import pytest

from implicitmoments.rows import DaskTable, RowDraws
from support import refuses


@pytest.fixture(autouse=True)
def _one_at_a_time():
    with dask.config.set(scheduler="synchronous"):
        yield


def plain(block, rows):
    return {"total": block["x"].sum(axis=0)}


def hole(value, row, of=0):
    columns = [np.ones((90, 2)), np.ones(90), np.ones(90)]
    columns[of][row] = value
    lazy = [da.from_array(column, chunks=30) for column in columns]
    return DaskTable(lazy[0], y=lazy[1], counts=lazy[2])


@pytest.mark.parametrize(
    ("source", "code", "values"),
    [
        (lambda: hole(np.nan, 47), "not_finite", {"name": "X", "kind": "NaN", "first": 47}),
        (
            lambda: hole(np.inf, 61, of=1),
            "not_finite",
            {"name": "y", "kind": "infinity", "first": 61},
        ),
        (lambda: hole(-1.0, 88, of=2), "negative_weight", {"what": "sample_weight", "first": 88}),
    ],
)
def test_a_bad_row_is_named_by_its_number_in_every_pass_until_all_were_seen(source, code, values):
    source = source()
    assert source.fold(plain, range(30), 7)["total"][0] == 30
    for _ in range(2):
        with refuses(code, **values):
            source.fold(plain, range(90), 7)


unknown = da.ones((9, 2), chunks=3)[da.arange(9, chunks=3) > 0]


@pytest.mark.parametrize(
    ("build", "code", "values"),
    [
        (lambda: DaskTable(np.ones((3, 2))), "not_a_dask_array", {"kind": "ndarray"}),
        (lambda: DaskTable(da.ones(3)), "wrong_axes", {"name": "X", "expected": 2}),
        (lambda: DaskTable(da.ones((0, 2))), "no_rows", {"name": "X"}),
        (lambda: DaskTable(da.from_array(np.array([["a"]]))), "not_numeric", {"name": "X"}),
        (
            lambda: DaskTable(da.ones((4, 2)), y=da.ones(3)),
            "wrong_length",
            {"name": "y", "n_rows": 3, "expected": 4},
        ),
        (
            lambda: DaskTable(da.ones((4, 2)), counts=da.ones((4, 1))),
            "wrong_axes",
            {"name": "sample_weight", "expected": 1},
        ),
        (
            lambda: DaskTable(unknown, y=da.ones(8)),
            "partitions_differ",
            {"what": "y", "found": 1, "expected": 3},
        ),
        (
            lambda: DaskTable(unknown, y=da.ones(9, chunks=3)).fold(plain, range(8), 9),
            "partitions_differ",
            {"what": "y", "found": 3, "expected": 2, "row": 0},
        ),
        (lambda: DaskTable(unknown[unknown[:, 0] > 2]).n_rows, "no_rows", {}),
        (
            lambda: DaskTable(da.ones((4, 2))).read(range(3, 5), RowDraws(0, range(3, 5))),
            "no_such_rows",
            {"start": 3, "stop": 5, "n_rows": 4},
        ),
    ],
)
def test_arrays_that_do_not_fit(build, code, values):
    with refuses(code, **values):
        build()
