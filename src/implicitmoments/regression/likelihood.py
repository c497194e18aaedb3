"""Lines, the likelihood of rows under them, and the sums that EM needs of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    map_into,
    move_like,
    multiply_into,
    namespace_of,
)
from implicitmoments.regression.design_rows import FeatureBlock, FeatureRows, as_sum
from implicitmoments.rows import Sums

__all__ = [
    "Expected",
    "Lines",
    "densities",
    "expect",
    "losses",
    "measure_likelihood",
    "responsibilities",
    "weighted_products",
]

LOG_TWO_PI = math.log(2 * math.pi)
FEWEST_FOR_PRODUCTS, WIDEST_PRODUCTS = 12, 40  # components and columns; measured
NARROW = 64  # columns below which a full product is faster than a symmetric one
SMALLEST_REST = 1e-12  # responsibility left to others: dividing by less would overflow


@dataclass(frozen=True, eq=False)
class Lines:
    r"""A mixture of regressions :math:`y = b_i \cdot z + N(0, v_i)`, with z = (1, x).

    Attributes
    ----------
    weights : array of shape (k,)
    coef : array of shape (k, q)
        The intercept first.
    variances : array of shape (k,)
    """

    weights: Floats
    coef: Floats
    variances: Floats

    @property
    def k(self) -> int:
        """Number of lines."""
        return len(self.weights)

    def keep(self, chosen: np.ndarray[Any, Any]) -> Lines:
        """Return the chosen lines, weights summing to 1."""
        weights = self.weights[chosen]
        return Lines(weights / weights.sum(), self.coef[chosen], self.variances[chosen])

    def add(self, coef: Floats, weights: Floats, variances: Floats | None = None) -> Lines:
        """Return these lines and others; by default with the mean variance."""
        mean = float(self.weights @ self.variances)
        more = np.full(len(coef), mean) if variances is None else variances
        total = np.concatenate([self.weights, weights])
        return Lines(
            total / total.sum(),
            np.vstack([self.coef, coef]),
            np.concatenate([self.variances, more]),
        )


@dataclass(frozen=True, eq=False)
class Expected:
    """What one pass over the rows gives.

    Attributes
    ----------
    mean_log_likelihood : float
    mass : float
    products : array of shape (k, q + 1, q + 1)
        Sums of responsibility times u uᵀ, u = (1, x, y).
    """

    mean_log_likelihood: float
    mass: float
    products: Floats


def responsibilities(lines: Lines, block: FeatureBlock) -> tuple[Array, Array]:
    """Return the chance of each line given the row (k, n), and log-likelihoods (n,)."""
    u, xp = block.u, namespace_of(block.u)
    weights = np.maximum(lines.weights, np.finfo(float).tiny)
    constant = np.log(weights) - 0.5 * (LOG_TWO_PI + np.log(lines.variances))
    joint = block.y - move_like(lines.coef, u) @ block.z
    joint *= joint
    joint *= move_like(-0.5 / lines.variances, u)[:, None]
    joint += move_like(constant, u)[:, None]
    largest = xp.max(joint, axis=0)
    joint -= largest
    joint = map_into("exp", joint)
    total = xp.sum(joint, axis=0)
    joint /= total
    return joint, largest + xp.log(total)


def densities(coef: Floats, variance: float, block: FeatureBlock) -> Array:
    """Return the log-density of y given x on each line by itself, (k, n)."""
    joint = block.y - move_like(coef, block.u) @ block.z
    joint *= joint
    joint *= -0.5 / variance
    joint -= 0.5 * (LOG_TWO_PI + math.log(variance))
    return joint


def expect(rows: FeatureRows, lines: Lines) -> Expected:
    """Average over the rows: the E-step, and the sums of the M-step."""
    side = rows.n_features + 1
    fast = lines.k >= FEWEST_FOR_PRODUCTS and side <= WIDEST_PRODUCTS
    width = 4 * lines.k + (side * (side + 1) // 2 if fast else 2 * side)
    sums = rows.fold(_Expect(lines, fast), width, "EM")
    products = sums["products"]
    if fast:
        half, products = products, np.zeros((lines.k, side, side))
        i, j = np.triu_indices(side)
        products[:, i, j] = products[:, j, i] = half
    mass = float(sums["mass"])
    return Expected(float(sums["log_likelihood"]) / mass, mass, products)


@dataclass(frozen=True, eq=False)
class _Expect:
    """Log-likelihood, and products of features by responsibility; in half if they are many."""

    lines: Lines
    fast: bool

    def __call__(self, block: FeatureBlock) -> Sums:
        shares, logs = responsibilities(self.lines, block)
        sums = _likelihood(block.counts, logs)
        shares *= block.counts
        if self.fast:
            pairs = namespace_of(shares).matrix_transpose(_pairs(block.u))
            return {**sums, "products": as_sum(shares @ pairs)}
        return {**sums, "products": weighted_products(shares, block.u)}


def measure_likelihood(lines: Lines, block: FeatureBlock) -> Sums:
    """Return the log-likelihood of a block, and how many rows it is."""
    return _likelihood(block.counts, responsibilities(lines, block)[1])


def _likelihood(counts: Array, logs: Array) -> Sums:
    """Sum in double precision: what EM gains at its end is small."""
    xp = namespace_of(logs)
    counts, logs = (
        xp.astype(counts, xp.float64, copy=False),
        xp.astype(logs, xp.float64, copy=False),
    )
    return {"log_likelihood": as_sum(counts @ logs), "mass": as_sum(xp.sum(counts))}


def losses(rows: FeatureRows, lines: Lines) -> Floats:
    r"""Return what each line's absence would cost in mean log-likelihood, (k,).

    Without line j, and the others' weights over :math:`1 - w_j`, a row loses
    :math:`-\log((1 - R_j) / (1 - w_j))`.
    """
    sums = rows.fold(_Losses(lines), 4 * lines.k, "what each line is worth")
    cost = -sums["rest"] / float(sums["mass"])
    return np.asarray(cost + np.log(np.maximum(1 - lines.weights, SMALLEST_REST)))


@dataclass(frozen=True, eq=False)
class _Losses:
    """Logarithms of the responsibility of all lines but one, for each."""

    lines: Lines

    def __call__(self, block: FeatureBlock) -> Sums:
        shares, _ = responsibilities(self.lines, block)
        xp = namespace_of(shares)
        # sums of the lines before and after: 1 − R_j would round to 0
        before, after = [xp.zeros_like(block.y)], [xp.zeros_like(block.y)]
        for j in range(self.lines.k - 1):
            before.append(before[-1] + shares[j, :])
            after.append(after[-1] + shares[self.lines.k - 1 - j, :])
        rest = xp.stack(before) + xp.stack(after[::-1])
        rest = map_into("log", xp.clip(rest, SMALLEST_REST, None))
        return {"rest": as_sum(rest @ block.counts), "mass": as_sum(xp.sum(block.counts))}


def weighted_products(shares: Array, u: Array) -> Floats:
    """Return sums of share times u uᵀ, one a line, (k, q + 1, q + 1)."""
    xp = namespace_of(u)
    weighted = xp.empty_like(u)
    narrow = u.shape[0] < NARROW
    factors = shares if narrow else xp.sqrt(shares)
    right = xp.matrix_transpose(u if narrow else weighted)
    products = []
    for i in range(int(shares.shape[0])):
        multiply_into(weighted, u, factors[i, :])
        products.append(weighted @ right)
    return as_sum(xp.stack(products))


def _pairs(u: Array) -> Array:
    """Return the products of columns on and above the diagonal, one a row."""
    side, n = u.shape
    xp = namespace_of(u)
    pairs = xp.empty((side * (side + 1) // 2, n), dtype=u.dtype, device=u.device)
    start = 0
    for a in range(side):
        stop = start + side - a
        multiply_into(pairs[start:stop, :], u[a, :], u[a:, :])
        start = stop
    return pairs
