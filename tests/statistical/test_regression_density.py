"""The density comes near the truth, its sampler draws from it, and a wrong mixture fails both."""

import numpy as np
import pytest
from scipy import stats

from implicitmoments import RegressionMixtureDensity
from implicitmoments.datasets import Truth, make_regression_mixture

D, K = 5, 3
DRAWS = 8_000


def log_density(truth, X, y):
    apart = (y[:, None] - X @ truth.vectors.T) ** 2 / truth.noise**2
    logs = np.log(np.exp(-apart / 2) @ truth.weights / truth.noise)
    return logs - np.sum(X**2, axis=1) / 2 - (D + 1) / 2 * np.log(2 * np.pi)


def draw(truth, n, rng):
    labels = rng.choice(K, size=n, p=truth.weights)
    X = rng.normal(size=(n, D))
    return X, np.sum(X * truth.vectors[labels], axis=1) + truth.noise * rng.normal(size=n)


def wrong(truth):
    """The same line of least squares and second moments, with regressors reflected at the mean."""
    middle = truth.weights @ truth.vectors
    return Truth(truth.weights, 2 * middle - truth.vectors, None, noise=truth.noise)


def total_variation(model, truth, rng, n=20_000):
    """Return E_F[(1 − H/F)_+] and its standard error."""
    X, y = draw(truth, n, rng)
    ratio = np.exp(model.score_samples(X, y) - log_density(truth, X, y))
    short = np.maximum(0.0, 1.0 - ratio)
    return short.mean(), short.std() / np.sqrt(n)


def two_sample_p_value(one, other, truth):
    """Kolmogorov-Smirnov along residuals, and along what tells two mixtures apart; corrected."""
    p = [
        stats.ks_2samp(one[1] - one[0] @ v, other[1] - other[0] @ v).pvalue for v in truth.vectors
    ]
    # Neyman and Pearson: the logarithm of the ratio of their densities
    ratios = (log_density(truth, *Z) - log_density(wrong(truth), *Z) for Z in (one, other))
    p.append(stats.ks_2samp(*ratios).pvalue)
    return min(1.0, len(p) * min(p))


@pytest.fixture(scope="module", params=[0, 1])
def fitted(request):
    X, y, truth = make_regression_mixture(60_000, K, D, noise=1.0, random_state=request.param)
    return RegressionMixtureDensity(K, degree=10, random_state=0).fit(X, y), truth


def test_the_density_is_near_the_truth_and_not_near_another_mixture(fitted, rng):
    model, truth = fitted
    distance, error = total_variation(model, truth, rng)
    assert distance + 3 * error < 0.035
    other, error = total_variation(model, wrong(truth), rng)
    assert other - 3 * error > 1.5 * distance


def test_the_sampler_passes_against_the_truth_and_fails_against_another_mixture(fitted, rng):
    model, truth = fitted
    drawn = model.sample(DRAWS)
    assert two_sample_p_value(drawn, draw(truth, DRAWS, rng), truth) > 0.01
    assert two_sample_p_value(drawn, draw(wrong(truth), DRAWS, rng), truth) < 1e-4


def test_labels_given_points_follow_the_truth(fitted, rng):
    model, truth = fitted
    X, _ = draw(truth, DRAWS, rng)
    drawn = (X, model.sample_y(X)[:, 0])
    assert two_sample_p_value(drawn, draw(truth, DRAWS, rng), truth) > 0.01
    assert two_sample_p_value(drawn, draw(wrong(truth), DRAWS, rng), truth) < 1e-4
