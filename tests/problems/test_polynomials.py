import math

import numpy as np
import pytest

from implicitmoments.datasets import make_regression_mixture
from implicitmoments.problems import (
    RegressionMixtureProblem,
    monic_polynomial,
    recurrence_from_moments,
)
from implicitmoments.rows import ArrayTable, Whitening
from support import refuses


def test_gaussian_moments_give_hermite_polynomials():
    moments = [math.prod(range(n - 1, 0, -2)) if n % 2 == 0 else 0.0 for n in range(16)]
    a, b = recurrence_from_moments(moments)
    np.testing.assert_allclose(a, 0, atol=1e-9)
    np.testing.assert_allclose(b, range(8), atol=1e-9)
    y = np.linspace(-2, 2, 5)
    for degree in range(8):
        series = np.eye(degree + 1)[degree]
        expected = np.polynomial.hermite_e.hermeval(y, series)
        np.testing.assert_allclose(monic_polynomial(y, degree, a, b), expected, atol=1e-9)


def test_they_are_orthogonal_under_the_law_of_the_sample(rng):
    y = rng.gamma(3.0, size=4_000) - 2.0
    a, b = recurrence_from_moments([float(np.mean(y**n)) for n in range(12)])
    P = np.array([monic_polynomial(y, n, a, b) for n in range(6)])
    P /= np.sqrt(np.mean(P**2, axis=1, keepdims=True))
    np.testing.assert_allclose(P @ P.T / len(y), np.eye(6), atol=1e-5)


def test_a_law_of_few_points_ends_the_recurrence():
    a, _ = recurrence_from_moments([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    assert len(a) == 2
    assert np.isfinite(monic_polynomial(np.array([1.0, -1.0]), 5, a, [0.0, 1.0])).all()


def test_orthogonal_weights_are_powers_plus_lower_powers():
    X, y, _ = make_regression_mixture(3_000, 2, 3, random_state=0)
    problem = RegressionMixtureProblem(X, 100 * y)
    rows = range(3_000)
    block = problem.rows.read(range(3_000))
    for order in (1, 2, 3, 5):
        weight = problem.weigh(order, block, rows) * math.factorial(order)
        fitted = np.polynomial.Polynomial.fit(block["y"], weight, order).convert()
        assert fitted.coef[-1] == pytest.approx(1.0, rel=1e-6)
    with refuses("unknown_option"):
        RegressionMixtureProblem(X, y, weights="cubic")


class TestWhitening:
    def test_points_become_standard_and_vectors_come_back(self, rng):
        X = rng.normal(size=(5_000, 3)) @ rng.normal(size=(3, 3)) + [1.0, -5.0, 100.0]
        whitening = Whitening.of(ArrayTable(X))
        made = whitening.apply({"x": X})["x"]
        np.testing.assert_allclose(made.mean(0), 0, atol=1e-9)
        np.testing.assert_allclose(made.T @ made / len(X), np.eye(3), atol=1e-8)
        v = rng.normal(size=(2, 3))
        back = whitening.original(v)
        np.testing.assert_allclose(made @ v.T, (X - X.mean(0)) @ back.T, atol=1e-8)

    def test_points_far_from_the_origin_lose_no_digits(self, rng):
        X = rng.normal(size=(1_000, 3))
        near, far = Whitening.of(ArrayTable(X)), Whitening.of(ArrayTable(X + 1e8))
        np.testing.assert_allclose(far.root, near.root, atol=1e-6)
        single = Whitening.of(ArrayTable((X + 1_000).astype(np.float32)))
        np.testing.assert_allclose(single.root, near.root, atol=1e-2)

    def test_collinear_columns_are_named(self, rng):
        X = rng.normal(size=(100, 3))
        X[:, 2] = 4.0
        with refuses("columns_collinear", column="x2"):
            Whitening.of(ArrayTable(X))
        with refuses("whitening_needs_two_rows", n=1):
            Whitening.of(ArrayTable(X[:1]))
