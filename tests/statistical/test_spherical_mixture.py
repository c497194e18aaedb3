"""Mixtures that EM from one start does not find, with EM from one start as the control."""

import numpy as np
import pytest
from scipy.special import logsumexp

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from support import match_rows

K, D = 30, 20


def lost(found, means, close=0.5):
    """Count the means without a found one near them."""
    return int(np.sum(match_rows(found, means)[1] > close))


def mean_log_density(X, means):
    squares = np.sum(X**2, axis=1)[:, None] - 2 * X @ means.T + np.sum(means**2, axis=1)
    densities = logsumexp(-squares / 2, axis=1) - np.log(len(means))
    return densities.mean() - 0.5 * X.shape[1] * np.log(2 * np.pi)


@pytest.mark.parametrize(("separation", "seed"), [(4.0, 1), (4.0, 3), (2.5, 0)])
def test_every_mean_is_found(separation, seed):
    X, truth = make_spherical_mixture(
        40_000, K, D, radius=separation, separation=separation, random_state=seed
    )
    model = im.SphericalMixture(K, order=4, random_state=0).fit(X)
    assert model.stats_["start"] == "moments"
    assert lost(model.means_, truth.vectors) == 0
    # the likeliest mixture is likelier than the true one, by about half its parameters
    gain = (model.score(X) - mean_log_density(X, truth.vectors)) * len(X)
    assert 0.3 * K * D < gain < 0.8 * K * D


def test_one_kmeans_start_does_not_find_them():
    n_lost = []
    for seed in range(4):
        X, truth = make_spherical_mixture(
            20_000, K, D, radius=4.0, separation=4.0, random_state=seed
        )
        how = {"covariance_type": "tied_spherical", "init_params": "k-means++", "n_moves": 0}
        found = im.GaussianMixture(K, random_state=seed, **how).fit(X)
        n_lost.append(lost(found.means_, truth.vectors))
    assert max(n_lost) > 0


def test_errors_fall_with_the_root_of_the_rows():
    errors = []
    for n in (5_000, 20_000, 80_000):
        X, truth = make_spherical_mixture(n, 10, 6, radius=5.0, separation=4.0, random_state=0)
        model = im.SphericalMixture(10, random_state=0).fit(X)
        apart = np.linalg.norm(model.means_[:, None] - truth.vectors, axis=2).min(axis=0)
        errors.append(np.sqrt(np.mean(apart**2)) * np.sqrt(n))
    # √(d k) = 7.7 is the error of means of rows that are labelled
    assert all(6.0 < e < 11.0 for e in errors)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("seed", range(3))
def test_spread_norms_and_a_mean_at_the_centre(seed):
    rng = np.random.default_rng(seed)
    _, truth = make_spherical_mixture(
        1, K - 1, D, radius=(2.5, 6.0), separation=2.5, random_state=seed
    )
    means = np.vstack([truth.vectors, np.zeros((1, D))])
    X = means[rng.integers(K, size=60_000)] + rng.normal(size=(60_000, D))
    assert lost(im.SphericalMixture(K, random_state=0).fit(X).means_, means) == 0
