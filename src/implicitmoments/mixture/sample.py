"""Some of the rows held in memory, which the search passes over many times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    index_like,
    lift_rows,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.rows import Block, Rows, Sums, blocks, fold_blocks
from implicitmoments.rows.budget import DEFAULT_BUDGET

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows held in memory, in the library and on the device they came from."""

    X: Array  # (n, d), float64, or float32 where only a search depends on it
    sample_weight: Array | None = None  # (n,), how often each row counts
    # rows worked on at a time; by default fewer the more is made of each
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
