"""Spherical Gaussian mixtures: parameters, log densities and the E-step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    lift_rows,
    linear_rows,
    move_like,
    namespace_of,
    softmax_rows,
    to_numpy,
)
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search import Expectations, State

SMALLEST_WEIGHT = 1e-300  # its logarithm is finite
FAR_CENTER = 1e3  # units: subtracting the centre afterwards loses 6 of 16 digits
MOST_DEVIATIONS = 1e6  # mean squared length over the variance: likelihoods are its differences


@dataclass(frozen=True, eq=False)
class Mixture(State):
    r"""The mixture :math:`\sum_i w_i N(\mu_i, v_i I)`.

    Attributes
    ----------
    weights : array of shape (k,)
    means : array of shape (k, d)
    variances : array of shape (k,)
        Equal entries for a shared variance.
    """

    means: Floats
    variances: Floats

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.means.shape[1])

    @property
    def pooled(self) -> float:
        """Mean variance of a row."""
        return float(self.weights @ self.variances / self.weights.sum())

    @property
    def slopes(self) -> Floats:
        """Log weight plus log density as linear functions of (x, |x|², 1): (d + 2, k)."""
        v = self.variances
        offsets = np.log(np.maximum(self.weights, SMALLEST_WEIGHT))
        offsets = offsets - 0.5 * np.sum(self.means**2, axis=1) / v
        offsets = offsets - 0.5 * self.d * np.log(2 * math.pi * v)
        return np.vstack([self.means.T / v, -0.5 / v, offsets])

    def moved(self, center: Floats, scale: float) -> Mixture:
        """Return the mixture of ``center + scale · x``."""
        return Mixture(self.weights, center + scale * self.means, scale**2 * self.variances)


@dataclass(frozen=True, eq=False)
class MixtureSums(Expectations):
    """Sums over rows that EM needs.

    Attributes
    ----------
    log_likelihood : float
    total : float
        Rows, with their weights.
    counts : array of shape (k,)
        Responsibilities.
    points : array of shape (k, d)
        Rows times responsibilities.
    squares : array of shape (k,)
        Squared lengths of rows times responsibilities.
    """

    counts: Floats
    points: Floats
    squares: Floats


def log_joint(x: Array, mixture: Mixture) -> Array:
    """Return ``log w_i + log N(x; μ_i, v_i I)`` for rows (n, d), as (n, k).

    One matrix product of (x, |x|², 1) with (μ_i / v_i, −1 / 2v_i, offset).
    """
    return linear_rows(lift_rows(x), move_like(mixture.slopes, x))


def log_densities(x: Array, mixture: Mixture) -> Array:
    """Return the log density of every row (n, d), in the units of the mixture."""
    return softmax_rows(log_joint(x, mixture))[1]


def e_step(rows: Rows, mixture: Mixture) -> MixtureSums:
    """Return the sums of one pass over all rows."""
    if _alike(rows, mixture):
        return _plain_e_step(rows, mixture)
    step = _EStep(move_like(mixture.slopes, rows.like))
    found = rows.lifted.fold(step, width=mixture.k, what="EM")
    moments = to_numpy(found["moments"])
    level, total = float(found["log_likelihood"]), float(found["total"])
    return MixtureSums(level, total, moments[:, -1], moments[:, :-2], moments[:, -2])


def _alike(rows: Rows, mixture: Mixture) -> bool:
    """Return whether one variance and the sum of all |x|² allow a pass over rows as they are."""
    v, squares = mixture.variances, rows.census.squares
    if not np.all(v == v[0]) or squares is None or not _plain(rows):
        return False
    return bool(squares <= MOST_DEVIATIONS * v[0] * max(rows.total, 1.0))


def _plain(rows: Rows) -> bool:
    """Return whether rows may be multiplied as they are, and their centre subtracted afterwards.

    Double precision has 16 digits, and a far centre would take too many of them.
    """
    if rows.keep or rows.weights is not None or rows.wide:
        return False
    x, far = rows.first["x"], float(np.abs(rows.origin).max())
    double = isinstance(x, np.ndarray) and x.dtype == np.float64
    return double and far <= FAR_CENTER * rows.unit


def _plain_e_step(rows: Rows, mixture: Mixture) -> MixtureSums:
    r"""Sum as :func:`e_step` does over rows that are neither moved, scaled nor lifted.

    For :math:`z = (x - c) / s` and one variance v, :math:`z \cdot \mu_i / v` is a product of x
    less a number of the component, and :math:`-|z|^2 / 2v` adds to the likelihood what all rows
    make together. Sums of z are sums of x less those of c. Of the sum of :math:`|z|^2`
    components get what gives each the same variance: a shared one asks for no more.
    """
    center, s, v = rows.origin, rows.unit, float(mixture.variances[0])
    slopes, offsets = mixture.slopes[:-2] / s, mixture.slopes[-1]
    step = _PlainEStep(slopes, offsets - center @ slopes)
    found = rows.as_given().fold(step, width=mixture.k, what="EM")
    counts, total = to_numpy(found["counts"]), float(found["total"])
    points = (to_numpy(found["points"]) - counts[:, None] * center) / s
    squares = float(rows.census.squares or 0.0)
    about_zero = np.sum(points**2, axis=1) / np.maximum(counts, SMALLEST_WEIGHT)
    inside = max(squares - float(about_zero.sum()), 0.0)
    likelihood = float(found["log_likelihood"]) - 0.5 * squares / v
    return MixtureSums(likelihood, total, counts, points, about_zero + inside * counts / total)


@dataclass(frozen=True, eq=False)
class _EStep:
    """Sums of a block of lifted rows; on a device nothing waits for them."""

    slopes: Array

    def __call__(self, block: Block) -> Sums:
        lifted, times = block["x"], block.get("counts")
        xp = namespace_of(lifted)
        shares, densities = softmax_rows(linear_rows(lifted, move_like(self.slopes, lifted)))
        total = float(lifted.shape[0])
        if times is not None:
            lifted, densities = lifted * times[:, None], densities * times
            total = float(xp.sum(times, dtype=xp.float64))
        return {
            "moments": cross_sums(shares, lifted),
            "log_likelihood": xp.sum(densities, dtype=xp.float64),
            "total": total,
        }


@dataclass(frozen=True, eq=False)
class _PlainEStep:
    """Sums of a block of rows, neither centred nor scaled."""

    slopes: Floats
    offsets: Floats

    def __call__(self, block: Block) -> Sums:
        x, times = block["x"], block.get("counts")
        joint = linear_rows(x, self.slopes)
        joint += self.offsets
        shares, densities = softmax_rows(joint)
        total = float(x.shape[0])
        if times is not None:
            shares *= times[:, None]
            densities, total = densities * times, float(np.sum(times))
        return {
            "counts": np.sum(shares, axis=0),
            "points": cross_sums(shares, x),
            "log_likelihood": float(np.sum(densities)),
            "total": total,
        }
