"""Clusters of graphs in which some tests are wrong."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from implicitmoments.clustering import pair_test


def noisy_graph(rng, sizes, split, merge):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    right = labels[:, None] == labels[None, :]
    wrong = rng.uniform(size=right.shape) < np.where(right, split, merge)
    same = np.triu(right ^ wrong, 1)
    return same | same.T | np.eye(len(labels), dtype=bool), labels


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.1, 0.2])
@pytest.mark.parametrize("sizes", [[40] * 5, [100, 60, 30, 15]])
def test_wrong_tests_do_not_ruin_clusters(rate, sizes, rng):
    same, labels = noisy_graph(rng, sizes, rate, rate)
    assert adjusted_rand_score(labels, pair_test.cluster_graph(same, len(sizes))) > 0.99
    if rate:  # one wrong test joins two components of the graph
        assert connected_components(same)[0] < len(sizes)


def test_rows_like_no_other_take_no_cluster(rng):
    same, labels = noisy_graph(rng, [40, 40, 40], 0.02, 0.02)
    m = len(labels)
    with_strays = np.eye(m + 4, dtype=bool)
    with_strays[:m, :m] = same
    found = pair_test.cluster_graph(with_strays, 3)
    assert adjusted_rand_score(labels, found[:m]) > 0.99


def test_small_clusters_are_kept_before_large_ones_are_broken(rng):
    for _ in range(5):
        same, labels = noisy_graph(rng, [50, 50, 50, 50, 4], 0.05, 0.01)
        assert adjusted_rand_score(labels, pair_test.cluster_graph(same, 5)) > 0.99


def test_labels_have_no_gaps(rng):
    same, _ = noisy_graph(rng, [50, 50], 0.0, 0.0)
    found = pair_test.cluster_graph(same, 4)
    assert sorted(set(found)) == list(range(found.max() + 1))
    assert adjusted_rand_score(np.repeat([0, 1], 50), found) > 0.8
