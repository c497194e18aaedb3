r"""Means at any distances: the pairwise test, group by group.

Theorem 4.19 requires comparable distances, because the longest differences dominate
:math:`M_t`: two components that are close to each other pass the test if others are far away. Li
and Liu (2021, sections 10 and 11) remove the condition by recursion, and so does this module: a
test separates what is clearly apart, and every group that is wider than the noise is tested again
by the moments of its own rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import connected_components

from implicitmoments.arrays import Array, Floats, dot_rows, move_like, namespace_of, to_numpy
from implicitmoments.clustering.bayes_rule import (
    BayesRule,
    excess_variance,
    largest_noise_variance,
    settle,
)
from implicitmoments.clustering.diagnostics import WIDE
from implicitmoments.clustering.pairwise_test import (
    Flags,
    PairwiseTest,
    affordable_orders,
    choose_test,
    cluster_graph,
    difference_moments,
    draw_places,
    hold_coordinates,
    random_differences,
    same_matrix,
)
from implicitmoments.moments.mean_span import find_span
from implicitmoments.rows import Rows, mean_and_covariance
from implicitmoments.rows.draws import Integers

# Pairs of landmarks of two clusters that pass the test, of those that would pass in one cluster:
# with fewer the clusters are separated. A group that is not is tested again.
CLEAR = 0.05


@dataclass(frozen=True)
class PairTestOptions:
    """How pairs are tested."""

    orders: tuple[int, ...] | None  # None for those that are affordable
    n_landmarks: int  # the least number of rows that are tested pair by pair
    per_component: int  # landmarks of each component, if that is more
    method: str
    n_draws: int | None
    widest: float  # variance in units of the noise, above which a group has several components
    seed: int


@dataclass(frozen=True, eq=False)
class Level:
    """Rows of a group, their landmarks, and the tests of the landmarks with one another."""

    rows: Rows  # in coordinates, in units of the noise
    landmarks: Rows
    test: PairwiseTest
    same: Flags  # (m, m)
    most: int  # components at the most

    @cached_property
    def parts(self) -> list[Rows]:
        """Groups of rows that the test separates clearly."""
        labels = cluster_graph(self.same, self.most)
        members = (labels[:, None] == np.arange(labels.max() + 1)).astype(float)
        passed = members.T @ self.same @ members / np.outer(members.sum(0), members.sum(0))
        within = np.sqrt(np.outer(np.diag(passed), np.diag(passed)))
        n, group = connected_components(passed > CLEAR * within, directed=False)
        if n == 1:
            return [self.rows]
        shapes = Shapes.of(self.landmarks.points.astype(np.float64), labels)
        nearest = group[to_numpy(shapes.assign(self.rows.block["x"]))]
        places = [np.flatnonzero(nearest == g) for g in range(n)]
        return [self.rows.take(place) for place in places if len(place)]

    @cached_property
    def _rules(self) -> dict[int, BayesRule]:
        return {}

    def rule(self, g: int) -> BayesRule:
        """Return the Bayes rule of g clusters, or fewer."""
        if g not in self._rules:
            self._rules[g] = self._find_rule(g)
        return self._rules[g]

    def _find_rule(self, g: int) -> BayesRule:
        labels = cluster_graph(self.same, g)
        points = self.landmarks.points.astype(np.float64)
        means = np.stack([np.mean(points[labels == c], axis=0) for c in range(labels.max() + 1)])
        rule = BayesRule(means, np.full(len(means), 1.0 / len(means)), 1.0)
        return settle(self.rows, rule)

    def resolves(self, g: int, widest: float) -> bool:
        """Return whether g clusters are there, none of which is wider than one component."""
        rule = self.rule(g)
        if rule.k < g:
            return False
        labels = to_numpy(rule.assign(self.rows.block["x"]))
        parts = (self.rows.take(np.flatnonzero(labels == c)) for c in np.unique(labels))
        return not any(is_wide(part, widest) for part in parts)

    def likelihood(self, g: int) -> float:
        """Return the log-likelihood of g clusters, with each row in its most probable one.

        Up to a constant that depends on the rows alone.
        """
        x = self.rows.block["x"]
        best = to_numpy(namespace_of(x).max(self.rule(g).scores(x), axis=1))
        return float(best.astype(np.float64) @ self.rows.counts)


@dataclass(frozen=True, eq=False)
class Shapes:
    """A Gaussian for each cluster of landmarks, with variances beyond the noise."""

    means: Floats  # (c, p)
    offsets: Floats  # (c,)
    axes: tuple[Floats, ...]  # (r, p) each, times the root of 1 − 1/variance

    @classmethod
    def of(cls, points: Floats, labels: Integers) -> Shapes:
        """Estimate means and covariances; variances that noise explains are 1."""
        means, offsets, axes = [], [], []
        for c in range(int(labels.max()) + 1):
            own = points[labels == c]
            mean = own.mean(axis=0)
            _, s, v = np.linalg.svd((own - mean) / math.sqrt(len(own)), full_matrices=False)
            wide = s**2 > largest_noise_variance(points.shape[1], len(own))
            means.append(mean)
            offsets.append(math.log(len(own)) - np.sum(np.log(s[wide])))
            axes.append(v[wide] * np.sqrt(1 - 1 / s[wide] ** 2)[:, None])
        return cls(np.array(means), np.array(offsets), tuple(axes))

    def assign(self, x: Array) -> Array:
        """Return the most probable cluster of each row (n, p)."""
        xp, scores = namespace_of(x), []
        for mean, offset, axes in zip(self.means, self.offsets, self.axes, strict=True):
            moved = x - move_like(mean, x)[None, :]
            squares = dot_rows(moved, moved)
            if len(axes):
                along = moved @ xp.matrix_transpose(move_like(axes, x))
                squares = squares - dot_rows(along, along)
            scores.append(float(offset) - squares / 2)
        return xp.argmax(xp.stack(scores, axis=1), axis=1)


def largest_variance(k: int, separation: float | None, smallest_weight: float | None) -> float:
    """Return the variance up to which a cluster is one component, in units of the noise.

    Halfway between that of one and that of two at the least distance, one of which has the
    smallest weight. Where that is not given it is 1/k or less, so that the variance is no more
    than a bound from above.
    """
    if separation is None:
        return WIDE
    share = 1 / k if smallest_weight is None else smallest_weight
    halfway = 1 + share * (1 - share) * separation**2 / 2
    return min(WIDE, halfway) if smallest_weight is None else halfway


def is_wide(rows: Rows, widest: float) -> bool:
    """Return whether rows have a variance along a direction that one component has not."""
    return excess_variance(mean_and_covariance(rows).covariance, rows.n) > widest


@dataclass(frozen=True, eq=False)
class Found:
    """Means that the recursion found, and the tests that decided."""

    means: Floats  # (g, p)
    levels: tuple[Level, ...]  # all that were tested, the first of all rows
    final: tuple[Level, ...]  # of which no group was tested again

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks in the first test."""
        return self.levels[0].landmarks.n

    @property
    def test(self) -> PairwiseTest:
        """The least reliable of the tests that decided."""
        return max((level.test for level in self.final), key=lambda t: t.split_rate + t.merge_rate)


def find_means(held: Rows, k: int, options: PairTestOptions) -> Found:
    """Find the means of at most k components, at any distances.

    Parameters
    ----------
    held : Rows
        In memory, on the span of the means, in units of the noise.
    k : int
        Number of components, at least 2.
    """
    leaves: list[Rows] = []
    levels: list[Level] = []
    waiting: list[tuple[Rows, int | None]] = [(held, None)]  # with the number of their level
    unclear: list[Level] = []  # groups of comparable distances
    again: set[int | None] = set()  # levels of which a group was tested again
    while waiting:
        rows, parent = waiting.pop()
        others = len(leaves) + len(unclear) + len(waiting)  # each has a component or more
        if parent is not None and (k - others < 2 or not is_wide(rows, options.widest)):
            leaves.append(rows)
            continue
        again.add(parent)
        level = _test(rows, k - others, options)
        counted = not waiting and not unclear  # no other group can have more than one
        resolved = counted and level.resolves(level.most, options.widest)
        if resolved or len(level.parts) == 1:
            unclear.append(level)
        else:
            waiting.extend((part, len(levels)) for part in level.parts)
        levels.append(level)
    means = [np.average(rows.points, axis=0, weights=rows.counts)[None, :] for rows in leaves]
    means += [level.rule(g).means for level, g in _allocate(unclear, k - len(leaves))]
    final = tuple(level for i, level in enumerate(levels) if i not in again)
    return Found(np.vstack(means), tuple(levels), final)


def _allocate(levels: list[Level], k: int) -> list[tuple[Level, int]]:
    """Return how many of k clusters each group has: where they add most likelihood."""
    if len(levels) <= 1:
        return [(level, k) for level in levels]
    numbers = [1] * len(levels)
    for _ in range(k - len(levels)):
        pairs = zip(levels, numbers, strict=True)
        gains = [level.likelihood(g + 1) - level.likelihood(g) for level, g in pairs]
        numbers[int(np.argmax(gains))] += 1
    return list(zip(levels, numbers, strict=True))


def _test(rows: Rows, k: int, options: PairTestOptions) -> Level:
    """Test landmarks of some rows with one another, by the moments of differences of the rows."""
    seed = options.seed
    # The span of these means has fewer directions than that of all.
    span = find_span(rows, k, 1.0)
    inner = hold_coordinates(rows, span, seed)
    orders = affordable_orders(k, span.p) if options.orders is None else options.orders
    moments = {
        t: difference_moments(inner, k, t, method=options.method, seed=seed) for t in orders
    }
    pairs = random_differences(inner, seed)
    test = choose_test(moments, pairs, n_draws=options.n_draws, seed=seed)
    n = min(inner.n, max(options.n_landmarks, options.per_component * k))
    places = draw_places(inner, n, np.random.default_rng(seed))
    same = same_matrix(test, inner.take(places).block["x"])
    return Level(rows, rows.take(places), test, same, k)
