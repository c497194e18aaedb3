"""Groups of rows that lie much further apart than the rows within them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.mixture.sample import Integers
from implicitmoments.mixture.standardise import center_of, scale_of
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.outliers import squared_distances

LINKED = 2_000  # rows among which groups are looked for
JUMP = 500.0  # distance of groups over the largest step inside them: one fit copes with less
SMALLEST_GROUP = 0.02  # of an equal share of rows
CLEARLY = 0.25  # squared distance from a row to its own points over that to others'


@dataclass(frozen=True, eq=False)
class Groups:
    """Points that assign a row to a group: that of the nearest point."""

    center: Floats  # (d,)
    scale: float  # rows are compared as (x − center) / scale
    points: Floats  # (m, d)
    labels: Integers  # (m,)

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1

    def nearest(self, x: Array) -> Array:
        """Return the point that is nearest to every row (n, d), by number."""
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64, copy=False)
        x = (x - move_like(self.center, x)) / self.scale
        return xp.argmin(squared_distances(x, move_like(self.points, x)), axis=1)


@dataclass(frozen=True, eq=False)
class Group:
    """Keeps the rows of one group."""

    groups: Groups
    g: int

    def __call__(self, block: Block) -> Array:
        """Return which rows of a block are in the group."""
        nearest = self.groups.nearest(block["x"])
        inside = nearest < 0
        for i in np.flatnonzero(self.groups.labels == self.g):
            inside = inside | (nearest == int(i))
        return inside


def far_groups(rows: Rows, k: int, rng: np.random.Generator) -> Groups | None:
    """Return groups of rows; None if all are one.

    Groups are the clusters of single linkage of some rows just before its steps grow 500-fold.
    """
    if k == 1 or rows.kept < 2 * k:
        return None
    x = rows.sample(LINKED, rng).points.astype(np.float64)
    links = linkage(x, method="single")
    heights = links[:, 2]
    last = heights[-(k - 1) :] if k > 1 else heights[-1:]
    inside = np.maximum(np.append(heights[-k : -(k - 1)], last[:-1])[-len(last) :], 0.0)
    jumps = np.flatnonzero(last > JUMP * inside)
    jumps = jumps[inside[jumps] > 0]
    if len(jumps) == 0:
        return None
    cut = 0.5 * (last[jumps[-1]] + inside[jumps[-1]])
    labels: Integers = fcluster(links, cut, criterion="distance").astype(np.int64) - 1
    sizes = np.bincount(labels)
    if len(sizes) < 2 or sizes.min() < max(2.0, SMALLEST_GROUP * len(x) / k):
        return None
    chosen = _representatives(x, labels)
    return Groups(center_of(rows), scale_of(rows), x[chosen], labels[chosen])


def _representatives(x: Floats, labels: Integers) -> Integers:
    """Return few rows to which all others of their group are clearly nearest.

    One of each group to begin with; then the row that is assigned least clearly, until all are.
    """
    chosen = [int(np.flatnonzero(labels == g)[0]) for g in range(int(labels.max()) + 1)]
    while len(chosen) < len(x):
        apart = np.maximum(squared_distances(x, x[chosen]), 0.0)
        own = labels[:, None] == labels[chosen]
        to_own = np.where(own, apart, np.inf).min(axis=1)
        to_others = np.where(own, np.inf, apart).min(axis=1)
        unclear = to_own - CLEARLY * to_others
        worst = int(unclear.argmax())
        if unclear[worst] <= 0:
            break
        chosen.append(worst)
    return np.array(chosen)
