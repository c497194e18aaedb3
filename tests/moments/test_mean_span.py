"""Centre, variance and span of a spherical mixture, from the covariance."""

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.moments.problems import find_span, smallest_variance
from implicitmoments.rows import Rows
from support import refuses


def test_variance_and_span_are_found():
    X, truth = make_spherical_mixture(40_000, 3, 10, radius=3.0, random_state=0)
    span = find_span(Rows.of(5.0 + 2.0 * X), 3, None)
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
    weighted = find_span(Rows.of(X, counts=counts.astype(float)), 2, None)
    repeated = find_span(Rows.of(np.repeat(X, counts, axis=0)), 2, None)
    np.testing.assert_allclose(weighted.spectrum, repeated.spectrum)
    np.testing.assert_allclose(weighted.center, repeated.center)


def test_what_cannot_be_estimated_is_refused(rng):
    X = rng.normal(size=(100, 3))
    with refuses("variance_not_estimable", k=4, d=3):
        find_span(Rows.of(X), 4, None)
    assert find_span(Rows.of(X), 4, 1.0).p == 3
    with refuses("rows_do_not_vary"):
        find_span(Rows.of(np.ones((10, 3))), 2, None)


def test_constant_columns_are_noticed_and_do_not_enter_the_variance(rng):
    X = rng.normal(size=(5_000, 6))
    assert smallest_variance(find_span(Rows.of(X), 2, None), 5_000) is None
    X[:, 2] = 1.0
    span = find_span(Rows.of(X), 2, None)
    assert span.variance == pytest.approx(1.0, rel=0.1)
    assert smallest_variance(span, 5_000) == pytest.approx(0.0, abs=1e-9)
