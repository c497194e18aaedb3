"""Standard coordinates of rows (x, y), and lines mapped back from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Floats,
    check_squares,
    namespace_of,
    quiet_overflow,
    to_numpy,
)
from implicitmoments.regression.design_rows import DesignRows
from implicitmoments.regression.lines import Lines
from implicitmoments.rows import Block, MappedSource, Source, Sums, Whitening

__all__ = ["Standard", "standardise"]

BLOCK_ROWS = 16_384
SMALLEST_MOMENT = 1e-10  # relative to the largest
ROUNDING = 1e-13  # of labels


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

    def rows(self, source: Source) -> DesignRows:
        """Return labelled rows in standard coordinates."""
        return DesignRows.of(MappedSource(source, self.apply, self.n_features), self.mass)

    def apply(self, block: Block) -> Block:
        """Standardise the points and labels of a block."""
        return {**self.whitening.apply(block), "y": (block["y"] - self.center) / self.scale}

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


def standardise(source: Source, *, intercept: bool) -> Standard:
    """Measure labelled rows: mean and covariance of points, mean and spread of labels."""
    rows = range(source.n_rows or 0)
    center = 0.0
    if intercept:
        whitening = Whitening.of(source, reduce=True)
        sums = source.fold(_Labels(), rows, BLOCK_ROWS, what="mean of the labels")
        check_squares("y", sums["square"])
        center = float(sums["total"]) / float(sums["mass"])
    else:
        whitening = _about_zero(source)
    sums = source.fold(_Labels(center), rows, BLOCK_ROWS, what="spread of the labels")
    check_squares("y", sums["square"])
    mass = float(sums["mass"])
    spread = math.sqrt(float(sums["square"]) / mass)
    constant = spread <= ROUNDING * max(abs(center), spread, np.finfo(float).tiny)
    return Standard(whitening, center, 1.0 if constant else spread, constant, mass)


@dataclass(frozen=True)
class _Labels:
    """Sums of labels and of their squares, about a number; in double precision."""

    center: float = 0.0

    @quiet_overflow
    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        xp = namespace_of(block["y"])
        y = xp.astype(block["y"], xp.float64) - self.center
        counts = xp.astype(block["counts"], xp.float64) if "counts" in block else xp.ones_like(y)
        return {
            "mass": float(xp.sum(counts)),
            "total": float(counts @ y),
            "square": float(counts @ y**2),
        }


@quiet_overflow
def _second_moment(block: Block, rows: range) -> Sums:
    """Sum products of the points, in double precision."""
    xp = namespace_of(block["x"])
    x, counts = xp.astype(block["x"], xp.float64), block.get("counts")
    weighted = x if counts is None else x * xp.astype(counts, xp.float64)[:, None]
    return {
        "mass": float(len(rows) if counts is None else xp.sum(counts)),
        "square": xp.matrix_transpose(weighted) @ x,
    }


def _about_zero(source: Source) -> Whitening:
    """Return the map to points whose second moment is I, without moving them."""
    rows = range(source.n_rows or 0)
    sums = source.fold(_second_moment, rows, BLOCK_ROWS, what="second moment")
    check_squares("X", sums["square"])
    values, vectors = np.linalg.eigh(to_numpy(sums["square"]) / float(sums["mass"]))
    varying = values > SMALLEST_MOMENT * values[-1]
    if values[-1] <= 0:
        raise ValueError("every feature is 0 in every row; lines without intercepts need others")
    V, spread = vectors[:, varying], np.sqrt(values[varying])
    inverse = V / spread if not varying.all() else (V / spread) @ V.T
    return Whitening(np.zeros(len(V)), (V * spread) @ V.T, inverse)
