"""Rows as the fit sees them: centred, scaled, weighted, in blocks, wherever they lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.mixture.held_rows import Sample, hold, rows_a_block
from implicitmoments.mixture.row_reader import Limit, Reader, Rule, some_rows
from implicitmoments.rows import Block, RowDraws, Source, Stream, Sums

__all__ = ["AnyRows", "Census", "Integers", "Rows", "Sample", "draw_numbers"]

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

MOST_PICKED = 2**22  # rows that are looked at for a sample
SAMPLED_NUMBERS = 2**26  # held of a sample, or made of it: 256 MB in float32
PICKED_NUMBERS = 2**24  # read at a time for a sample
FAR_CENTER = 1e3  # units
STRETCH = 2**20  # rows among which numbers are drawn at a time


@dataclass(frozen=True)
class Census:
    """How many rows there are.

    Attributes
    ----------
    there : int
        Rows that are kept and count at all.
    total : float
        The same, with their weight.
    squares : float or None
        Sum of their squared lengths as they are read, with their weight, where it is known.
    """

    there: int
    total: float
    squares: float | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a source, read by a Reader.

    Attributes
    ----------
    source : Source
    center : array of shape (d,) or None
    scale : float
    block_rows : int or None
        Rows read at a time; by default fewer the more components there are.
    wide : bool
    rules : tuple of Rule
    near : Limit or None
        See :class:`Reader`.
    known : Census or None
        Counted where it is not given.
    """

    source: Source
    center: Floats | None = None
    scale: float = 1.0
    block_rows: int | None = None
    wide: bool = False
    rules: tuple[Rule, ...] = ()
    near: Limit | None = None
    known: Census | None = None

    @property
    def n(self) -> int:
        """Rows of the source, whether they are there or not."""
        return self.source.n_rows or 0

    @property
    def d(self) -> int:
        """Number of features."""
        return self.source.n_features

    @cached_property
    def first(self) -> Block:
        """The first row: it has the library, precision and device of all, and their columns."""
        return self.source.read(range(1), RowDraws(0, range(1), (Stream.ROWS,)))

    @cached_property
    def like(self) -> Array:
        """An array of the library, the precision and on the device in which sums are made."""
        x = self.first["x"]
        xp = namespace_of(x)
        return xp.astype(x, xp.float64, copy=False) if self.wide else x

    @cached_property
    def reader(self) -> Reader:
        """What reads a block."""
        center = None if self.center is None else move_like(self.center, self.like)
        return Reader(center, self.scale, self.wide, self.rules, self.near)

    @cached_property
    def census(self) -> Census:
        """How many rows there are."""
        if self.known is not None:
            return self.known
        if "counts" not in self.first and not self.rules and self.near is None:
            return Census(self.n, float(self.n))
        found = self.fold(_count, self.d, "counting rows")
        return Census(round(float(found["there"])), float(found["total"]))

    @property
    def total(self) -> float:
        """Rows counted with their weight."""
        return self.census.total

    @property
    def plain(self) -> bool:
        """Whether rows may be multiplied as they lie, and their centre taken off the products.

        Double precision has 16 digits, and a far centre would take too many of them.
        """
        if self.rules or self.near is not None or self.wide or self.census.squares is None:
            return False
        far = 0.0 if self.center is None else float(np.abs(self.center).max())
        like = self.like
        held = isinstance(like, np.ndarray) and like.dtype == np.float64
        return held and far <= FAR_CENTER * self.scale

    def fold_plain(self, measure: Callable[[Block, range], Sums], width: int, what: str) -> Sums:
        """Sum over blocks as they lie in the source."""
        size = self.block_rows or rows_a_block(max(width, self.d), self.like)
        return self.source.fold(measure, range(self.n), size, what=what)

    def fold(
        self, measure: Callable[[Block], Sums], width: int, what: str, *, lifted: bool = False
    ) -> Sums:
        """Sum over blocks as they are read; ``width`` numbers are made of each row."""
        size = self.block_rows or rows_a_block(max(width, self.d), self.like)
        return self.source.fold(
            _Read(self.reader, lifted, measure), range(self.n), size, what=what
        )

    def sample(self, n: int, rng: np.random.Generator, width: int = 1) -> Sample:
        """Return about n rows without replacement, in order; only rows that are there.

        All rows where there are no more than n of them. They are held as they are read, in
        float32 unless some row lies so far out that its square would drown the others. Where
        ``width`` numbers will be made of each row, n is at most what memory should hold.
        """
        n = min(n, SAMPLED_NUMBERS // max(width, self.d))
        there = max(1, self.census.there)
        asked = n if there == self.n else math.ceil(n * (self.n / there))
        return self.held(draw_numbers(self.n, min(asked, MOST_PICKED), rng))

    def held(self, numbers: Integers | None = None) -> Sample:
        """Return the rows of these numbers that are there, or all, held as they are read."""
        block = self.picked(np.arange(self.n) if numbers is None else numbers)
        return hold(block["x"], block.get("counts"), self.block_rows)

    def picked(self, numbers: Integers) -> dict[str, Array]:
        """Return the columns of the rows of these numbers that are there, as they are read."""
        step, parts = max(1, PICKED_NUMBERS // self.d), []
        for first in range(0, len(numbers), step):
            picked = self.source.pick(numbers[first : first + step], what="some of the rows")
            block = self.reader(picked)
            counts = block.get("counts")
            if counts is not None and not bool(namespace_of(counts).all(counts > 0)):
                block = some_rows(block, namespace_of(counts).nonzero(counts > 0)[0])
            parts.append(block)
        xp = namespace_of(parts[0]["x"])
        return {name: xp.concat([part[name] for part in parts]) for name in parts[0]}

    def take(self, numbers: Integers) -> Sample:
        """Return the rows of these numbers; those that are not there count zero times."""
        picked = dict(self.source.pick(numbers, what="some of the rows"))
        unruled = Reader(self.reader.center, self.scale, self.wide)(picked)
        if not self.rules and self.near is None:
            return hold(unruled["x"], unruled.get("counts"), self.block_rows)
        places = np.arange(len(numbers), dtype=np.float64)
        marked = self.reader({**picked, "counts": move_like(places, picked["x"])})
        there = to_numpy(marked["counts"]).astype(np.int64)
        counts = np.zeros(len(numbers))
        counts[there] = to_numpy(unruled["counts"])[there] if "counts" in unruled else 1.0
        return hold(unruled["x"], move_like(counts, unruled["x"]), self.block_rows)


AnyRows: TypeAlias = Rows | Sample


def draw_numbers(n_rows: int, n: int, rng: np.random.Generator) -> Integers:
    """Draw n of the numbers below ``n_rows``, in ascending order; all if there are no more.

    Of many, every stretch gives its share, so that nothing of the length of all is made.
    """
    if n >= n_rows:
        return np.arange(n_rows)
    edges = [*range(0, n_rows, STRETCH), n_rows]
    drawn = []
    for low, high in pairwise(edges):
        quota = n * high // n_rows - n * low // n_rows
        drawn.append(low + np.sort(rng.choice(high - low, quota, replace=False)))
    return np.concatenate(drawn)


@dataclass(frozen=True)
class _Read:
    """Measures blocks as they are read: what a pass sends to where the rows are."""

    reader: Reader
    lifted: bool
    measure: Callable[[Block], Sums]

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        return self.measure(self.reader(block, self.lifted))


def _count(block: Block) -> Sums:
    counts = block.get("counts")
    if counts is None:
        n = float(block["x"].shape[0])
        return {"there": n, "total": n}
    xp = namespace_of(counts)
    return {
        "there": xp.sum(xp.astype(counts > 0, xp.float64)),
        "total": xp.sum(counts, dtype=xp.float64),
    }
