"""Lines, the likelihood of rows under them, and the sums that EM needs of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.features import FeatureBlock, FeatureRows

__all__ = [
    "Expected",
    "Lines",
    "densities",
    "expect",
    "losses",
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


def responsibilities(lines: Lines, block: FeatureBlock) -> tuple[Floats, Floats]:
    """Return the chance of each line given the row (k, n), and log-likelihoods (n,)."""
    weights = np.maximum(lines.weights, np.finfo(float).tiny)
    constant = np.log(weights) - 0.5 * (LOG_TWO_PI + np.log(lines.variances))
    joint = block.y - lines.coef @ block.z
    joint *= joint
    joint *= (-0.5 / lines.variances)[:, None]
    joint += constant[:, None]
    largest = joint.max(axis=0)
    joint -= largest
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    joint /= total
    return joint, largest + np.log(total)


def densities(coef: Floats, variance: float, block: FeatureBlock) -> Floats:
    """Return the log-density of y given x on each line by itself, (k, n)."""
    joint = block.y - coef @ block.z
    joint *= joint
    joint *= -0.5 / variance
    joint -= 0.5 * (LOG_TWO_PI + math.log(variance))
    return np.asarray(joint)


def expect(rows: FeatureRows, lines: Lines) -> Expected:
    """Average over the rows: the E-step, and the sums of the M-step."""
    side = rows.n_features + 1
    products = np.zeros((lines.k, side, side))
    fast = lines.k >= FEWEST_FOR_PRODUCTS and side <= WIDEST_PRODUCTS
    half = np.zeros((lines.k, side * (side + 1) // 2))
    log_likelihood, mass = 0.0, 0.0
    for block in rows.blocks():
        shares, logs = responsibilities(lines, block)
        log_likelihood += float(block.counts @ logs)
        mass += float(block.counts.sum())
        shares *= block.counts
        if fast:
            half += shares @ _pairs(block.u).T
        else:
            weighted_products(products, shares, block.u)
    if fast:
        i, j = np.triu_indices(side)
        products[:, i, j] = products[:, j, i] = half
    return Expected(log_likelihood / mass, mass, products)


def losses(rows: FeatureRows, lines: Lines) -> Floats:
    r"""Return what each line's absence would cost in mean log-likelihood, (k,).

    Without line j, and the others' weights over :math:`1 - w_j`, a row loses
    :math:`-\log((1 - R_j) / (1 - w_j))`.
    """
    cost, mass = np.zeros(lines.k), 0.0
    for block in rows.blocks():
        shares, _ = responsibilities(lines, block)
        # a sum of the others: 1 − R_j would round to 0
        rest = np.stack([np.delete(shares, j, axis=0).sum(axis=0) for j in range(lines.k)])
        np.maximum(rest, SMALLEST_REST, out=rest)
        cost -= np.log(rest, out=rest) @ block.counts
        mass += float(block.counts.sum())
    return cost / mass + np.log(np.maximum(1 - lines.weights, SMALLEST_REST))


def weighted_products(products: Floats, shares: Floats, u: Floats) -> None:
    """Add sums of share times u uᵀ, one a line, to ``products`` (k, q + 1, q + 1)."""
    weighted = np.empty_like(u)
    if len(u) < NARROW:
        for i, share in enumerate(shares):
            np.multiply(u, share, out=weighted)
            products[i] += weighted @ u.T
        return
    for i, root in enumerate(np.sqrt(shares)):
        np.multiply(u, root, out=weighted)
        products[i] += weighted @ weighted.T


def _pairs(u: Floats) -> Floats:
    """Return the products of columns on and above the diagonal, one a row."""
    side, n = u.shape
    pairs = np.empty((side * (side + 1) // 2, n))
    start = 0
    for a in range(side):
        stop = start + side - a
        np.multiply(u[a], u[a:], out=pairs[start:stop])
        start = stop
    return pairs
