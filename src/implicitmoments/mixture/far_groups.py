"""Groups of rows much further apart than the rows within them, told by a few points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.mixture.outliers import squared_distances
from implicitmoments.mixture.row_reader import Limit
from implicitmoments.mixture.standard_rows import Integers, Rows

__all__ = ["Apart", "Group", "Groups", "far_groups"]

LINKED = 2_000  # rows among which groups are looked for
JUMP = 500.0  # distance of groups over the largest step inside them: one fit bears less than that
SMALLEST_GROUP = 0.02  # of an equal share of rows
CLEARLY = 0.25  # squared distance from a row to its own points over that to others'


@dataclass(frozen=True, eq=False)
class Groups:
    """Points that tell to which group a row belongs: to that of the nearest.

    Attributes
    ----------
    center : array of shape (d,) or None
    scale : float
        How rows are read before they are compared.
    points : array of shape (m, d)
    labels : array of int of shape (m,)
    """

    center: Floats | None
    scale: float
    points: Floats
    labels: Integers

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.labels.max()) + 1

    def nearest(self, x: Array) -> Array:
        """Return the point that is nearest to every row (n, d), by number."""
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64, copy=False)
        if self.center is not None:
            x = (x - move_like(self.center, x)) / self.scale
        return xp.argmin(squared_distances(x, move_like(self.points, x)), axis=1)


@dataclass(frozen=True, eq=False)
class Group:
    """Keeps the rows of one group."""

    groups: Groups
    g: int

    def keep(self, x: Array) -> Array | None:
        """Return the places of the rows of the group; None for all."""
        xp, nearest = namespace_of(x), self.groups.nearest(x)
        inside = nearest < 0
        for i in np.flatnonzero(self.groups.labels == self.g):
            inside = inside | (nearest == int(i))
        return None if bool(xp.all(inside)) else xp.nonzero(inside)[0]


@dataclass(frozen=True, eq=False)
class Apart:
    """Keeps the rows that a limit keeps in other coordinates."""

    limit: Limit
    center: Floats
    scale: float

    def keep(self, x: Array) -> Array | None:
        """Return the places of the rows that stay; None for all."""
        points = (x - move_like(self.center, x)) / self.scale
        return self.limit.keep(points, namespace_of(x).sum(points * points, axis=1))


def far_groups(rows: Rows, k: int, rng: np.random.Generator) -> Groups | None:
    """Return what tells the groups of rows; None if all are one.

    Groups are what single linkage of some rows has left before its steps grow fivehundredfold at
    once.
    """
    if k == 1 or rows.census.there < 2 * k:
        return None
    sample = rows.sample(LINKED, rng)
    x = sample.points.astype(np.float64)
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
    chosen = _telling(x, labels)
    return Groups(rows.center, rows.scale, x[chosen], labels[chosen])


def _telling(x: Floats, labels: Integers) -> Integers:
    """Return rows that tell the groups of all others clearly: as few as do.

    One of each group to begin with; then the row that is told least clearly, until all are.
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
