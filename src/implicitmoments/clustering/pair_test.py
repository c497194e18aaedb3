r"""Were two rows drawn from the same component? The test of Theorem 4.19, and its clusters.

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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.spatial.distance import squareform

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    dot_rows,
    index_like,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.moments.implicit import FramedRows, ImplicitMoments, estimate_moments
from implicitmoments.moments.problems import PairwiseDifferenceProblem, SphericalSpan, find_span
from implicitmoments.rows import Block, Integers, Rows, Sums, mean_and_covariance, weights_of

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

WIDE = 1.5  # noise variances: two equal components 2 deviations apart have 2


@dataclass(frozen=True, eq=False)
class PairTest:
    """A test of pairs of rows: below the threshold they are of the same component."""

    order: int  # the even order t
    moments: ImplicitMoments  # M_t of the differences
    threshold: float
    split_rate: float  # estimated rate of pairs of the same component that the test separates
    merge_rate: float  # estimated rate of pairs of two components that the test joins
    same_rate: float  # estimated proportion of pairs of the same component, Σ w_i²

    @property
    def error_rate(self) -> float:
        """Sum of both error rates; 1 is chance."""
        return self.split_rate + self.merge_rate

    @property
    def rates(self) -> dict[str, float]:
        """The error rates and the proportion of pairs of the same component, by name."""
        return {name: getattr(self, name) for name in ("split_rate", "merge_rate", "same_rate")}

    def same(self, left: Array, right: Array) -> Flags:
        """Return for each pair of rows of coordinates (n, p) whether it passes the test."""
        return statistic(self.moments, (left - right) / math.sqrt(2)) <= self.threshold

    def matrix(self, coordinates: Array) -> Flags:
        """Test every pair of some rows, (m, p) to a symmetric (m, m)."""
        m = int(coordinates.shape[0])
        same = np.stack([self.same(coordinates, coordinates[i : i + 1, :]) for i in range(m)])
        return (same & same.T) | np.eye(m, dtype=bool)


def statistic(moments: ImplicitMoments, differences: Array) -> Floats:
    """Return P_t of differences (n, p)."""
    return np.asarray(to_numpy(moments.hermite(differences)), dtype=np.float64)


def hold_coordinates(rows: Rows, span: SphericalSpan, seed: int = 0) -> Rows:
    """Hold the coordinates of all rows, or of a random sample of as many as memory should hold.

    They have no weights where all weights are equal. Coordinates that are too long for single
    precision are in double precision.
    """
    mapped = rows.mapped(span.center, span.basis.T / span.sigma)
    # numbers held per row: coordinates by level of the clusters, differences and their powers
    width = max(32, 8 * mapped.n_features)
    # float32 resolves squares above 1e4 to 1e-3 only
    long = bool(np.max(span.variances, initial=0.0) > 1e4)
    held = replace(mapped, wide=mapped.wide or long).sample(rows.n, seed, width=width)
    return Rows.of(held.block["x"]) if np.all(held.counts == held.counts[0]) else held


def draw_places(held: Rows, n: int, rng: np.random.Generator, *, again: bool = False) -> Integers:
    """Draw n of the rows in proportion to their weights, ``again`` for with replacement."""
    shares = held.counts / held.total if held.weighted_rows else None
    return rng.choice(held.n, size=n, replace=again, p=shares)


def random_differences(held: Rows, rng: np.random.Generator, n_pairs: int = 20_000) -> Array:
    """Return (x − x')/√2 for random pairs of different rows, drawn in proportion to weights.

    From 20,000 pairs error rates are known to about 0.003.
    """
    first, second = (draw_places(held, n_pairs, rng, again=True) for _ in range(2))
    apart = first != second
    left, right = (held.take(places[apart]).block["x"] for places in (first, second))
    return (left - right) / math.sqrt(2)


def affordable_orders(k: int, p: int, most: int = 500_000) -> tuple[int, ...]:
    """Return the orders at which testing a pair takes no more than so many operations.

    By default those of 1,000 landmarks then take some ten seconds.
    """
    n_differences = k * (k - 1) // 2  # up to sign, which even orders do not see
    cost = n_differences * (p * p + n_differences)
    return (2, 4, 6) if cost * p <= most else (2, 4) if cost <= most else (2,)


def choose_test(
    held: Rows, k: int, rng: np.random.Generator, order: int | None = None
) -> PairTest:
    r"""Choose the order and the threshold with the smallest sum of error rates.

    A higher order is tried only while the rates are too large. The proportion of pairs of the same
    component is twice the proportion of all pairs below the median of the null distribution, as
    for p-values (Storey 2002); pairs of two components there make it too large.

    Parameters
    ----------
    held : Rows
        In memory, on the span of the means, in units of the noise.
    k : int
        Number of components.
    """
    problem = PairwiseDifferenceProblem(held, sample_weight=held.block.get("counts"))
    hidden = max(1, min(k * (k - 1) // 2, held.n // 2))  # no more than there are pairs
    differences = random_differences(held, rng)
    null = move_like(rng.standard_normal(differences.shape), differences)
    tests, same_rate = list[PairTest](), 1.0
    for t in affordable_orders(k, held.n_features) if order is None else (order,):
        moments = estimate_moments(FramedRows.of(problem), hidden, t, drop_noise=False)
        seen, known = (np.sort(statistic(moments, points)) for points in (differences, null))
        below = 2 * float(np.mean(seen <= np.median(known)))
        same_rate = min(same_rate, max(below, 1 / len(seen)))
        tests.append(PairTest(t, moments, *_threshold(seen, known, same_rate), same_rate))
        if tests[-1].error_rate <= 0.05:  # the graph corrects more
            break
    return min(tests, key=lambda test: test.error_rate)


def _threshold(seen: Floats, known: Floats, same_rate: float) -> tuple[float, float, float]:
    """Return threshold, split rate and merge rate for sorted values of a statistic."""
    grid = np.unique(np.concatenate([seen, known]))
    below = np.searchsorted(seen, grid, side="right") / len(seen)
    below_known = np.searchsorted(known, grid, side="right") / len(known)
    split, other = 1.0 - below_known, max(1.0 - same_rate, 1.0 / len(seen))
    # made monotone: the difference of two empirical distribution functions is not
    merge = np.maximum.accumulate(np.clip((below - same_rate * below_known) / other, 0.0, 1.0))
    at = int(np.argmin(split + merge))
    return float(grid[at]), float(split[at]), float(merge[at])


def cluster_graph(same: Flags, k: int, rounds: int = 5) -> Integers:
    """Find k clusters of rows that passed a pairwise test with one another.

    Connected components would be joined by a single wrong test. Instead, rows are compared by all
    their tests: rows of the same component agree on nearly all other rows, so their rows of the
    graph are correlated, by about (1 − split − merge)² at error rates *split* and *merge*, and
    rows of two components are uncorrelated. Average linkage joins correlated rows; then each row
    moves to the cluster of which the largest proportion passed the test with it, a few times.

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
        return np.arange(m) * (k > 1)
    with np.errstate(invalid="ignore"):  # a row that passes the test with all others
        correlations = np.nan_to_num(np.corrcoef(same))
    apart: Floats = np.clip(1.0 - correlations, 0.0, None)
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform((apart + apart.T) / 2, checks=False), "average")
    labels = _largest_clusters(tree, m, k)
    for _ in range(rounds):  # labels hardly change after two
        members = (labels[:, None] == np.arange(k)).astype(np.float64)
        labels = np.argmax(same @ members / np.maximum(np.sum(members, axis=0), 1.0), axis=1)
    return np.unique(labels, return_inverse=True)[1]


def _largest_clusters(tree: Floats, m: int, k: int) -> Integers:
    """Cut the tree into k clusters and some isolated rows, at most 1 in 20, whose label is −1.

    Isolated rows stay alone until the end and would use up clusters, so the first cut is taken
    whose k-th largest cluster has three rows, or else most of all. Later cuts would split large
    clusters first.
    """
    numbers = range(k, min(m, k + max(5, m // 20)) + 1)
    cuts = [fcluster(tree, n_clusters, "maxclust") - 1 for n_clusters in numbers]
    smallest = [np.sort(np.bincount(cut, minlength=k))[-k] for cut in cuts]
    cut = cuts[int(np.argmax(np.minimum(smallest, 3)))]
    sizes = np.bincount(cut, minlength=k)
    labels = np.full(len(sizes), -1)
    labels[np.argsort(-sizes, kind="stable")[:k]] = np.arange(k)
    return labels[cut]


@dataclass(frozen=True, eq=False)
class BayesRule:
    """Assigns rows to the component of largest posterior probability."""

    means: Floats  # (k, d)
    weights: Floats  # (k,)
    variance: float

    def scores(self, X: Array) -> Array:
        """Return posterior log-probabilities (n, k), up to an additive constant per row."""
        return move_like(np.log(self.weights), X)[None, :] - self.squares(X) / (2 * self.variance)

    def squares(self, X: Array) -> Array:
        """Return the squared Euclidean distance (n, k) of every row (n, d) from every mean."""
        xp, origin = namespace_of(X), np.mean(self.means, axis=0)
        # subtracted to avoid cancellation for data far from the origin
        centred, means = X - move_like(origin, X)[None, :], move_like(self.means - origin, X)
        products = centred @ xp.matrix_transpose(means)
        lengths = dot_rows(centred, centred)[:, None] + dot_rows(means, means)[None, :]
        return xp.clip(lengths - 2 * products, min=0.0)

    def distances(self, X: Array) -> Array:
        """Return the Euclidean distance (n, k) of every row (n, d) from every mean."""
        return namespace_of(X).sqrt(self.squares(X))

    def assign(self, X: Array) -> Array:
        """Return the most probable component of every row (n, d)."""
        return namespace_of(X).argmax(self.scores(X), axis=1)

    def labels(self, rows: Rows) -> np.ndarray[Any, Any]:
        """Return the most probable component of rows in memory, block by block."""
        blocks = rows.blocks(len(self.means))
        return np.concatenate([to_numpy(self.assign(block["x"])) for block in blocks])

    def settle(self, rows: Rows) -> BayesRule:
        """Average all rows by component, twice: those with rows, the heaviest first."""
        rule = self
        for _ in range(2):
            sums = rows.fold(partial(_sum_members, rule), width=len(rule.means), what="clusters")
            sizes = to_numpy(sums["sizes"])
            kept = [i for i in np.argsort(-sizes, kind="stable") if sizes[i] > 0]
            means = to_numpy(sums["totals"])[kept] / sizes[kept, None] + rule.means.mean(axis=0)
            rule = BayesRule(means, sizes[kept] / np.sum(sizes), rule.variance)
        return rule


def _sum_members(rule: BayesRule, block: Block) -> Sums:
    """Sum rows by component, about the origin of the means."""
    x, xp = block["x"], namespace_of(block["x"])
    numbers = index_like(np.arange(len(rule.means)), x)
    members = xp.astype(rule.assign(x)[:, None] == numbers[None, :], x.dtype)
    members = members * weights_of(block)[:, None]
    moved = x - move_like(np.mean(rule.means, axis=0), x)[None, :]
    totals = xp.matrix_transpose(members) @ moved
    return {"totals": as_double(totals), "sizes": xp.sum(members, axis=0, dtype=xp.float64)}


def rule_of(means: Floats, variance: float = 1.0) -> BayesRule:
    """Return the rule of means of equal weight."""
    return BayesRule(means, np.full(len(means), 1.0 / len(means)), variance)


def members_of(rows: Rows, labels: np.ndarray[Any, Any]) -> list[Rows]:
    """Divide rows in memory by their labels."""
    return [rows.take(np.flatnonzero(labels == c)) for c in np.unique(labels)]


def excess_variance(rows: Rows) -> float:
    """Return the largest variance of rows over that of noise; 1 where they are too few."""
    p, n = rows.n_features, rows.n
    if p == 0 or n < 2 * p + 10:
        return 1.0
    largest = float(np.linalg.eigvalsh(mean_and_covariance(rows).covariance)[-1])
    # the largest eigenvalue of the covariance of n standard normal rows is about (1 + √(p/n))²
    return largest / (1.0 + math.sqrt(p / n)) ** 2


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Some rows of a group, and the tests of all pairs of them."""

    rows: Rows  # the group, in memory
    places: Integers  # (m,)
    same: Flags  # (m, m)

    def clusters(self, g: int) -> list[Rows]:
        """Divide the group into g clusters or fewer."""
        labels, points = cluster_graph(self.same, g), self.rows.points[self.places]
        means = np.stack([points[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
        rule = rule_of(means.astype(np.float64)).settle(self.rows)
        return members_of(self.rows, rule.labels(self.rows))

    def parts(self, g: int) -> list[Rows]:
        """Divide the group where clusters hardly pass the test with one another.

        Clusters that are not resolved may be much longer in one direction than their distance
        from another one, so each row goes to the part of the nearest landmark.
        """
        labels = cluster_graph(self.same, g)
        members = (labels[:, None] == np.arange(labels.max() + 1)).astype(float)
        passed = members.T @ self.same @ members / np.outer(members.sum(0), members.sum(0))
        within = np.sqrt(np.outer(np.diag(passed), np.diag(passed)))
        # clusters are apart if 5 % of the pairs pass that would pass in one cluster
        part = connected_components(passed > 0.05 * within, directed=False)[1][labels]
        points = self.rows.points
        return members_of(
            self.rows, part[np.asarray(KDTree(points[self.places]).query(points)[1])]
        )


def _narrow(clusters: list[Rows]) -> bool:
    return all(excess_variance(cluster) <= WIDE for cluster in clusters)


def find_means(
    held: Rows, k: int, seed: int, order: int | None, n_landmarks: int | None
) -> tuple[Floats, list[PairTest], int]:
    """Find the means of at most k components, at any distances.

    Theorem 4.19 requires comparable distances, because the longest differences dominate
    :math:`M_t`: two components that are close to each other pass the test if others are far away.
    Li and Liu (2021, sections 10 and 11) remove the condition by recursion. Here, a group of rows
    that is wider than the noise is divided into the parts that the test separates clearly, and
    each part is clustered again, by the moments of its own rows.

    Returns
    -------
    means : array of shape (g, p)
    tests : list of PairTest
        Those of groups that were not divided further.
    n_tests : int
        Number of groups that were tested.
    """
    rng, waiting, found = np.random.default_rng(seed), [held], list[Rows]()
    tests, n_tests = list[PairTest](), 0
    while waiting:
        group = waiting.pop()
        most = k - len(found) - len(waiting)  # each other group has a component or more
        if group is not held and (most == 1 or _narrow([group])):
            found.append(group)
            continue
        inner = hold_coordinates(group, find_span(group, most, 1.0))
        test = choose_test(inner, most, rng, order)
        n_tests += 1
        n = min(inner.n, n_landmarks or max(400, 40 * most))
        places = draw_places(inner, n, rng)
        landmarks = Landmarks(group, places, test.matrix(inner.take(places).block["x"]))
        clusters = landmarks.clusters(most)
        whole = group is held and _narrow(clusters)
        parts = [] if whole else landmarks.parts(most)
        if len(parts) > 1:
            waiting += parts
            continue
        if group is not held:  # the fewest clusters of which none is wider than the noise
            fewer = map(landmarks.clusters, range(2, most))
            clusters = next(filter(_narrow, fewer), clusters)
        found += clusters
        tests.append(test)
    means = np.stack([mean_and_covariance(cluster).mean for cluster in found])
    return means, tests, n_tests
