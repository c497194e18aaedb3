"""RegressionMixture without noise, with dependent columns or too few rows, and what it refuses."""

import numpy as np
import pytest

from implicitmoments import RegressionMixture
from support import match_rows, refuses

SLOPES = np.array([[1.0, 2.0], [-1.0, 0.5]])


def two_lines(rng, noise=0.0):
    X, labels = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    return X, np.sum(X * SLOPES[labels], axis=1) + noise * rng.normal(size=400)


@pytest.mark.parametrize("noise_type", ["shared", "separate"])
@pytest.mark.parametrize("k", [2, "auto"])
def test_no_noise_at_all(rng, noise_type, k):
    X, y = two_lines(rng)
    found = RegressionMixture(k, noise_type=noise_type, random_state=0).fit(X, y)
    assert found.n_components_ == 2
    assert match_rows(found.coef_, SLOPES)[1].max() < 1e-5
    assert found.noise_.max() < 1e-3


def test_one_exact_line_for_two(rng):
    X, _ = two_lines(rng)
    found = RegressionMixture(2, random_state=0).fit(X, X @ SLOPES[0])
    np.testing.assert_allclose(found.coef_, [SLOPES[0]] * 2, atol=1e-4)
    np.testing.assert_allclose(found.predict(X), X @ SLOPES[0], atol=1e-3)


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_constant_labels(rng):
    X, _ = two_lines(rng)
    found = RegressionMixture(2, random_state=0).fit(X, np.full(400, 5.0))
    assert "components_are_one" in found.notes_.codes
    np.testing.assert_allclose(found.predict(X), 5)
    np.testing.assert_allclose(found.coef_, 0, atol=1e-8)


def test_collinear_and_constant_columns(rng):
    X, y = two_lines(rng, 0.1)
    wide = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(400)])
    found = RegressionMixture(2, random_state=0).fit(wide, y)
    (constant,) = (note for note in found.notes_ if note.code == "columns_left_out")
    assert constant.values == {"columns": ["x3"]}
    plain = RegressionMixture(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(found.predict(wide), plain.predict(X), atol=1e-5)
    without = RegressionMixture(2, random_state=0).fit(np.ones((50, 2)), y[:50])
    np.testing.assert_array_equal(without.coef_, 0.0)
    with refuses("all_inputs_zero"):
        RegressionMixture(2, fit_intercept=False).fit(np.zeros((50, 2)), y[:50])


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_fewer_rows_than_coefficients_are_refused(rng):
    X, y = rng.normal(size=(8, 20)), rng.normal(size=8)
    with refuses("too_few_rows", total=21, n=8):
        RegressionMixture(1, random_state=0).fit(X, y)
    with refuses("too_few_rows", most=2):
        RegressionMixture(3, random_state=0).fit(X[:, :3], y)
    RegressionMixture(2, fit_intercept=False, random_state=0).fit(X[:, :4], y)


def test_one_feature(rng):
    X, labels = rng.normal(size=(400, 1)), rng.integers(2, size=400)
    y = X[:, 0] * np.where(labels, 2.0, -1.0) + 0.1 * rng.normal(size=400)
    found = RegressionMixture("auto", random_state=0).fit(X, y)
    np.testing.assert_allclose(np.sort(found.coef_[:, 0]), [-1, 2], atol=0.05)
