"""Standard coordinates of rows (x, y), and lines mapped back from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError
from implicitmoments.regression.likelihood import Lines, design
from implicitmoments.rows import (
    Census,
    LabelMap,
    Rows,
    SecondMoments,
    Whitening,
    mean_and_covariance,
)

ROUNDING = 1e-13  # of labels: those that differ by less are constant


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
    mass : float
        Rows, with their multiplicity.
    """

    whitening: Whitening
    center: float
    scale: float
    constant: bool
    mass: float

    @property
    def n_features(self) -> int:
        """Coordinates in which the points vary."""
        return self.whitening.n_features

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


def standardise(rows: Rows, *, intercept: bool) -> tuple[Standard, Rows]:
    """Estimate mean and covariance of points and labels in one pass, and map the rows.

    Without intercepts rows are scaled about zero instead of their mean.

    Parameters
    ----------
    rows : Rows
        With labels.

    Returns
    -------
    Standard, Rows
        The map, and the design: rows (1, x, y) in standard coordinates.
    """
    found = mean_and_covariance(rows, labelled=True)
    if not intercept:
        found = replace(found, mean=np.zeros(len(found.mean)), covariance=found.second_moment)
    points = SecondMoments(found.n, found.total, found.mean[:-1], found.covariance[:-1, :-1])
    if not intercept and not points.covariance.any():
        raise InputError(
            "all_inputs_zero", "all features are 0 in every row, so lines without intercepts are 0"
        )
    center, spread = float(found.mean[-1]), math.sqrt(max(float(found.covariance[-1, -1]), 0.0))
    constant = spread <= ROUNDING * max(abs(center), spread, np.finfo(float).tiny)
    scale = 1.0 if constant else spread
    whitening = Whitening.from_moments(points, reduce=True)
    counted = replace(rows, known=Census(found.n, found.total))
    mapped = counted.mapped(whitening.mean, whitening.inverse_root, LabelMap(center, scale))
    return Standard(whitening, center, scale, constant, found.total), design_rows(mapped)


def design_rows(rows: Rows) -> Rows:
    """Return rows (1, x, y); those of this process are held in memory if they are few enough."""
    made = rows.transformed(design)
    return made.hold() if rows.source.local and made.small else made
