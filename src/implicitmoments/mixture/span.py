r"""Coordinates on the span of the means, in which spherical components are searched.

Round noise is the same in every direction: where all components share one variance, rows differ in
their components by their coordinates on the span of the means alone, which has at most k − 1
dimensions. The span is that of the largest eigenvalues of the covariance, at first. Noise tilts
these directions, by an angle whose squared sine is about :math:`d / (n \lambda^2)` for a variance
:math:`\lambda` of the means in units of the noise. The means of rows assigned in these coordinates
are more accurate, and span the coordinates in which moves are tried.
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

    def restored(self, levels: Mapping[str, float], view: View) -> dict[str, float]:
        """Return mean log-likelihoods of coordinates in a view as those of all columns.

        Directions orthogonal to the span have round noise.
        """
        d, p = self.basis.shape
        off = np.trace(self.covariance) - np.sum(self.basis * (self.covariance @ self.basis))
        outside = 0.5 * (d - p) * (1 + math.log(2 * math.pi * float(off) / (d - p)))
        return {name: level - view.log_unit - outside for name, level in levels.items()}

    def of_means(self, state: Gaussians, n: float) -> Span:
        """Return the span of the means of n rows, and of what may be missing in it.

        Rows of a component that is missing, or that was taken for one with another, are spread
        along a direction in which the covariance within components exceeds the noise.
        """
        d, k = state.d, state.k
        apart = (state.means - state.weights @ state.means) * np.sqrt(state.weights)[:, None]
        basis = np.linalg.svd(apart, full_matrices=False)[2][: k - 1].T
        across = np.eye(d) - basis @ basis.T
        within = across @ (self.covariance - apart.T @ apart) @ across
        noise = float(np.trace(within)) / (d - k + 1)
        more = leading(within, min(k - 1, d - k), noise, n)
        return replace(self, basis=np.linalg.qr(np.column_stack([basis, more]))[0])


def leading(covariance: Floats, most: int, noise: float, n: float) -> Floats:
    """Return the eigenvectors (d, p), at most so many, whose eigenvalues exceed those of noise.

    The largest eigenvalue of the covariance of n rows of white noise is about
    :math:`(1 + \\sqrt{d / n})^2` times its variance (Marchenko and Pastur).
    """
    d = len(covariance)
    values, vectors = scipy.linalg.eigh(covariance, subset_by_index=[d - most, d - 1])
    return np.asarray(vectors[:, values > noise * (1 + math.sqrt(d / n)) ** 2])


def principal_span(covariance: Floats, k: int, n: float) -> Span | None:
    """Return the span of the directions in which k components differ; None if they do in none."""
    d = len(covariance)
    values = scipy.linalg.eigh(covariance, eigvals_only=True)
    basis = leading(covariance, k - 1, float(values[: d - k + 1].mean()), n)
    return Span(basis, covariance) if basis.shape[1] else None
