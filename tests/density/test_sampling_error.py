"""The bound on the sampling error of a density, and with it on its distance from the truth."""

import numpy as np
import pytest

from implicitmoments import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from implicitmoments.density.sampling_error import GROUPS, bound_square


@pytest.mark.parametrize("freedom", [1, 4, 40])
def test_squares_are_below_their_bound(rng, freedom):
    squares = rng.chisquare(freedom, size=(400, GROUPS + 1))
    # the degrees of freedom of the groups are estimated: the risk of 0.001 is not met exactly
    above = np.mean([each[0] > bound_square(each[1:]) for each in squares])
    assert above < 0.02
    # not much above them
    assert np.median([bound_square(each[1:]) for each in squares]) < 30 * freedom
    assert bound_square(np.zeros(GROUPS)) == 0


def shortfall(logs, exact):
    return float(np.maximum(0, 1 - np.exp(logs - exact)).mean())


def spherical(n):
    X, truth = make_spherical_mixture(n + 5_000, 2, 2, radius=0.6, random_state=0)
    squares = ((X[n:, None, :] - truth.vectors) ** 2).sum(axis=2)
    exact = np.log(np.exp(-squares / 2) @ truth.weights / (2 * np.pi))
    model = SphericalMixtureDensity(2, degree=12, random_state=0).fit(X[:n])
    return model, shortfall(model.score_samples(X[n:]), exact)


def lines(n):
    X, y, truth = make_regression_mixture(n + 5_000, 2, 2, noise=2.0, random_state=0)
    squares = (y[n:, None] - X[n:] @ truth.vectors.T) ** 2 / 4 + np.sum(X[n:] ** 2, 1)[:, None]
    exact = np.log(np.exp(-squares / 2) @ truth.weights / (2 * (2 * np.pi) ** 1.5))
    how = {"noise": 2.0, "fit_intercept": False, "whiten": False, "random_state": 0}
    model = RegressionMixtureDensity(2, degree=16, **how).fit(X[:n], y[:n])
    return model, shortfall(model.score_samples(X[n:], y[n:]), exact)


@pytest.mark.parametrize("fit", [spherical, lines])
def test_the_density_is_within_the_sum_of_both_errors(fit):
    model, distance = fit(8_000)
    stats = model.stats_
    # chance exceeds truncation, which alone is no bound
    assert stats["truncation_error"] < distance < stats["distance_bound"] < 10 * distance
    total = stats["truncation_error"] + stats["sampling_error"] + stats["clip_error"]
    assert stats["distance_bound"] == pytest.approx(total)
    assert stats["clip_error"] < 0.02 * model.epsilon + 2e-6
    fewer, _ = fit(2_000)  # √4 = 2
    assert 1.4 < fewer.stats_["sampling_error"] / stats["sampling_error"] < 3


def test_too_few_rows_have_no_bound():
    X, _ = make_spherical_mixture(30, 4, 5, radius=0.1, random_state=0)
    stats = SphericalMixtureDensity(4, degree=1, random_state=0).fit(X).stats_
    assert stats["sampling_error"] == stats["distance_bound"] == 1.0
