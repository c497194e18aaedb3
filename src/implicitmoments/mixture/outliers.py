"""Rows far from all others: one of them would take a component, or rule the shared variance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from implicitmoments.arrays import (
    LARGEST,
    Array,
    Floats,
    move_like,
    namespace_of,
    refuse_large,
    to_numpy,
)
from implicitmoments.mixture.held_rows import FAR_OUT, Sample, rows_a_block
from implicitmoments.mixture.row_reader import Reader
from implicitmoments.mixture.standard_rows import Census, Rows
from implicitmoments.rows import Block, Sums, blocks

__all__ = [
    "Near",
    "far_limit",
    "leave_out",
    "radii",
    "squared_distances",
    "take_census",
]

MIDDLE, OUTER, REACH = 0.5, 0.9, 3.0  # quantiles of distances, and how far beyond is far
MOST_FAR = 0.2  # share of rows above which what is far is no exception
MOST_LINKED = 2_000  # far rows that are grouped
LINK = 1.2  # times the typical distance of two rows of one component, at the most
ALL_BUT = 0.95  # share of a sample of far rows that must be lonely for all to be left out
SMALLEST_COMPONENT = 0.02  # of an equal share of rows: a group of more is a component
PROBED, PROBED_NUMBERS = 100_000, 2**24  # rows that tell what is far, and numbers in them
COMPANY_NUMBERS = 2**16  # of far rows that stay: they travel with every pass
COMPARED_NUMBERS = 2**22  # distances that are looked at at a time
CENSUS_WIDTH = 3  # numbers made of each number, where rows are counted


@dataclass(frozen=True, eq=False)
class Near:
    """Keeps rows that are not far, or have company; in the coordinates of the fit.

    Attributes
    ----------
    limit : float
        Distance from the centre beyond which a row is far.
    company : array of shape (m, d)
        Far rows of groups that are large enough for a component.
    reach : float
        A far row that is nearer than that to one of them belongs to its group.
    """

    limit: float
    company: Floats
    reach: float

    def keep(self, points: Array, squares: Array) -> Array | None:
        """Return the places of the points that stay; None for all."""
        xp = namespace_of(points)
        near = squares <= self.limit**2
        if bool(xp.all(near)):
            return None
        (stay,), (far,) = xp.nonzero(near), xp.nonzero(~near)
        if len(self.company) == 0:
            return stay
        x = xp.astype(xp.take(points, far, axis=0), xp.float64)
        others, found = move_like(self.company, x), [stay]
        step = COMPARED_NUMBERS // len(self.company)
        for rows in blocks(range(int(far.shape[0])), step):
            apart = squared_distances(x[rows.start : rows.stop, :], others)
            (joined,) = xp.nonzero(xp.min(apart, axis=1) < self.reach**2)
            found.append(xp.take(far[rows.start : rows.stop], joined, axis=0))
        return xp.sort(xp.concat(found))


def radii(sample: Sample) -> Floats:
    """Return the distance of every row from the centre."""
    squares: Floats = to_numpy(sample.lifted[:, sample.d]).astype(np.float64)
    return np.sqrt(squares)


def far_limit(radius: Floats) -> float:
    """Return the distance from the centre beyond which a row is far.

    Three times as far beyond the ninth decile as that is beyond the median: of Gaussian rows
    fewer than one in 100,000 are.
    """
    middle, outer = np.quantile(radius, [MIDDLE, OUTER])
    return float(outer + REACH * (outer - middle))


def squared_distances(x: Array, others: Array) -> Array:
    """Return the squared distances of rows x (n, d) and others (m, d), (n, m)."""
    xp = namespace_of(x)
    shift = others[:1, :]  # what is far away may lie close together
    x, others = x - shift, others - shift
    squares = xp.sum(x * x, axis=1)[:, None] + xp.sum(others * others, axis=1)[None, :]
    return squares - 2 * (x @ xp.matrix_transpose(others))


def leave_out(rows: Rows, k: int) -> tuple[Rows, int]:
    """Leave out rows that are far and have few neighbours; return how many are.

    What is far, and who has neighbours, is told by some of the rows: all, or 100,000 and more.
    Far rows are linked when they lie as near as two rows of one component may. A group that is
    large enough for a component stays, and with it every row that is linked to it.
    """
    most = max(1, min(PROBED, PROBED_NUMBERS // rows.d))
    probe = rows.held(np.arange(0, rows.n, max(1, rows.n // most)))
    near = _tell(probe, k) if probe.n else None
    return take_census(rows, near, k)


def take_census(rows: Rows, near: Near | None = None, k: int = 1) -> tuple[Rows, int]:
    """Count the rows, and leave out what is not near unless that is too much.

    Single precision is left as well where rows that stay lie too far out for it.
    """
    found = rows.source.fold(
        _Census(rows.reader, near),
        range(rows.n),
        rows.block_rows or rows_a_block(CENSUS_WIDTH * rows.d, rows.like),
        what="counting rows",
    )
    found = {name: float(value) for name, value in found.items()}
    refuse_large("X", found=found["large"] > 0)
    there, out = round(found["there"]), round(found["out"])
    if out == 0 or found["far"] > MOST_FAR * there or there - out < k:
        known = Census(there, found["total"], found["squares"])
        return replace(rows, known=known, wide=found["far_out"] > 0), 0
    known = Census(there - out, found["total"] - found["out_total"])
    return replace(rows, near=near, known=known, wide=found["near_far_out"] > 0), out


@dataclass(frozen=True, eq=False)
class _Census:
    """Counts rows of a block, far rows, and rows that would be left out."""

    reader: Reader
    near: Near | None

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        x = block["x"]
        xp, d = namespace_of(x), int(x.shape[1])
        large: Any = 0.0
        if x.dtype == xp.float64:
            large = xp.astype((xp.max(x) > LARGEST) | (xp.min(x) < -LARGEST), xp.float64)
        read = self.reader(block, lifted=True)
        lifted = read["x"]
        squares = lifted[:, d]
        counts = read.get("counts", lifted[:, d + 1])
        limit = math.inf if self.near is None else self.near.limit
        columns = [
            counts > 0,
            (counts > 0) & (squares > limit**2),
            (counts > 0) & (squares > FAR_OUT**2),
        ]
        there, far, far_out = (xp.sum(xp.astype(c, xp.float64)) for c in columns)
        sums = {"large": large, "there": there, "far": far, "far_out": far_out}
        sums["total"] = xp.sum(counts, dtype=xp.float64)
        sums["squares"] = xp.sum(counts * squares, dtype=xp.float64)
        stay = None if self.near is None else self.near.keep(lifted[:, :d], squares)
        kept = counts if stay is None else xp.take(counts, stay, axis=0)
        inside = squares if stay is None else xp.take(squares, stay, axis=0)
        sums["out"] = there - xp.sum(xp.astype(kept > 0, xp.float64))
        sums["out_total"] = sums["total"] - xp.sum(kept, dtype=xp.float64)
        beyond = (kept > 0) & (inside > FAR_OUT**2)
        sums["near_far_out"] = xp.sum(xp.astype(beyond, xp.float64))
        return sums


def _tell(probe: Sample, k: int) -> Near | None:
    """Say what is near by some of the rows; None where what is far is no exception."""
    radius = radii(probe)
    limit = far_limit(radius)
    counted = np.ones(probe.n) if probe.counts is None else probe.counts
    nobody = Near(limit, np.zeros((0, probe.d)), 0.0)
    far = np.flatnonzero(radius > limit)
    if len(far) == 0:
        return nobody
    if len(far) > MOST_FAR * probe.n or probe.n - len(far) < k:
        return None
    step = math.ceil(len(far) / MOST_LINKED)
    chosen = far[::step]
    x = to_numpy(probe.take(chosen).X).astype(np.float64)
    reach = _reach(x)
    _, groups = connected_components(squared_distances(x, x) < reach**2, directed=False)
    sizes = np.bincount(groups, weights=counted[chosen])
    lonely = sizes[groups] * step < SMALLEST_COMPONENT * float(counted.sum()) / k
    if step > 1:
        return nobody if lonely.mean() >= ALL_BUT else None
    company = x[~lonely]
    thinned = math.ceil(company.size / COMPANY_NUMBERS)
    return Near(limit, company[:: max(1, thinned)], reach)


def _reach(x: Floats) -> float:
    """Return how near two far rows of one component lie.

    In units of the median distance from the centre, which is not below the noise.
    """
    largest = float(np.sum((x - x.mean(axis=0)) ** 2, axis=1).max())
    return math.sqrt(LINK**2 * 2 * x.shape[1] + 1e-12 * largest)
