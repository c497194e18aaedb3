"""Centre, noise variance and span of the means of a spherical mixture, from its covariance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Entries,
    Floats,
    dot_rows,
    move_like,
    namespace_of,
)
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, RowDraws, Rows, mean_and_covariance, whitener_of

SMALLEST_VARIANCE = 1e-12  # of the largest: below it rows lie in a subspace
SHRUNK = 0.8  # a variance below this part of the noise is not noise


@dataclass(frozen=True, eq=False)
class SphericalSpan:
    r"""Coordinates on the span of the means of a spherical mixture, in units of its noise.

    For components of a known covariance :math:`\Sigma = L L^\top` all attributes but the factor
    are those of whitened rows, :math:`L^{-1} x`, whose noise is standard.

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
        Eigenvalues of the covariance over the variance, in decreasing order. The covariance of
        the coordinates is the diagonal matrix of the first p.
    factor : array of shape (d, d), optional
        The Cholesky factor L; None for the identity.
    """

    center: Annotated[Floats, Entries(("d",))]
    variance: Annotated[float, Entries(("",), variances=True)]
    basis: Annotated[Floats, Entries(("p d",))]
    spectrum: Annotated[Floats, Entries(("d",))]
    factor: Floats | None = None

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0])

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)

    @property
    def covariance(self) -> Any:
        """The variance of the components, or their covariance (d, d)."""
        return self.variance if self.factor is None else self.factor @ self.factor.T

    @property
    def directions(self) -> Floats:
        """Directions (p, d) along which coordinates are measured."""
        return self.basis if self.factor is None else self.basis @ np.linalg.inv(self.factor)

    @property
    def variances(self) -> Floats:
        """Variances of the rows along the coordinates, (p,)."""
        return self.spectrum[: self.p]

    @property
    def squared_radius(self) -> float:
        r"""The mean of :math:`\|\mu_i\|^2` in units of the noise: the trace of :math:`M_2`."""
        return float(np.sum(np.maximum(self.spectrum[: self.p] - 1.0, 0.0)))

    def points(self, block: Block) -> Array:
        """Return the rows (n, d) of a block."""
        return block["x"]

    def _centred(self, X: Array) -> Array:
        white = X if self.factor is None else X @ move_like(whitener_of(self.factor), X)
        return white - move_like(self.center, X)[None, :]

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d) to coordinates (n, p), in the library of the rows."""
        basis = move_like(self.basis, X)
        return self._centred(X) @ namespace_of(X).matrix_transpose(basis) / self.sigma

    def restore(self, coordinates: Floats, off: Floats | float = 0.0) -> Floats:
        """Map coordinates (n, p), and noise off the span (n, d), back to rows (n, d)."""
        rows: Floats = self.sigma * (coordinates @ self.basis + off) + self.center
        return rows if self.factor is None else rows @ self.factor.T

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G, the Gaussian at the centre, at rows (n, d)."""
        moved = self._centred(X)
        volume = X.shape[1] / 2 * math.log(2 * math.pi * self.variance)
        if self.factor is not None:
            volume += float(np.sum(np.log(np.diagonal(self.factor))))
        return -dot_rows(moved, moved) / (2 * self.variance) - volume

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows (n, d) with these coordinates, drawn from G otherwise."""
        noise = rng.normal(len(self.center))
        return self.restore(coordinates, noise - (noise @ self.basis.T) @ self.basis)


def find_span(rows: Rows, k: int, variance: float | None) -> SphericalSpan:
    """Reduce to the span of the means (first step of the proof of Theorem 4.19), in one pass.

    Parameters
    ----------
    k : int
        Number of components.
    variance : float or None
        The common variance; None to take the mean of the d − k + 1 smallest eigenvalues of the
        covariance, off the span.
    """
    moments = mean_and_covariance(rows)
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(moments.covariance))
    p = min(k - 1, rows.n_features)
    if variance is None:
        variance = _noise_variance(values, p, k, moments.n)
    basis = np.ascontiguousarray(vectors[:, :p].T)
    return SphericalSpan(moments.mean, variance, basis, values / variance)


def _noise_variance(values: Floats, p: int, k: int, n: int) -> float:
    """Average the eigenvalues off the span.

    Zeros of constant and dependent columns are left out; with fewer rows than features other
    eigenvalues are 0 too, and count.
    """
    d = len(values)
    if p == d:
        raise InputError(
            "variance_not_estimable",
            "the noise variance is estimated from directions orthogonal to the means, and "
            "`n_components={k}` may span all {d:count feature}; set `variance`, or use "
            "`n_components={d}` or fewer",
            k=k,
            d=d,
        )
    least = SMALLEST_VARIANCE * max(float(values[0]), np.finfo(np.float64).tiny)
    off = values[p:]
    varying = off[off > least] if n > d else off
    estimate = float(np.mean(varying)) if len(varying) else 0.0
    if not estimate > least:
        raise InputError(
            "rows_do_not_vary",
            "the rows vary along {p} of {d} directions only, so the noise variance cannot be "
            "estimated; remove constant or dependent columns, or set `variance`",
            p=p,
            d=d,
        )
    return estimate


def smallest_variance(span: SphericalSpan, n: int) -> float | None:
    """Return the smallest variance over that of the noise, where it is too small to be noise."""
    smallest = max(0.0, float(span.spectrum[-1]))
    # the least eigenvalue of the covariance of n standard normal rows is about (1 − √(d/n))²
    usual = max(0.0, 1.0 - math.sqrt(len(span.spectrum) / n)) ** 2
    return smallest if smallest < SHRUNK * usual else None
