"""The clusterer puts rows where the rule of Bayes with the true means would."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from implicitmoments import SphericalMixtureClusterer
from implicitmoments.clustering.pair_test import BayesRule
from implicitmoments.datasets import make_spherical_mixture


@pytest.mark.parametrize(
    ("k", "separation", "seed"), [(6, 10.0, 0), (10, 10.0, 1), (6, 6.0, 2), (10, 6.0, 3)]
)
def test_it_is_as_good_as_the_rule_of_bayes(k, separation, seed):
    X, truth = make_spherical_mixture(
        20_000, k, 20, radius=0.8 * separation, separation=separation, random_state=seed
    )
    model = SphericalMixtureClusterer(k, random_state=seed).fit(X)
    best = BayesRule(truth.vectors, truth.weights, 1.0).assign(X)
    ours = adjusted_rand_score(truth.labels, model.labels_)
    bound = 0.99 * adjusted_rand_score(truth.labels, best)
    assert ours >= bound
    # the same clusters with means in a random order of the labels would not pass
    shuffled = np.random.default_rng(0).permutation(model.labels_)
    assert adjusted_rand_score(truth.labels, shuffled) < bound


@pytest.mark.parametrize("seed", range(3))
def test_rare_components_are_found(seed):
    X, truth = make_spherical_mixture(
        20_000, 6, 20, radius=8.0, separation=8.0, weights=[1] * 5 + [0.1], random_state=seed
    )
    model = SphericalMixtureClusterer(6, random_state=seed).fit(X)
    assert np.min(np.linalg.norm(model.means_ - truth.vectors[5], axis=1)) < 0.6


def test_means_are_as_good_as_averages_of_the_true_clusters():
    X, truth = make_spherical_mixture(20_000, 6, 20, radius=8.0, separation=10.0, random_state=0)
    model = SphericalMixtureClusterer(6, random_state=0).fit(X)
    for c, mean in enumerate(truth.vectors):
        own = X[truth.labels == c].mean(axis=0)
        assert np.min(np.linalg.norm(model.means_ - mean, axis=1)) < (
            np.linalg.norm(own - mean) + 0.02
        )
