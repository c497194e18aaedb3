"""Rows (1, x, y) of a regression, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of, on_host, to_numpy
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

__all__ = ["FeatureBlock", "FeatureMeasure", "FeatureRows", "as_sum", "lay_out"]

BLOCK_ROWS = 1_024  # (1, x, y) of a block and the responsibilities fit in the cache
OTHER_ROWS = 4_096  # of a block of other libraries in main memory, where each call costs more
READ_ROWS, READ_NUMBERS = 16_384, 2**21  # read at a time
PIECES, LARGEST_PIECE = 16, 16  # that held blocks are measured in, and blocks of one
HELD_NUMBERS = 2**27  # of features of local rows that are kept in memory: 1 GB of float64
SAMPLE_NUMBERS = 2**25  # of features of some of the rows, which are kept in memory: 256 MB
DEVICE_NUMBERS = 2**27  # made of a block on a device, which has no such cache
ROUNDING, SINGLE_ROUNDING = 1e-13, 1e-8  # of a mean log-likelihood, by the precision of rows


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Some rows, one a column.

    Attributes
    ----------
    u : array of shape (q + 1, n)
        The features z = (1, x), and y below them.
    counts : array of shape (n,)
        How often each row counts.
    known : array of shape (n,), optional
        What a search keeps of each row.
    """

    u: Array
    counts: Array
    known: Array | None = None

    @property
    def z(self) -> Array:
        """Features (q, n)."""
        return self.u[:-1, :]

    @property
    def y(self) -> Array:
        """Labels (n,)."""
        return self.u[-1, :]


# What is summed over blocks; it holds small arrays only, and gives sums in NumPy.
FeatureMeasure: TypeAlias = Callable[[FeatureBlock], Sums]


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Rows in standard coordinates, laid out in memory or where their source is.

    Attributes
    ----------
    source : Source
        With columns ``x``, ``y`` and, where rows count differently, ``counts``.
    held : tuple of FeatureBlock, or None
        The rows, laid out; None where they are read in every pass.
    n_rows : int
    mass : float
        Rows, with their multiplicity.
    rounding : float
        Of a mean log-likelihood.
    host : bool
        Whether rows come in main memory.
    """

    source: Source
    held: tuple[FeatureBlock, ...] | None
    n_rows: int
    mass: float
    rounding: float
    host: bool
    _latest: dict[int, FeatureRows] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, source: Source, mass: float | None = None) -> FeatureRows:
        """Lay local rows out and keep them, if there are not too many; pass over others."""
        n, begin = source.n_rows or 0, range(1)
        probe = source.read(begin, RowDraws(0, begin, (Stream.ROWS,)))["x"]
        if source.local and n * (source.n_features + 2) <= HELD_NUMBERS:
            held = tuple(b for part in _read(source, n) for b in _laid_out(part, BLOCK_ROWS))
        else:
            held = None
        return cls(
            source,
            held,
            n,
            source.mass if mass is None else mass,
            _rounding(probe),
            on_host(probe),
        )

    @property
    def n_features(self) -> int:
        """Features q, the constant among them."""
        return self.source.n_features + 1

    def fold(self, measure: FeatureMeasure, width: int, what: str) -> Sums:
        """Sum what ``measure`` gives of blocks: one pass.

        Parameters
        ----------
        measure : callable
            Of a block; returns named sums in NumPy.
        width : int
            Numbers that are made of a row.
        what : str
            What the pass is for.
        """
        if self.held is not None:
            return _fold_held(self.held, measure)
        if self.host:
            size = min(max(BLOCK_ROWS, READ_NUMBERS // self.n_features), READ_ROWS)
        else:
            size = max(READ_ROWS, DEVICE_NUMBERS // (width + self.n_features))
        return self.source.fold(_LaidOut(measure), range(self.n_rows), size, what=what)

    def about(self, n: int) -> FeatureRows:
        """Return about n of the rows, evenly spread, in memory; all if there are few more.

        Fewer, where they would not fit in the memory that a sample may take.
        """
        if self.held is not None and self.n_rows < 2 * n:
            return self
        stride = max(1, self.n_rows // max(1, n))
        if self.held is None:
            most = max(1, SAMPLE_NUMBERS // (self.n_features + 1))
            stride = max(stride, math.ceil(self.n_rows / most))
        if stride not in self._latest:  # the last one is often asked for again
            self._latest.clear()
            self._latest[stride] = self._sample(stride)
        return self._latest[stride]

    def noting(self, note: Callable[[FeatureBlock], Array]) -> FeatureRows:
        """Keep a number of each row as ``known``, where rows are held; others are read anew."""
        if self.held is None:
            return self
        held = tuple(FeatureBlock(block.u, block.counts, note(block)) for block in self.held)
        return FeatureRows(self.source, held, self.n_rows, self.mass, self.rounding, self.host)

    def gathered(self) -> FeatureBlock:
        """Return the rows of a sample as one block."""
        held = self.held or self.about(self.n_rows).held or ()
        xp = namespace_of(held[0].u)
        u = xp.concat([block.u for block in held], axis=1)
        return FeatureBlock(u, xp.concat([block.counts for block in held]))

    def _sample(self, stride: int) -> FeatureRows:
        """Take every ``stride``-th of the rows into memory."""
        what = "some of the rows"
        block = self.source.pick(np.arange(0, self.n_rows, stride), what=what)
        if stride > 1 and "counts" in block and not np.all(to_numpy(block["counts"])):
            # Rows that do not count may come at regular distances: take others.
            chosen = np.arange(0, self.n_rows - stride + 1, stride)
            chosen += np.random.default_rng(0).integers(stride, size=len(chosen))
            block = self.source.pick(chosen, what=what)
        columns = {name: block[name] for name in ("y", "counts") if name in block}
        source = ArraySource(block["x"], **columns)
        rows = FeatureRows.of(source)
        if rows.held is not None:
            return rows
        # on a device all products of two columns of a block are made at once
        wide = max(READ_ROWS, DEVICE_NUMBERS // (self.n_features + 1) ** 2)
        held = tuple(_laid_out(block, _rows_at_once(block["x"], wide)))
        return FeatureRows(source, held, rows.n_rows, rows.mass, rows.rounding, rows.host)


def as_sum(value: Array) -> Floats:
    """Return a sum over the rows of a block as it is added to others: NumPy, double precision."""
    return np.asarray(to_numpy(value), dtype=np.float64)


@dataclass(frozen=True)
class _LaidOut:
    """A measure of blocks that are laid out first."""

    measure: FeatureMeasure

    def __call__(self, block: Block, rows: range) -> Sums:
        total: Sums = {}
        for part in _laid_out(block, _rows_at_once(block["x"], len(rows))):
            total = add_sums(total, self.measure(part))
        return total


def _fold_held(held: tuple[FeatureBlock, ...], measure: FeatureMeasure) -> Sums:
    """Measure blocks in memory, some at a time so that threads have enough to do."""

    def sums_of(block: Block, piece: range) -> Sums:  # noqa: ARG001 (they are all here)
        total: Sums = {}
        for part in held[piece.start : piece.stop]:
            total = add_sums(total, measure(part))
        return total

    def first_of(piece: range) -> Block:
        return {"u": held[piece.start].u}

    size = min(max(1, len(held) // PIECES), LARGEST_PIECE)
    return fold_blocks(first_of, sums_of, blocks(range(len(held)), size))


def _read(source: Source, n: int) -> Iterator[Block]:
    size = min(max(BLOCK_ROWS, READ_NUMBERS // source.n_features), READ_ROWS)
    for rows in blocks(range(n), size):
        yield source.read(rows, RowDraws(0, rows, (Stream.ROWS,)))


def _rows_at_once(x: Array, on_device: int) -> int:
    if not on_host(x):
        return on_device
    return BLOCK_ROWS if isinstance(x, np.ndarray) else OTHER_ROWS


def _laid_out(block: Block, size: int) -> Iterator[FeatureBlock]:
    x, y = block["x"], block["y"]
    counts = block.get("counts")
    for rows in blocks(range(int(y.shape[0])), size):
        part = slice(rows.start, rows.stop)
        yield lay_out(x[part, :], y[part], None if counts is None else counts[part])


def lay_out(x: Array, y: Array, counts: Array | None = None) -> FeatureBlock:
    """Put rows in columns (1, x, y); in NumPy in double precision, which costs little there."""
    xp = namespace_of(x)
    if isinstance(x, np.ndarray):
        u = np.empty((x.shape[1] + 2, len(x)))
        u[0], u[1:-1], u[-1] = 1.0, x.T, y
        counts = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
        return FeatureBlock(u, counts)
    ones = xp.ones_like(y)
    u = xp.concat([ones[None, :], xp.matrix_transpose(x), y[None, :]], axis=0)
    return FeatureBlock(u, ones if counts is None else counts)


def _rounding(probe: Array) -> float:
    """Return what rounding makes of a mean log-likelihood; NumPy computes in double precision."""
    xp = namespace_of(probe)
    single = not isinstance(probe, np.ndarray) and probe.dtype == xp.float32
    return SINGLE_ROUNDING if single else ROUNDING
