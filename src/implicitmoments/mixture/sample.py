"""Sample of the rows held in memory, which the search reads many times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    LARGEST,
    Array,
    Floats,
    check_squares,
    index_like,
    lift_rows,
    move_like,
    namespace_of,
    quiet_overflow,
    refuse_large,
    to_numpy,
)
from implicitmoments.rows import ArraySource, Block, Census, Rows, Sums, blocks, fold_blocks
from implicitmoments.rows.fold import DEFAULT_BUDGET
from implicitmoments.rows.fold import LARGEST as LARGEST_OF
from implicitmoments.rows.outliers import leave_out_outliers
from implicitmoments.search import SEARCH

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows held in memory, in the library and on the device they came from."""

    X: Array  # (n, d), float64, or float32 where only a search depends on it
    sample_weight: Array | None = None  # (n,), how often each row counts
    # rows per block; by default chosen by the numbers computed per row
    rows_per_block: int | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def like(self) -> Array:
        """An array of the library, the precision and on the device of the rows."""
        return self.X

    @cached_property
    def total(self) -> float:
        """Rows counted with their weight."""
        return float(self.weights.sum())

    @cached_property
    def lifted(self) -> Array:
        """Rows with their squares and a one, (n, d + 2)."""
        return lift_rows(self.X)

    @cached_property
    def points(self) -> Floats:
        """The rows in NumPy."""
        return to_numpy(self.X)

    @cached_property
    def weights(self) -> Floats:
        """How often each row counts, in NumPy."""
        if self.sample_weight is None:
            return np.ones(self.n)
        return to_numpy(self.sample_weight).astype(np.float64)

    def fold(
        self, measure: Callable[[Block], Sums], *, width: int, what: str, lifted: bool = False
    ) -> Sums:
        """Sum over blocks, as :meth:`implicitmoments.rows.Rows.fold` does."""
        del what  # passes over a sample are not reported
        whole: dict[str, Array] = {"x": self.lifted if lifted else self.X}
        if self.sample_weight is not None:
            whole["counts"] = self.sample_weight
        size = self.rows_per_block or DEFAULT_BUDGET.rows_per_block(
            max(width, self.n_features), self.X
        )

        def read(rows: range) -> Block:
            return {name: column[rows.start : rows.stop, ...] for name, column in whole.items()}

        return fold_blocks(read, lambda block, _: measure(block), blocks(range(self.n), size))

    def take(self, chosen: Integers) -> Sample:
        """Return the chosen rows, by their places."""
        xp, places = namespace_of(self.X), index_like(chosen, self.X)
        counts = self.sample_weight
        return Sample(
            xp.take(self.X, places, axis=0),
            None if counts is None else xp.take(counts, places, axis=0),
            self.rows_per_block,
        )


AnyRows: TypeAlias = Rows | Sample


def draw_sample(rows: Rows, n: int, rng: np.random.Generator, width: int = 1) -> Sample:
    """Hold about n rows, drawn at random; equal rows are counted once.

    Single precision is enough for a search. Where ``width`` numbers will be made of each row, n
    is at most what memory should hold.
    """
    return merge_equal(hold_rows(rows.sample(n, rng, width=width, single=True)))


def hold_rows(rows: Rows) -> Sample:
    """Hold all rows that are kept, in the library they are in."""
    block = rows.pick(np.arange(rows.n))
    x, counts = block["x"], block.get("counts")
    if counts is not None:
        counts = namespace_of(x).astype(counts, x.dtype, copy=False)
    return Sample(x, counts, rows.rows_per_block)


def merge_equal(sample: Sample) -> Sample:
    """Count equal rows once, with their weights added, in an order that depends on them alone.

    Weights and repeated rows then give the same fit, whatever their order.
    """
    kept = sample.weights > 0
    x, counts = np.ascontiguousarray(sample.points[kept] + 0.0), sample.weights[kept]
    keys = x.view(np.dtype((np.void, x.itemsize * x.shape[1]))).ravel()
    _, places, which = np.unique(keys, return_index=True, return_inverse=True)
    added = np.bincount(which.ravel(), weights=counts, minlength=len(places))
    distinct = move_like(x[places], sample.X)
    weights = None if np.all(added == 1.0) else move_like(added, distinct)
    return Sample(distinct, weights, sample.rows_per_block)


PROBED = 20_000  # rows from which the centre and the unit of length are estimated
RESOLUTION = 1e-9  # of lengths, relative to the centre: below it points are one point
FAR_OUT = 100.0  # units: a square is then 1e4, which float32 resolves to 1e-3


def merge_small(rows: Rows) -> Rows:
    """Count equal rows once where all rows are searched."""
    if rows.n > SEARCH.rows:
        return rows
    merged = merge_equal(hold_rows(rows))
    columns = {} if merged.sample_weight is None else {"counts": merged.sample_weight}
    return replace(
        rows, source=ArraySource(merged.X, **columns), keep=(), weights=None, known=None
    )


def standardise_rows(rows: Rows) -> Rows:
    """Centre and scale rows by medians, which a few outliers do not move.

    The unit is the root of the median squared distance from the centre over the number of
    features; the standard deviation where half the rows are one point.
    """
    probe = rows.as_given().sample(PROBED, 0).points.astype(np.float64)
    refuse_large("X", found=float(np.median(np.abs(probe).max(axis=1))) > LARGEST)
    # a centre that the precision of the rows can represent
    center = to_numpy(move_like(np.median(probe, axis=0), rows.like)).astype(np.float64)
    size, spread = float(np.abs(center).max()), probe - center
    lengths = np.abs(spread).max(axis=1)
    unit = float(np.median(lengths)) or float(lengths.max())
    scale = max(size, 1.0)
    if unit > max(RESOLUTION * size, np.finfo(np.float64).tiny):
        with np.errstate(over="ignore"):  # outliers do not move the median
            squares = np.mean((spread / unit) ** 2, axis=1)
        scale = unit * float(np.sqrt(float(np.median(squares)) or float(np.mean(squares))))
    return rows.as_given().mapped(center, 1 / scale)


def center_of(rows: Rows) -> Floats:
    """Return the centre of standardised rows, in the user's units."""
    return np.zeros(rows.n_features) if rows.center is None else rows.center


def scale_of(rows: Rows) -> float:
    """Return the unit of standardised rows, in the user's units."""
    return 1.0 if rows.linear is None else 1 / float(rows.linear)


def without_outliers(rows: Rows, k: int, *, drop: bool) -> tuple[Rows, int]:
    """Leave out outliers, if asked for, and count rows; return how many were left out.

    Rows that lie too far out for single precision are read in double precision.
    """
    n_out = 0
    if drop:
        rows, n_out, _ = leave_out_outliers(rows, k)
    else:
        found = rows.fold(_Counted(), width=3, what="counting rows", lifted=True)
        longest = float(found.get(f"{LARGEST_OF}square", 0.0))
        kept = int(found.get("kept", 0))
        rows = replace(rows, known=Census(kept, found["total"], found["squares"], longest))
    check_squares("X", rows.census.squares or 0.0)
    return replace(rows, wide=(rows.census.longest or 0.0) > FAR_OUT**2), n_out


@dataclass(frozen=True)
class _Counted:
    """Counts lifted rows, and sums their squares."""

    @quiet_overflow
    def __call__(self, block: Block) -> Sums:
        lifted = block["x"]
        xp, squares = namespace_of(lifted), lifted[:, -2]
        counts = block.get("counts", lifted[:, -1])
        return {
            "kept": int(lifted.shape[0]),
            "total": float(xp.sum(counts, dtype=xp.float64)),
            "squares": float(xp.sum(counts * squares, dtype=xp.float64)),
            f"{LARGEST_OF}square": float(xp.max(squares)),
        }
