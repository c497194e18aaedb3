"""Outliers: rows far from all others, which would dominate high-order moments and variances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from scipy.stats import norm

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    dot_rows,
    index_like,
    move_like,
    namespace_of,
    refuse_large,
    to_numpy,
)
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.rows.rows import Census, Rows, Rule, count_rows
from implicitmoments.rows.table import (
    DEFAULT_BUDGET,
    Block,
    Sums,
    blocks,
    join_labels,
    take_rows,
)

SMALLEST_COMPONENT = 0.02  # of an equal share of the rows: moments show no lighter one
FEWEST = 6  # rows of a far group: fewer may be errors that are alike, and show no variance
LINK = 1.2  # largest distance of rows of one component, over the typical distance


class Outliers(NamedTuple):
    """Rows without outliers."""

    rows: Rows
    n_outliers: int  # rows that were left out
    rule: Near | None = None  # by which rows are kept; None for all


@dataclass(frozen=True, eq=False)
class Near:
    """Keeps rows that are not far from the median, or that belong to a far group.

    A rule for labelled rows says nothing of rows without labels.
    """

    # (d,), distances are those of (row − center) / scale, with rows as the source has them
    center: Floats
    scale: Floats  # (d,); with labels they are a column
    limit: float  # distance from the centre beyond which a row is far
    company: Floats  # (m, d), far rows, scaled, that are kept, and rows within reach of the limit
    reach: float  # A far row nearer than that to one of them belongs to its group
    labelled: bool = False  # whether the label is a column of the row

    @np.errstate(over="ignore")  # an infinite distance is far
    def __call__(self, block: Block) -> Array | None:
        """Return which rows of a block are kept; None for all."""
        if self.labelled and "y" not in block:
            return None
        z = scaled(join_labels(block) if self.labelled else block["x"], self.center, self.scale)
        xp = namespace_of(z)
        near = dot_rows(z, z) <= self.limit**2
        if bool(xp.all(near)):
            return None
        (far,) = xp.nonzero(~near)
        beyond = as_double(xp.take(z, far, axis=0))
        linked = near_any(beyond, move_like(self.company, beyond), self.reach)
        kept = to_numpy(near).copy()
        kept[to_numpy(far)] = to_numpy(linked)
        return index_like(kept, z)


def leave_out_outliers(
    rows: Rows, k: int, *, drop: bool = True, labelled: bool = False, least_share: float = 0.0
) -> Outliers:
    """Leave out rows that are far from the median and belong to no far group.

    The limit is estimated from all rows, or from a random sample of 100,000, with every column in
    units of its outer deciles in 2,000 of them. Far rows are linked if they are as near to one
    another as two rows of a component can be. A row that is linked to one within the limit is a
    part of a tail and is kept. A group is kept, and with it every row that is linked to it, if
    BIC prefers it as a component to a background of far rows, or if it has a fiftieth of the
    rows. All rows are kept where more than a fifth of them would be left out. So the rows that
    are left out depend on the rows alone: fits with any number and shape of components have the
    same ones, and their criteria can be compared.

    Parameters
    ----------
    k : int
        Number of components: at least as many rows are kept.
    drop : bool
        False to keep all rows.
    labelled : bool
        Look at labels too.
    least_share : float
        The fewest rows of a group that is kept, of an equal share of the rows; for methods of
        moments, which a light group far away would dominate.

    Returns
    -------
    Outliers
        Its rows know their census.
    """
    if not drop:
        return Outliers(rows, 0)
    rule = near_rule(rows, k, labelled=labelled, least_share=least_share)
    every, far = count_far(rows, rule)
    if not far.kept:
        return Outliers(replace(rows, known=every), 0, rule)
    if not few_enough(far.kept, every.kept) or every.kept - far.kept < k:
        return Outliers(replace(rows, known=every), 0)
    census = Census(every.kept - far.kept, every.total - far.total)
    return Outliers(rows.kept_by(rule, census), far.kept, rule)


def count_extreme_rows(rows: Rows, *, times: float = 5.0) -> int:
    """Count rows (x, y) of a regression that lie beyond a multiple of the limit of outliers.

    Regressions keep them: a row far out in x is leverage, and may be the most informative one;
    indicators and amounts that are 0 in most rows look far as well. So only rows beyond a
    multiple of the limit are counted, which would dominate least squares and high moments.
    """
    rule = near_rule(rows, labelled=True)
    every, far = count_far(rows, replace(rule, limit=times * rule.limit))
    return far.kept if few_enough(far.kept, every.kept) else 0


def few_enough(n_far: int, n: int) -> bool:
    """Say whether so many of n rows may be outliers: more than a fifth are structure."""
    return n_far <= 0.2 * n


def count_far(rows: Rows, rule: Rule) -> tuple[Census, Census]:
    """Count the rows, and those that a rule leaves out, in one pass."""

    def measure(block: Block) -> Sums:
        kept, every = rule(block), count_rows(block)
        far = 0.0 * every if kept is None else count_rows(take_rows(block, ~kept))
        return {"every": every, "far": far}

    found = rows.as_given().fold(measure, width=4, what="outliers")
    return Census.of(found.get("every")), Census.of(found.get("far"))


def far_limit(radius: Floats, n: int, quantile: float = 0.9) -> float:
    """Return the distance from the centre beyond which one of n rows is far.

    In one of 100 data sets of Gaussian rows, the largest distance is beyond the
    median by more than a multiple of the spread, which the quantile shows: 0.75 withstands a far
    group of a quarter of the rows; once far groups are known, 0.9 reflects heavier tails. The
    limit has room for tails that are a little heavier. Distances of groups of rows may spread
    much; so rows three times as far as all within are far as well.
    """
    middle, high = np.quantile(radius, [0.5, quantile])
    # distances of discrete rows may all be equal: the spread is a tenth of the median at least
    spread = max(float(high - middle), 0.1 * float(middle)) / float(norm.ppf(quantile))
    limit = middle + 1.2 * spread * math.sqrt(2.0 * math.log(100 * max(n, 2)))
    outside = np.sort(radius[radius >= max(high, middle)])
    gaps = np.flatnonzero((outside[1:] > 3 * outside[:-1]) & (outside[:-1] > 0))
    return float(min(limit, 3 * outside[gaps[0]]) if len(gaps) else limit)


def near_rule(rows: Rows, k: int = 1, *, labelled: bool, least_share: float = 0.0) -> Near:
    """Estimate centre, limit and far groups; see :func:`leave_out_outliers`."""
    probe, n = rows.as_given().sample(100_000), rows.n  # quantiles are then known to 1 %
    points = join_labels(probe.block) if labelled else probe.block["x"]
    table, weights = np.asarray(to_numpy(points), dtype=np.float64), probe.counts
    center, scale = center_and_units(table)
    radius = lengths_of(table, center, scale)
    middle = float(np.median(radius))
    refuse_large("X", found=math.isinf(middle))
    if middle == 0:  # half the rows are one point
        middle = float(np.sqrt(np.mean(radius[np.isfinite(radius)] ** 2))) or 1.0
    unit = middle / math.sqrt(len(center))
    scale, radius = scale * unit, radius / unit
    near = Near(center, scale, math.inf, np.zeros((0, len(center))), 0.0, labelled)
    limit = far_limit(radius, n, 0.75)
    if limit == 0:  # most rows are one point, as with a binary column: nothing is far from it
        return near

    def at(places: Integers) -> Floats:
        return np.asarray(scaled(table[places], center, scale))

    fewest = max(FEWEST, least_share * float(weights.sum()) / k)
    grouped, *_ = find_groups(at, radius, limit, weights, fewest)
    limit = max(limit, far_limit(radius[~grouped], n))
    grouped, company, reach = find_groups(at, radius, limit, weights, fewest)
    n_out = int(np.count_nonzero((radius > limit) & ~grouped))
    if not few_enough(n_out, len(table)) or len(table) - n_out < k:
        refuse_large("X", found=bool(np.isinf(radius).any()))
        return near
    some = draw_numbers(len(company), 2**16 // len(center), 0)  # they travel with every pass
    return replace(near, limit=limit, company=company[some], reach=reach)


def center_and_units(table: Floats, *, few: int = 2_000) -> tuple[Floats, Floats]:
    """Return the medians of columns (n, d), and a unit for each that a few outliers do not change.

    The distance of its outer deciles, in units of that of normal variables: the median deviation
    may be that within one group of rows. If most rows are equal, the median size of the others;
    if these are too few to tell it, the unit of the other columns. Quantiles are those of a random
    part of the rows, which is enough to know them to 4 % of a deviation.
    """
    some = table[draw_numbers(len(table), few, 0)]
    low, center, high = np.quantile(some, [0.1, 0.5, 0.9], axis=0)
    units = (high - low) / (2 * float(norm.ppf(0.9)))
    for j in np.flatnonzero(units == 0):
        sizes = np.abs(table[:, j] - center[j])
        sizes = sizes[sizes > 0]
        units[j] = np.median(sizes) if len(sizes) >= FEWEST else 0.0
    known = units[units > 0]
    return center, np.where(units > 0, units, np.median(known) if len(known) else 1.0)


def scaled(x: Array, center: Floats, scale: Floats) -> Array:
    """Return (x − center) / scale for rows x (n, d)."""
    return (x - move_like(center, x)[None, :]) / move_like(scale, x)[None, :]


@np.errstate(over="ignore")
def lengths_of(table: Floats, center: Floats, scale: Floats) -> Floats:
    """Return the lengths of scaled rows, (n,); they are scaled block by block."""
    size = DEFAULT_BUDGET.rows_per_block(len(center), table)
    parts = (table[rows.start : rows.stop] for rows in blocks(range(len(table)), size))
    return np.concatenate([np.linalg.norm(scaled(part, center, scale), axis=1) for part in parts])


def near_any(x: Array, others: Array, reach: float) -> Array:
    """Say which rows x (n, d) are nearer than ``reach`` to one of the others (m, d).

    Rows that are longer than those by more are not: their distances would have no digits.
    """
    size = DEFAULT_BUDGET.rows_per_block(int(others.shape[0]), x)
    xp, found = namespace_of(x), []
    if not others.shape[0]:
        return xp.zeros_like(x[:, 0], dtype=xp.bool)
    longest = xp.sqrt(xp.max(dot_rows(others, others))) + reach
    shift = others[:1, :]  # rows far away may lie close together
    y = others - shift
    for rows in blocks(range(int(x.shape[0])), size):
        part = x[rows.start : rows.stop, :]
        z = part - shift
        products = z @ xp.matrix_transpose(y)
        squares = dot_rows(z, z)[:, None] + dot_rows(y, y)[None, :] - 2 * products
        short = dot_rows(part, part) <= longest**2
        found.append((xp.min(squares, axis=1) < reach**2) & short)
    return xp.concat(found)


def find_groups(
    at: Callable[[Integers], Floats], radius: Floats, limit: float, weights: Floats, fewest: float
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Floats, float]:
    """Say which rows are far, and linked to rows that are not, or in a component.

    Also returned are rows to one of which all others of a group, or at the limit, are near, and
    how near that is. Far rows that were not compared belong to the nearest group.

    Parameters
    ----------
    at : callable
        Returns some of the rows, by their places, in the units of the rule.
    fewest : float
        The least number of rows of a component.
    """
    grouped, most = np.zeros(len(radius), dtype=bool), 2_000  # rows compared: quadratic costs
    far = np.flatnonzero((radius > limit) & np.isfinite(radius))
    if len(far) == 0:
        return grouped, at(far), 0.0
    chosen = far[draw_numbers(len(far), most, 0)]
    z, counts = at(chosen), weights[chosen] * (len(far) / len(chosen))
    reach = LINK * math.sqrt(2 * z.shape[1])
    edge = np.flatnonzero((radius <= limit) & (radius > limit - reach))
    at_edge = at(edge[draw_numbers(len(edge), most, 0)])
    # by differences: products would lose the digits of rows that are very far
    n_groups, groups = connected_components(cdist(z, z) < reach, directed=False)
    kept = np.zeros(n_groups, dtype=bool)
    kept[groups[np.any(cdist(z, at_edge) < reach, axis=1)]] = True
    total, decades = float(weights.sum()), max(1.0, math.log(float(radius[far].max()) / limit))
    for g in np.flatnonzero(~kept):
        own = groups == g
        m = float(counts[own].sum())
        if m >= fewest:  # of a fiftieth of the rows it is structure, whatever its shape
            gain = _component_gain(z[own], counts[own], m / float(counts.sum()), decades)
            kept[g] = m >= 0.02 * total or gain > 0.5 * (z.shape[1] + 2) * math.log(total)
    company = np.vstack([z[kept[groups]], at_edge])
    # in units of the median distance from the centre, which is not below the noise
    largest = np.sum((company - company[:1]) ** 2, axis=1).max(initial=0.0)
    reach = math.sqrt(reach**2 + 1e-12 * float(largest))
    grouped[far] = to_numpy(near_any(at(far), company, reach))
    return grouped, company, reach


def _component_gain(z: Floats, weights: Floats, share: float, decades: float) -> float:
    """Return the log-likelihood of far rows as a component, less that as a background.

    The component is spherical; its mean and variance take one row from it. The background has
    rows at all distances alike: its density falls with the distance r as 1/rᵈ.

    Parameters
    ----------
    share : float
        Of these rows in all far ones.
    decades : float
        The logarithm of the ratio of the largest distance to the least.
    """
    d, m = z.shape[1], float(weights.sum())
    apart = z - weights @ z / m
    squares = max(float(weights @ np.sum(apart**2, axis=1)), float(np.finfo(float).tiny))
    variance = squares / ((m - 1) * d)
    sphere = math.log(2) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
    heights = d * np.log(np.linalg.norm(z, axis=1)) + sphere + math.log(decades)
    inside = -0.5 * d * (math.log(2 * math.pi * variance) + 1)
    return float(m * math.log(share) + (m - 1) * (inside + weights @ heights / m))
