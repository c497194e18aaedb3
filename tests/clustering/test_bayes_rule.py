"""The Bayes rule with known components."""

import numpy as np
from scipy.stats import multivariate_normal

from implicitmoments.clustering import BayesRule, measure_clusters, reassign_rows
from implicitmoments.clustering.bayes_rule import refine, settle
from implicitmoments.moments.mean_span import find_span
from implicitmoments.rows import ArraySource, Rows


def test_it_is_the_largest_posterior(rng):
    means, weights, variance = rng.normal(size=(3, 2)), np.array([0.6, 0.3, 0.1]), 0.7
    X = 2 * rng.normal(size=(500, 2))
    densities = np.stack(
        [w * multivariate_normal(m, variance).pdf(X) for w, m in zip(weights, means, strict=True)]
    )
    posterior = densities / densities.sum(axis=0)
    found = BayesRule(means, weights, variance)
    np.testing.assert_array_equal(found.assign(X), posterior.argmax(axis=0))
    np.testing.assert_allclose(found.error_rates(X), 1 - posterior.max(axis=0), atol=1e-12)


def test_far_from_the_origin_it_is_the_same(rng):
    means, weights = 5 * rng.normal(size=(3, 2)), np.full(3, 1 / 3)
    X = 5 * rng.normal(size=(200, 2))
    near, far = BayesRule(means, weights, 1.0), BayesRule(means + 1e7, weights, 1.0)
    np.testing.assert_array_equal(near.assign(X), far.assign(X + 1e7))


def test_refined_means_are_not_biased_by_rows_in_between(rng):
    means = np.array([[-1.0, 0.0], [1.0, 0.0]])
    X = means[rng.integers(2, size=20_000)] + rng.normal(size=(20_000, 2))
    rows, rule = Rows(ArraySource(X)), BayesRule(means, np.full(2, 0.5), 1.0)
    hard = settle(rows, rule)
    soft, left = refine(rows, hard, 0.1)
    assert np.min(np.linalg.norm(hard.means - means, axis=1)) > 0.15
    assert np.max(np.linalg.norm(soft.means - means, axis=1)) < 0.1
    # the distance that is left is the distance from the limit
    limit, last = refine(rows, soft, 1e-4)
    assert last <= 1e-5
    apart = np.max(np.linalg.norm(soft.means - limit.means, axis=1))
    assert left <= 0.01
    assert left / 3 < apart < 3 * left


def test_rounds_that_do_not_settle_say_what_is_left(rng):
    X = rng.normal(size=(5_000, 2))  # one component, in which two means move slowly
    rule = BayesRule(np.array([[-0.3, 0.0], [0.3, 0.0]]), np.full(2, 0.5), 1.0)
    _, left = refine(Rows(ArraySource(X)), rule, 1e-6)
    assert left > 1e-6


def test_passes_over_blocks_are_sums_over_clusters(rng):
    means, weights = 3 * rng.normal(size=(3, 4)), np.array([0.5, 0.3, 0.2])
    far = np.vstack([means, np.full((1, 4), 1e3)])  # a component without rows
    found = BayesRule(far, np.append(0.999 * weights, 0.001), 1.0)
    X, counts = 2 * rng.normal(size=(500, 4)), rng.integers(0, 3, 500).astype(float)
    labels = found.assign(X)
    rows = Rows(ArraySource(X, counts=counts), rows_per_block=64)
    moved = reassign_rows(rows, found)
    for c in range(3):
        inside = labels == c
        expected = np.average(X[inside], axis=0, weights=counts[inside])
        np.testing.assert_allclose(moved.means[c], expected)
        np.testing.assert_allclose(moved.weights[c], counts[inside].sum() / counts.sum())
    span = find_span(rows, 3, 1.0)
    within = measure_clusters(rows, moved, span)
    labels, z = moved.assign(X), span.coordinates(X)
    np.testing.assert_allclose(within.error_rate, np.average(moved.error_rates(X), weights=counts))
    for c in range(3):
        inside = (labels == c) & (counts > 0)
        apart = z[inside] - span.coordinates(moved.means)[c]
        expected = (apart * counts[inside, None]).T @ apart / counts[inside].sum()
        np.testing.assert_allclose(within.covariances[c], expected)
        assert within.sizes[c] == inside.sum()
