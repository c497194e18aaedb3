"""Mixtures with Student's t, of Gaussians and of lines: density, fits, samples and notes."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import implicitmoments as im
from implicitmoments.estimator import FOUND, findings_of
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES
from support import refuses

D, NU = 2, 3.0
MEANS = np.array([[0.0, 0.0], [7.0, 3.0]])
ROOTS = np.array([[[1.0, 0.0], [0.6, 0.8]], [[0.7, 0.0], [-0.3, 1.2]]])
COEF = np.array([[1.0, 2.0, 0.0], [-1.0, -1.0, 2.0]])  # intercepts first


def t_rows(n, seed, roots=ROOTS, nu=NU):
    """Rows of two components, in random order."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    z = rng.normal(size=(n, D)) * np.sqrt(nu / rng.chisquare(nu, n))[:, None]
    return MEANS[labels] + np.einsum("nij,nj->ni", roots[labels], z)


def t_lines(n, seed, nu=NU):
    """Rows on two lines."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    noise = rng.standard_t(nu, n) if np.isfinite(nu) else rng.normal(size=n)
    return X, COEF[labels, 0] + np.sum(X * COEF[labels, 1:], axis=1) + 0.5 * noise


X = t_rows(1_200, 0)


def whole_covariances(model):
    found = model._covariances()
    return found if found.ndim == 3 else np.stack([np.diag(row) for row in found])


@pytest.mark.parametrize("name", COVARIANCE_TYPES)
def test_the_density_is_that_of_scipy(name):
    how = {"covariance_type": name, "noise": "student", "random_state": 0}
    model = im.GaussianMixture(2, **how).fit(X)
    parts = zip(model.weights_, model.means_, whole_covariances(model), strict=True)
    logs = [
        np.log(w) + stats.multivariate_t.logpdf(X, m, C, model.degrees_of_freedom_)
        for w, m, C in parts
    ]
    np.testing.assert_allclose(model.score_samples(X), np.logaddexp.reduce(logs), rtol=1e-9)
    assert model.score(X) == pytest.approx(model.lower_bound_, abs=1e-9)


@pytest.mark.parametrize("noise_type", ["shared", "separate"])
def test_lines_end_at_the_maximum(noise_type):
    X, y = t_lines(400, 1)
    model = im.RegressionMixture(
        2, noise="student", noise_type=noise_type, tol=1e-10, random_state=0
    ).fit(X, y)
    z, n_noise = np.column_stack([np.ones(len(X)), X]), len(set(model.noise_))

    def loss(theta):
        weights = np.exp(theta[:2]) / np.exp(theta[:2]).sum()
        lines, noise = theta[2:8].reshape(2, 3), np.exp(np.resize(theta[8 : 8 + n_noise], 2))
        logs = stats.t.logpdf(y[:, None], np.exp(theta[-1]), z @ lines.T, noise) + np.log(weights)
        return -np.logaddexp.reduce(logs, axis=1).mean()

    lines = np.column_stack([model.intercept_, model.coef_])
    noise = np.log(model.noise_[:n_noise])
    start = [np.log(model.weights_), lines.ravel(), noise, [np.log(model.degrees_of_freedom_)]]
    start = np.concatenate(start)
    assert -loss(start) == pytest.approx(model.lower_bound_, abs=1e-9)
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    assert model.lower_bound_ > -best.fun - 1e-6


@pytest.mark.parametrize("name", ["full", "tied_spherical"])
def test_auto_finds_components_with_tails(name):
    rows = t_rows(1_000, 1, ROOTS if name == "full" else np.repeat(np.eye(D)[None], 2, axis=0))
    how = {"covariance_type": name, "random_state": 0}
    model = im.GaussianMixture("auto", noise="student", **how).fit(rows)
    assert model.n_components_ == 2
    assert 2.3 < model.degrees_of_freedom_ < 4
    assert model.stats_["outliers"] == 0
    assert model.notes_ == []
    np.testing.assert_allclose(model.means_[np.argsort(model.means_[:, 0])], MEANS, atol=0.3)
    n = {"full": 12, "tied_spherical": 7}[name]
    logs = model.score_samples(rows)
    np.testing.assert_allclose(model.bic(rows), -2 * logs.sum() + n * np.log(1_000))
    gaussian = im.GaussianMixture(2, drop_outliers=False, **how).fit(rows)
    assert model.bic(rows) < gaussian.bic(rows) - 100
    drawn, labels = model.sample(20_000, random_state=1)
    own = drawn[labels == 0] - model.means_[0]
    squares = np.einsum("ni,ij,nj->n", own, np.linalg.inv(whole_covariances(model)[0]), own)
    law = stats.f(D, model.degrees_of_freedom_)
    assert stats.kstest(squares / D, law.cdf).pvalue > 1e-3


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_heavy_tails_are_noted_and_the_advice_helps():
    gaussian = im.GaussianMixture(2, drop_outliers=False, random_state=0).fit(X)
    assert "heavy_tails" in gaussian.notes_.codes
    assert im.GaussianMixture(2, random_state=0).fit(t_rows(1_200, 3, nu=1e6)).notes_ == []
    inputs, y = t_lines(400, 5)
    lines = im.RegressionMixture(2, drop_outliers=False, random_state=0).fit(inputs, y)
    assert "heavy_tails" in lines.notes_.codes
    better = im.RegressionMixture(2, noise="student", random_state=0).fit(inputs, y)
    assert better.bic(inputs, y) < lines.bic(inputs, y) - 10
    assert better.notes_ == []


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_a_sharp_peak_is_no_heavy_tail():
    """Pixels that are mostly 0."""
    pixels = load_digits().data[:600]
    gaussian = im.GaussianMixture(5, covariance_type="diag", random_state=0).fit(pixels)
    assert "heavy_tails" not in gaussian.notes_.codes


def test_noise_that_differs_between_lines_is_no_heavy_tail(rng):
    X, labels = rng.normal(size=(1_000, 1)), rng.integers(2, size=1_000)
    noise = np.array([0.2, 1.0])[labels] * rng.normal(size=1_000)
    y = np.array([3.0, -3.0])[labels] * X[:, 0] + noise
    model = im.RegressionMixture(2, random_state=0).fit(X, y)
    (note,) = model.notes_
    assert (note.code, note.values["option"]) == ("not_round", "noise_type")
    separate = im.RegressionMixture(2, noise_type="separate", random_state=0).fit(X, y)
    assert separate.notes_ == []


@pytest.mark.parametrize("estimator", ["gaussians", "lines"])
def test_gaussian_noise_has_many_degrees_of_freedom(estimator):
    """EM converges there, too."""
    if estimator == "gaussians":
        model = im.GaussianMixture(2, noise="student", random_state=0)
        model.fit(t_rows(2_000, 0, nu=1e6))
    else:
        model = im.RegressionMixture(2, noise="student", random_state=0)
        model.fit(*t_lines(2_000, 4, nu=np.inf))
    assert model.converged_
    assert model.degrees_of_freedom_ > 30


def test_without_student_s_law_degrees_of_freedom_are_infinite():
    model = im.RegressionMixture(2, random_state=0).fit(*t_lines(500, 4, nu=np.inf))
    assert model.degrees_of_freedom_ == np.inf
    assert model.notes_ == []
    with refuses("invalid_parameter"):
        im.RegressionMixture(2, noise="cauchy").fit(*t_lines(500, 4))
    for noise, expected in (("gaussian", False), ("student", True)):
        model = im.GaussianMixture(2, noise=noise, drop_outliers=False, n_moves=0)
        assert (FOUND["degrees_of_freedom_"] in findings_of(model.fit(t_rows(300, 0)))) is expected


def test_degrees_of_freedom_at_their_bound_have_no_error(rng):
    model = im.GaussianMixture(1, noise="student", errors="observed", random_state=0)
    assert np.isnan(model.fit(rng.uniform(size=(300, 1))).degrees_of_freedom_errors_)


def test_a_warm_start_keeps_the_degrees_of_freedom():
    rows = t_rows(600, 0)
    model = im.GaussianMixture(2, noise="student", warm_start=True, random_state=0).fit(rows)
    before = model.degrees_of_freedom_
    model.max_iter = 0
    assert model.fit(rows).degrees_of_freedom_ == pytest.approx(before, rel=1e-9)
