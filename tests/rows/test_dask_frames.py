"""Columns of Dask DataFrames, by name."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from implicitmoments.rows import ArraySource, DaskSource, RowDraws, Rows, map_rows
from implicitmoments.testing import refuses

N, D = 211, 4


@pytest.fixture(autouse=True)
def _one_at_a_time():
    with dask.config.set(scheduler="synchronous"):
        yield


def table():
    rng = np.random.default_rng(5)
    return rng.normal(size=(N, D)), rng.normal(size=N), rng.integers(0, 4, size=N)


def measure(block, rows):
    """Sums that depend on every column and on the numbers of the rows."""
    weights = block["y"] * block["counts"]
    return {
        "products": weights @ block["x"],
        "numbers": np.arange(rows.start, rows.stop) @ block["x"],
    }


def plain(block, rows):
    return {"total": block["x"].sum(axis=0)}


def frame():
    X, y, counts = table()
    columns = {name: X[:, i] for i, name in enumerate("abcd")}
    columns |= {"name": ["s"] * N, "label": y, "times": counts, "flag": counts > 1}
    return pd.DataFrame(columns)


def test_columns_of_numbers_are_taken_by_default():
    lazy = dd.from_pandas(frame(), npartitions=4)
    source = DaskSource.from_frame(lazy, y="label", sample_weight="times")
    assert source.n_features == 5
    X, y, counts = table()
    expected = ArraySource(np.c_[X, counts > 1], y=y, counts=counts).fold(measure, range(N), 50)
    for labels in ("label", lazy["label"], lazy["label"].to_dask_array()):
        source = DaskSource.from_frame(
            lazy, columns=[*"abcd", "flag"], y=labels, sample_weight="times"
        )
        found = source.fold(measure, range(N), 16)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value)


@pytest.mark.parametrize("apart", [False, True])
def test_partitions_of_files_that_dask_joins_stay_together(tmp_path, apart):
    X, y, counts = table()
    for i in range(9):
        frame().iloc[25 * i : 25 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    lazy = dd.read_parquet(tmp_path)
    assert lazy[["a"]].to_dask_array().numblocks[0] < 9  # fewer columns, fewer partitions
    labels, times = (lazy["label"], lazy["times"]) if apart else ("label", "times")
    source = DaskSource.from_frame(lazy, columns=list("abcd"), y=labels, sample_weight=times)
    expected = ArraySource(X, y=y, counts=counts)
    assert (source.n_rows, Rows(source).total) == (N, Rows(expected).total)
    found, sums = (s.fold(measure, range(N), 16) for s in (source, expected))
    for name, value in sums.items():
        np.testing.assert_allclose(found[name], value)


def test_partitions_without_rows_are_passed_over():
    lazy = dd.from_pandas(frame(), npartitions=6)
    few = lazy[lazy["times"] > 2]
    kept = frame().query("times > 2").reset_index(drop=True)
    none = lazy[(lazy["a"] > 1) & (lazy.index > 150)]  # the first partitions are empty
    assert DaskSource.from_frame(few).n_rows == len(kept)
    source = DaskSource.from_frame(none, columns=["a", "b"])
    expected = frame().query("a > 1 and index > 150")[["a", "b"]].to_numpy()
    np.testing.assert_allclose(
        source.fold(plain, range(source.n_rows), 3)["total"], expected.sum(axis=0)
    )
    np.testing.assert_array_equal(source.pick(np.array([0, 2]))["x"], expected[[0, 2]])
    np.testing.assert_array_equal(source.read(range(1), RowDraws(0, range(1)))["x"], expected[:1])
    answers = map_rows(none, lambda x: x.mean(axis=1), columns=["a", "b"])
    np.testing.assert_allclose(answers.compute(), expected.mean(axis=1))


def test_float32_and_missing_numbers_of_frames():
    whole = frame().astype(dict.fromkeys("abcd", np.float32))
    whole["a"] = whole["a"].astype("Float32")
    source = DaskSource.from_frame(dd.from_pandas(whole, npartitions=2), columns=list("abcd"))
    assert source.read(range(1), RowDraws(0, range(1)))["x"].dtype == np.float32
    whole["flag"] = pd.array([1] * N, dtype="Int64")
    whole.loc[150, "flag"] = pd.NA
    source = DaskSource.from_frame(dd.from_pandas(whole, npartitions=2), y="flag")
    with refuses("not_finite", name="column 'flag'", n_rows=1, first=150):
        source.fold(plain, range(N), 50)


@pytest.mark.parametrize(
    ("how", "code", "values"),
    [
        ({"columns": ["a", "name"]}, "column_not_numeric", {"column": "name"}),
        ({"columns": ["a", "z"]}, "no_such_column", {"wanted": "z"}),
        ({"y": "lable"}, "no_such_column", {"wanted": "lable"}),
        ({"sample_weight": "name"}, "column_not_numeric", {"column": "name"}),
        ({"columns": "a"}, "columns_not_a_list", {"given": "a"}),
        ({"columns": []}, "columns_not_a_list", {"given": []}),
    ],
)
def test_columns_that_do_not_fit(how, code, values):
    with refuses(code, **values):
        DaskSource.from_frame(dd.from_pandas(frame(), npartitions=2), **how)


def test_frames_that_do_not_fit():
    lazy = dd.from_pandas(frame(), npartitions=2)
    with refuses("not_a_dask_array", kind="DataFrame"):
        DaskSource(lazy)
    with refuses("not_a_dask_frame", kind="DataFrame"):
        DaskSource.from_frame(frame())
    with refuses("no_features", names=["name"]):
        DaskSource.from_frame(lazy[["name"]])
