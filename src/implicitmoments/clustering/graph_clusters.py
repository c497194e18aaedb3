"""Clusters of a graph of pairwise tests, some of which are wrong."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from implicitmoments.arrays import Floats

Graph: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Labels: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

ROUNDS = 20
STRAYS = 20  # one row in so many may stay outside of the clusters at first
FEWEST = 3  # isolated rows do not agree in threes


def cluster_graph(same: Graph, k: int) -> Labels:
    """Find k clusters of rows that passed a pairwise test with one another.

    Connected components would be joined by a single wrong test. Instead, rows are compared by all
    their tests: rows of the same component agree on nearly all other rows, so their rows of the
    graph are correlated, by about (1 − split − merge)² at error rates *split* and *merge*, and
    rows of two components are uncorrelated. Average linkage joins correlated rows; then each row
    moves to the cluster of which the largest proportion passed the test with it, until nothing
    changes.

    Parameters
    ----------
    same : array of bool of shape (m, m)
        Symmetric, true on the diagonal.

    Returns
    -------
    array of int of shape (m,)
        Labels 0, 1, …; fewer than k where the graph has fewer clusters.
    """
    m = len(same)
    if k == 1 or m <= k:
        return np.zeros(m, dtype=np.int64) if k == 1 else _as_labels(np.arange(m))
    tree = linkage(squareform(_dissimilarity(same), checks=False), "average")
    return _vote(same, _largest_clusters(tree, m, k), k)


def _dissimilarity(same: Graph) -> Floats:
    centred = same - np.mean(same, axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    # a row that passes the test with all others is equally close to all of them
    centred /= np.where(lengths > 0, lengths, 1.0)
    apart: Floats = np.clip(1.0 - centred @ centred.T, 0.0, None)
    np.fill_diagonal(apart, 0.0)
    return (apart + apart.T) / 2


def _largest_clusters(tree: Floats, m: int, k: int) -> Labels:
    """Cut the tree into k clusters and some isolated rows, whose label is −1.

    Isolated rows stay alone until the end and would use up clusters, so the first cut is taken
    whose k-th largest cluster has a few rows. Later cuts would split large clusters first.
    """
    best, chosen = -1, np.zeros(m, dtype=np.int64)
    for n_clusters in range(k, min(m, k + max(5, m // STRAYS)) + 1):
        cut = fcluster(tree, n_clusters, "maxclust") - 1
        sizes = np.bincount(cut)
        largest = np.argsort(-sizes, kind="stable")[:k]
        smallest = int(sizes[largest[-1]]) if len(largest) == k else 0
        if smallest > best:
            best = smallest
            places = np.full(len(sizes), -1)
            places[largest] = np.arange(len(largest))
            chosen = places[cut]
        if best >= FEWEST:
            break
    return _as_labels(chosen)


def _vote(same: Graph, labels: Labels, k: int) -> Labels:
    for _ in range(ROUNDS):
        members = (labels[:, None] == np.arange(k)).astype(np.float64)
        sizes = np.sum(members, axis=0)
        votes = np.where(sizes > 0, same @ members / np.maximum(sizes, 1.0), -1.0)
        moved = _as_labels(np.argmax(votes, axis=1))
        if np.array_equal(moved, labels):
            break
        labels = moved
    return _as_labels(np.unique(labels, return_inverse=True)[1])


def _as_labels(values: Any) -> Labels:
    return np.asarray(values, dtype=np.int64)
