"""Centre, noise variance and span of the means of a spherical mixture, from its covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.samples import CallableSource, RowDraws, blocks

__all__ = ["SphericalSpan", "find_span", "flat_directions", "near_rows", "span_source"]

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

BLOCK_ROWS = 16_384
SMALLEST_VARIANCE = 1e-12  # of the largest, before rows are said to lie in a subspace
SHRUNK = 0.8  # a variance below this part of the noise is not noise
MOST_FAR = 0.01  # a larger part of the rows is structure, not outliers
PROBED = 20_000  # rows from which the usual distance is told


@dataclass(frozen=True, eq=False)
class SphericalSpan:
    r"""Coordinates in which a spherical mixture has unit noise and its means nothing else.

    Attributes
    ----------
    center : array of shape (d,)
        The mean of the rows.
    variance : float
        The common variance of the components.
    basis : array of shape (p, d)
        The top p = min(k − 1, d) eigenvectors of the covariance: the means of k components lie
        in a translate of a (k − 1)-dimensional subspace.
    spectrum : array of shape (d,)
        Eigenvalues of the covariance over the variance, from the largest down. The covariance of
        the coordinates is the diagonal matrix of the first p.
    """

    center: Floats
    variance: float
    basis: Floats
    spectrum: Floats

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0])

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)

    @property
    def squared_radius(self) -> float:
        r"""The mean of :math:`\|\mu_i\|^2` in units of the noise: the trace of :math:`M_2`."""
        return float(np.sum(np.maximum(self.spectrum[: self.p] - 1.0, 0.0)))

    def coordinates(self, X: Floats) -> Floats:
        """Map rows (n, d) to coordinates (n, p)."""
        moved: Floats = (X - self.center) @ self.basis.T / self.sigma
        return moved

    def restore(self, coordinates: Floats) -> Floats:
        """Map coordinates (n, p) back to points (n, d) of the translate of the span."""
        points: Floats = self.sigma * coordinates @ self.basis + self.center
        return points

    def log_density(self, X: Floats) -> Floats:
        """Return the logarithm of G = N(center, variance · I) at rows (n, d)."""
        squared = np.sum((X - self.center) ** 2, axis=1) / self.variance
        constant = X.shape[1] / 2 * math.log(2 * math.pi * self.variance)
        logs: Floats = -squared / 2 - constant
        return logs

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows (n, d) with these coordinates, drawn from G otherwise."""
        noise = rng.normal(len(self.center))
        noise -= (noise @ self.basis.T) @ self.basis
        rows: Floats = self.restore(coordinates) + self.sigma * noise
        return rows


def find_span(
    X: Floats, k: int, variance: float | None, sample_weight: Floats | None = None
) -> SphericalSpan:
    """Reduce to the span of the means (first step of the proof of Theorem 4.19).

    Parameters
    ----------
    X : array of shape (n, d)
    k : int
        Number of components.
    variance : float or None
        The common variance; None to take the mean of the d − k + 1 smallest eigenvalues of the
        covariance, off the span.
    sample_weight : array of shape (n,), optional
    """
    n, d = X.shape
    center = np.average(X, axis=0, weights=sample_weight)
    covariance = np.zeros((d, d))
    total = float(n if sample_weight is None else np.sum(sample_weight))
    for rows in blocks(range(n), BLOCK_ROWS):
        moved = X[rows.start : rows.stop] - center
        weighted = (
            moved if sample_weight is None else moved * sample_weight[rows.start : rows.stop, None]
        )
        covariance += weighted.T @ moved
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(covariance / total))
    p = min(k - 1, d)
    if variance is None:
        variance = _noise_variance(values, p, k, n)
    return SphericalSpan(
        center, variance, np.ascontiguousarray(vectors[:, :p].T), values / variance
    )


def _noise_variance(values: Floats, p: int, k: int, n: int) -> float:
    """Average the eigenvalues off the span.

    Without those of constant and dependent columns, which are 0; where there are fewer rows than
    features others are 0 too, and count.
    """
    d = len(values)
    if p == d:
        raise ValueError(
            f"variance=None is estimated from directions without means, and n_components={k} may "
            f"take up all of n_features={d}; give variance=..., or n_components of at most {d}"
        )
    least = SMALLEST_VARIANCE * max(float(values[0]), np.finfo(np.float64).tiny)
    off = values[p:]
    varying = off[off > least] if n > d else off
    estimate = float(np.mean(varying)) if len(varying) else 0.0
    if not estimate > least:
        raise ValueError(
            f"the rows do not vary off {p} of {d} directions, so that the noise variance cannot "
            "be estimated; remove constant or dependent columns, or give variance=..."
        )
    return estimate


def flat_directions(span: SphericalSpan, n: int) -> float | None:
    """Return the smallest variance over that of the noise, where it is too small to be noise."""
    smallest = max(0.0, float(span.spectrum[-1]))
    # the least eigenvalue of the covariance of n standard normal rows is about (1 − √(d/n))²
    usual = max(0.0, 1.0 - math.sqrt(len(span.spectrum) / n)) ** 2
    return smallest if smallest < SHRUNK * usual else None


def near_rows(
    X: Floats,
    sample_weight: Floats | None = None,
    *,
    times: float | None = None,
    reach: float = 1.2,
) -> Mask:
    """Tell rows from outliers that would own every high moment.

    By the distance from the median, against its own median and spread: the bound takes one row in
    about a hundred data sets of this size for an outlier that is none; a larger ``reach`` takes
    fewer, where columns are correlated. With ``times`` the bound is so many times the median
    distance instead, for components that lie apart. Where more than a hundredth of the rows pass
    it, they are no outliers, and all rows are kept.
    """
    counted = np.ones(len(X), dtype=bool) if sample_weight is None else sample_weight > 0
    some = X[counted][:: max(1, int(np.sum(counted)) // PROBED)]
    center = np.median(some, axis=0)
    usual = np.linalg.norm(some - center, axis=1)
    middle = float(np.median(usual))
    spread = 1.4826 * float(np.median(np.abs(usual - middle)))  # of a normal, its deviation
    usually = math.sqrt(2.0 * math.log(100.0 * len(X)))
    most = (
        middle + reach * usually * max(spread, 0.1 * middle) if times is None else times * middle
    )
    near = np.empty(len(X), dtype=bool)
    for rows in blocks(range(len(X)), BLOCK_ROWS):
        apart = np.linalg.norm(X[rows.start : rows.stop] - center, axis=1)
        near[rows.start : rows.stop] = apart <= most
    far = int(np.sum(counted & ~near))
    return near if 0 < far <= max(1.0, MOST_FAR * np.sum(counted)) else np.ones_like(near)


def span_source(X: Floats, span: SphericalSpan, order: Integers | None = None) -> CallableSource:
    """Return the coordinates of rows as a source, block by block and in a given order."""

    def read(rows: range, _: RowDraws) -> Floats:
        taken = slice(rows.start, rows.stop)
        return span.coordinates(X[taken] if order is None else X[order[taken]])

    return CallableSource(read, len(X) if order is None else len(order))
