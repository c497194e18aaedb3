import numpy as np
import pytest

from implicitmoments.rows import (
    ArraySource,
    CallableSource,
    DifferenceSource,
    RowDraws,
    as_source,
)
from support import refuses


def read(source, rows):
    return source.read(rows, RowDraws(0, rows))


def test_arrays_are_read_in_their_own_library(xp):
    source = ArraySource(xp.asarray(np.arange(12.0).reshape(6, 2)), y=xp.arange(6))
    block = read(source, range(2, 4))
    assert (source.n_rows, source.n_features) == (6, 2)
    assert type(block["x"]) is type(xp.ones(1))
    np.testing.assert_array_equal(np.asarray(block["x"]), [[4, 5], [6, 7]])
    np.testing.assert_array_equal(np.asarray(block["y"]), [2, 3])


def test_functions_make_rows_by_number():
    source = as_source(lambda rows, rng: rng.normal(3))
    assert (source.n_rows, source.n_features) == (None, 3)
    np.testing.assert_array_equal(
        read(source, range(5, 9))["x"], read(source, range(20))["x"][5:9]
    )
    named = CallableSource(lambda rows, rng: {"x": rng.normal(2), "y": rng.normal()}, n_rows=10)
    assert set(read(named, range(4))) == {"x", "y"}
    assert as_source(named) is named


def test_differences_pair_neighbouring_rows():
    X = np.arange(14.0).reshape(7, 2) ** 2
    source = DifferenceSource(as_source(X))
    assert source.n_rows == 3
    np.testing.assert_allclose(
        read(source, range(1, 3))["x"], (X[[2, 4]] - X[[3, 5]]) / np.sqrt(2)
    )
    endless = DifferenceSource(as_source(lambda rows, rng: rng.normal(3)))
    assert endless.n_rows is None
    np.testing.assert_array_equal(
        read(endless, range(3, 5))["x"], read(endless, range(9))["x"][3:5]
    )


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: ArraySource(np.ones(3)), "wrong_axes"),
        (lambda: ArraySource(np.ones((0, 3))), "no_rows"),
        (lambda: ArraySource([["a"]]), "not_numeric"),
        (lambda: ArraySource([[1.0], [np.nan]]), "not_finite"),
        (
            lambda: ArraySource(np.ones((3, 2)), y=np.ones(2)),
            "wrong_length",
        ),
        (lambda: ArraySource(np.ones((2, 2)), y=[1, np.inf]), "not_finite"),
        (
            lambda: as_source(lambda rows, rng: np.ones((2, 2))),
            "wrong_length",
        ),
        (
            lambda: as_source(lambda rows, rng: {"z": 1}),
            "points_missing",
        ),
        (
            lambda: CallableSource(lambda rows, rng: 0, n_rows=0),
            "not_positive",
        ),
        (lambda: DifferenceSource(ArraySource(np.ones((1, 2)))), "too_few_rows"),
    ],
)
def test_rows_that_do_not_fit(build, code):
    with refuses(code):
        build()


def test_a_function_that_changes_its_width():
    with refuses("features_changed", n_features=2, expected=1):
        read(as_source(lambda rows, rng: rng.normal(len(rows))), range(2))


def test_a_bad_row_of_a_function_is_named_by_its_number():
    def rows_with_a_hole(rows, rng):
        made = rng.normal(2)
        made[np.array(rows) == 12] = np.nan
        return made

    with refuses("not_finite", name="x", n_rows=1, first=12):
        read(as_source(rows_with_a_hole), range(10, 15))
