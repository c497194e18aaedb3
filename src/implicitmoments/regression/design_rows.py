"""Rows (1, x, y) of a regression: in memory, or read block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of, on_host, to_numpy
from implicitmoments.rows import (
    ArraySource,
    Block,
    RowDraws,
    Source,
    Stream,
    Sums,
    add_sums,
    blocks,
    fold_blocks,
)
from implicitmoments.rows.sampling import spread_rows

__all__ = ["DesignBlock", "DesignMeasure", "DesignRows", "as_sum", "lay_out"]

ROWS_PER_BLOCK = 4_096  # (1, x, y) of a block and its responsibilities stay in the cache
READ_ROWS, READ_NUMBERS = 16_384, 2**21  # read at a time
HELD_NUMBERS = 2**27  # of local rows that are held in memory: 1 GB of float64
SAMPLE_NUMBERS = 2**25  # of a sample, which is held in memory: 256 MB
DEVICE_NUMBERS = 2**27  # computed from a block on a device, which has no such cache


@dataclass(frozen=True, eq=False)
class DesignBlock:
    """Some rows, one per column.

    Attributes
    ----------
    u : array of shape (q + 1, n)
        The features z = (1, x), and y below them.
    counts : array of shape (n,)
        How often each row counts.
    """

    u: Array
    counts: Array

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

    @property
    def rows_per_block(self) -> int:
        """Rows that are measured at a time; a device has no cache to fit in."""
        if on_host(self.u):
            return ROWS_PER_BLOCK
        # products of two columns are computed at once
        return max(READ_ROWS, DEVICE_NUMBERS // int(self.u.shape[0]) ** 2)


# Sums over a block. A measure holds small arrays only, and returns its sums in NumPy.
DesignMeasure: TypeAlias = Callable[[DesignBlock], Sums]


@dataclass(frozen=True, eq=False)
class DesignRows:
    """Rows in standard coordinates.

    Attributes
    ----------
    source : Source
        With columns ``x``, ``y`` and, where rows count differently, ``counts``.
    block : DesignBlock or None
        All rows, held in memory; None where they are read in every pass.
    n_rows : int
    mass : float
        Rows, with their multiplicity.
    """

    source: Source
    block: DesignBlock | None
    n_rows: int
    mass: float

    @classmethod
    def of(cls, source: Source, mass: float | None = None) -> DesignRows:
        """Hold local rows in memory, if they are not too many; read others in every pass."""
        n = source.n_rows or 0
        held = None
        if source.local and n * (source.n_features + 2) <= HELD_NUMBERS:
            held = _read_all(source, n)
        return cls(source, held, n, source.mass if mass is None else mass)

    @property
    def n_features(self) -> int:
        """Features q, the constant among them."""
        return self.source.n_features + 1

    @property
    def held(self) -> DesignBlock:
        """All rows of a sample."""
        if self.block is None:
            raise RuntimeError("rows are held in memory only where they are few: take a sample")
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
        if self.block is not None:
            return _fold_block(self.block, measure)
        begin = range(1)
        first = self.source.read(begin, RowDraws(0, begin, (Stream.ROWS,)))["x"]
        if on_host(first):
            size = min(max(ROWS_PER_BLOCK, READ_NUMBERS // self.n_features), READ_ROWS)
        else:
            size = max(READ_ROWS, DEVICE_NUMBERS // (width + self.n_features))
        return self.source.fold(_LaidOut(measure), range(self.n_rows), size, what=what)

    def sample(self, n: int, seed: int = 0) -> DesignRows:
        """Return about n random rows, held in memory; all if they are held and fewer than 2 n.

        Fewer, where they would not fit in the memory that a sample may take.
        """
        if self.block is not None and self.n_rows < 2 * n:
            return self
        n = min(n, max(1, SAMPLE_NUMBERS // (self.n_features + 1)))
        chosen = spread_rows(self.n_rows, n, seed)
        if self.block is not None:
            return self.part(chosen, to_numpy(self.block.counts)[chosen])
        picked = dict(self.source.pick(chosen, what="some of the rows"))
        held = lay_out(picked["x"], picked["y"], picked.get("counts"))
        columns = {name: picked[name] for name in ("y", "counts") if name in picked}
        return _held(ArraySource(picked["x"], **columns), held)

    def part(self, places: np.ndarray[Any, Any], counts: Floats) -> DesignRows:
        """Return held rows at some places, each counting as often as given."""
        u = self.held.u
        if isinstance(u, np.ndarray):
            return _held(self.source, DesignBlock(u[:, places], counts))
        xp = namespace_of(u)
        taken = xp.take(u, index_like(places, u), axis=1)
        given = xp.asarray(counts, dtype=u.dtype, device=u.device)
        return _held(self.source, DesignBlock(taken, given))


def as_sum(value: Array) -> Floats:
    """Return a sum over the rows of a block as it is added to others: NumPy, double precision."""
    return np.asarray(to_numpy(value), dtype=np.float64)


def _held(source: Source, block: DesignBlock) -> DesignRows:
    xp = namespace_of(block.counts)
    return DesignRows(source, block, block.n, float(xp.sum(block.counts)))


@dataclass(frozen=True)
class _LaidOut:
    """A measure of design blocks, as one of blocks of a source."""

    measure: DesignMeasure

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        laid_out = lay_out(block["x"], block["y"], block.get("counts"))
        total: Sums = {}
        size = ROWS_PER_BLOCK if on_host(laid_out.u) else laid_out.n
        for part in blocks(range(laid_out.n), size):
            total = add_sums(total, self.measure(laid_out.view(part)))
        return total


def _fold_block(held: DesignBlock, measure: DesignMeasure) -> Sums:
    """Sum a measure over rows in memory."""

    def read(rows: range) -> Block:
        part = held.view(rows)
        return {"u": part.u, "counts": part.counts}

    def measured(block: Block, rows: range) -> Sums:  # noqa: ARG001
        return measure(DesignBlock(block["u"], block["counts"]))

    return fold_blocks(read, measured, blocks(range(held.n), held.rows_per_block))


def _read_all(source: Source, n: int) -> DesignBlock:
    """Lay all rows of a local source out in memory, in double precision."""
    held = DesignBlock(np.empty((source.n_features + 2, n)), np.empty(n))
    for rows in blocks(range(n), max(ROWS_PER_BLOCK, READ_NUMBERS // source.n_features)):
        block, part = source.read(rows, RowDraws(0, rows, (Stream.ROWS,))), held.view(rows)
        part.u[0], part.u[1:-1], part.u[-1] = 1.0, block["x"].T, block["y"]
        part.counts[:] = block.get("counts", 1.0)
    return held


def lay_out(x: Array, y: Array, counts: Array | None = None) -> DesignBlock:
    """Put rows in columns (1, x, y); in NumPy in double precision, which costs little there."""
    xp = namespace_of(x)
    if isinstance(x, np.ndarray):
        u = np.empty((x.shape[1] + 2, len(x)))
        u[0], u[1:-1], u[-1] = 1.0, x.T, y
        counts = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
        return DesignBlock(u, counts)
    ones = xp.ones_like(y)
    u = xp.concat([ones[None, :], xp.matrix_transpose(x), y[None, :]], axis=0)
    return DesignBlock(u, ones if counts is None else counts)
