"""Immutable view of the rows of a source: passes over them, and samples held in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.rows.fold import Block, keys_of, order_by_keys, weights_of
from implicitmoments.rows.folded_rows import FoldedRows
from implicitmoments.rows.row_selection import Census
from implicitmoments.rows.sources import ArraySource, as_source, take_along

# A coordinate of more has a square above 1e4, which float32 resolves to 1e-3 only.
LARGEST_SINGLE = 100.0
FEW_COLUMNS = 4  # that are compared first where equal rows are looked for


@dataclass
class Narrower:
    """Rounds the points of blocks to single precision, as long as none is far from 0.

    Then all have to be read again, and further blocks are zeros.
    """

    far: bool = False  # whether a point lay beyond LARGEST_SINGLE

    def __call__(self, block: Block) -> Block:
        """Return the block in single precision where that is enough."""
        x = block["x"]
        xp = namespace_of(x)
        if x.dtype == xp.float32:
            return block
        if x.shape[0] and not self.far:
            self.far = not bool(xp.max(x) <= LARGEST_SINGLE and xp.min(x) >= -LARGEST_SINGLE)
        found = xp.zeros_like(x, dtype=xp.float32) if self.far else xp.astype(x, xp.float32)
        return {**block, "x": found}


@dataclass(frozen=True, eq=False)
class Rows(FoldedRows):
    r"""A view of rows: a source, an affine map, the rows kept, and their weights.

    Every estimator passes over its rows through a view. Views compose, and composing reads
    nothing.

    Attributes
    ----------
    source : Source
        Where the rows are.
    center : array of shape (d,) or None
    linear : None, float, or array of shape (d,) or (d, p)
        Points are mapped to ``(x - center) @ linear``; a number or a vector multiplies columns.
    labels : LabelMap or None
        Maps the column ``"y"``.
    keep : tuple of Rule
        Functions of an unmapped block of the source: which rows are kept, (n,); None for all.
    weights : array of shape (n,), float or None
        Multiplies the weights (``"counts"``) that rows have in the source.
    wide : bool
        Map rows in double precision even if the source has single precision.
    transform : callable or None
        A function of a block as mapped that returns one with as many rows; it comes last.
    constants : array of shape (n_features,) or None
        Values of columns that points do not have, since they are the same in all rows; NaN for
        the d columns that they have. None where they have all.
    rows_per_block : int or None
        Rows read at a time; None to choose it by ``budget``.
    budget : MemoryBudget
    progress : callable or None
        Called as ``progress(what, rows_done, rows_total)`` during passes.
    known : Census or None
        Counted where it is not given.
    grid : KeyGrid or None
        On which rows have the keys that determine their shares; None for their bits.

    See Also
    --------
    Source : The protocol of all sources.
    open_file : Rows of a file.

    Examples
    --------
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> rows = Rows.of(X).mapped(center=np.array([0.0, 1.0]), linear=0.5)
    >>> rows.fold(lambda block: {"sum": block["x"].sum(axis=0)})["sum"].tolist()
    [6.0, 6.0]
    >>> rows.kept_by(lambda block: block["x"][:, 0] > 1).kept
    3
    """

    @classmethod
    def of(cls, points: Any, **columns: Array | None) -> Rows:
        """Return a view of an array (n, d), a function, a source or a view.

        Parameters
        ----------
        points : array of shape (n, d), Source, Rows or callable
        **columns : array of shape (n,)
            Further columns of an array: ``y``, and ``counts`` for weights. None for no column.

        Returns
        -------
        Rows
            ``points`` itself if it is a view.
        """
        given = {name: column for name, column in columns.items() if column is not None}
        if isinstance(points, Rows):
            return points
        return cls(ArraySource(points, **given) if given else as_source(points))

    def sample(
        self, n: int, rng: np.random.Generator | int = 0, *, width: int = 1, single: bool = False
    ) -> Rows:
        """Hold about n of the rows that are kept, drawn at random without replacement.

        All rows where there are no more. They stay in order, and depend on ``rng`` alone.

        Parameters
        ----------
        n : int
        rng : Generator or int
            An integer is a seed.
        width : int
            Numbers that will be made of a row: n is limited to what memory should hold.
        single : bool
            Hold points in float32, unless one lies more than 100 units from 0.

        Returns
        -------
        Rows
            In memory, as mapped.
        """
        n = min(n, max(1, self.budget.held // max(width, self.n_features, 1)))
        if n >= self.n:
            return self.hold(single=single)
        kept = max(1, self.kept)
        asked = n if kept == self.n else math.ceil(n * (self.n / kept))
        numbers = draw_numbers(self.n, min(asked, self.budget.picked), rng)
        return self._holding(self._pick_single(numbers) if single else self.pick(numbers))

    def hold(self, *, single: bool = False) -> Rows:
        """Hold all rows that are kept in memory, as mapped.

        Parameters
        ----------
        single : bool, default False
            As for :meth:`sample`.

        Returns
        -------
        Rows
            In memory, as mapped; these rows themselves where they are that.
        """
        if not single:
            return self if self.held else self._holding(self._with_keys(self.block))
        if not self.held:
            return self._holding(self._pick_single(np.arange(self.n)))
        narrower, block = Narrower(), self._with_keys(self.block)
        found = narrower(block)
        return self._holding(block if narrower.far else found)

    def _pick_single(self, numbers: Integers) -> Block:
        """Return some rows as mapped, in single precision where that is enough for all of them.

        Block by block: an array of all of them in double precision is not formed.
        """
        narrower = Narrower()
        found = self.pick(numbers, then=narrower)
        if not narrower.far:
            return found
        del found  # before the rows are held in double precision
        return self.pick(numbers)

    def take(self, places: Integers, counts: Array | None = None) -> Rows:
        """Return some of the rows that are held in memory.

        Parameters
        ----------
        places : array of int
            Row numbers.
        counts : array, optional
            How often each of them counts; as before by default.

        Returns
        -------
        Rows
            In memory.
        """
        block = dict(self._with_keys(self.source.pick(places)))
        if counts is not None:
            block["counts"] = move_like(counts, block["x"])
        return self._holding(block)

    def merged(self) -> Rows:
        """Hold the rows in memory, with equal ones counted once.

        Weights and repeated rows then give the same fit: rows that have weights, or that are
        repeated, are put in an order that depends on them alone.

        Returns
        -------
        Rows
            In memory, as mapped; with the progress callback of these.
        """
        held = self.hold()
        x = held.block["x"]
        # rows that differ in a few columns need no more of them to be told apart
        order, repeated = order_by_keys(x[:, : min(FEW_COLUMNS, int(x.shape[1]))])
        if repeated or held.weighted_rows:
            order, repeated = order_by_keys(x)
        if repeated or held.weighted_rows:
            # rows of one key may differ: they are compared as neighbours in this order
            xp, x = namespace_of(x), take_along(x, order)
            differ = to_numpy(xp.any(x[1:, :] != x[:-1, :], axis=1))
            first = np.append(0, 1 + np.flatnonzero(differ))
            counts = np.add.reduceat(held.counts[order], first)
            held = held.take(order[first], None if np.all(counts == 1) else counts)
        return replace(held, progress=self.progress)

    def _with_keys(self, block: Block) -> Block:
        """Return a block of the source with the keys that the rows have on a grid."""
        return block if self.grid is None else {**block, "key": keys_of(block, self.grid)}

    def _holding(self, block: Block) -> Rows:
        columns = dict(block)
        x = columns.pop("x")
        if x.shape[0] == 0:
            raise InputError("no_rows_kept", "none of {n:count row} is kept", n=self.n)
        xp = namespace_of(x)
        held, counts = ArraySource(x, **columns), columns.get("counts")
        total = float(held.n) if counts is None else float(xp.sum(counts, dtype=xp.float64))
        known, size = Census(held.n, total), self.rows_per_block
        return Rows(held, rows_per_block=size, budget=self.budget, known=known)

    @cached_property
    def block(self) -> Block:
        """All rows that are kept, as mapped, in memory; without a copy where they are held."""
        return self.source.block(range(self.n)) if self.held else self.pick(np.arange(self.n))

    @cached_property
    def points(self) -> Floats:
        """The points that are kept, as mapped, in NumPy (n, p)."""
        return to_numpy(self.block["x"])

    @cached_property
    def counts(self) -> Floats:
        """The weights of these points in NumPy, (n,)."""
        return np.asarray(to_numpy(weights_of(self.block)), dtype=np.float64)
