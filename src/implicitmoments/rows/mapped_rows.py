"""Rows of a source with weights, rules, an affine map and a transform: block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    index_like,
    lift_rows,
    move_like,
    namespace_of,
)
from implicitmoments.rows.affine_maps import LabelMap, Linear, multiply_maps
from implicitmoments.rows.constants import restore_columns
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.fold import (
    DEFAULT_BUDGET,
    Block,
    KeyGrid,
    MemoryBudget,
    Progress,
    blocks,
    gather_blocks,
    keys_of,
    leave_out_rows,
    lift_points,
    take_rows,
    weights_of,
)
from implicitmoments.rows.row_selection import Census, Rule, Share
from implicitmoments.rows.sources import Source


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Fields of a view, what it makes of a block, and further maps; see :class:`Rows`."""

    source: Source
    center: Floats | None = None
    linear: Linear = None
    labels: LabelMap | None = None
    keep: tuple[Rule, ...] = ()
    weights: Array | float | None = None
    wide: bool = False
    transform: Callable[[Block], Block] | None = None
    constants: Floats | None = None
    rows_per_block: int | None = None
    budget: MemoryBudget = field(default=DEFAULT_BUDGET, repr=False)
    progress: Progress | None = field(default=None, repr=False)
    known: Census | None = field(default=None, repr=False)
    grid: KeyGrid | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Drop caches and the progress callback when pickling: a measure may contain a view."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**kept, "progress": None}

    @property
    def n(self) -> int:
        """Rows of the source, kept or not."""
        return self.source.n

    @property
    def n_features(self) -> int:
        """Coordinates of a point as mapped."""
        if self.transform is not None:
            return int(self.like.shape[1])
        if isinstance(self.linear, np.ndarray) and self.linear.ndim == 2:
            return int(self.linear.shape[1])
        return self.source.n_features if self.columns is None else len(self.columns)

    @cached_property
    def columns(self) -> Integers | None:
        """Columns of the source that points have; None for all."""
        return None if self.constants is None else np.flatnonzero(np.isnan(self.constants))

    @cached_property
    def first(self) -> Block:
        """The first row of the source, unmapped, whether it is kept or not."""
        return self.source.first()

    @cached_property
    def like(self) -> Array:
        """A point as mapped, (1, p): it has the library, precision and device of all."""
        return self.map_block(self.first)["x"]

    @property
    def origin(self) -> Floats:
        """The point that is mapped to 0, (d,), in the columns of the source that points have."""
        d = self.source.n_features if self.columns is None else len(self.columns)
        return np.zeros(d) if self.center is None else self.center

    @property
    def unit(self) -> float:
        """A unit of the view in units of the source, if the map scales all columns alike."""
        return 1.0 if self.linear is None else 1 / float(self.linear)

    @property
    def weighted_rows(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None or "counts" in self.first

    @property
    def small(self) -> bool:
        """Whether all rows may be held in memory."""
        return self.n * max(self.n_features, 1) <= self.budget.held

    def mapped(
        self, center: Floats | None = None, linear: Linear = None, labels: LabelMap | None = None
    ) -> Self:
        """Return the rows with a further affine map of the points, and a map of the labels.

        Parameters
        ----------
        center : array of shape (d,), optional
            Subtracted from the points.
        linear : None, float, or array of shape (d,) or (d, p)
            Multiplies the points.
        labels : LabelMap, optional
            Replaces the map of the labels.

        Returns
        -------
        Rows
            A view of the same source.
        """
        if center is not None:
            if isinstance(self.linear, np.ndarray) and self.linear.ndim == 2:
                center = np.asarray(center @ np.linalg.pinv(self.linear), dtype=np.float64)
            elif self.linear is not None:
                center = np.asarray(center / self.linear, dtype=np.float64)
            center = center if self.center is None else self.center + center
        return replace(
            self,
            center=self.center if center is None else center,
            linear=multiply_maps(self.linear, linear),
            labels=labels or self.labels,
            known=self._counted,
        )

    def without(self, constants: Floats | None) -> Self:
        """Return the rows without columns that are constant; before any map.

        Parameters
        ----------
        constants : array of shape (d,) or None
            Values of the columns that points shall not have; NaN for the others. None for none.

        Returns
        -------
        Rows
            A view of the same source.
        """
        return replace(self, constants=constants, known=self._counted)

    def transformed(self, function: Callable[[Block], Block]) -> Self:
        """Return the rows with a function of their blocks, which comes after the map.

        Parameters
        ----------
        function : callable
            Takes a block of columns as mapped, and returns one with as many rows.

        Returns
        -------
        Rows
            A view of the same source.
        """
        return replace(self, transform=function, known=self._counted)

    def as_given(self) -> Self:
        """Return the rows that are kept, with their weights, without the map.

        Columns that are left out stay so.

        Returns
        -------
        Rows
            A view of the same source.
        """
        plain: dict[str, Any] = dict.fromkeys(("center", "linear", "labels", "transform"))
        return replace(self, **plain, wide=False, known=self._counted)

    @property
    def _counted(self) -> Census | None:
        """Known counts of the rows, which do not depend on the map."""
        return None if self.known is None else Census(self.known.kept, self.known.total)

    def kept_by(self, rule: Rule, known: Census | None = None) -> Self:
        """Return the rows that are also kept by a rule.

        Parameters
        ----------
        rule : callable
            ``rule(block)`` returns which rows are kept, (n,), or None for all.
        known : Census, optional
            Number and weight of the rows kept.

        Returns
        -------
        Rows
            A view of the same source.
        """
        return replace(self, keep=(*self.keep, rule), known=known)

    def weighted(self, weights: Array | float) -> Self:
        """Return the rows with their weights multiplied.

        Parameters
        ----------
        weights : array of shape (n,) or float
            Factors of the weights.

        Returns
        -------
        Rows
            A view of the same source.
        """
        if self.weights is not None:
            weights = self.weights * weights
        return replace(self, weights=weights if np.ndim(weights) else float(weights), known=None)

    def split(self, share: int, n_shares: int, *, out: bool = False) -> Self:
        """Return one of some shares of the rows, or all rows but that share.

        Shares depend on the unmapped content of a row, or on its place on the grid of
        :meth:`keyed_on`: neither on its position nor on the size of blocks, and equal rows are in
        one share.

        Parameters
        ----------
        share, n_shares : int
            The number of the share, from 0, and the number of shares.
        out : bool, default False
            Return all other rows instead.

        Returns
        -------
        Rows
            A view of the same source.
        """
        return self.kept_by(Share(share, n_shares, out, self.grid))

    def keyed_on(self, grid: KeyGrid) -> Self:
        """Return the rows with keys on a grid, so that shares do not depend on units.

        Parameters
        ----------
        grid : KeyGrid
            In columns of the source.

        Returns
        -------
        Rows
            A view of the same source.
        """
        return replace(self, grid=grid)

    def map_block(self, block: Block, *, keyed: bool = False) -> Block:
        """Map the points and labels of a block.

        Parameters
        ----------
        block : mapping of str to array
            Columns as the source has them.
        keyed : bool, default False
            Add a column ``"key"``, a hash of each row of the source: products of matrices round
            by the size of a block, so that mapped rows are no key.

        Returns
        -------
        mapping of str to array
            As many rows.
        """
        x = block["x"]
        xp, found = namespace_of(x), dict(block)
        if self.columns is not None:
            x = xp.take(x, index_like(self.columns, x), axis=1)
        if self.wide:
            x = xp.astype(x, xp.float64, copy=False)
            if "counts" in block:
                found["counts"] = xp.astype(block["counts"], x.dtype, copy=False)
        if keyed:
            found["key"] = keys_of(block, self.grid)
        if self.labels is not None:
            found["y"] = self.labels(x, block["y"])
        scale = 1.0 if self.linear is None else self.linear
        if self.transform is lift_points and self.center is not None and isinstance(scale, float):
            found["x"] = lift_rows(x, move_like(self.center, x), 1.0 / scale)  # in one go
            return found
        if self.center is not None:
            x = x - move_like(self.center, x)[None, :]
        if isinstance(self.linear, float):
            x = x * self.linear
        elif self.linear is not None:
            linear = move_like(self.linear, x)
            x = x * linear[None, :] if linear.ndim == 1 else x @ linear
        found["x"] = x
        return found if self.transform is None else self.transform(found)

    def _kept(self, block: Block, rows: range | Array, *, keyed: bool = False) -> Block:
        """Return the rows of positive weight that all rules keep, mapped."""
        block = self._weigh(block, rows)
        for rule in self.keep:
            block = take_rows(block, rule(block))
        if "counts" in block:
            block = take_rows(block, block["counts"] > 0)
        return self.map_block(block, keyed=keyed)

    def _whole(self, block: Block, rows: range | Array, *, keyed: bool = False) -> Block:
        """Return all rows, mapped; those that are not kept have weight 0 and lie at the centre."""
        block = self._weigh(block, rows)
        center = self.center
        if center is not None:
            center = restore_columns(center, self.constants)
        for rule in self.keep:
            block = leave_out_rows(block, rule(block), center, self.grid)
        return self.map_block(block, keyed=keyed)

    def _weigh(self, block: Block, rows: range | Array) -> Block:
        """Multiply the weights of the rows of a block, which have these numbers."""
        if self.weights is None:
            return block
        counts, weights = weights_of(block), self.weights
        if not isinstance(weights, float):
            where = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
            weights = move_like(weights[where], counts)
        return {**block, "counts": counts * weights}

    def _block_size(self, width: int, parts: int = 1) -> int:
        widest = max(width, self.source.n_features, self.n_features)
        return self.rows_per_block or self.budget.rows_per_block(widest, self.first["x"], parts)

    def blocks(self, width: int = 1, *, whole: bool = False) -> Iterator[Block]:
        """Yield blocks of the rows that are kept, in order.

        Parameters
        ----------
        width : int, default 1
            Numbers computed per row.
        whole : bool, default False
            Yield all rows; those not kept have weight 0.

        Yields
        ------
        mapping of str to array
            The columns of a block, as mapped.
        """
        read = self._whole if whole else self._kept
        for piece in blocks(range(self.n), self._block_size(width)):
            yield read(self.source.block(piece), piece)

    def pick(
        self,
        numbers: Integers,
        *,
        what: str = "some of the rows",
        whole: bool = False,
        then: Callable[[Block], Block] = dict,
    ) -> Block:
        """Return some rows, those that are kept, as mapped.

        Parameters
        ----------
        numbers, what : as for :meth:`Source.pick`
        whole : bool, default False
            Return all of them; those not kept have weight 0.
        then : callable, optional
            A function of a block as mapped, which comes last.

        Returns
        -------
        mapping of str to array
            The columns.
        """
        read = self._whole if whole else self._kept
        # the key cannot be computed from mapped points
        maps = (self.constants, self.center, self.linear)
        keyed = self.transform is None and any(each is not None for each in maps)
        # a map makes three arrays of the size of what is read at a time
        step = max(1, self.budget.block // (8 * max(1, self.source.n_features)))
        pieces = [numbers[i : i + step] for i in range(0, max(len(numbers), 1), step)]
        keyed |= self.grid is not None
        keyed |= whole and len(pieces) > 1  # rows that are left out bring keys of their own
        return gather_blocks(
            (then(read(self.source.pick(some, what=what), some, keyed=keyed)) for some in pieces),
            len(numbers),
        )
