"""Rows (1, x, y) of a regression: in memory, or read block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of, to_numpy
from implicitmoments.rows import (
    DEFAULT_BUDGET,
    Block,
    Rows,
    Sums,
    blocks,
    fold_blocks,
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
        held = self.block
        size = self.rows.rows_per_block or rows_per_block(width, held.u)

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
