r"""Were two rows drawn from the same component? The test of the proof of Theorem 4.19.

On the span of the means and in units of the noise, :math:`\Delta = (x - x')/\sqrt 2` is
:math:`N((\mu_i - \mu_j)/\sqrt 2, I)`. The test statistic is

.. math:: P_t(\Delta) = \langle H_t(\Delta), M_t \rangle, \qquad
   M_t = \sum_{ij} w_i w_j ((\mu_i - \mu_j)/\sqrt 2)^{\otimes t},

for an even t; the text omits the root of two in M_t (Erratum 4). For two rows of the same
component :math:`\Delta \sim N(0, I)` whatever the means, so the null distribution of :math:`P_t`
is known once M_t is. Threshold, error rates and t are chosen by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.moments import ClosedFormMoments, PaperMoments, implicit_moments
from implicitmoments.moments.mean_span import SphericalSpan
from implicitmoments.notes import InputError
from implicitmoments.problems import PairwiseDifferenceProblem
from implicitmoments.rows import Rows
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.view import LARGEST_SINGLE

Moments: TypeAlias = ClosedFormMoments | PaperMoments
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

ORDERS = (2, 4, 6)  # even orders; higher ones cost more, see LARGEST_COST
LARGEST_COST = 2_000_000  # operations per pair: about a minute for those of 400 landmarks
N_PAIRS = 20_000  # from which thresholds are chosen: rates are then known to about 0.003
ROW_NUMBERS = 32  # held per row at the least: its coordinates, differences and their powers
MEDIAN = 0.5  # Storey's λ: below it, half of the null distribution
ROUNDS = 20  # of voting, at most; it ends when labels no longer change
STRAYS = 20  # up to 1 in 20 rows may be unassigned initially
FEWEST = 3  # isolated rows do not agree in threes


@dataclass(frozen=True, eq=False)
class PairwiseTest:
    r"""A test of pairs of rows: below the threshold they are of the same component.

    Attributes
    ----------
    order : int
        The even order t.
    moments : ClosedFormMoments or PaperMoments
        :math:`M_t` of the differences.
    threshold : float
    split_rate : float
        Estimated rate of pairs of the same component that the test separates.
    merge_rate : float
        Estimated rate of pairs of two components that the test joins.
    same_rate : float
        Estimated proportion of pairs of the same component, :math:`\sum_i w_i^2`.
    n_draws : int or None
        Auxiliary draws per pair, for moments by the paper's algorithm; None for the exact mean
        over them, or as many as the box takes (:meth:`PaperMoments.inner`).
    """

    order: int
    moments: Moments
    threshold: float
    split_rate: float
    merge_rate: float
    same_rate: float
    n_draws: int | None = None

    def statistic(self, left: Array, right: Array) -> Floats:
        """Return P_t for pairs of rows of coordinates (n, p)."""
        return _statistic(self.moments, (left - right) / math.sqrt(2), self.n_draws)

    def same(self, left: Array, right: Array) -> Flags:
        """Return for each pair of rows whether it passes the test."""
        return self.statistic(left, right) <= self.threshold


def affordable_orders(k: int, p: int) -> tuple[int, ...]:
    """Return the orders at which testing a pair is affordable."""
    n_differences = k * (k - 1) // 2  # up to sign, which even orders do not see
    cost = n_differences * (p * p + n_differences)
    return ORDERS if cost * p <= LARGEST_COST else ORDERS[:2] if cost <= LARGEST_COST else (2,)


def hold_coordinates(rows: Rows, span: SphericalSpan, seed: int = 0) -> Rows:
    """Hold the coordinates of all rows, or of a random sample of as many as memory should hold.

    They have no weights where all weights are equal. Coordinates that are too long for single
    precision are in double precision.
    """
    mapped = rows.mapped(span.center, span.basis.T / span.sigma)
    long = bool(np.max(span.variances, initial=0.0) > LARGEST_SINGLE**2)
    mapped = replace(mapped, wide=mapped.wide or long)
    held = mapped.sample(rows.n, seed, width=ROW_NUMBERS)
    equal = bool(np.all(held.counts == held.counts[0]))
    return Rows.of(held.block["x"]) if equal else held


def draw_places(held: Rows, n: int, rng: np.random.Generator, *, again: bool = False) -> Integers:
    """Draw n of the rows in proportion to their weights, ``again`` for with replacement."""
    shares = held.counts / held.total if held.weighted_rows else None
    return rng.choice(held.n, size=n, replace=again, p=shares)


def difference_moments(
    held: Rows, k: int, order: int, *, method: str = "closed_form", seed: int = 0
) -> Moments:
    """Estimate M_t of differences of rows, which the problem pairs at random."""
    problem = PairwiseDifferenceProblem(held, sample_weight=held.block.get("counts"))
    n_averages = order + 1 if method == "paper" else 1
    n = max(1, min(k * (k - 1) // 2, held.n // (2 * n_averages)))  # no more than there are pairs
    if method == "paper":
        return implicit_moments(
            problem, n_components=n, order=order, method="paper", random_state=seed
        )
    return implicit_moments(problem, n_components=n, order=order, drop_noise=False)


def choose_test(
    moments: Mapping[int, Moments],
    differences: Array,
    *,
    n_draws: int | None = None,
    seed: int = 0,
) -> PairwiseTest:
    r"""Choose the order and the threshold with the smallest sum of error rates.

    The proportion of pairs of the same component is twice the proportion of all pairs below the
    median of the null distribution, as for p-values (Storey 2002). Pairs of two components there
    make it too large, so the minimum over the orders is taken.

    Parameters
    ----------
    moments : mapping of int to moments
        By order.
    differences : array of shape (n, p)
        :math:`(x - x')/\sqrt 2` for random pairs of rows.
    """
    if not moments:
        raise InputError("no_orders", "there must be moments of at least one order")
    null = move_like(np.random.default_rng(seed).standard_normal(differences.shape), differences)
    seen, known = (
        {t: np.sort(_statistic(m, points, n_draws)) for t, m in moments.items()}
        for points in (differences, null)
    )
    below = (np.mean(seen[t] <= np.quantile(known[t], MEDIAN)) for t in moments)
    same_rate = min(max(float(min(below)) / MEDIAN, 1.0 / int(differences.shape[0])), 1.0)
    found = {t: _threshold(seen[t], known[t], same_rate) for t in moments}
    best = min(found, key=lambda t: found[t][1] + found[t][2])
    return PairwiseTest(best, moments[best], *found[best], same_rate, n_draws)


def _threshold(seen: Floats, known: Floats, same_rate: float) -> tuple[float, float, float]:
    """Return threshold, split rate and merge rate for sorted values of a statistic."""
    grid = np.unique(np.concatenate([seen, known]))
    below = np.searchsorted(seen, grid, side="right") / len(seen)
    below_known = np.searchsorted(known, grid, side="right") / len(known)
    split = 1.0 - below_known
    other = max(1.0 - same_rate, 1.0 / len(seen))
    # made monotone: the difference of two empirical distribution functions is not
    merge = np.maximum.accumulate(np.clip((below - same_rate * below_known) / other, 0.0, 1.0))
    at = int(np.argmin(split + merge))
    return float(grid[at]), float(split[at]), float(merge[at])


def _statistic(moments: Moments, differences: Array, n_draws: int | None) -> Floats:
    options = {"n_draws": n_draws} if isinstance(moments, PaperMoments) else {}
    return np.asarray(to_numpy(moments.hermite(differences, **options)), dtype=np.float64)


def random_differences(held: Rows, seed: int) -> Array:
    """Return (x − x')/√2 for random pairs of different rows, drawn in proportion to weights."""
    rng = np.random.default_rng(seed)
    first, second = (draw_places(held, N_PAIRS, rng, again=True) for _ in range(2))
    apart = first != second
    left, right = (held.take(places[apart]).block["x"] for places in (first, second))
    return (left - right) / math.sqrt(2)


def same_matrix(test: PairwiseTest, coordinates: Array, pairs_per_block: int = 65_536) -> Flags:
    """Test every pair of some rows, (m, p) to a symmetric (m, m)."""
    m, xp = int(coordinates.shape[0]), namespace_of(coordinates)
    same = np.eye(m, dtype=bool)
    left, right = np.triu_indices(m, 1)
    for start in range(0, len(left), pairs_per_block):
        i, j = left[start : start + pairs_per_block], right[start : start + pairs_per_block]
        one, other = (xp.take(coordinates, index_like(k, coordinates), axis=0) for k in (i, j))
        same[i, j] = test.same(one, other)
    return same | same.T


def cluster_graph(same: Flags, k: int) -> Integers:
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
        Integers 0, 1, …; fewer than k where the graph has fewer clusters.
    """
    m = len(same)
    if k == 1 or m <= k:
        return np.zeros(m, dtype=np.int64) if k == 1 else _as_labels(np.arange(m))
    centred = same - np.mean(same, axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    # a row that passes the test with all others is equally close to all of them
    centred /= np.where(lengths > 0, lengths, 1.0)
    apart: Floats = np.clip(1.0 - centred @ centred.T, 0.0, None)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform((apart + apart.T) / 2, checks=False), "average")
    return _vote(same, _largest_clusters(tree, m, k), k)


def _largest_clusters(tree: Floats, m: int, k: int) -> Integers:
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


def _vote(same: Flags, labels: Integers, k: int) -> Integers:
    for _ in range(ROUNDS):
        members = (labels[:, None] == np.arange(k)).astype(np.float64)
        sizes = np.sum(members, axis=0)
        votes = np.where(sizes > 0, same @ members / np.maximum(sizes, 1.0), -1.0)
        moved = _as_labels(np.argmax(votes, axis=1))
        if np.array_equal(moved, labels):
            break
        labels = moved
    return _as_labels(np.unique(labels, return_inverse=True)[1])


def _as_labels(values: Any) -> Integers:
    return np.asarray(values, dtype=np.int64)
