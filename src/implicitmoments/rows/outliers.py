"""Outliers: rows far from all others, which would dominate high-order moments and variances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from implicitmoments.arrays import LARGEST as LARGEST_NUMBER
from implicitmoments.arrays import Array, Floats, move_like, namespace_of, refuse_large, to_numpy
from implicitmoments.rows.draws import draw_numbers
from implicitmoments.rows.fold import (
    DEFAULT_BUDGET,
    LARGEST,
    Block,
    Sums,
    blocks,
    join_labels,
    lift_points,
    take_rows,
    weights_of,
)
from implicitmoments.rows.mapped_rows import Census
from implicitmoments.rows.view import Rows

# The limit is measured in spreads of the distances beyond their median, in units of those of a
# normal variable. The upper quartile withstands a far group of a quarter of the rows; once far
# groups are known, the 90 % quantile reflects heavier tails.
QUARTILE, DECILE = (0.75, 0.6745), (0.9, 1.2816)
FALSE_ALARMS = 0.01  # data sets of Gaussian rows in which a row passes the limit, before REACH
REACH = 1.2  # times that limit: room for tails that are a little heavier
LEAST_SPREAD = 0.1  # of the median distance: distances of discrete rows may all be equal
EXTREME = 5.0  # times the limit: rows that regressions report, and keep
MOST_FAR = 0.2  # a larger share of the rows is structure, not outliers
SMALLEST_COMPONENT = 0.02  # of an equal share of the rows: a far group of more is a component
LINK = 1.2  # largest distance of rows of one component, over the typical distance
MOST_LINKED = 2_000  # far rows that are compared with one another: the cost is quadratic
PROBED = 100_000  # rows that the limit is estimated from: its quantiles are then known to 1 %
CENTERED = 20_000  # rows that the centre and the unit of length are estimated from
RESOLUTION = 1e-9  # of lengths, relative to the centre: below it points are one point
COMPANY_NUMBERS = 2**16  # of far rows that are kept: they travel with every pass


def standardise_rows(rows: Rows) -> Rows:
    """Centre and scale rows by medians, which a few outliers do not move.

    The unit is the root of the median squared distance from the centre over the number of
    features; the standard deviation where half the rows are one point.
    """
    probe = rows.as_given().sample(CENTERED, 0).points.astype(np.float64)
    refuse_large("X", found=float(np.median(np.abs(probe).max(axis=1))) > LARGEST_NUMBER)
    # a centre that the precision of the rows can represent
    center = to_numpy(move_like(np.median(probe, axis=0), rows.like)).astype(np.float64)
    size, spread = float(np.abs(center).max()), probe - center
    lengths = np.abs(spread).max(axis=1)
    unit = float(np.median(lengths)) or float(lengths.max())
    scale = max(size, 1.0)
    if unit > max(RESOLUTION * size, np.finfo(np.float64).tiny):
        with np.errstate(over="ignore"):  # outliers do not move the median
            squares = np.mean((spread / unit) ** 2, axis=1)
        scale = unit * float(np.sqrt(float(np.median(squares)) or float(np.mean(squares))))
    return rows.as_given().mapped(center, 1 / scale)


class Outliers(NamedTuple):
    """Rows without outliers."""

    rows: Rows
    n_outliers: int  # rows that were left out

    @property
    def n_rows(self) -> int:
        """Rows that were kept."""
        return self.rows.kept


@dataclass(frozen=True, eq=False)
class Near:
    """Keeps rows that are not far from the median, or that belong to a far group."""

    # (d,), distances are those of (row − center) / scale, with rows as the source has them
    center: Floats
    scale: Floats  # (d + 1,)
    limit: float  # distance from the centre beyond which a row is far
    company: Floats  # (m, d), far rows, scaled, of groups that are large enough to be a component
    reach: float  # A far row nearer than that to one of them belongs to its group
    labelled: bool = False  # whether the label is a column of the row

    @np.errstate(over="ignore")  # an infinite distance is far
    def __call__(self, block: Block) -> Array | None:
        """Return which rows of a block are kept; None for all."""
        z = join_labels(block) if self.labelled else block["x"]
        z = (z - move_like(self.center, z)[None, :]) / move_like(self.scale, z)[None, :]
        xp = namespace_of(z)
        near = xp.sum(z * z, axis=1) <= self.limit**2
        if bool(xp.all(near)):
            return None
        if len(self.company) == 0:
            return near
        (far,) = xp.nonzero(~near)
        x = xp.astype(xp.take(z, far, axis=0), xp.float64)
        others, joined = move_like(self.company, x), []
        size = DEFAULT_BUDGET.rows_per_block(len(self.company), x)
        for rows in blocks(range(int(far.shape[0])), size):
            apart = squared_distances(x[rows.start : rows.stop, :], others)
            joined.append(xp.min(apart, axis=1) < self.reach**2)
        (place,) = xp.nonzero(xp.concat(joined))
        kept = to_numpy(near).copy()
        kept[to_numpy(xp.take(far, place, axis=0))] = True
        return xp.astype(move_like(kept.astype(np.float64), x), xp.bool)


def squared_distances(x: Array, others: Array) -> Array:
    """Return the squared distances of rows x (n, d) and others (m, d), (n, m)."""
    xp = namespace_of(x)
    shift = others[:1, :]  # rows far away may lie close together
    x, others = x - shift, others - shift
    squares = xp.sum(x * x, axis=1)[:, None] + xp.sum(others * others, axis=1)[None, :]
    return squares - 2 * (x @ xp.matrix_transpose(others))


def leave_out_outliers(
    rows: Rows,
    k: int,
    *,
    drop: bool = True,
    labelled: bool = False,
    by_column: bool = False,
    seed: int = 0,
) -> Outliers:
    """Leave out rows that are far from the median and belong to no far group.

    The limit is estimated from all rows, or from a random sample of 100,000. Far rows are linked
    if they are as near to one another as two rows of a component can be. A group that is large
    enough to be one of k components is kept, and with it every row that is linked to it. All
    rows are kept where more than a fifth of them would be left out.

    Parameters
    ----------
    k : int
        Number of components.
    drop : bool
        False to count the rows, and keep them all.
    labelled : bool
        Look at labels too, with every column in units of its median absolute deviation.
    by_column : bool
        Measure every column in that unit, also without labels.
    seed : int
        Of the sample.

    Returns
    -------
    Outliers
        Its rows know their census.
    """
    rule = None
    if drop:
        probe = rows.as_given().sample(PROBED, seed)
        rule = _estimate(probe, rows.n, k, labelled=labelled, by_column=by_column)
    what = "outliers" if drop else "counting rows"
    view = rows.transformed(lift_points).without_source
    found = rows.as_given().fold(_Count(view, rule), width=4, what=what)
    n, n_out = int(found.get("n", 0)), int(found.get("out", 0))
    if rule is None or n_out == 0 or n_out > MOST_FAR * n or n - n_out < k:
        return Outliers(replace(rows, known=_census(found, "all", n)), 0)
    return Outliers(rows.kept_by(rule, _census(found, "kept", n - n_out)), n_out)


def count_extreme_rows(rows: Rows, k: int, seed: int = 0) -> int:
    """Count rows (x, y) of a regression that lie beyond five times the limit of outliers.

    Regressions keep them: a row far out in x is leverage, and may be the most informative one;
    indicators and amounts that are 0 in most rows look far as well. So only rows beyond a
    multiple of the limit are counted, which would dominate least squares and high moments.
    """
    rule = _estimate(rows.as_given().sample(PROBED, seed), rows.n, k, labelled=True)
    rule = replace(rule, limit=EXTREME * rule.limit)
    found = rows.as_given().fold(partial(_count_far, rule), width=4, what="outliers")
    n_far = int(found.get("out", 0))
    return n_far if n_far <= MOST_FAR * rows.n else 0


def _count_far(rule: Near, block: Block) -> Sums:
    kept = rule(block)
    return {"out": 0 if kept is None else int(namespace_of(kept).count_nonzero(~kept))}


def far_limit(radius: Floats, n: int, outer: tuple[float, float] = DECILE) -> float:
    """Return the distance from the centre beyond which one of n rows is far."""
    quantile, deviations = outer
    middle, high = np.quantile(radius, [0.5, quantile])
    spread = max(float(high - middle), LEAST_SPREAD * float(middle)) / deviations
    return float(middle + spread * REACH * math.sqrt(2.0 * math.log(max(n, 2) / FALSE_ALARMS)))


def _census(found: Sums, which: str, n: int) -> Census:
    total, squares = (float(found.get(f"{which} {name}", 0.0)) for name in ("total", "squares"))
    return Census(n, total, squares, float(found.get(f"{LARGEST}{which}", 0.0)))


@dataclass(frozen=True, eq=False)
class _Count:
    """Counts rows of a block and those that a rule leaves out, and sums their squares."""

    view: Rows  # maps rows to lifted points
    rule: Near | None

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, block: Block) -> Sums:
        kept, xp = None if self.rule is None else self.rule(block), namespace_of(block["x"])
        n_out = 0 if kept is None else int(xp.count_nonzero(~kept))
        sums: Sums = {"n": int(block["x"].shape[0]), "out": n_out}
        squares, counts = self.view.map_block(block)["x"][:, -2], weights_of(block)
        for which, mask in (("all", None), ("kept", kept)):
            some = take_rows({"squares": squares, "counts": counts}, mask)
            products = some["counts"] * some["squares"]
            sums[f"{which} total"] = float(xp.sum(some["counts"], dtype=xp.float64))
            sums[f"{which} squares"] = float(xp.sum(products, dtype=xp.float64))
            if products.shape[0]:
                sums[f"{LARGEST}{which}"] = float(xp.max(some["squares"]))
        return sums


def _estimate(probe: Rows, n: int, k: int, *, labelled: bool, by_column: bool = False) -> Near:
    """Estimate centre, limit and far groups from some of the rows."""
    block = probe.block
    table = np.asarray(to_numpy(join_labels(block) if labelled else block["x"]), dtype=float)
    weights = probe.counts
    center = np.median(table, axis=0)
    moved = table - center
    scale = np.ones_like(center)
    if labelled or by_column:  # columns of any unit; those of a spherical mixture have one
        deviations = np.median(np.abs(moved), axis=0)
        scale = np.where(deviations > 0, deviations, 1.0)
    with np.errstate(over="ignore"):
        radius = np.linalg.norm(moved / scale, axis=1)
    middle = float(np.median(radius))
    refuse_large("X", found=math.isinf(middle))
    if middle == 0:  # half the rows are one point
        middle = float(np.sqrt(np.mean(radius[np.isfinite(radius)] ** 2))) or 1.0
    unit = middle / math.sqrt(len(center))
    scale = scale * unit
    z, radius = moved / scale, radius / unit
    near = Near(center, scale, math.inf, np.zeros((0, len(center))), 0.0, labelled)
    limit = far_limit(radius, n, QUARTILE)
    grouped = _in_groups(z, radius, limit, weights, k)
    limit = max(limit, far_limit(radius[~grouped], n))
    grouped = _in_groups(z, radius, limit, weights, k)
    n_out = np.count_nonzero((radius > limit) & ~grouped)
    if n_out > MOST_FAR * len(z) or len(z) - n_out < k:
        return near
    company = z[grouped]
    some = draw_numbers(len(company), COMPANY_NUMBERS // len(center), 0)
    link = _link(company) if len(company) else 0.0
    return replace(near, limit=limit, company=company[some], reach=link)


def _in_groups(
    z: Floats, radius: Floats, limit: float, weights: Floats, k: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Say which scaled rows are far, and in a group that is large enough to be a component."""
    grouped = np.zeros(len(z), dtype=bool)
    (far,) = np.nonzero((radius > limit) & np.isfinite(radius))
    if len(far) == 0:
        return grouped
    step = math.ceil(len(far) / MOST_LINKED)
    chosen = far[draw_numbers(len(far), len(far) // step, 0)]
    some = z[chosen]
    linked = to_numpy(squared_distances(some, some)) < _link(some) ** 2
    _, groups = connected_components(linked, directed=False)
    sizes = np.bincount(groups, weights=weights[chosen]) * step
    grouped[chosen] = sizes[groups] >= SMALLEST_COMPONENT * float(weights.sum()) / k
    return grouped


def _link(z: Floats) -> float:
    """Return how far apart two rows of one far group are at the most.

    In units of the median distance from the centre, which is not below the noise.
    """
    largest = float(np.sum((z - z.mean(axis=0)) ** 2, axis=1).max())
    return math.sqrt(LINK**2 * 2 * z.shape[1] + 1e-12 * largest)
