"""Some of the rows, in memory, as they were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    index_like,
    lift_rows,
    move_like,
    namespace_of,
    on_host,
    to_numpy,
)
from implicitmoments.rows import Block, Sums, blocks, fold_blocks

__all__ = ["Sample", "hold", "merge_equal", "rows_a_block"]

BLOCK_NUMBERS = 2**17  # of log densities in one block: what is made of it stays in the cache
DEVICE_NUMBERS = 2**26  # on a device, which has no such cache and wants long products
FEWEST_ROWS = 256
FAR_OUT = 100.0  # units: a row's square is then up to 1e4, and float32 knows it to 1e-3


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows held in memory, in the library and on the device they came from.

    Attributes
    ----------
    X : array of shape (n, d)
        float64, or float32 where only a search depends on it.
    sample_weight : array of shape (n,) or None
        How often each row counts.
    block_rows : int or None
        Rows worked on at a time; by default fewer the more is made of each.
    """

    X: Array
    sample_weight: Array | None = None
    block_rows: int | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def like(self) -> Array:
        """An array of the library, the precision and on the device of the rows."""
        return self.X

    @cached_property
    def total(self) -> float:
        """Rows counted with their weight."""
        counts = self.sample_weight
        return float(self.n) if counts is None else _total(counts)

    @cached_property
    def lifted(self) -> Array:
        """Rows with their squares and a one, (n, d + 2): EM passes over them many times."""
        return lift_rows(self.X)

    @cached_property
    def points(self) -> Floats:
        """The rows in NumPy."""
        return to_numpy(self.X)

    @cached_property
    def counts(self) -> Floats | None:
        """How often each row counts, in NumPy."""
        weights = self.sample_weight
        return None if weights is None else to_numpy(weights).astype("float64")

    @property
    def row_weights(self) -> Floats:
        """How often each row counts, in NumPy, whether that is given or not."""
        return np.ones(self.n) if self.counts is None else self.counts

    def fold(
        self,
        measure: Callable[[Block], Sums],
        width: int,
        what: str = "",  # noqa: ARG002 (passes over a sample are not told)
        *,
        lifted: bool = False,
        **columns: Array,
    ) -> Sums:
        """Sum over blocks; ``width`` numbers are made of each row.

        Further columns, with one entry or one row a row, are cut into the same blocks.
        """
        whole: dict[str, Array] = {"x": self.lifted if lifted else self.X, **columns}
        if self.sample_weight is not None:
            whole["counts"] = self.sample_weight

        def read(rows: range) -> Block:
            return {name: column[rows.start : rows.stop, ...] for name, column in whole.items()}

        return fold_blocks(read, lambda block, _: measure(block), self.blocks(width))

    def blocks(self, width: int) -> Iterator[range]:
        """Yield ranges of rows of which ``width`` numbers each may be made at a time."""
        size = self.block_rows or rows_a_block(max(width, self.d), self.X)
        return blocks(range(self.n), size)

    def take(self, chosen: Any) -> Sample:
        """Return the chosen rows, by their places."""
        xp, places = namespace_of(self.X), index_like(chosen, self.X)
        counts = self.sample_weight
        return Sample(
            xp.take(self.X, places, axis=0),
            None if counts is None else xp.take(counts, places, axis=0),
            self.block_rows,
        )


def hold(x: Array, counts: Array | None, block_rows: int | None = None) -> Sample:
    """Hold points as they are read: in float32, unless some lie so far out that they need more."""
    xp = namespace_of(x)
    single = x.dtype == xp.float32 or float(xp.max(xp.abs(x))) <= FAR_OUT
    points = xp.astype(x, xp.float32 if single else xp.float64, copy=False)
    return Sample(
        points, None if counts is None else xp.astype(counts, points.dtype, copy=False), block_rows
    )


def merge_equal(sample: Sample) -> Sample:
    """Count equal rows once, with their weights added.

    Weights and repeated rows then give the same fit, whatever their order.
    """
    x, counts = sample.points + 0.0, sample.row_weights  # −0.0 is 0.0
    x, counts = np.ascontiguousarray(x[counts > 0]), counts[counts > 0]
    keys = x.view(np.dtype((np.void, x.itemsize * x.shape[1]))).ravel()
    _, places, which = np.unique(keys, return_index=True, return_inverse=True)
    added = np.bincount(which, weights=counts, minlength=len(places))
    distinct = move_like(x[places], sample.X)
    weights = None if np.all(added == 1.0) else move_like(added, distinct)
    return Sample(distinct, weights, sample.block_rows)


def rows_a_block(width: int, like: Array) -> int:
    """Return how many rows are worked on at a time where ``width`` numbers are made of each."""
    return max(FEWEST_ROWS, (BLOCK_NUMBERS if on_host(like) else DEVICE_NUMBERS) // width)


def _total(counts: Array) -> float:
    xp = namespace_of(counts)
    return float(xp.sum(counts, dtype=xp.float64))
