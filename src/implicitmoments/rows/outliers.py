"""Outliers: rows far from all others, which would dominate high-order moments and variances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from implicitmoments.arrays import (
    Array,
    Floats,
    check_squares,
    dot_rows,
    move_like,
    namespace_of,
    refuse_large,
    to_numpy,
)
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.rows.passes import (
    DEFAULT_BUDGET,
    Block,
    Sums,
    blocks,
    join_labels,
    take_rows,
    weights_of,
)
from implicitmoments.rows.rows import Census, Rows, Rule

# The limit is measured in spreads of the distances beyond their median, in units of those of a
# normal variable. The upper quartile withstands a far group of a quarter of the rows; once far
# groups are known, the 90 % quantile reflects heavier tails.
QUARTILE, DECILE = (0.75, 0.6745), (0.9, 1.2816)
FALSE_ALARMS = 0.01  # data sets of Gaussian rows in which a row passes the limit, before REACH
REACH = 1.2  # times that limit: room for tails that are a little heavier
LEAST_SPREAD = 0.1  # of the median distance: distances of discrete rows may all be equal
GAP = 3.0  # ratio of distances from the centre between which there are no rows
EXTREME = 5.0  # times the limit: rows that regressions report, and keep
MOST_FAR = 0.2  # a larger share of the rows is structure, not outliers
SMALLEST_COMPONENT = 0.02  # of an equal share of the rows: moments show no lighter one
PROBED = 100_000  # rows that the limit is estimated from: its quantiles are then known to 1 %
# Rows that the centre and the units of columns are estimated from, by quantiles of every column:
# they are then known to 4 % of a deviation, a fifth of what REACH leaves.
CENTERED = 2_000
COMPANY_NUMBERS = 2**16  # of far rows that are kept: they travel with every pass


class Outliers(NamedTuple):
    """Rows without outliers."""

    rows: Rows
    n_outliers: int  # rows that were left out
    rule: Near | None = None  # by which rows are kept; None for all

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
    company: Floats  # (m, d), far rows, scaled, that are kept, and rows within reach of the limit
    reach: float  # A far row nearer than that to one of them belongs to its group
    labelled: bool = False  # whether the label is a column of the row

    def __call__(self, block: Block) -> Array | None:
        """Return which rows of a block are kept; None for all.

        A rule for labelled rows says nothing of rows without labels.
        """
        return None if self.labelled and "y" not in block else self.kept(block)[0]

    @np.errstate(over="ignore")  # an infinite distance is far
    def kept(self, block: Block) -> tuple[Array | None, Array]:
        """Return which rows are kept, None for all, and squared distances from the centre."""
        z = join_labels(block) if self.labelled else block["x"]
        xp = namespace_of(z)
        squares = squared_lengths(z, self.center, self.scale)
        near = squares <= self.limit**2
        if bool(xp.all(near)):
            return None, squares
        if len(self.company) == 0:
            return near, squares
        (far,) = xp.nonzero(~near)
        z = xp.take(z, far, axis=0)
        z = (z - move_like(self.center, z)[None, :]) / move_like(self.scale, z)[None, :]
        x = xp.astype(z, xp.float64)
        (place,) = xp.nonzero(near_any(x, move_like(self.company, x), self.reach))
        kept = to_numpy(near).copy()
        kept[to_numpy(xp.take(far, place, axis=0))] = True
        return xp.astype(move_like(kept.astype(np.float64), x), xp.bool), squares


def leave_out_outliers(
    rows: Rows,
    k: int,
    *,
    drop: bool = True,
    labelled: bool = False,
    least_share: float = 0.0,
    seed: int = 0,
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
        False to count the rows, and keep them all.
    labelled : bool
        Look at labels too.
    least_share : float
        The fewest rows of a group that is kept, of an equal share of the rows; for methods of
        moments, which a light group far away would dominate.
    seed : int
        Of the sample.

    Returns
    -------
    Outliers
        Its rows know their census.
    """
    rule = near_rule(rows, k, labelled=labelled, least_share=least_share, seed=seed)
    what = "outliers" if drop else "counting rows"
    found = rows.as_given().fold(_Count(rule, drop), width=4, what=what)
    n, n_out = int(found.get("n", 0)), int(found.get("out", 0))
    left_out = n_out > 0 and few_enough(n_out, n) and n - n_out >= k
    which = "kept" if left_out else "all"
    check_squares("X", float(found.get(f"{which} squares", 0.0)))
    census = Census(n - n_out * left_out, float(found.get(f"{which} total", 0.0)))
    if left_out:
        return Outliers(rows.kept_by(rule, census), n_out, rule)
    return Outliers(replace(rows, known=census), 0, rule if drop and n_out == 0 else None)


def few_enough(n_far: int, n: int) -> bool:
    """Say whether so many of n rows may be outliers: more of them are structure."""
    return n_far <= MOST_FAR * n


def count_extreme_rows(rows: Rows, k: int, seed: int = 0, *, labelled: bool = True) -> int:
    """Count rows of a regression that lie beyond five times the limit of outliers.

    Regressions keep them: a row far out in x is leverage, and may be the most informative one;
    indicators and amounts that are 0 in most rows look far as well. So only rows beyond a
    multiple of the limit are counted, which would dominate least squares and high moments.

    Parameters
    ----------
    labelled : bool
        Rows (x, y), or x alone.
    """
    rule = near_rule(rows, k, labelled=labelled, seed=seed)
    rule = replace(rule, limit=EXTREME * rule.limit)
    found = rows.as_given().fold(partial(count_far, rule), width=4, what="outliers")
    n_far = int(found.get("out", 0))
    return n_far if few_enough(n_far, rows.n) else 0


def count_far(rule: Rule, block: Block) -> Sums:
    """Count the rows of a block that a rule leaves out, as ``out``."""
    kept = rule(block)
    return {"out": 0 if kept is None else int(namespace_of(kept).count_nonzero(~kept))}


def far_limit(radius: Floats, n: int, outer: tuple[float, float] = DECILE) -> float:
    """Return the distance from the centre beyond which one of n rows is far.

    Distances of groups of rows may spread much. So rows beyond a gap are far as well.
    """
    quantile, deviations = outer
    middle, high = np.quantile(radius, [0.5, quantile])
    spread = max(float(high - middle), LEAST_SPREAD * float(middle)) / deviations
    limit = middle + spread * REACH * math.sqrt(2.0 * math.log(max(n, 2) / FALSE_ALARMS))
    outside = np.sort(radius[radius >= max(high, middle)])
    gaps = np.flatnonzero((outside[1:] > GAP * outside[:-1]) & (outside[:-1] > 0))
    return float(min(limit, GAP * outside[gaps[0]]) if len(gaps) else limit)


@dataclass(frozen=True, eq=False)
class _Count:
    """Counts rows of a block and those that a rule leaves out, and sums their squares."""

    rule: Near
    drop: bool  # whether the rule is applied

    @np.errstate(over="ignore", invalid="ignore")
    def __call__(self, block: Block) -> Sums:
        (kept, squares), xp = self.rule.kept(block), namespace_of(block["x"])
        kept = kept if self.drop else None
        n_out = 0 if kept is None else int(xp.count_nonzero(~kept))
        sums: Sums = {"n": int(block["x"].shape[0]), "out": n_out}
        counts = weights_of(block)
        for which, mask in (("all", None), ("kept", kept)):
            some = take_rows({"squares": squares, "counts": counts}, mask)
            products = some["counts"] * some["squares"]
            sums[f"{which} total"] = float(xp.sum(some["counts"], dtype=xp.float64))
            sums[f"{which} squares"] = float(xp.sum(products, dtype=xp.float64))
        return sums


def probe_rows(rows: Rows, seed: int = 0) -> Rows:
    """Return rows as they were given, of which limits are estimated."""
    return rows.as_given().sample(PROBED, seed)


def near_rule(
    rows: Rows, k: int = 1, *, labelled: bool, least_share: float = 0.0, seed: int = 0
) -> Near:
    """Estimate centre, limit and far groups; see :func:`leave_out_outliers`."""
    probe, n = probe_rows(rows, seed), rows.n
    block = probe.block
    table = np.asarray(to_numpy(join_labels(block) if labelled else block["x"]), dtype=float)
    weights = probe.counts
    center, scale = center_and_units(table)
    with np.errstate(over="ignore"):
        radius = np.sqrt(squared_lengths(table, center, scale))
    middle = float(np.median(radius))
    refuse_large("X", found=math.isinf(middle))
    if middle == 0:  # half the rows are one point
        middle = float(np.sqrt(np.mean(radius[np.isfinite(radius)] ** 2))) or 1.0
    unit = middle / math.sqrt(len(center))
    scale, radius = scale * unit, radius / unit
    near = Near(center, scale, math.inf, np.zeros((0, len(center))), 0.0, labelled)
    fewest = least_share * float(weights.sum()) / k
    limit = far_limit(radius, n, QUARTILE)
    if limit == 0:  # most rows are one point, as with a binary column: nothing is far from it
        return near

    def scaled(places: Integers) -> Floats:
        return np.asarray((table[places] - center) / scale)

    grouped, _ = find_groups(scaled, radius, limit, weights, fewest)
    limit = max(limit, far_limit(radius[~grouped], n))
    grouped, company = find_groups(scaled, radius, limit, weights, fewest)
    n_out = int(np.count_nonzero((radius > limit) & ~grouped))
    if not few_enough(n_out, len(table)) or len(table) - n_out < k:
        return near
    some = draw_numbers(len(company), COMPANY_NUMBERS // len(center), 0)
    link = link_length(company) if len(company) else 0.0
    return replace(near, limit=limit, company=company[some], reach=link)


def center_and_units(table: Floats) -> tuple[Floats, Floats]:
    """Return the medians of columns (n, d), and a unit for each that a few outliers do not change.

    The distance of its outer deciles, in units of that of normal variables: the median deviation
    may be that within one group of rows. If most rows are equal, the median size of the others;
    if these are too few to tell it, the unit of the other columns. Quantiles of a random part of
    the rows, sizes of rare entries of all.
    """
    some = table[draw_numbers(len(table), CENTERED, 0)]
    low, center, high = np.quantile(some, [1 - DECILE[0], 0.5, DECILE[0]], axis=0)
    units = (high - low) / (2 * DECILE[1])
    for j in np.flatnonzero(units == 0):
        sizes = np.abs(table[:, j] - center[j])
        sizes = sizes[sizes > 0]
        units[j] = np.median(sizes) if len(sizes) >= FEWEST else 0.0
    known = units[units > 0]
    return center, np.where(units > 0, units, np.median(known) if len(known) else 1.0)


STRUCTURE = 0.02  # of the rows: a far group of as many is structure, whatever its shape
FEWEST = 6  # rows of a far group: fewer may be errors that are alike, and show no variance
LINK = 1.2  # largest distance of rows of one component, over the typical distance
MOST_LINKED = 2_000  # far rows that are compared with one another: the cost is quadratic


def squared_lengths(x: Array, center: Floats, scale: Floats) -> Array:
    """Return the squared lengths of (x − center) / scale for rows x (n, d), (n,).

    In NumPy by blocks that stay in the cache: arrays of the size of x are never formed.
    """
    origin, unit = move_like(center, x)[None, :], move_like(scale, x)[None, :]
    if not isinstance(x, np.ndarray):
        z = (x - origin) / unit
        return dot_rows(z, z)
    found = np.empty(len(x), x.dtype)
    for rows in blocks(range(len(x)), max(1, DEFAULT_BUDGET.cache // x.shape[1])):
        z = x[rows.start : rows.stop] - origin
        z /= unit
        np.einsum("ij,ij->i", z, z, out=found[rows.start : rows.stop])
    return found


def squared_distances(x: Array, others: Array) -> Array:
    """Return the squared distances of rows x (n, d) and others (m, d), (n, m)."""
    xp = namespace_of(x)
    shift = others[:1, :]  # rows far away may lie close together
    x, others = x - shift, others - shift
    squares = dot_rows(x, x)[:, None] + dot_rows(others, others)[None, :]
    return squares - 2 * (x @ xp.matrix_transpose(others))


def near_any(x: Array, others: Array, reach: float) -> Array:
    """Say which rows x (n, d) are nearer than ``reach`` to one of the others (m, d).

    Rows that are longer than those by more are not: their distances would have no digits.
    """
    size = DEFAULT_BUDGET.rows_per_block(int(others.shape[0]), x)
    xp, found = namespace_of(x), []
    longest = xp.sqrt(xp.max(dot_rows(others, others))) + reach
    for rows in blocks(range(int(x.shape[0])), size):
        part = x[rows.start : rows.stop, :]
        apart = xp.min(squared_distances(part, others), axis=1)
        found.append((apart < reach**2) & (dot_rows(part, part) <= longest**2))
    return xp.concat(found)


def find_groups(
    scaled: Callable[[Integers], Floats],
    radius: Floats,
    limit: float,
    weights: Floats,
    fewest: float,
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Floats]:
    """Say which rows are far, and linked to rows that are not, or in a component.

    Also returned are rows to one of which all others of a group, or at the limit, are near.

    Parameters
    ----------
    scaled : callable
        Returns some of the rows, by their places, in the units of the rule.
    fewest : float
        The least number of rows of a component, besides the rule of :func:`_component_gain`.
    """
    grouped = np.zeros(len(radius), dtype=bool)
    (far,) = np.nonzero((radius > limit) & np.isfinite(radius))
    if len(far) == 0:
        return grouped, scaled(far)
    step = math.ceil(len(far) / MOST_LINKED)
    chosen = far[draw_numbers(len(far), len(far) // step, 0)]
    linked = scaled(chosen)
    d = linked.shape[1]
    reach = LINK * math.sqrt(2 * d)
    (edge,) = np.nonzero((radius <= limit) & (radius > limit - reach))
    at_edge = scaled(edge[draw_numbers(len(edge), MOST_LINKED, 0)])
    # by differences: products would lose the digits of rows that are very far
    n_groups, groups = connected_components(cdist(linked, linked) < reach, directed=False)
    total, all_far = float(weights.sum()), float(weights[far].sum())
    decades = max(1.0, math.log(float(radius[far].max()) / limit))
    kept = np.zeros(n_groups, dtype=bool)
    kept[groups[np.any(cdist(linked, at_edge) < reach, axis=1)]] = True
    for g in np.flatnonzero(~kept):
        own = groups == g
        counts = weights[chosen[own]] * step
        m = float(counts.sum())
        if m >= max(STRUCTURE * total, FEWEST, fewest):
            kept[g] = True
        elif m >= max(FEWEST, fewest):
            gain = _component_gain(linked[own], counts, m / all_far, decades)
            kept[g] = gain > 0.5 * (d + 2) * math.log(total)
    grouped[chosen] = kept[groups]
    company = np.vstack([linked[kept[groups]], at_edge])
    if step > 1 and len(company):  # far rows that were not compared belong to the nearest group
        grouped[far] = to_numpy(near_any(scaled(far), company, link_length(company)))
    return grouped, company


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


def link_length(z: Floats) -> float:
    """Return how far apart two rows of one far group are at the most.

    In units of the median distance from the centre, which is not below the noise.
    """
    largest = float(np.sum((z - z.mean(axis=0)) ** 2, axis=1).max())
    return math.sqrt(LINK**2 * 2 * z.shape[1] + 1e-12 * largest)
