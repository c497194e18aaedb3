"""Rows that lie so far from the others that they would own every high moment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, refuse_large, to_numpy
from implicitmoments.rows import Block, MappedSource, Source, Sums, as_source
from implicitmoments.rows.sampling import counts_of

__all__ = ["NearRows", "Reach", "check_enough", "join_labels", "near_rows"]

BLOCK_ROWS = 16_384
MOST_FAR = 0.01  # a larger part of the rows is structure, not outliers
PROBED = 20_000  # rows from which the usual distance is told, at the least


def join_labels(block: Block) -> Array:
    """Return rows (n, d + 1) of points and labels."""
    x = block["x"]
    return namespace_of(x).concat([x, block["y"][:, None]], axis=1)


@dataclass(frozen=True, eq=False)
class Reach:
    """Tells rows that are near from those that are not; of a block, makes those count 0 times.

    They are moved to the centre, so that nothing that is made of them overflows.

    Attributes
    ----------
    center, scale : array of shape (d,), or (d + 1,) of labelled rows
        Distances are those of (row − center) / scale.
    most : float
        The largest distance of a row that is near.
    labelled : bool
    """

    center: Floats
    scale: Floats
    most: float
    labelled: bool

    def near(self, block: Block) -> Array:
        """Say for each row whether it is near."""
        rows = join_labels(block) if self.labelled else block["x"]
        xp = namespace_of(rows)
        moved = rows - move_like(self.center, rows)[None, :]
        if self.labelled:  # columns of any unit; those of a spherical mixture have one
            moved = moved / move_like(self.scale, rows)[None, :]
        with np.errstate(over="ignore"):  # as far as can be
            return xp.sqrt(xp.sum(moved * moved, axis=1)) <= self.most

    def __call__(self, block: Block) -> Block:
        """Leave rows out that are not near."""
        near, x, counts = self.near(block), block["x"], counts_of(block)
        xp = namespace_of(x)
        center = move_like(self.center, x)
        moved = {**block, "counts": counts * xp.astype(near, counts.dtype)}
        if self.labelled:
            moved["y"] = xp.where(near, block["y"], center[-1])
            center = center[:-1]
        return {**moved, "x": xp.where(near[:, None], x, center[None, :])}


@dataclass(frozen=True, eq=False)
class NearRows:
    """Rows without outliers.

    Attributes
    ----------
    rows : Source
        In which outliers count 0 times.
    center : array of shape (d,), or (d + 1,) of labelled rows
        The median of some rows.
    n_rows : int
        Rows that count, without outliers.
    n_far : int
        Outliers.
    """

    rows: Source
    center: Floats
    n_rows: int
    n_far: int


def near_rows(
    rows: Array | Source,
    *,
    times: float | None = None,
    reach: float = 1.2,
    labelled: bool = False,
) -> NearRows:
    """Tell rows from outliers that would own every high moment, in one pass.

    By the distance from the median, against its own median and spread over some rows: the bound
    takes one row in about a hundred data sets of this size for an outlier that is none; a larger
    ``reach`` takes fewer, where columns are correlated. With ``times`` the bound is so many times
    the median distance instead, for components that lie apart. Where more than a hundredth of the
    rows pass it, they are no outliers, and all rows are kept. Columns of labelled rows are scaled
    by their usual spread, so that outliers show in any of them.
    """
    source = as_source(rows)
    n = source.n_rows or 0
    found = _usual(source, times, reach, labelled)
    sums = source.fold(_Count(found), range(n), BLOCK_ROWS, what="outliers")
    there, far = int(sums["there"]), int(sums["far"])
    if not 0 < far <= max(1.0, MOST_FAR * there):
        return NearRows(source, found.center, there, 0)
    return NearRows(MappedSource(source, found), found.center, there - far, far)


def check_enough(found: NearRows, k: int) -> None:
    """Raise unless there is a row a component, and two in all."""
    counted = found.n_rows + found.n_far
    if counted < max(2, k):
        raise ValueError(
            f"n_components={k} and n_samples={counted} rows with a weight: expected at "
            "least one row a component, and two in all; use more rows or fewer components"
        )


def _usual(source: Source, times: float | None, reach: float, labelled: bool) -> Reach:
    """Measure distances from the median over some rows."""
    n = source.n_rows or 0
    block = source.pick(np.arange(0, n, max(1, n // PROBED)), what="usual distances")
    table = to_numpy(join_labels(block) if labelled else block["x"])
    some = table[to_numpy(counts_of(block)) > 0].astype(np.float64)
    if len(some) == 0:
        return Reach(np.zeros(table.shape[1]), np.ones(table.shape[1]), math.inf, labelled)
    center = np.median(some, axis=0)
    scale = np.ones_like(center)
    if labelled:
        spread = np.median(np.abs(some - center), axis=0)
        scale = np.where(spread > 0, spread, 1.0)
    with np.errstate(over="ignore"):
        usual = np.linalg.norm((some - center) / scale, axis=1)
    middle = float(np.median(usual))
    refuse_large("X", found=math.isinf(middle) and not labelled)
    if times is not None:
        return Reach(center, scale, times * middle, labelled)
    spread_of = 1.4826 * float(np.median(np.abs(usual - middle)))  # of a normal, its deviation
    usually = math.sqrt(2.0 * math.log(100.0 * n))
    most = middle + reach * usually * max(spread_of, 0.1 * middle)
    return Reach(center, scale, most, labelled)


@dataclass(frozen=True, eq=False)
class _Count:
    """Counts rows that are there, and those of them that are far."""

    reach: Reach

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        near, counts = self.reach.near(block), block.get("counts")
        xp = namespace_of(near)
        far = ~near if counts is None else xp.logical_and(~near, counts > 0)
        there = near.shape[0] if counts is None else xp.count_nonzero(counts)
        return {"there": int(there), "far": int(xp.count_nonzero(far))}
