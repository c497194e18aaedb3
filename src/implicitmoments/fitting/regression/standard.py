"""Standard coordinates of rows (x, y), and lines mapped back from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.likelihood import Lines
from implicitmoments.fitting.rows import LabelledRows
from implicitmoments.moments import HermiteProblem
from implicitmoments.samples import ArraySource, MappedSource, Whitening

__all__ = ["Standard", "standardise"]

SMALLEST_MOMENT = 1e-10  # relative to the largest


@dataclass(frozen=True, eq=False)
class Standard:
    r"""Points :math:`W^T (x - m)` of covariance I, and labels of variance 1.

    Attributes
    ----------
    whitening : Whitening
        Without directions in which points do not vary. Without intercepts its mean is 0, and the
        second moment takes the place of the covariance.
    center, scale : float
        Of the labels: y is ``center + scale * (standard y)``.
    constant : bool
        Labels do not vary; their scale is 1.
    """

    whitening: Whitening
    center: float
    scale: float
    constant: bool

    @property
    def n_features(self) -> int:
        """Coordinates in which the points vary."""
        return self.whitening.n_features

    def rows(self, X: Floats, y: Floats, counts: Floats | None) -> LabelledRows:
        """Return the rows in standard coordinates."""
        source = ArraySource(X, y=(y - self.center) / self.scale)
        mapped = MappedSource(source, self.whitening.apply, self.whitening.n_features)
        return LabelledRows(HermiteProblem(mapped, sample_weight=counts))

    def original(self, lines: Lines) -> tuple[Floats, Floats, Floats]:
        """Return coefficients (k, d), intercepts (k,) and deviations (k,) in the user's units."""
        coef = self.scale * self.whitening.original(lines.coef[:, 1:])
        intercept = self.center + self.scale * lines.coef[:, 0] - coef @ self.whitening.mean
        return coef, intercept, self.scale * np.sqrt(lines.variances)

    def errors(self, covariances: Floats) -> tuple[Floats, Floats]:
        """Return standard errors of coefficients and intercepts from (k, q, q) covariances."""
        # (intercept, coef) = scale · T b, with T of shape (1 + d, q)
        W, mean = self.whitening.inverse_root, self.whitening.mean
        T = np.zeros((1 + len(W), covariances.shape[1]))
        T[0, 0], T[0, 1:], T[1:, 1:] = 1.0, -mean @ W, W
        squares = np.einsum("aq,kqr,ar->ka", T, covariances, T)
        errors = self.scale * np.sqrt(np.maximum(squares, 0.0))
        return errors[:, 1:], errors[:, 0]


def standardise(X: Floats, y: Floats, counts: Floats | None, *, intercept: bool) -> Standard:
    """Measure the rows."""
    if intercept:
        whitening = Whitening.of(ArraySource(X), counts, reduce=True)
    else:
        whitening = _about_zero(X, counts)
    center = float(np.average(y, weights=counts)) if intercept else 0.0
    spread = float(np.sqrt(np.average((y - center) ** 2, weights=counts)))
    rounding = 1e-13 * max(float(np.max(np.abs(y))), np.finfo(float).tiny)
    constant = spread <= rounding
    return Standard(whitening, center, 1.0 if constant else spread, constant)


def _about_zero(X: Floats, counts: Floats | None) -> Whitening:
    """Return the map to points whose second moment is I, without moving them."""
    weighted = X if counts is None else X * counts[:, None]
    mass = len(X) if counts is None else float(counts.sum())
    values, vectors = np.linalg.eigh(weighted.T @ X / mass)
    varying = values > SMALLEST_MOMENT * values[-1]
    if values[-1] <= 0:
        raise ValueError("every feature is 0 in every row; lines without intercepts need others")
    V, spread = vectors[:, varying], np.sqrt(values[varying])
    inverse = V / spread if not varying.all() else (V / spread) @ V.T
    return Whitening(np.zeros(X.shape[1]), (V * spread) @ V.T, inverse)
