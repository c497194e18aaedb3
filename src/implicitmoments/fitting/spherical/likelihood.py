"""Spherical Gaussian mixtures: log densities, responsibilities and what EM sums over rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.spherical.rows import Rows

__all__ = ["Mixture", "Sums", "gather", "log_densities", "log_joint", "responsibilities"]

SMALLEST_WEIGHT = 1e-300


@dataclass(frozen=True, eq=False)
class Mixture:
    r"""The mixture :math:`\sum_i w_i N(\mu_i, v_i I)`.

    Attributes
    ----------
    weights : array of shape (k,)
    means : array of shape (k, d)
    variances : array of shape (k,)
        Equal entries for a shared variance.
    """

    weights: Floats
    means: Floats
    variances: Floats

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.means.shape[1])

    @property
    def pooled(self) -> float:
        """Mean variance of a row."""
        return float(self.weights @ self.variances / self.weights.sum())

    def without(self, j: int) -> Mixture:
        """Return the other components, with weights that sum to 1."""
        w = np.delete(self.weights, j)
        return Mixture(w / w.sum(), np.delete(self.means, j, 0), np.delete(self.variances, j))

    def with_also(self, means: Floats, weight: float, variance: float) -> Mixture:
        """Return the mixture with further components of the same weight."""
        n = len(means)
        return Mixture(
            np.append(self.weights * (1 - n * weight), np.full(n, weight)),
            np.vstack([self.means, means]),
            np.append(self.variances, np.full(n, variance)),
        )

    def moved(self, center: Floats, scale: float) -> Mixture:
        """Return the mixture of ``center + scale · x``."""
        return Mixture(self.weights, center + scale * self.means, scale**2 * self.variances)


@dataclass(frozen=True, eq=False)
class Sums:
    """What EM needs of the rows: all of it adds up over blocks.

    Attributes
    ----------
    counts : array of shape (k,)
        Responsibilities.
    points : array of shape (k, d)
        Rows times responsibilities.
    squares : array of shape (k,)
        Squared lengths of rows times responsibilities.
    log_likelihood : float
    total : float
        Rows, with their weight.
    """

    counts: Floats
    points: Floats
    squares: Floats
    log_likelihood: float
    total: float

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.counts + other.counts,
            self.points + other.points,
            self.squares + other.squares,
            self.log_likelihood + other.log_likelihood,
            self.total + other.total,
        )

    def times(self, factor: float) -> Sums:
        """Return the sums of rows that count ``factor`` times as much."""
        return Sums(
            self.counts * factor,
            self.points * factor,
            self.squares * factor,
            self.log_likelihood * factor,
            self.total * factor,
        )


def log_joint(x: Floats, mixture: Mixture) -> Floats:
    """Return ``log w_i + log N(x; μ_i, v_i I)`` for rows (n, d), as (n, k).

    One matrix product of (x, |x|²) with (μ_i / v_i, −1 / 2v_i).
    """
    slopes, offsets = _natural(mixture)
    joint: Floats = _lifted(x) @ slopes.astype(x.dtype)
    joint += offsets.astype(x.dtype)
    return joint


def log_densities(rows: Rows, mixture: Mixture) -> Floats:
    """Return the log density of every row, in the units of the rows."""
    found = [_normalise(log_joint(x, mixture)) for x, _ in rows.blocks(mixture.k)]
    return np.concatenate(found).astype(np.float64)


def responsibilities(rows: Rows, mixture: Mixture) -> tuple[Floats, Floats]:
    """Return the shares (n, k) of the components in every row, and log densities (n,)."""
    shares, densities = [], []
    for x, _ in rows.blocks(mixture.k):
        joint = log_joint(x, mixture)
        densities.append(_normalise(joint))
        shares.append(joint)
    return np.concatenate(shares), np.concatenate(densities).astype(np.float64)


def gather(rows: Rows, mixture: Mixture) -> Sums:
    """Sum responsibilities and rows over all rows: the E-step."""
    k, d = mixture.means.shape
    natural = _natural(mixture)
    slopes: Floats = natural[0].astype(rows.dtype)
    offsets: Floats = natural[1].astype(rows.dtype)
    counts, moments, likelihood = np.zeros(k), np.zeros((k, d + 1)), 0.0
    for x, times in rows.blocks(k):
        lifted = _lifted(x)
        shares = lifted @ slopes
        shares += offsets
        densities = _normalise(shares)
        if times is not None:
            shares *= times[:, None]
            densities = densities * times
        counts += shares.sum(axis=0, dtype=np.float64)
        moments += shares.T @ lifted
        likelihood += float(densities.sum(dtype=np.float64))
    return Sums(counts, moments[:, :d], moments[:, d], likelihood, rows.total)


def _natural(mixture: Mixture) -> tuple[Floats, Floats]:
    """Return slopes (d + 1, k) and offsets (k,) of the log densities in (x, |x|²)."""
    v, d = mixture.variances, mixture.means.shape[1]
    slopes = np.vstack([mixture.means.T / v, -0.5 / v])
    offsets = np.log(np.maximum(mixture.weights, SMALLEST_WEIGHT))
    offsets = offsets - 0.5 * np.sum(mixture.means**2, axis=1) / v
    return slopes, offsets - 0.5 * d * np.log(2 * math.pi * v)


def _lifted(x: Floats) -> Floats:
    """Return (x, |x|²)."""
    n, d = x.shape
    lifted = np.empty((n, d + 1), dtype=x.dtype)
    lifted[:, :d] = x
    np.einsum("ij,ij->i", x, x, out=lifted[:, d])
    return lifted


def _normalise(joint: Floats) -> Floats:
    """Turn log joint densities into responsibilities, in place; return log densities."""
    top = joint.max(axis=1)
    joint -= top[:, None]
    np.exp(joint, out=joint)
    total = joint.sum(axis=1)
    joint /= total[:, None]
    densities: Floats = top + np.log(total)
    return densities
