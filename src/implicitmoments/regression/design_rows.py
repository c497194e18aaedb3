"""Rows (1, x, y) of a regression: in memory, or read block by block."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of, to_numpy
from implicitmoments.notes import InputError
from implicitmoments.regression.likelihood import Lines
from implicitmoments.rows import (
    DEFAULT_BUDGET,
    Block,
    Census,
    LabelMap,
    Rows,
    SecondMoments,
    Sums,
    Whitening,
    blocks,
    fold_blocks,
    mean_and_covariance,
    weights_of,
)


@dataclass(frozen=True, eq=False)
class DesignBlock:
    """Some rows, one per column."""

    u: Array  # (q + 1, n), the features z = (1, x), and y below them
    counts: Array  # (n,), how often each row counts

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.u.shape[1])

    @property
    def z(self) -> Array:
        """Features (q, n)."""
        return self.u[:-1, :]

    @property
    def y(self) -> Array:
        """Labels (n,)."""
        return self.u[-1, :]

    def view(self, rows: range) -> DesignBlock:
        """Return consecutive rows."""
        part = slice(rows.start, rows.stop)
        return DesignBlock(self.u[:, part], self.counts[part])


# Sums over a block. A measure holds small arrays only, and returns its sums in NumPy.
DesignMeasure: TypeAlias = Callable[[DesignBlock], Sums]


@dataclass(frozen=True, eq=False)
class DesignRows:
    """Rows in standard coordinates.

    Attributes
    ----------
    rows : Rows
        With labels.
    block : DesignBlock or None
        All rows, held in memory; None where they are read in every pass.
    """

    rows: Rows
    block: DesignBlock | None

    @classmethod
    def of(cls, rows: Rows) -> DesignRows:
        """Hold rows of this process in memory, if they are few enough; read others per pass."""
        held = _hold(rows) if rows.source.local and rows.small else None
        return cls(rows, held)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.kept if self.block is None else self.block.n

    @property
    def mass(self) -> float:
        """Rows, with their multiplicity."""
        if self.block is None:
            return self.rows.total
        return float(namespace_of(self.block.counts).sum(self.block.counts))

    @property
    def n_features(self) -> int:
        """Features q, the constant among them."""
        return self.rows.n_features + 1

    @property
    def held(self) -> DesignBlock:
        """All rows of a sample."""
        if self.block is None:
            raise RuntimeError("these rows are not held in memory: take a sample")
        return self.block

    def fold(self, measure: DesignMeasure, width: int, what: str) -> Sums:
        """Sum a measure over blocks: one pass.

        Parameters
        ----------
        measure : callable
            Of a block; returns named sums in NumPy.
        width : int
            Numbers that it computes per row.
        what : str
            What the pass is for.
        """
        if self.block is None:
            return self.rows.fold(_LaidOut(measure), width=width + self.n_features, what=what)
        held, size = self.block, rows_per_block(width, self.block.u)

        def read(rows: range) -> Block:
            part = held.view(rows)
            return {"u": part.u, "counts": part.counts}

        def measured(block: Block, rows: range) -> Sums:  # noqa: ARG001
            return measure(DesignBlock(block["u"], block["counts"]))

        return fold_blocks(read, measured, blocks(range(held.n), size))

    def sample(self, n: int, seed: int = 0) -> DesignRows:
        """Return n random rows, held in memory; all of them if they are fewer than 2 n."""
        if self.block is None:
            n = n if self.n_rows >= 2 * n else self.rows.n
            held = self.rows.sample(n, seed, width=self.n_features + 1)
            return DesignRows(held, _hold(held))
        if self.block.n < 2 * n:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(self.block.n, n, replace=False))
        return self.part(chosen, to_numpy(self.block.counts)[chosen])

    def part(self, places: np.ndarray[Any, Any], counts: Floats) -> DesignRows:
        """Return held rows at some places, each counting as often as given."""
        u = self.held.u
        if isinstance(u, np.ndarray):
            return DesignRows(self.rows, DesignBlock(u[:, places], counts))
        xp = namespace_of(u)
        given = xp.asarray(counts, dtype=u.dtype, device=u.device)
        return DesignRows(self.rows, DesignBlock(xp.take(u, index_like(places, u), axis=1), given))


def as_sum(value: Array) -> Floats:
    """Return a sum over the rows of a block as it is added to others: NumPy, double precision."""
    return np.asarray(to_numpy(value), dtype=np.float64)


def rows_per_block(width: int, like: Array) -> int:
    """Return how many held rows are measured at a time."""
    return DEFAULT_BUDGET.rows_per_block(width + int(like.shape[0]), like)


@dataclass(frozen=True)
class _LaidOut:
    """A measure of design blocks, as one of blocks of rows."""

    measure: DesignMeasure

    def __call__(self, block: Block) -> Sums:
        return self.measure(lay_out(block["x"], block["y"], block.get("counts")))


def _hold(rows: Rows) -> DesignBlock:
    """Lay all rows out in memory."""
    parts = [lay_out(block["x"], block["y"], weights_of(block)) for block in rows.blocks()]
    xp = namespace_of(parts[0].u)
    u = xp.concat([part.u for part in parts], axis=1)
    return DesignBlock(u, xp.concat([part.counts for part in parts]))


def lay_out(x: Array, y: Array, counts: Array | None = None) -> DesignBlock:
    """Put rows in columns (1, x, y); in NumPy in double precision, which costs little there."""
    xp = namespace_of(x)
    if isinstance(x, np.ndarray):
        u = np.empty((x.shape[1] + 2, len(x)))
        u[0], u[1:-1], u[-1] = 1.0, x.T, y
        counts = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
        return DesignBlock(u, counts)
    ones = xp.ones_like(y)
    columns = xp.concat([ones[None, :], xp.matrix_transpose(x), y[None, :]], axis=0)
    return DesignBlock(columns, ones if counts is None else counts)


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


def standardise(rows: Rows, *, intercept: bool) -> tuple[Standard, DesignRows]:
    """Estimate mean and covariance of points and labels in one pass, and map the rows.

    Without intercepts rows are scaled about zero instead of their mean.

    Parameters
    ----------
    rows : Rows
        With labels.

    Returns
    -------
    Standard, DesignRows
        The map, and the rows in standard coordinates.
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
    return Standard(whitening, center, scale, constant, found.total), DesignRows.of(mapped)
