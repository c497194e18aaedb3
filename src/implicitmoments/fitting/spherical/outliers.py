"""Rows far from all others: one of them would take a component, or rule the shared variance."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from implicitmoments.backends import Floats
from implicitmoments.fitting.spherical.rows import Rows

__all__ = ["far_limit", "leave_out", "radii"]

MIDDLE, OUTER, REACH = 0.5, 0.9, 3.0  # quantiles of distances, and how far beyond is far
MOST_FAR = 0.2  # share of rows above which what is far is no exception
MOST_LINKED = 2_000  # far rows that are grouped
LINK = 1.2  # times the typical distance of two rows of one component, at the most
ALL_BUT = 0.95  # share of a sample of far rows that must be lonely for all to be left out
SMALLEST_COMPONENT = 0.02  # of an equal share of rows: a group of more is a component


def radii(rows: Rows) -> Floats:
    """Return the distance of every row from the centre."""
    found = [np.linalg.norm(x, axis=1) for x, _ in rows.blocks()]
    return np.concatenate(found).astype(np.float64)


def far_limit(radius: Floats) -> float:
    """Return the distance from the centre beyond which a row is far.

    Three times as far beyond the ninth decile as that is beyond the median: of Gaussian rows
    fewer than one in 100,000 are.
    """
    middle, outer = np.quantile(radius, [MIDDLE, OUTER])
    return float(outer + REACH * (outer - middle))


def leave_out(rows: Rows, k: int) -> tuple[Rows, int]:
    """Let rows that are far and have few neighbours count zero times; return how many.

    Far rows are linked when they lie as near as two rows of one component may. A group that is
    large enough for a component stays.
    """
    radius = radii(rows)
    counted = np.ones(rows.n) if rows.sample_weight is None else rows.sample_weight
    far = np.flatnonzero((radius > far_limit(radius)) & (counted > 0))
    if len(far) == 0 or len(far) > MOST_FAR * rows.n or rows.n - len(far) < k:
        return rows, 0
    step = math.ceil(len(far) / MOST_LINKED)
    groups, sizes = _groups(rows, far[::step], counted)
    lonely = sizes[groups] * step < SMALLEST_COMPONENT * float(counted.sum()) / k
    out = far[lonely] if step == 1 else far
    if len(out) == 0 or (step > 1 and lonely.mean() < ALL_BUT):
        return rows, 0
    counts = counted.copy()
    counts[out] = 0.0
    return replace(rows, sample_weight=counts), len(out)


def _groups(
    rows: Rows, chosen: np.ndarray[Any, Any], counted: Floats
) -> tuple[np.ndarray[Any, Any], Floats]:
    """Return the group of each chosen row, and how many rows are in each group."""
    x = np.asarray(rows.take(chosen).X, dtype=np.float64)
    x -= x.mean(axis=0)
    squares = np.sum(x**2, axis=1)
    apart = squares[:, None] + squares - 2 * x @ x.T
    # in units of the median distance from the centre, which is not below the noise
    near = apart < LINK**2 * 2 * rows.d + 1e-12 * squares.max()
    _, groups = connected_components(near, directed=False)
    return groups, np.bincount(groups, weights=counted[chosen]).astype(np.float64)
