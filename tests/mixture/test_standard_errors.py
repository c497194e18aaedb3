"""Standard errors of mixtures: closed forms of one Gaussian, shapes, units and notes."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import implicitmoments as im
from implicitmoments.mixture import CovarianceType, Gaussians, ScoredGaussians, standard_errors
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES
from implicitmoments.rows import Rows
from implicitmoments.testing import refuses

CENTERS = np.array([[0.0, 0, 0], [4, 1, 0]])
X, _ = make_blobs(400, centers=CENTERS, random_state=0)


@pytest.mark.parametrize("robust", [False, True])
def test_one_gaussian_has_the_errors_of_textbooks(robust, rng):
    n, d = 4_000, 3
    A = rng.normal(size=(d, d))
    rows = rng.normal(size=(n, d)) @ A
    C = np.cov(rows.T, bias=True)
    one = Gaussians(np.ones(1), rows.mean(axis=0)[None], C[None])
    scored = ScoredGaussians(one, CovarianceType("full"))
    found = standard_errors(Rows.of(rows), scored, robust=robust)
    factor = 1 if robust else n / (n - d - d * (d + 1) // 2)
    close = {"rtol": 0.03 if robust else 1e-9}
    means = np.sqrt(factor * np.diag(C) / n)
    wishart = np.sqrt(factor * (C**2 + np.outer(np.diag(C), np.diag(C))) / n)
    np.testing.assert_allclose(found.means[0], means, **close)
    np.testing.assert_allclose(found.covariances[0], wishart, atol=0.03 * wishart.max(), **close)
    assert found.weights.tolist() == [0.0]


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


def test_a_known_variance_has_no_error_and_batches_have_those_of_all_rows():
    known = im.SphericalMixture(2, variance=1.0, errors="observed", random_state=0).fit(X)
    assert known.variance_errors_ == 0.0
    assert np.all((known.mean_errors_ > 0.05) & (known.mean_errors_ < 0.1))
    whole = im.SphericalMixture(2, errors="observed", random_state=0)
    errors = whole.fit(X).mean_errors_
    batches = im.SphericalMixture(2, errors="observed", random_state=0)
    batches.partial_fit(X[::2]).partial_fit(X[1::2])
    np.testing.assert_allclose(batches.mean_errors_, errors, rtol=1e-3)
    assert isinstance(whole.variance_errors_, float)


def test_errors_come_on_request_and_tables_show_them():
    plain = im.GaussianMixture(2, means_init=CENTERS).fit(X)
    assert plain.mean_errors_ is plain.weight_errors_ is plain.covariance_errors_ is None
    tables = {table.name for table in plain._parameter_tables()}
    asked = im.GaussianMixture(2, means_init=CENTERS, errors="observed").fit(X)
    assert {table.name for table in asked._parameter_tables()} - tables == {"Standard errors"}
    with refuses("unknown_option", name="errors", value="sandwich"):
        im.GaussianMixture(2, errors="sandwich").fit(X)


def test_a_note_says_why_there_are_none():
    rows = np.random.default_rng(0).normal(size=(400, 120))
    wide = im.GaussianMixture(1, errors="observed", random_state=0).fit(rows)
    assert wide.notes_.codes[-1] == "errors_too_large"
    assert np.isnan(wide.mean_errors_).all()
    few = im.GaussianMixture(2, errors="observed", random_state=0).fit(X[:10])
    assert few.notes_.codes[-1] == "errors_unknown"
