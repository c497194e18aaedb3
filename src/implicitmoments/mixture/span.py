r"""Coordinates on the span of the means, in which spherical components are searched.

Round noise is the same in every direction: where all components share one variance, only the
coordinates of a row on the span of the means, which has at most k - 1 dimensions, depend on its
component. At first the span is that of the k - 1 largest eigenvalues of the covariance. Noise
tilts these directions, by an angle whose squared sine is about :math:`d / (n \lambda^2)` for a
variance :math:`\lambda` of the means in units of the noise. The means of the rows that were
assigned in these coordinates are more accurate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from implicitmoments.arrays import Floats
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.view import View
from implicitmoments.moments.components import Components
from implicitmoments.rows import Rows


@dataclass(frozen=True, eq=False)
class Span:
    """Orthonormal directions among standardised columns, and the covariance of the rows."""

    basis: Floats  # (d, p), p < d
    covariance: Floats  # (d, d)

    def rows(self, rows: Rows) -> Rows:
        """Return the coordinates of rows."""
        return rows.mapped(linear=self.basis)

    def inside(self, state: Gaussians) -> Gaussians:
        """Return the spherical mixture of the coordinates."""
        means = state.means @ self.basis
        return replace(state, means=means, covariances=state.covariances[:, : means.shape[1]])

    def widened(self, state: Gaussians) -> Gaussians:
        """Return the mixture of all columns with means in the span, of centred rows."""
        means = state.means @ self.basis.T
        return replace(state, means=means, covariances=state.covariances[:, 0])

    def restored(self, levels: Mapping[str, float], view: View) -> dict[str, float]:
        """Return mean log-likelihoods of coordinates in a view as those of all columns.

        Directions orthogonal to the span have round noise.
        """
        d, p = self.basis.shape
        whole = float(np.trace(self.covariance))
        off = whole - float(np.sum(self.basis * (self.covariance @ self.basis)))
        off = max(off, float(np.finfo(np.float64).eps) * whole)  # rows may lie in the span
        outside = 0.5 * (d - p) * (1 + math.log(2 * math.pi * off / (d - p)))
        return {name: level - view.log_unit - outside for name, level in levels.items()}

    def outside(self, found: Components | None, view: View) -> Components | None:
        """Return components of coordinates in a view as those of all columns."""
        if found is None:
            return None
        vectors, guesses = (
            (view.center + view.scale * points) @ self.basis.T
            for points in (found.vectors, found.guesses)
        )
        errors = found.errors * float(np.mean(view.scale))
        return replace(found, vectors=vectors, guesses=guesses, errors=errors)

    def of_means(self, state: Gaussians, n: float) -> Span:
        r"""Return the span of the means of n rows, and of components that may be missing.

        Rows of a component that is missing, or that was taken for one with another, are spread
        along a direction in which the covariance within components exceeds the noise. The
        largest eigenvalue of white noise of unit variance is about :math:`(1 + \sqrt{d / n})^2`
        (Marchenko and Pastur).
        """
        d, k = state.d, state.k
        apart = (state.means - state.weights @ state.means) * np.sqrt(state.weights)[:, None]
        basis = np.linalg.svd(apart, full_matrices=False)[2][: k - 1].T
        off = np.eye(d) - basis @ basis.T
        within = off @ (self.covariance - apart.T @ apart) @ off
        values, vectors = largest_eigenpairs(within, min(k, d - k + 1))
        noise = float(np.trace(within)) / (d - k + 1) * (1 + math.sqrt(d / n)) ** 2
        return replace(self, basis=np.column_stack([basis, vectors[:, values > noise]]))


def largest_eigenpairs(matrix: Floats, p: int) -> tuple[Floats, Floats]:
    """Return the p largest eigenvalues of a symmetric matrix, and eigenvectors (d, p)."""
    d = len(matrix)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[d - p, d - 1])
    return np.asarray(values), np.asarray(vectors)


def principal_span(covariance: Floats, k: int) -> Span:
    """Return the span of the k - 1 directions of the largest variances."""
    return Span(largest_eigenpairs(covariance, k - 1)[1], covariance)
