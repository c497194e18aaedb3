"""Noise with Student's law: its density, EM, fits, standard errors and samples."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import implicitmoments as im
from implicitmoments.regression import LineFamily, Lines, Model, design_rows
from implicitmoments.regression.lines import log_joint
from implicitmoments.rows import Rows
from implicitmoments.search import Budget, run_em
from implicitmoments.search.noise import information as freedom_information
from implicitmoments.testing import refuses


def two_lines(n, seed, law=3.0):
    """Rows on two lines, and (intercepts, slopes)."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    coef = np.array([[1.0, 2.0, 0.0], [-1.0, -1.0, 2.0]])
    noise = rng.standard_t(law, n) if np.isfinite(law) else rng.normal(size=n)
    y = coef[labels, 0] + np.sum(X * coef[labels, 1:], axis=1) + 0.5 * noise
    return X, y, coef


def some_lines(shared=True):
    variances = np.full(2, 0.3) if shared else np.array([0.2, 0.5])
    return Lines(
        np.array([0.6, 0.4]), np.array([[1.0, 2, 0], [-1, -1, 2]]), variances, np.full(2, 4.0)
    )


def reference(lines, X, y):
    """Log densities by SciPy, (k, n)."""
    z = np.column_stack([np.ones(len(X)), X])
    return np.array(
        [
            np.log(w) + stats.t.logpdf(y, nu, z @ b, np.sqrt(v))
            for w, b, v, nu in zip(
                lines.weights, lines.coef, lines.variances, lines.freedom, strict=True
            )
        ]
    )


def test_density_is_that_of_scipy():
    X, y, _ = two_lines(50, 0)
    u = np.vstack([np.ones(50), X.T, y])
    np.testing.assert_allclose(log_joint(some_lines(), u), reference(some_lines(), X, y))


@pytest.mark.parametrize("model", [Model(student=True), Model(shared=False, student=True)])
def test_em_is_monotone_and_ends_at_the_maximum(model):
    X, y, _ = two_lines(400, 1)
    rows, family = design_rows(Rows.of(X, y=y)), LineFamily(model)
    start = some_lines(model.shared)
    plain = start
    levels = []
    for _ in range(12):  # without extrapolation
        sums = family.e_step(rows, plain)
        levels.append(sums.level)
        plain = family.m_step(sums, plain)
    assert np.all(np.diff(levels) > -1e-12)
    found = run_em(family, rows, start, Budget(400, 500, 1e-10))

    def loss(packed):
        if model.shared:
            packed = np.append(packed[:-1], packed[-2])
        return -np.logaddexp.reduce(reference(family.unpack(packed, start), X, y), axis=0).mean()

    best = minimize(loss, family.pack(found.state), method="BFGS", options={"gtol": 1e-7})
    assert found.level > -best.fun - 1e-6
    assert family.n_parameters(start) == Model(model.shared).n_parameters(2, 3) + 1


def test_information_about_the_degrees_of_freedom(rng):
    nu, step = 4.0, 1e-3
    t = rng.standard_t(nu, size=200_000)
    up, down = (stats.t.logpdf(t, nu * np.exp(s)) for s in (step, -step))
    score = (up - down) / (2 * step)
    np.testing.assert_allclose(freedom_information(np.array([nu]), 1), score.var(), rtol=0.02)


@pytest.mark.parametrize("k", [1, 2])
def test_auto_finds_the_lines_and_the_degrees_of_freedom(k):
    X, y, coef = two_lines(1_500, 3)
    if k == 1:
        rng = np.random.default_rng(0)
        y = 1 + X @ [2.0, 0.0] + 0.5 * rng.standard_t(3, 1_500)
    model = im.RegressionMixture("auto", noise="student", random_state=0).fit(X, y)
    assert model.n_components_ == k
    assert 2.3 < model.degrees_of_freedom_ < 4.2
    order = np.argsort(-model.intercept_)
    np.testing.assert_allclose(model.coef_[order], coef[:k, 1:], atol=0.1)
    np.testing.assert_allclose(model.noise_, 0.5, atol=0.06)
    assert np.all(model.coef_errors_ < 0.05)
    # what follows from the density
    logs = model.score_samples(X, y)
    np.testing.assert_allclose(logs.mean(), model.lower_bound_, rtol=1e-9)
    free = (k * 3) + (k - 1) + 1 + 1
    np.testing.assert_allclose(model.bic(X, y), -2 * logs.sum() + free * np.log(1_500))
    # samples have the tails of the model
    _, again, labels = model.sample(random_state=1, X=np.zeros((40_000, 2)))
    residual = (again - model.intercept_[labels]) / model.noise_[labels]
    assert stats.kstest(residual, stats.t(model.degrees_of_freedom_).cdf).pvalue > 1e-3
    assert stats.kstest(residual, stats.norm.cdf).pvalue < 1e-6


@pytest.mark.parametrize("k", [2, "auto"])
def test_heavy_tails_are_noted_also_where_further_lines_absorb_them(k):
    X, y, _ = two_lines(400, 5)
    model = im.RegressionMixture(k, drop_outliers=False, random_state=0).fit(X, y)
    (note,) = (note for note in model.notes_ if note.code == "heavy_tails")
    assert (note.values["k"], note.values["found"]) == (model.n_components_, 2)
    assert 2 < note.values["freedom"] < 5
    # the advice helps
    better = im.RegressionMixture(k, noise="student", random_state=0).fit(X, y)
    assert better.bic(X, y) < model.bic(X, y) - 10
    assert better.notes_ == []


def test_noise_that_differs_between_lines_is_no_heavy_tail(rng):
    X, labels = rng.normal(size=(1_000, 1)), rng.integers(2, size=1_000)
    y = np.array([3.0, -3.0])[labels] * X[:, 0] + np.array([0.2, 1.0])[labels] * rng.normal(
        size=1_000
    )
    model = im.RegressionMixture(2, random_state=0).fit(X, y)
    assert model.notes_.codes == ["noise_differs"]
    separate = im.RegressionMixture(2, noise_type="separate", random_state=0).fit(X, y)
    assert separate.notes_ == []


def test_gaussian_noise_has_infinite_degrees_of_freedom():
    X, y, _ = two_lines(500, 4, law=np.inf)
    model = im.RegressionMixture(2, random_state=0).fit(X, y)
    assert model.degrees_of_freedom_ == np.inf
    assert model.notes_ == []
    with refuses("unknown_option", name="noise"):
        im.RegressionMixture(2, noise="cauchy").fit(X, y)
