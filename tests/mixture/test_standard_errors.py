"""Standard errors: closed forms of one component, shapes, units, calibration and notes."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import implicitmoments as im
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES
from support import refuses

CENTERS = np.array([[0.0, 0, 0], [4, 1, 0]])
X, _ = make_blobs(400, centers=CENTERS, random_state=0)


@pytest.mark.parametrize("errors", ["observed", "robust"])
def test_one_gaussian_has_the_errors_of_textbooks(errors, rng):
    n, d = 4_000, 3
    rows = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    found = im.GaussianMixture(1, errors=errors, drop_outliers=False).fit(rows)
    C = np.cov(rows.T, bias=True)
    wishart = np.sqrt((C**2 + np.outer(np.diag(C), np.diag(C))) / n)
    rtol = 0.06 if errors == "robust" else 1e-3
    np.testing.assert_allclose(found.mean_errors_[0], np.sqrt(np.diag(C) / n), rtol=rtol)
    np.testing.assert_allclose(found.covariance_errors_[0], wishart, rtol=rtol)
    assert found.weight_errors_.tolist() == [0.0]


@pytest.mark.parametrize("noise", [1.0, 1e-3])
def test_one_line_has_the_errors_of_least_squares(noise, rng):
    """And of the sandwich: HC0."""
    X, n = rng.normal(size=(2_000, 3)), 2_000
    y = X @ [1.0, 0, 0] + noise * rng.normal(size=n) * (1 + np.abs(X[:, 0]))
    Z = np.column_stack([np.ones(n), X])
    squares = (y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]) ** 2
    inverse = np.linalg.inv(Z.T @ Z)
    plain, robust = (
        im.RegressionMixture(1, errors=errors, drop_outliers=False).fit(X, y)
        for errors in ("observed", "robust")
    )
    expected = np.sqrt(squares.mean() * np.diag(inverse))
    np.testing.assert_allclose(plain.coef_errors_[0], expected[1:], rtol=1e-3)
    np.testing.assert_allclose(plain.intercept_errors_, expected[:1], rtol=1e-3)
    np.testing.assert_allclose(plain.noise_errors_, np.sqrt(squares.mean() / (2 * n)), rtol=1e-3)
    hc0 = np.sqrt(np.diag(inverse @ ((Z.T * squares) @ Z) @ inverse))
    np.testing.assert_allclose(robust.coef_errors_[0], hc0[1:], rtol=1e-3)
    assert hc0[1] > 1.2 * expected[1]


@pytest.mark.parametrize("name", COVARIANCE_TYPES)
def test_errors_have_the_shapes_and_units_of_the_parameters(name):
    scale = np.array([1.0, 1.0, 1.0] if "spherical" in name else [1.0, 1e3, 1e-3])
    one, other = (
        im.GaussianMixture(
            2, covariance_type=name, errors="robust", means_init=scale * (shift + CENTERS)
        ).fit(scale * (shift + X))
        for scale, shift in ((np.ones(3), 0.0), (scale, 1e5))
    )
    assert one.weight_errors_.shape == (2,)
    assert np.shape(one.covariance_errors_) == np.shape(one.covariances_)
    np.testing.assert_allclose(other.mean_errors_, one.mean_errors_ * scale, rtol=1e-3)
    factors = np.outer(scale, scale) if name in ("full", "tied") else scale**2
    factors = 1.0 if "spherical" in name else factors
    expected = one.covariance_errors_ * factors
    np.testing.assert_allclose(other.covariance_errors_, expected, rtol=1e-3)


def test_errors_are_the_spread_of_estimates_over_repeated_samples():
    """Errors over standard errors have variance 1; errors half as large would not pass."""
    z, how = [], {"covariance_type": "diag", "errors": "robust", "means_init": CENTERS[:, :2]}
    for seed in range(50):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1], [200, 100])
        rows = CENTERS[labels, :2] + rng.normal(size=(300, 2)) * [[1.5, 0.7]]
        model = im.GaussianMixture(2, **how).fit(rows)
        z += list(np.ravel((model.means_ - CENTERS[:, :2]) / model.mean_errors_))
        z += list(np.ravel((model.covariances_ - [2.25, 0.49]) / model.covariance_errors_))
        z.append((model.weights_[0] - 2 / 3) / model.weight_errors_[0])
    square = np.mean(np.square(z))
    assert 0.75 < square < 1.3
    assert not 0.75 < 4 * square < 1.3


def test_a_known_variance_has_no_error():
    known = im.SphericalMixture(2, variance=1.0, errors="observed", random_state=0).fit(X)
    assert known.variance_errors_ == 0.0
    assert np.all((known.mean_errors_ > 0.05) & (known.mean_errors_ < 0.1))
    free = im.SphericalMixture(2, errors="observed", random_state=0).fit(X)
    assert isinstance(free.variance_errors_, float)


def test_errors_come_on_request_and_tables_show_them():
    plain = im.GaussianMixture(2, means_init=CENTERS).fit(X)
    assert plain.mean_errors_ is plain.weight_errors_ is plain.covariance_errors_ is None
    tables = {table.name for table in plain._parameter_tables()}
    asked = im.GaussianMixture(2, means_init=CENTERS, errors="observed").fit(X)
    assert {table.name for table in asked._parameter_tables()} - tables == {"Standard errors"}
    lines = im.RegressionMixture(2, errors=None, random_state=0).fit(X[:, :2], X[:, 2])
    names = ("weight_errors_", "coef_errors_", "intercept_errors_", "noise_errors_")
    assert [getattr(lines, name) for name in names] == [None] * 4
    with refuses("invalid_parameter"):
        im.GaussianMixture(2, errors="sandwich").fit(X)


def test_they_are_nan_where_parameters_are_many_or_not_determined(rng):
    rows = rng.normal(size=(400, 120))
    wide = im.GaussianMixture(1, errors="observed", random_state=0).fit(rows)
    assert np.isnan(wide.mean_errors_).all()
    lines = im.RegressionMixture(2, random_state=0)
    lines.fit(rng.normal(size=(200, 2)), np.zeros(200))  # they coincide
    assert np.isnan(lines.weight_errors_).all()
