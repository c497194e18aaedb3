"""The Bayes rule with known components."""

import numpy as np
from scipy.stats import multivariate_normal

from implicitmoments.clustering.pair_test import BayesRule, excess_variance, rule_of
from implicitmoments.rows import ArrayTable, Rows


def test_it_is_the_largest_posterior(rng):
    means, weights, variance = rng.normal(size=(3, 2)), np.array([0.6, 0.3, 0.1]), 0.7
    X = 2 * rng.normal(size=(500, 2))
    densities = np.stack(
        [w * multivariate_normal(m, variance).pdf(X) for w, m in zip(weights, means, strict=True)]
    )
    posterior = densities / densities.sum(axis=0)
    found = BayesRule(means, weights, variance)
    np.testing.assert_array_equal(found.assign(X), posterior.argmax(axis=0))
    apart = np.linalg.norm(X[:, None] - means, axis=2)
    np.testing.assert_allclose(found.distances(X), apart, atol=1e-12)


def test_far_from_the_origin_it_is_the_same(rng):
    means = 5 * rng.normal(size=(3, 2))
    X = 5 * rng.normal(size=(200, 2))
    near, far = rule_of(means), rule_of(means + 1e7)
    np.testing.assert_array_equal(near.assign(X), far.assign(X + 1e7))


def test_means_settle_on_averages_of_the_rows_assigned(rng):
    means, weights = 3 * rng.normal(size=(3, 4)), np.array([0.5, 0.3, 0.2])
    far = np.vstack([means, np.full((1, 4), 1e3)])  # a component without rows
    found = BayesRule(far, np.append(0.999 * weights, 0.001), 1.0)
    X, counts = 2 * rng.normal(size=(500, 4)), rng.integers(0, 3, 500).astype(float)
    expected = found
    for _ in range(2):
        labels = expected.assign(X)
        sizes = np.array([counts[labels == c].sum() for c in range(3)])
        averages = [
            np.average(X[labels == c], axis=0, weights=counts[labels == c]) for c in range(3)
        ]
        order = np.argsort(-sizes)
        expected = BayesRule(np.array(averages)[order], sizes[order] / sizes.sum(), 1.0)
    settled = found.settle(Rows(ArrayTable(X, counts=counts), rows_per_block=64))
    np.testing.assert_allclose(settled.means, expected.means)
    np.testing.assert_allclose(settled.weights, expected.weights)


def test_the_largest_variance_is_compared_with_that_of_noise(rng):
    X = rng.normal(size=(400, 20))
    assert 0.9 < excess_variance(Rows.of(X)) < 1.1
    # two components of equal weight that are 4 deviations apart have variance 5, and noise has 1.5
    X[:200, 3] += 4
    assert 2.5 < excess_variance(Rows.of(X)) < 4
    assert excess_variance(Rows.of(X[:45])) == 1.0  # too few rows
