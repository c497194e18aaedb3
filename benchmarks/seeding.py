"""Seeds of k-means that look ahead, in two passes, after Cazals and Carrière (arXiv 2506.21291).

Greedy k-means++ draws a few candidates by their squared distance from the seeds and keeps the one
with the least sum of squares. Here that sum is measured from the centroids of the cells that a
candidate makes, which is what k-means minimises ("lookahead"), and in a second pass, in reverse
order, each seed is taken out and drawn again ("zig-zag").
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def seed_with_lookahead(X: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return the centroids (k, d) of the cells of the chosen seeds."""
    seeds = [squared_distances(X, rng.integers(len(X), size=1))[0]]
    for _ in range(1, k):
        seeds.append(next_seed(X, seeds, rng))
    for place in reversed(range(k)):
        del seeds[place]
        seeds.insert(place, next_seed(X, seeds, rng))
    cells = np.argmin(seeds, axis=0)
    return cell_sums(X, cells, k) / np.bincount(cells, minlength=k)[:, None]


def next_seed(X: Floats, seeds: list[Floats], rng: np.random.Generator) -> Floats:
    """Return the distances (n,) of all rows from the best of some candidates.

    Parameters
    ----------
    seeds : list of arrays of shape (n,)
        Squared distances of all rows from each seed so far.
    """
    k = len(seeds)
    cells, nearest = np.argmin(seeds, axis=0), np.min(seeds, axis=0)
    n_candidates = 2 + int(np.log(k + 1))
    drawn = rng.choice(len(X), n_candidates, p=nearest / nearest.sum())
    sums, sizes = cell_sums(X, cells, k), np.bincount(cells, minlength=k)
    tried, between = squared_distances(X, drawn), []
    for distances in tried:
        taken = distances < nearest
        moved = cell_sums(X[taken], cells[taken], k)
        left = np.maximum(sizes - np.bincount(cells[taken], minlength=k), 1)
        of_new = np.sum(moved.sum(axis=0) ** 2) / max(int(taken.sum()), 1)
        between.append(of_new + np.sum((sums - moved) ** 2 / left[:, None]))
    return np.asarray(tried[int(np.argmax(between))])


def squared_distances(X: Floats, rows: Any) -> Floats:
    """Return squared distances (c, n) of all rows from some of them."""
    squares = np.einsum("ij,ij->i", X, X)
    found = squares[None] + squares[rows][:, None] - 2.0 * (X[rows] @ X.T)
    return np.asarray(np.maximum(found, 0.0))


def cell_sums(X: Floats, cells: Any, k: int) -> Floats:
    """Return the sums (k, d) of the rows of each cell."""
    order = np.argsort(cells, kind="stable")
    begins = np.searchsorted(cells[order], np.arange(k))
    filled = np.append(begins[1:], len(X)) > begins
    found = np.zeros((k, X.shape[1]))
    if filled.any():
        found[filled] = np.add.reduceat(X[order], begins[filled], axis=0)
    return found
