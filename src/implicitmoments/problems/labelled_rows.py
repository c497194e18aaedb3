"""Labelled rows, block by block, in standard coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Array, namespace_of
from implicitmoments.moments import HermiteProblem
from implicitmoments.rows import ArraySource, Block, Sums, shares_of
from implicitmoments.rows import Rows as View

__all__ = ["LabelledRows", "Rows"]


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
    """The rows of a problem with labels.

    Attributes
    ----------
    problem : HermiteProblem
        Its source has a column ``y``.
    block_rows : int or None
        Rows read at a time; by default fewer the wider what is made of them.
    """

    problem: HermiteProblem
    block_rows: int | None = None

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return self.problem.n_rows or 0

    @property
    def mass(self) -> float:
        """Rows in all, with their multiplicity."""
        return self.problem.mass

    def about(self, n: int) -> LabelledRows:
        """Return about n of the rows, evenly spread and in memory.

        All rows, where they are, if there are fewer than twice as many.
        """
        stride = self.n_rows // max(1, n)
        if stride < 2:
            return self
        return LabelledRows(HermiteProblem(self.gathered(stride)), self.block_rows)

    def gathered(self, stride: int = 1) -> ArraySource:
        """Return the rows as arrays, or every ``stride``-th of them."""
        chosen = np.arange(0, self.n_rows, stride)
        block = dict(self.problem.rows.pick(chosen))
        return ArraySource(block.pop("x"), **block)

    def fold(self, measure: Callable[[Rows], Sums], width: int, what: str) -> Sums:
        """Sum what ``measure`` gives of blocks so small that ``width`` numbers a row fit."""
        return self._rows.fold(_Labelled(measure), width=width, what=what)

    def fold_shares(
        self, measure: Callable[[Array, Rows], Sums], n_shares: int, width: int, what: str
    ) -> Sums:
        """Do so with the share of each row, (n,), told by what its point holds."""
        return self._rows.fold(_Shared(measure, n_shares), width=width, what=what, keyed=True)

    @property
    def _rows(self) -> View:
        return replace(self.problem.rows, rows_per_block=self.block_rows)


@dataclass(frozen=True)
class _Labelled:
    measure: Callable[[Rows], Sums]

    def __call__(self, block: Block) -> Sums:
        return self.measure(_rows_of(block))


@dataclass(frozen=True)
class _Shared:
    measure: Callable[[Array, Rows], Sums]
    n_shares: int

    def __call__(self, block: Block) -> Sums:
        shares = shares_of(block, self.n_shares)
        return self.measure(shares, _rows_of(block))


def _rows_of(block: Block) -> Rows:
    y = block["y"]
    counts = block.get("counts")
    return Rows(block["x"], y, namespace_of(y).ones_like(y) if counts is None else counts)
