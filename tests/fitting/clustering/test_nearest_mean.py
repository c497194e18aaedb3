"""The rule of Bayes with known components."""

import numpy as np
from scipy.stats import multivariate_normal

from implicitmoments.fitting.clustering.nearest_mean import assign, cluster_moments


def test_it_is_the_largest_posterior(rng):
    means, weights, variance = rng.normal(size=(3, 2)), np.array([0.6, 0.3, 0.1]), 0.7
    X = 2 * rng.normal(size=(500, 2))
    densities = np.stack(
        [w * multivariate_normal(m, variance).pdf(X) for w, m in zip(weights, means, strict=True)]
    )
    posterior = densities / densities.sum(axis=0)
    found = assign(X, means, weights, variance)
    np.testing.assert_array_equal(found.labels, posterior.argmax(axis=0))
    np.testing.assert_allclose(found.doubt, 1 - posterior.max(axis=0), atol=1e-12)


def test_far_from_the_origin_it_is_the_same(rng):
    means, weights = 5 * rng.normal(size=(3, 2)), np.full(3, 1 / 3)
    X = 5 * rng.normal(size=(200, 2))
    near, far = assign(X, means, weights, 1.0), assign(X + 1e7, means + 1e7, weights, 1.0)
    np.testing.assert_array_equal(near.labels, far.labels)


def test_means_and_weights_of_clusters(rng):
    X, labels = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    counts = rng.integers(0, 3, 50).astype(float)
    means, weights = cluster_moments(X, labels, 3, counts)
    for c in (0, 1):
        chosen = labels == c
        np.testing.assert_allclose(means[c], np.average(X[chosen], axis=0, weights=counts[chosen]))
        np.testing.assert_allclose(weights[c], counts[chosen].sum() / counts.sum())
    assert weights[2] == 0
    assert np.all(np.isnan(means[2]))
