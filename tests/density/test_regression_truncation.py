"""Scale of the labels and truncation error of densities of regressions."""

import math

import numpy as np
import pytest

from implicitmoments import RegressionMixtureDensity
from implicitmoments.density import (
    LineBound,
    LineDistribution,
    Residuals,
    order_norms,
    regression_tail,
)

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def draw(n, weights, slopes, intercepts, noise, rng):
    labels = rng.choice(len(weights), size=n, p=weights)
    X = rng.normal(size=(n, slopes.shape[1]))
    y = np.sum(X * slopes[labels], axis=1) + intercepts[labels] + noise * rng.normal(size=n)
    return X, y


def log_density(X, y, weights, slopes, intercepts, noise):
    apart = (y[:, None] - X @ slopes.T - intercepts) / noise
    logs = np.log(np.exp(-(apart**2) / 2) @ weights / noise) - np.sum(X**2, axis=1) / 2
    return logs - (X.shape[1] + 1) / 2 * math.log(2 * math.pi)


def total_variation(model, fresh, exact):
    return np.maximum(0, 1 - np.exp(model.score_samples(*fresh) - exact)).mean()


def means_of_hermite(slope, shift, noise, order):
    """E[He_a(x) He_b(z)] of a line, a + b = order, from 60 nodes of quadrature in x and noise."""
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / np.sum(weight)
    z = shift + slope * x[:, None] + math.sqrt(noise) * x
    found = []
    for a in range(order + 1):
        he = [np.polynomial.hermite_e.HermiteE.basis(n) for n in (a, order - a)]
        found.append(np.sum(weight[:, None] * weight * he[0](x)[:, None] * he[1](z)))
    return np.array(found)


@pytest.mark.parametrize(("squared", "shift", "noise"), [(0.3, 0.0, 0.7), (0.4, 0.6, 0.3)])
def test_norms_of_orders_are_those_of_hermite_coefficients(squared, shift, noise):
    norms = order_norms(np.array(squared), noise, np.array(shift), 8)
    for n in range(9):
        means = means_of_hermite(math.sqrt(squared), shift, noise, n)
        divisors = [math.factorial(a) * math.factorial(n - a) for a in range(n + 1)]
        assert norms[n] == pytest.approx(np.sum(means**2 / divisors), abs=1e-9)
    tail = [regression_tail(squared, noise, n, intercept=shift) for n in (4, 5)]
    assert 4 * (tail[0] ** 2 - tail[1] ** 2) == pytest.approx(norms[5], abs=1e-9)


def test_the_expansion_converges_up_to_half_of_the_noise():
    for noise in (0.2, 0.5, 1.0):
        edge = 1 - noise / 2
        assert math.isfinite(regression_tail(0.99 * edge, noise, 4))
        assert regression_tail(1.01 * edge, noise, 4) == math.inf


def test_the_scale_of_the_steepest_line_has_the_best_rate():
    """With s² = B² + σ² orders decrease as (B/s)^n; the worst line is the steepest one."""

    def rate(squared, noise, scale):
        norms = order_norms(np.array(squared) / scale**2, noise / scale**2, np.array(0.0), 200)
        return (norms[200] / norms[160]) ** (1 / 40)

    best = math.sqrt(0.9 + 0.3)
    rates = [rate(t, 0.3, best) for t in (0.0, 0.3, 0.6, 0.9)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(math.sqrt(0.9) / best, rel=1e-3)
    assert min(rate(0.9, 0.3, 0.95 * best), rate(0.9, 0.3, 1.05 * best)) > 1.003 * rates[-1]


@pytest.fixture(scope="module")
def unequal():
    """One line in twenty is steep: the instance on which a scale of 1 diverges."""
    slopes = np.zeros((2, 3))
    slopes[1, 0] = 1.0
    truth = np.array([0.95, 0.05]), slopes, np.zeros(2), 0.5
    rng = np.random.default_rng(0)
    X, y = draw(60_000, *truth, rng)
    fresh = draw(20_000, *truth, rng)
    return X, y, fresh, log_density(*fresh, *truth)


@quiet
def test_the_distance_falls_with_the_degree_below_the_bound(unequal):
    X, y, fresh, exact = unequal
    options = {"fit_intercept": False, "whiten": False, "random_state": 0}
    models = [RegressionMixtureDensity(2, degree=n, **options).fit(X, y) for n in (2, 6, 10)]
    distances = [total_variation(model, fresh, exact) for model in models]
    bounds = [model.stats_["truncation_error"] for model in models]
    assert models[0].stats_["label_scale"] == pytest.approx(1.97, rel=0.12)
    assert models[0].stats_["longest_line"] == pytest.approx(0.95, rel=0.15)
    assert distances[2] < 0.7 * distances[1] < 0.5 * distances[0]
    assert all(d < b < 5 * d for d, b in zip(distances, bounds, strict=True))
    diverging = RegressionMixtureDensity(2, degree=10, label_scale=1.0, **options).fit(X, y)
    assert diverging.stats_["truncation_error"] == math.inf
    assert total_variation(diverging, fresh, exact) > 2 * distances[2]


@quiet
def test_the_degree_for_epsilon_is_sound(unequal):
    X, y, fresh, exact = unequal
    options = {"fit_intercept": False, "whiten": False, "random_state": 0, "degree": "auto"}
    model = RegressionMixtureDensity(2, epsilon=0.5, **options).fit(X, y)
    assert 2 < model.degree_ < 10
    assert model.stats_["truncation_error"] <= 0.25
    assert total_variation(model, fresh, exact) < 0.25
    most = RegressionMixtureDensity(2, epsilon=0.05, **options).fit(X, y)
    assert most.degree_ == most.max_degree < most.stats_["degree_for_epsilon"]
    assert "truncation_large" not in model.notes_.codes


@quiet
def test_a_given_bound_on_the_slopes_sets_the_scale(unequal):
    X, y, *_ = unequal
    options = {"fit_intercept": False, "whiten": False, "random_state": 0, "degree": 4}
    one, two = (
        RegressionMixtureDensity(2, max_slope=B, noise=0.5, **options).fit(X, y) for B in (1, 2)
    )
    spread = math.sqrt(0.05 * 0.95 + 0.25)
    expected = math.hypot(1.05, 0.5) / spread
    assert one.stats_["label_scale"] == pytest.approx(expected, rel=0.02)
    assert one.stats_["longest_line"] == pytest.approx(1.05, rel=0.02)
    assert two.stats_["label_scale"] > 1.7 * one.stats_["label_scale"]
    assert two.stats_["truncation_error"] > one.stats_["truncation_error"]


def random_lines(rng, *, intercepts):
    k, d = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    weights = rng.dirichlet(np.ones(k)) * (1 - 0.03 * k) + 0.03
    slopes = rng.normal(size=(k, d))
    slopes *= (rng.uniform(0, 1.2, size=k) / np.linalg.norm(slopes, axis=1))[:, None]
    shifts = rng.uniform(-1, 1, size=k) if intercepts else np.zeros(k)
    return weights, slopes, shifts, rng.uniform(0.5, 1.2)


def lines_in_units(truth):
    """Squared slopes, intercepts and noise of lines about their mean, in units of the spread."""
    weights, slopes, shifts, noise = truth
    squared = np.sum((slopes - weights @ slopes) ** 2, axis=1)
    shifts = shifts - weights @ shifts
    variance = weights @ (squared + shifts**2) + noise**2
    return squared / variance, shifts / math.sqrt(variance), noise**2 / variance


def bound_and_error(truth, n, degree, rng):
    """Return the bound from n rows, and the mean error of the lines, which it bounds."""
    weights, slopes, _, _ = truth
    squared, shifts, noise = lines_in_units(truth)
    labels = rng.choice(len(weights), size=n, p=weights)
    # coordinates in which the regressors of lines have at most as many directions as there are
    basis = np.linalg.svd(slopes - weights @ slopes, full_matrices=False)[2]
    points = rng.normal(size=(n, len(basis)))
    units = (slopes - weights @ slopes) @ basis.T
    units *= np.sqrt(squared / np.maximum(np.sum(units**2, axis=1), 1e-300))[:, None]
    z = np.sum(points * units[labels], axis=1) + shifts[labels]
    z += math.sqrt(noise) * rng.normal(size=n)
    residuals = Residuals.of(points, z, np.ones(n))
    steepest, longest = math.sqrt(squared.max()), math.sqrt((squared + shifts**2).max())
    scale = math.sqrt(max(squared.max() + noise, 1.0))
    shifted = bool(np.any(shifts))
    lines = LineDistribution.of(residuals, noise, shifted=shifted)
    bound = LineBound(residuals, lines, noise, (noise,), longest, steepest, scale, shifted)(degree)
    parts = [
        regression_tail(t / scale**2, noise / scale**2, degree, intercept=c / scale)
        for t, c in zip(squared, shifts, strict=True)
    ]
    return bound, weights @ parts


@pytest.mark.parametrize("intercepts", [False, True])
def test_the_bound_is_above_the_mean_error_of_the_lines(intercepts):
    """With the longest line known; the mean over lines is itself a bound for the mixture."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 7])
        truth = random_lines(rng, intercepts=intercepts)
        bound, error = bound_and_error(truth, 5_000, 6, rng)
        ratios.append(bound / error)
    assert min(ratios) > 1
    assert np.median(ratios) < 3


@pytest.mark.parametrize("p", [1, 2, 4])
def test_probabilities_of_residuals_are_those_of_rows(p):
    """To within the standard errors of so many rows, with little noise and an intercept."""
    n, edges = 2_000_000, np.linspace(-3, 3, 13)
    rng = np.random.default_rng([p, 5])
    points = rng.normal(size=(n, p))
    z = 0.3 + points[:, 0] + 0.3 * rng.normal(size=n)
    residuals = Residuals.of(points, z, np.ones(n))
    below = residuals.probabilities(edges, np.ones(1), np.array([0.3]), 0.09)[..., 0]
    expected = np.diff(below, axis=1)
    errors = np.sqrt(expected / n) + 1 / n
    assert np.all(np.abs(residuals.shares(edges) - expected) < 5 * errors)


@quiet
def test_the_bound_of_a_right_model_is_finite_and_at_most_1():
    """Small noise, and many rows: an error of quadrature, or in the noise, would exclude it."""
    lines = np.array([[2.0, 0, 0], [0, -2, 0], [0, 0, 1]])
    truth = np.array([0.5, 0.3, 0.2]), lines, np.zeros(3), 0.3
    X, y = draw(200_000, *truth, np.random.default_rng(0))
    for noise in (None, 0.3):
        options = {"fit_intercept": False, "degree": 4, "random_state": 0, "noise": noise}
        model = RegressionMixtureDensity(3, **options).fit(X, y)
        assert 0.2 < model.stats_["truncation_error"] <= 1
        assert "residuals_contradict_lines" not in model.notes_.codes
    wrong = RegressionMixtureDensity(3, **(options | {"noise": 0.8})).fit(X, y)
    assert wrong.stats_["truncation_error"] == math.inf
    assert "residuals_contradict_lines" in wrong.notes_.codes


@quiet
def test_rows_left_out_are_no_contradiction():
    slopes = np.zeros((2, 3))
    slopes[1, 0] = 2.0
    truth = np.array([0.95, 0.05]), slopes, np.zeros(2), 0.5
    options = {"noise": 0.5, "fit_intercept": False, "whiten": False, "random_state": 0}
    rng = np.random.default_rng(0)
    X, y = draw(50_000, *truth, rng)
    clean = RegressionMixtureDensity(2, degree=4, **options).fit(X, y)
    y[:30] += 300 * rng.normal(size=30)
    model = RegressionMixtureDensity(2, degree=4, **options).fit(X, y)
    assert 20 < model.stats_["outliers"] <= 30
    assert "residuals_contradict_lines" not in model.notes_.codes
    assert model.stats_["truncation_error"] == pytest.approx(
        clean.stats_["truncation_error"], rel=0.3
    )


@quiet
def test_without_a_bound_auto_takes_the_lowest_degree(unequal):
    """Lines as steep as these diverge in this scale: each further order adds to the error."""
    X, y, fresh, exact = unequal
    options = {"fit_intercept": False, "whiten": False, "random_state": 0, "label_scale": 1.0}
    model = RegressionMixtureDensity(2, degree="auto", **options).fit(X, y)
    assert model.stats_["truncation_error"] == math.inf
    assert model.degree_ == 2
    higher = RegressionMixtureDensity(2, degree=8, **options).fit(X, y)
    assert total_variation(model, fresh, exact) < 0.5 * total_variation(higher, fresh, exact)


@pytest.mark.parametrize("shifted", [False, True])
def test_the_steepest_line_is_found(shifted):
    for seed in range(4):
        rng = np.random.default_rng([seed, 11])
        weights = np.array([0.6, 0.3, 0.1])
        slopes = np.array([0.1, 0.4, 1.0])
        shifts = np.array([0.3, -0.6, 0.0]) * shifted
        labels = rng.choice(3, size=20_000, p=weights)
        points = rng.normal(size=(20_000, 2))
        z = points[:, 0] * slopes[labels] + shifts[labels] + 0.8 * rng.normal(size=20_000)
        residuals = Residuals.of(points, z, np.ones(len(z)))
        lines = LineDistribution.of(residuals, 0.64, shifted=shifted)
        steepest = lines.exceeded(lines.slopes, 0.025) ** 2
        assert 1.0 - 0.32 < steepest < 1.0 + 0.6  # it converges, and G is not much too wide


def test_the_largest_noise_that_fits_is_that_of_the_rows():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(40_000, 1))
    z = rng.choice([-0.8, 0.8], size=40_000) + 0.6 * rng.normal(size=40_000)
    residuals = Residuals.of(points, z, np.ones(len(z)))
    lines, noise = LineDistribution.with_largest_noise(residuals, 1.0)
    assert noise == pytest.approx(0.36, rel=0.3)
    assert lines.exceeded(np.abs(lines.intercepts), 0.025) == pytest.approx(0.8, abs=0.5)
    # one Gaussian of the same variance needs no intercepts
    single = Residuals.of(points, rng.normal(size=40_000), np.ones(40_000))
    assert LineDistribution.with_largest_noise(single, 1.0)[1] == 1.0


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("intercepts", [False, True])
def test_the_density_is_within_the_bound_of_random_mixtures(intercepts):
    for seed in range(20):
        rng = np.random.default_rng([seed, 3])
        truth = random_lines(rng, intercepts=intercepts)
        X, y = draw(30_000, *truth, rng)
        fresh = draw(20_000, *truth, rng)
        options = {"noise": truth[3], "fit_intercept": intercepts, "random_state": 0}
        model = RegressionMixtureDensity(len(truth[0]), degree=4, **options).fit(X, y)
        exact = log_density(*fresh, *truth)
        assert total_variation(model, fresh, exact) < model.stats_["truncation_error"]
