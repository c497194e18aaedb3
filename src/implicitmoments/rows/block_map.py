"""Map from a block of the source to a block of a view: weights, filters, affine map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    key_shares,
    lift_rows,
    move_like,
    namespace_of,
    row_keys,
)
from implicitmoments.rows.fold import Block, Measure, Sums

# None is the identity; a number or (d,) multiplies the columns, (d, p) maps the rows
Linear: TypeAlias = Floats | float | None
# rule(unmapped block of the source) -> (n,) whether each row is kept; None keeps all of them
Rule: TypeAlias = Callable[[Block], Array | None]


@dataclass(frozen=True, eq=False)
class LabelMap:
    r"""Maps labels to :math:`(y - c - b \cdot (x - m)) / s`, with unmapped x."""

    center: float = 0.0  # c and s
    scale: float = 1.0
    slope: Floats | None = None  # (d,), b and m; None for a slope of 0, and for the origin
    about: Floats | None = None  # (d,)

    def __call__(self, x: Array, y: Array) -> Array:
        """Map the labels of rows x (n, d)."""
        left = y - self.center
        if self.slope is not None:
            moved = x if self.about is None else x - move_like(self.about, x)[None, :]
            left = left - moved @ move_like(self.slope, x)
        return left / self.scale


@dataclass(frozen=True)
class Share:
    """Keeps one of some shares of the rows, or all others; shares depend on content alone."""

    share: int
    n_shares: int
    out: bool = False

    def __call__(self, block: Block) -> Array:
        """Return which rows are kept."""
        shares = shares_of(block, self.n_shares)
        kept: Array = shares != self.share if self.out else shares == self.share
        return kept


@dataclass(frozen=True, eq=False)
class BlockMap:
    """Maps blocks of a source to blocks of a view; it contains small arrays only.

    Attributes
    ----------
    center, linear, labels, keep, weights, wide, transform
        Those of :class:`implicitmoments.rows.Rows`.
    keyed : bool
        Add a column ``key``: a hash of each unmapped row. Products of matrices round
        by the size of a block, so that mapped rows are no key.
    lifted : bool
        Give points as :math:`(z, |z|^2, 1)`.
    """

    center: Floats | None = None
    linear: Linear = None
    labels: LabelMap | None = None
    keep: tuple[Rule, ...] = ()
    weights: Array | float | None = None
    wide: bool = False
    transform: Callable[[Block], Block] | None = None
    keyed: bool = False
    lifted: bool = False

    def __call__(self, block: Block, rows: range | Array) -> Block:
        """Return the rows of positive weight that all rules keep, mapped."""
        return self.map(self.kept(block, rows))

    def kept(self, block: Block, rows: range | Array) -> Block:
        """Return the rows of positive weight that all rules keep, unmapped."""
        block = self.weigh(block, rows)
        for rule in self.keep:
            block = take_rows(block, rule(block))
        if "counts" in block:
            block = take_rows(block, block["counts"] > 0)
        return block

    def whole(self, block: Block, rows: range | Array) -> Block:
        """Return all rows, mapped; those that are not kept have weight 0 and lie at the centre."""
        block = self.weigh(block, rows)
        for rule in self.keep:
            block = _left_out(block, rule(block), self.center)
        return self.map(block)

    def weigh(self, block: Block, rows: range | Array) -> Block:
        """Transform a block, and multiply the weights of its rows, which have these numbers."""
        if self.transform is not None:
            keys = block["key"] if "key" in block else row_keys(block["x"])
            block = {**self.transform(block), "key": keys}
        if self.weights is None:
            return block
        counts, weights = weights_of(block), self.weights
        if not isinstance(weights, float):
            where = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
            weights = move_like(weights[where], counts)
        return {**block, "counts": counts * weights}

    def map(self, block: Block) -> Block:
        """Map the points and labels of a block."""
        x = raw = block["x"]
        xp = namespace_of(x)
        if self.wide:
            x = xp.astype(x, xp.float64, copy=False)
        found = dict(block)
        if self.keyed and "key" not in block:
            found["key"] = row_keys(raw)
        if self.labels is not None:
            found["y"] = self.labels(x, block["y"])
        if self.wide and "counts" in block:
            found["counts"] = xp.astype(block["counts"], x.dtype, copy=False)
        found["x"] = self._lift(x) if self.lifted else self._map(x)
        return found

    def _map(self, x: Array) -> Array:
        if self.center is not None:
            x = x - move_like(self.center, x)[None, :]
        if self.linear is None:
            return x
        if isinstance(self.linear, float):
            return x * self.linear
        linear = move_like(self.linear, x)
        return x * linear[None, :] if linear.ndim == 1 else x @ linear

    def _lift(self, x: Array) -> Array:
        if self.linear is None or isinstance(self.linear, float):
            scale = 1.0 if self.linear is None else 1.0 / self.linear
            if self.center is None and scale == 1.0:
                return lift_rows(x)
            center = np.zeros(int(x.shape[1])) if self.center is None else self.center
            return lift_rows(x, move_like(center, x), scale)
        return lift_rows(self._map(x))


@dataclass(frozen=True)
class Census:
    """How many rows are kept."""

    kept: int  # rows that are kept and have a positive weight
    total: float  # the sum of their weights
    # the weighted sum of their squared lengths as mapped, where it is known
    squares: float | None = None
    longest: float | None = None  # the largest of their squared lengths, where it is known


def count_rows(block: Block) -> Sums:
    """Count the rows of a block, and sum their weights."""
    counts = weights_of(block)
    total = namespace_of(counts).sum(counts, dtype=namespace_of(counts).float64)
    return {"kept": int(counts.shape[0]), "total": float(total)}


def compose(
    center: Floats | None, linear: Linear, then_center: Floats | None, then_linear: Linear
) -> tuple[Floats | None, Linear]:
    """Return centre and linear part of one affine map after another."""
    if then_center is not None:
        moved = then_center if linear is None else _preimage(then_center, linear)
        center = moved if center is None else center + moved
    return center, _product(linear, then_linear)


def _preimage(point: Floats, linear: Floats | float) -> Floats:
    if np.ndim(linear) < 2:
        return np.asarray(point / linear, dtype=np.float64)
    return np.asarray(point @ np.linalg.pinv(linear), dtype=np.float64)


def _product(one: Linear, other: Linear) -> Linear:
    if one is None or other is None:
        return other if one is None else one
    if np.ndim(one) == 2 and np.ndim(other) == 2:
        return np.asarray(one @ np.asarray(other))
    if np.ndim(one) == 1 and np.ndim(other) == 2:
        return np.asarray(one)[:, None] * other
    product = one * other
    return product if np.ndim(product) else float(product)


def weights_of(block: Block) -> Array:
    """Return the weight of each row of a block: the number of times that it counts."""
    counts, x = block.get("counts"), block["x"]
    return namespace_of(x).ones_like(x[:, 0]) if counts is None else counts


def shares_of(block: Block, n_shares: int) -> Array:
    """Return the share of each row of a block, (n,) numbers from 0 on, by its content."""
    keys = block["key"] if "key" in block else row_keys(block["x"])
    return key_shares(keys, n_shares)


def join_labels(block: Block) -> Array:
    """Return rows (n, d + 1) of points and labels."""
    x = block["x"]
    return namespace_of(x).concat([x, block["y"][:, None]], axis=1)


def take_rows(block: Block, kept: Array | None) -> Block:
    """Return the rows of a block that are kept; all for None."""
    if kept is None:
        return block
    xp = namespace_of(kept)
    (places,) = xp.nonzero(kept)
    if places.shape[0] == kept.shape[0]:
        return block
    return {name: xp.take(column, places, axis=0) for name, column in block.items()}


def _left_out(block: Block, kept: Array | None, center: Floats | None) -> Block:
    """Give rows that are not kept a weight of 0, and move them where nothing overflows."""
    if kept is None:
        return block
    x, counts = block["x"], weights_of(block)
    xp = namespace_of(x)
    moved = np.zeros(int(x.shape[1])) if center is None else center
    found = {
        **block,
        "counts": counts * xp.astype(kept, counts.dtype),
        "x": xp.where(kept[:, None], x, move_like(moved, x)[None, :]),
    }
    if "y" in block:
        found["y"] = xp.where(kept, block["y"], xp.zeros_like(block["y"]))
    if "key" not in block:  # of the original content: the points were replaced above
        found["key"] = row_keys(x)
    return found


@dataclass(frozen=True)
class Composed:
    """Composition of two functions of a block."""

    first: Callable[[Block], Block]
    second: Callable[[Block], Block]

    def __call__(self, block: Block) -> Block:
        """Apply both."""
        return self.second(self.first(block))


@dataclass(frozen=True, eq=False)
class KeptMeasure:
    """Measures the kept rows of a block; sent to the process that holds the rows."""

    reader: BlockMap
    measure: Callable[[Block], Mapping[str, Any]]

    def __call__(self, block: Block, rows: range) -> Mapping[str, Any]:
        """Measure a block."""
        read = self.reader(block, rows)
        return self.measure(read) if read["x"].shape[0] else {}


@dataclass(frozen=True, eq=False)
class WholeMeasure:
    """Measures all rows of a block, with their numbers."""

    reader: BlockMap
    measure: Measure

    def __call__(self, block: Block, rows: range) -> Mapping[str, Any]:
        """Measure a block."""
        return self.measure(self.reader.whole(block, rows), rows)
