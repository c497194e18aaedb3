"""Lazy composition of maps, filters and weights on the rows of a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from implicitmoments.arrays import Array, Floats
from implicitmoments.rows.block_map import (
    BlockMap,
    Census,
    Composed,
    LabelMap,
    Linear,
    Rule,
    Share,
    compose,
)
from implicitmoments.rows.fold import DEFAULT_BUDGET, Block, MemoryBudget, Progress
from implicitmoments.rows.sources import Source


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Fields of a view, and composition with further maps; see :class:`Rows`."""

    source: Source
    center: Floats | None = None
    linear: Linear = None
    labels: LabelMap | None = None
    keep: tuple[Rule, ...] = ()
    weights: Array | float | None = None
    wide: bool = False
    transform: Callable[[Block], Block] | None = None
    rows_per_block: int | None = None
    budget: MemoryBudget = field(default=DEFAULT_BUDGET, repr=False)
    progress: Progress | None = field(default=None, repr=False)
    known: Census | None = field(default=None, repr=False)

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
        if isinstance(self.linear, np.ndarray) and self.linear.ndim == 2:
            return int(self.linear.shape[1])
        return self.source.n_features if self.transform is None else self.first["x"].shape[1]

    @cached_property
    def first(self) -> Block:
        """The first row of the source, transformed but not mapped, whether it is kept or not."""
        block = self.source.first()
        return block if self.transform is None else self.transform(block)

    @property
    def weighted_rows(self) -> bool:
        """Whether rows have weights."""
        return self.weights is not None or "counts" in self.first

    @property
    def _counted(self) -> Census | None:
        """Known counts of the rows, which do not depend on the map."""
        return None if self.known is None else Census(self.known.kept, self.known.total)

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
        center, linear = compose(self.center, self.linear, center, linear)
        labels = labels or self.labels
        return replace(self, center=center, linear=linear, labels=labels, known=self._counted)

    def transformed(self, function: Callable[[Block], Block]) -> Self:
        """Return the rows with a function of their blocks in place of the columns of the source.

        It comes before the map, the rules and the weights of the view.

        Parameters
        ----------
        function : callable
            Takes a block of columns, and returns one with as many rows. Products of matrices
            round by the size of a block; rows keep the shares that they have in the source.

        Returns
        -------
        Rows
            A view of the same source.
        """
        if self.transform is not None:
            function = Composed(self.transform, function)
        return replace(self, transform=function, known=None)

    def as_given(self) -> Self:
        """Return the rows that are kept, with their weights, without the map.

        Returns
        -------
        Rows
            A view of the same source.
        """
        known = None if self.known is None else Census(self.known.kept, self.known.total)
        return replace(self, center=None, linear=None, labels=None, wide=False, known=known)

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
        if np.ndim(weights) == 0:
            weights = float(weights)
        return replace(self, weights=weights, known=None)

    def split(self, share: int, n_shares: int, *, out: bool = False) -> Self:
        """Return one of some shares of the rows, or all rows but that share.

        Shares depend on the unmapped content of a row: neither on its position nor on
        the size of blocks, and equal rows are in one share.

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
        return self.kept_by(Share(share, n_shares, out))

    def reader(self, *, keyed: bool = False, lifted: bool = False) -> BlockMap:
        """Return the map of a block of the source.

        Parameters
        ----------
        keyed, lifted : bool, default False
            As for :meth:`fold`.

        Returns
        -------
        BlockMap
            Picklable, so that it can be sent to a cluster.
        """
        return BlockMap(
            self.center,
            self.linear,
            self.labels,
            self.keep,
            self.weights,
            self.wide,
            self.transform,
            keyed,
            lifted,
        )

    def block_size(self, width: int = 1) -> int:
        """Return the number of rows per block.

        Parameters
        ----------
        width : int, default 1
            Numbers computed per row.

        Returns
        -------
        int
            Rows per block.
        """
        widest = max(width, self.source.n_features, self.n_features)
        return self.rows_per_block or self.budget.rows_per_block(widest, self.first["x"])
