"""The density comes near the truth, its sampler draws from it, and a wrong mixture fails both."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from implicitmoments import SphericalMixtureDensity
from implicitmoments.datasets import Truth, make_spherical_mixture

D, K = 10, 4
DIRECTIONS = 10


def log_density(truth, X):
    squared = np.sum((X[:, None, :] - truth.vectors[None]) ** 2, axis=2)
    logs = logsumexp(-squared / 2 + np.log(truth.weights), axis=1)
    return logs - X.shape[1] / 2 * np.log(2 * np.pi)


def draw(truth, n, rng):
    labels = rng.choice(len(truth.weights), size=n, p=truth.weights)
    return truth.vectors[labels] + rng.normal(size=(n, truth.vectors.shape[1]))


def total_variation(log_hypothesis, truth, rng, n=20_000):
    """Return E_F[(1 − H/F)_+] and its standard error."""
    Y = draw(truth, n, rng)
    short = np.maximum(0.0, 1.0 - np.exp(log_hypothesis(Y) - log_density(truth, Y)))
    return short.mean(), short.std() / np.sqrt(n)


def two_sample_p_value(X, Y, truth):
    """Kolmogorov-Smirnov along the span, and along what tells two mixtures apart; corrected."""
    axes = np.linalg.svd(truth.vectors - truth.vectors.mean(axis=0))[2][: K - 1]
    mixes = np.random.default_rng(0).normal(size=(DIRECTIONS, K - 1)) @ axes
    p = [stats.ks_2samp(X @ m, Y @ m).pvalue for m in mixes]
    # Neyman and Pearson: the logarithm of the ratio of their densities
    ratios = (log_density(truth, Z) - log_density(wrong(truth), Z) for Z in (X, Y))
    p.append(stats.ks_2samp(*ratios).pvalue)
    return min(1.0, len(p) * min(p))


@pytest.fixture(scope="module", params=[0, 1])
def fitted(request):
    X, truth = make_spherical_mixture(60_000, K, D, radius=1.2, random_state=request.param)
    return SphericalMixtureDensity(K, degree=6, random_state=0).fit(X), truth


def wrong(truth):
    """The same weights, centre and covariance, with the means reflected at the centre."""
    center = truth.weights @ truth.vectors
    return Truth(truth.weights, 2 * center - truth.vectors)


def test_the_density_is_near_the_truth_and_not_near_another_mixture(fitted, rng):
    model, truth = fitted
    distance, error = total_variation(model.score_samples, truth, rng)
    assert distance + 3 * error < 0.025
    distance, error = total_variation(model.score_samples, wrong(truth), rng)
    assert distance - 3 * error > 0.025


def test_the_sampler_passes_against_the_truth_and_fails_against_another_mixture(fitted, rng):
    model, truth = fitted
    drawn = model.sample(10_000)
    assert two_sample_p_value(drawn, draw(truth, 10_000, rng), truth) > 0.01
    assert two_sample_p_value(drawn, draw(wrong(truth), 10_000, rng), truth) < 1e-4
