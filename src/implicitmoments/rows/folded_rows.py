"""Passes over the rows that a view keeps: sums over blocks, and counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Self

from implicitmoments.arrays import namespace_of
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import RowDraws
from implicitmoments.rows.fold import After, Block, Measure, Sums, count_rows
from implicitmoments.rows.mapped_rows import MappedRows
from implicitmoments.rows.row_selection import Census
from implicitmoments.rows.sources import ArraySource, ElsewhereSource


@dataclass(frozen=True, eq=False)
class FoldedRows(MappedRows):
    """What a view computes in passes over its source; see :class:`Rows`."""

    @cached_property
    def first_kept(self) -> Block:
        """The first row that is kept, as mapped."""
        for block in chain([self._kept(self.first, range(1))], self.blocks()):
            if block["x"].shape[0]:
                return {name: column[:1, ...] for name, column in block.items()}
        raise InputError("no_rows_kept", "none of {n:count row} is kept", n=self.n)

    @cached_property
    def census(self) -> Census:
        """Number of rows kept; may need a pass over the rows."""
        if self.known is not None:
            return self.known
        if not self.keep and not self.weighted_rows:
            return Census(self.n, float(self.n))
        found = self.as_given().fold(count_rows, what="counting rows")
        return Census(int(found.get("kept", 0)), float(found.get("total", 0.0)))

    @property
    def kept(self) -> int:
        """Rows that are kept and have a positive weight."""
        return self.census.kept

    @property
    def total(self) -> float:
        """The sum of the weights of the rows that are kept."""
        return self.census.total

    @cached_property
    def held(self) -> bool:
        """Whether all rows are kept, and in memory as a pass measures them."""
        changes = (self.center, self.linear, self.labels, self.weights, self.transform)
        if self.keep or self.wide or any(each is not None for each in (self.constants, *changes)):
            return False
        if not isinstance(self.source, ArraySource):
            return False
        counts = self.source.block(range(self.n)).get("counts")
        return counts is None or bool(namespace_of(counts).all(counts > 0))

    def fold(
        self,
        measure: Callable[[Block], Sums],
        *,
        width: int = 1,
        what: str = "",
        keyed: bool = False,
    ) -> Sums:
        """Sum ``measure`` over the blocks of the rows kept, in one pass.

        Sums are added in the order of the rows: they have the same bits for any number of threads.
        Blocks without rows are not measured.

        Parameters
        ----------
        measure : callable
            ``measure(block)`` returns named sums over the rows of a block: ``"x"`` as mapped,
            ``"y"`` if rows have labels, ``"counts"`` if they have weights. It travels to where
            the rows are, so it holds small arrays only.
        width : int
            Numbers computed per row; it limits the size of the blocks.
        what : str
            What the pass is for, in a few words.
        keyed : bool
            Blocks have a column ``"key"`` for :func:`shares_of`.

        Returns
        -------
        dict of str to array
            The sums.
        """
        view = None if self.held and not keyed else self.without_source
        return self._fold(partial(_measure_kept, view, measure, keyed), width=width, what=what)

    def fold_numbered(
        self,
        measure: Measure,
        rows: range | None = None,
        *,
        width: int = 1,
        what: str = "",
        keyed: bool = False,
        parts: int = 1,
        seed: int = 0,
        after: After | None = None,
    ) -> Sums:
        """Sum ``measure(block, rows)`` over blocks of all rows, with their row numbers.

        For computations with numbers of their own for each row. Rows that are not kept have
        weight 0 and lie at the centre of the map.

        Parameters
        ----------
        measure : callable
            Returns named sums over the rows of a block.
        rows : range, optional
            Consecutive rows; all by default.
        width, what, keyed
            As for :meth:`fold`.
        parts : int, default 1
            Parts into which the rows of a block are divided; blocks are as much larger.
        seed : int, default 0
            Seed of a source that generates its rows.
        after : callable, optional
            As for :meth:`Source.fold`.

        Returns
        -------
        dict of str to array
            The sums.
        """
        whole = partial(_measure_whole, self.without_source, measure, keyed)
        return self._fold(whole, rows, width=width, parts=parts, what=what, seed=seed, after=after)

    def _fold(
        self,
        measure: Measure,
        rows: range | None = None,
        *,
        width: int,
        parts: int = 1,
        what: str,
        seed: int = 0,
        after: After | None = None,
    ) -> Sums:
        """Sum over blocks of the source, and report progress."""
        taken = range(self.n) if rows is None else rows
        progress, total, done = self.progress or (lambda *_: None), len(taken), 0

        def report(sums: Sums, next_row: int) -> None:
            nonlocal done
            done = next_row - taken.start
            if after is not None:
                after(sums, next_row)
            progress(what, done, total)

        size = self._block_size(width, parts)
        sums = self.source.fold(measure, taken, size, what=what, seed=seed, after=report)
        if done < total:  # a journal has answered
            progress(what, total, total)
        return sums

    @property
    def without_source(self) -> Self:
        """The view without its rows, as it is sent to the process that has them."""
        return replace(self, source=ElsewhereSource(self.source.n_rows, self.source.n_features))

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Return all rows of a range as mapped; those not kept have weight 0.

        Parameters
        ----------
        rows, rng : as for :meth:`Source.read`

        Returns
        -------
        mapping of str to array
            The columns.
        """
        return self._whole(self.source.read(rows, rng), rows)


def _measure_kept(
    view: FoldedRows | None,
    measure: Callable[[Block], Sums],
    keyed: bool,
    block: Block,
    rows: range,
) -> Sums:
    """Measure the rows of a block that a view keeps; the block as it is without a view."""
    kept = block if view is None else view._kept(block, rows, keyed=keyed)
    return measure(kept) if kept["x"].shape[0] else {}


def _measure_whole(
    view: FoldedRows, measure: Measure, keyed: bool, block: Block, rows: range
) -> Mapping[str, Any]:
    return measure(view._whole(block, rows, keyed=keyed), rows)
