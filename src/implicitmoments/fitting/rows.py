"""Labelled rows, block by block, in standard coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.backends import Array, namespace_of
from implicitmoments.moments import HermiteProblem
from implicitmoments.moments.passes import share_rows
from implicitmoments.samples import ArraySource, RowDraws, Stream, blocks

__all__ = ["LabelledRows", "Rows"]

BLOCK_NUMBERS = 2**21  # made of the rows of a block: 16 MB of float64
FEWEST_ROWS, MOST_ROWS = 256, 16_384


@dataclass(frozen=True, eq=False)
class Rows:
    """A block of labelled rows.

    Attributes
    ----------
    x : array of shape (n, d)
    y : array of shape (n,)
    counts : array of shape (n,)
        How often each row counts.
    """

    x: Array
    y: Array
    counts: Array


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The rows of a problem with labels, or every ``stride``-th of them.

    Attributes
    ----------
    problem : HermiteProblem
        Its source has a column ``y``.
    block_rows : int or None
        Rows read at a time; by default fewer the wider what is made of them.
    stride : int
    """

    problem: HermiteProblem
    block_rows: int | None = None
    stride: int = 1

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return -(-(self.problem.n_rows or 0) // self.stride)

    @property
    def mass(self) -> float:
        """Rows in all, with their multiplicity."""
        return self.problem.mass / self.stride

    def about(self, n: int) -> LabelledRows:
        """Return about n of the rows, evenly spread; all if there are fewer than twice as many."""
        return LabelledRows(self.problem, self.block_rows, max(1, self.n_rows // max(1, n)))

    def held(self) -> LabelledRows:
        """Return the same rows in memory, for a number of rows that is known to be small."""
        source, counts = self.gathered()
        return LabelledRows(HermiteProblem(source, sample_weight=counts), self.block_rows)

    def gathered(self) -> tuple[ArraySource, Array]:
        """Return the rows as arrays, and how often each counts."""
        parts = list(self.blocks(1))
        xp = namespace_of(parts[0].x)
        x, y, counts = (
            xp.concat([getattr(part, name) for part in parts]) for name in ("x", "y", "counts")
        )
        return ArraySource(x, y=y), counts

    def blocks(self, width: int) -> Iterator[Rows]:
        """Yield blocks, small enough that ``width`` numbers of each row fit."""
        for rows, _ in self._read(width):
            yield rows

    def folds(self, width: int, n_folds: int) -> Iterator[tuple[np.ndarray[Any, Any], Rows]]:
        """Yield blocks with the fold of each row, told by what its point holds."""
        for rows, origin in self._read(width):
            yield share_rows(origin, n_folds), rows

    def _read(self, width: int) -> Iterator[tuple[Rows, Array]]:
        size = self.block_rows or min(max(FEWEST_ROWS, BLOCK_NUMBERS // width), MOST_ROWS)
        for rows in blocks(range(self.problem.n_rows or 0), size * self.stride):
            block = self.problem.source.read(rows, RowDraws(0, rows, (Stream.ROWS,)))
            x, y = block["x"], block["y"]
            counts = self.problem.multiplicity(rows, x)
            if counts is None:
                counts = namespace_of(x).ones_like(y)
            origin, step = block.get("origin", x), self.stride
            first = -rows.start % step
            yield (
                Rows(x[first::step, :], y[first::step], counts[first::step]),
                origin[first::step, :],
            )
