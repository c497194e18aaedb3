"""Centre, variance and span from the covariance, and rows that are too far away."""

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture.mean_span import find_span, flat_directions, span_source
from implicitmoments.rows import ArraySource, RowDraws
from implicitmoments.rows.outliers import near_rows
from implicitmoments.testing import refuses


def test_variance_and_span_are_found():
    X, truth = make_spherical_mixture(40_000, 3, 10, radius=3.0, random_state=0)
    span = find_span(5.0 + 2.0 * X, 3, None)
    assert span.variance == pytest.approx(4.0, rel=0.02)
    assert span.p == 2
    inside = span.restore(span.coordinates(5.0 + 2.0 * truth.vectors))
    np.testing.assert_allclose(inside, 5.0 + 2.0 * truth.vectors, atol=0.2)
    moved = truth.vectors - truth.weights @ truth.vectors
    expected = np.sum(truth.weights * np.sum(moved**2, axis=1))
    assert span.squared_radius == pytest.approx(expected, rel=0.03)
    np.testing.assert_allclose(
        np.cov(span.coordinates(5.0 + 2.0 * X).T), np.diag(span.spectrum[:2]), atol=0.01
    )


def test_weights_are_repetitions(rng):
    X, counts = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    weighted = find_span(ArraySource(X, counts=counts.astype(float)), 2, None)
    repeated = find_span(np.repeat(X, counts, axis=0), 2, None)
    np.testing.assert_allclose(weighted.spectrum, repeated.spectrum)
    np.testing.assert_allclose(weighted.center, repeated.center)


def test_what_cannot_be_estimated_is_refused(rng):
    X = rng.normal(size=(100, 3))
    with refuses("variance_not_estimable", k=4, d=3):
        find_span(X, 4, None)
    assert find_span(X, 4, 1.0).p == 3
    with refuses("rows_do_not_vary"):
        find_span(np.ones((10, 3)), 2, None)


def test_constant_columns_are_noticed_and_do_not_enter_the_variance(rng):
    X = rng.normal(size=(5_000, 6))
    assert flat_directions(find_span(X, 2, None), 5_000) is None
    X[:, 2] = 1.0
    span = find_span(X, 2, None)
    assert span.variance == pytest.approx(1.0, rel=0.1)
    assert flat_directions(span, 5_000) == pytest.approx(0.0, abs=1e-9)


def far_rows(X, **options):
    near = near_rows(X, **options)
    read = near.rows.read(range(len(X)), RowDraws(0, range(len(X))))
    assert near.n_rows + near.n_far == len(X)
    return [] if near.n_far == 0 else list(np.flatnonzero(read["counts"] == 0))


def test_outliers_are_told_from_rows():
    X, _ = make_spherical_mixture(20_000, 3, 5, radius=1.5, random_state=0)
    assert far_rows(X) == []
    X[3], X[8] = 8.0, 1e6
    assert far_rows(X) == [3, 8]
    assert far_rows(X, times=10.0) == [8]
    # a tenth of the rows are no outliers
    X[:2_000] = 1e6
    assert far_rows(X) == []


def test_outliers_count_nothing_and_stand_at_the_centre(rng):
    x, y = rng.normal(size=(500, 3)), 100.0 * rng.normal(size=500)
    x[4], y[9] = 1e200, 1e9
    near = near_rows(ArraySource(x, y=y), labelled=True)
    assert (near.n_rows, near.n_far) == (498, 2)
    block = near.rows.read(range(10), RowDraws(0, range(10)))
    np.testing.assert_array_equal(np.flatnonzero(block["counts"] == 0), [4, 9])
    np.testing.assert_array_equal(block["x"][4], near.center[:-1])
    assert block["y"][9] == near.center[-1]
    np.testing.assert_array_equal(block["x"][5], x[5])
    # rows that do not count are no outliers either
    counts = np.ones(500)
    counts[[4, 9]] = 0
    assert near_rows(ArraySource(x, y=y, counts=counts), labelled=True).n_far == 0


def test_coordinates_are_a_source(rng):
    X = rng.normal(size=(50, 4))
    span = find_span(X, 3, None)
    read = span_source(X, span).read(range(10, 30), RowDraws(0, range(10, 30)))["x"]
    np.testing.assert_allclose(read, span.coordinates(X)[10:30])
