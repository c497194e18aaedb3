"""Groups of rows far from the median: which are linked, and which are components."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from implicitmoments.arrays import Array, Floats, dot_rows, move_like, namespace_of, to_numpy
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.rows.fold import DEFAULT_BUDGET, blocks

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
