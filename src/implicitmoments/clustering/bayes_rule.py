"""The Bayes rule of a spherical mixture with given means, weights and variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, to_numpy
from implicitmoments.moments.mean_span import SphericalSpan
from implicitmoments.rows import Block, Rows, Sums, weights_of

# Rows per coordinate from which the largest eigenvalue of a covariance is worth comparing.
ROWS_PER_COORDINATE, MORE_ROWS = 2, 10
ROUNDS = 2  # of assigning all rows and averaging: means then hardly change
MOST_ROUNDS, SETTLED = 100, 0.1  # for a given accuracy: rounds, and the part of it left to go


@dataclass(frozen=True, eq=False)
class BayesRule:
    """Assigns rows to the component of largest posterior probability."""

    means: Floats  # (k, d)
    weights: Floats  # (k,)
    variance: float

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def origin(self) -> Floats:
        """The average of the means; taking it off keeps digits of rows far from zero."""
        return np.asarray(np.mean(self.means, axis=0))

    def scores(self, X: Array) -> Array:
        """Return posterior log-probabilities (n, k), up to an additive constant per row."""
        moved = self.means - self.origin
        offset = np.log(self.weights) - np.sum(moved**2, axis=1) / (2 * self.variance)
        return self._products(X, moved)[1] / self.variance + move_like(offset, X)[None, :]

    def distances(self, X: Array) -> Array:
        """Return the Euclidean distance (n, k) of every row (n, d) from every mean."""
        xp, moved = namespace_of(X), self.means - self.origin
        centred, products = self._products(X, moved)
        lengths = move_like(np.sum(moved**2, axis=1), X)[None, :]
        squares = xp.sum(centred**2, axis=1, keepdims=True) - 2 * products + lengths
        return xp.sqrt(xp.clip(squares, min=0.0))

    def _products(self, X: Array, moved: Floats) -> tuple[Array, Array]:
        """Return the rows about the origin (n, d), and their products (n, k) with the means."""
        centred = X - move_like(self.origin, X)[None, :]
        return centred, centred @ namespace_of(X).matrix_transpose(move_like(moved, X))

    def assign(self, X: Array) -> Array:
        """Return the most probable component of every row (n, d)."""
        return namespace_of(X).argmax(self.scores(X), axis=1)

    def standard_errors(self, n: float) -> dict[str, float]:
        """Return the largest expected errors of a mean and of a weight, from n rows.

        The distance of a mean of rows from that of their component, in units of the noise.
        """
        d = self.means.shape[1]
        shares = self.weights * (1 - self.weights)
        return {
            "mean_error": math.sqrt(d / (n * float(np.min(self.weights)))),
            "weight_error": math.sqrt(float(np.max(shares)) / n),
        }

    def posterior(self, X: Array) -> Array:
        """Return the probability (n, k) of each component, given a row."""
        xp, scores = namespace_of(X), self.scores(X)
        relative = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return relative / xp.sum(relative, axis=1, keepdims=True)

    def error_rates(self, X: Array) -> Array:
        """Return the posterior probability (n,) that the assigned component is wrong."""
        return 1.0 - namespace_of(X).max(self.posterior(X), axis=1)

    def indicators(self, X: Array) -> Array:
        """Return 1 for the most probable component of a row and 0 for others, (n, k)."""
        numbers = index_like(np.arange(self.k), X)
        return namespace_of(X).astype(self.assign(X)[:, None] == numbers[None, :], X.dtype)


def settle(rows: Rows, rule: BayesRule) -> BayesRule:
    """Assign rows and average them, twice."""
    for _ in range(ROUNDS):
        rule = reassign_rows(rows, rule)
    return rule


def refine(rows: Rows, rule: BayesRule, accuracy: float) -> tuple[BayesRule, float]:
    """Average rows by their posterior probabilities until means and weights have settled.

    Rows that lie between two means belong to either: means of rows that are assigned to the
    nearest are biased by them, however many rows there are, and a cluster may lose all of its
    rows. Maximum likelihood, to which these rounds converge, has neither fault.

    Returns
    -------
    BayesRule
    float
        The distance that is left, of a mean in units of the noise, or of a weight; above a tenth
        of the accuracy if they have not settled. Steps decrease geometrically: it is the sum of
        those to come, by the ratio of the last two.
    """
    previous, left = 0.0, math.inf
    for _ in range(MOST_ROUNDS):
        before, rule = rule, reassign_rows(rows, rule, BayesRule.posterior)
        if rule.k < before.k:
            continue
        moved = np.max(np.linalg.norm(rule.means - before.means, axis=1))
        step = max(float(moved) / math.sqrt(rule.variance), _difference(rule, before))
        left = 0.0 if step == 0 else math.inf
        if 0 < step < previous:
            left = step**2 / (previous - step)
        if left <= SETTLED * accuracy:
            break
        previous = step
    return rule, left


def _difference(rule: BayesRule, other: BayesRule) -> float:
    return float(np.max(np.abs(rule.weights - other.weights)))


def reassign_rows(
    rows: Rows, rule: BayesRule, shares: Callable[[BayesRule, Array], Array] = BayesRule.indicators
) -> BayesRule:
    """Average all rows by component, in one pass; drop components without rows.

    Parameters
    ----------
    shares : callable
        Returns what a row counts in each component, (n, k), under a rule.
    """
    width = rule.k + rows.n_features
    sum_members = partial(_sum_members, rule, shares)
    sums = rows.fold(sum_members, width=width, what="means of clusters")
    sizes = to_numpy(sums["sizes"])
    kept = sizes > 0
    means = to_numpy(sums["totals"])[kept] / sizes[kept, None] + rule.origin
    return BayesRule(means, sizes[kept] / np.sum(sizes), rule.variance)


def _sum_members(
    rule: BayesRule, shares: Callable[[BayesRule, Array], Array], block: Block
) -> Sums:
    """Sum rows by component, about the origin of the means."""
    x = block["x"]
    xp = namespace_of(x)
    members = shares(rule, x) * weights_of(block)[:, None]
    totals = xp.matrix_transpose(members) @ (x - move_like(rule.origin, x)[None, :])
    return {
        "totals": xp.astype(totals, xp.float64, copy=False),
        "sizes": xp.sum(members, axis=0, dtype=xp.float64),
    }


@dataclass(frozen=True, eq=False)
class Clusters:
    """How rows are spread within their clusters."""

    error_rate: float  # expected misclassification rate, if the model is right
    covariances: Floats  # (k, p, p), of the coordinates of each cluster, about its mean
    sizes: Floats  # (k,), number of rows of each cluster

    @property
    def largest_variance(self) -> float:
        """The largest variance within a cluster, relative to the noise variance."""
        found = zip(self.covariances, self.sizes, strict=True)
        return max([1.0, *(excess_variance(covariance, n) for covariance, n in found)])


def excess_variance(covariance: Floats, n: float) -> float:
    """Return the largest variance of n rows over that of noise; 1 where they are too few.

    Parameters
    ----------
    covariance : array of shape (p, p)
        In units of the noise.
    n : float
        Number of rows.
    """
    p = len(covariance)
    if p == 0 or n < ROWS_PER_COORDINATE * p + MORE_ROWS:
        return 1.0
    return float(np.linalg.eigvalsh(covariance)[-1]) / largest_noise_variance(p, n)


def largest_noise_variance(p: int, n: float) -> float:
    """Return the largest eigenvalue of the covariance of n standard normal rows, about."""
    return (1.0 + math.sqrt(p / n)) ** 2


def measure_clusters(rows: Rows, rule: BayesRule, span: SphericalSpan) -> Clusters:
    """Measure the misclassification rate and the spread within clusters, in one pass."""
    measure, width = partial(_sum_spread, rule, span), rule.k + rows.n_features
    sums = rows.fold(measure, width=width, what="spread within clusters")
    mass = to_numpy(sums["mass"])
    squares = to_numpy(sums["squares"]) / np.maximum(mass, np.finfo(float).tiny)[:, None, None]
    return Clusters(float(sums["errors"]) / float(np.sum(mass)), squares, to_numpy(sums["sizes"]))


def _sum_spread(rule: BayesRule, span: SphericalSpan, block: Block) -> Sums:
    """Sum products of coordinates by component, and misclassification rates."""
    x, counts = block["x"], weights_of(block)
    xp = namespace_of(x)
    labels, z = rule.assign(x), span.coordinates(x)
    centers = move_like(span.coordinates(rule.means), x)
    squares, mass, sizes = [], [], []
    for c in range(rule.k):
        (chosen,) = xp.nonzero(xp.logical_and(labels == c, counts > 0))
        weight = xp.take(counts, chosen, axis=0)
        moved = xp.take(z, chosen, axis=0) - centers[c, :][None, :]
        square = xp.matrix_transpose(moved * weight[:, None]) @ moved
        squares.append(xp.astype(square, xp.float64, copy=False))
        mass.append(float(xp.sum(weight, dtype=xp.float64)))
        sizes.append(int(chosen.shape[0]))
    return {
        "squares": xp.stack(squares),
        "mass": np.array(mass),
        "sizes": np.array(sizes),
        "errors": float(xp.sum(counts * rule.error_rates(x), dtype=xp.float64)),
    }
