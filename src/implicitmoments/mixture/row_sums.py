"""Sums over rows, block by block, that EM of Gaussian components needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    cross_sums,
    linear_rows,
    move_like,
    namespace_of,
    softmax_rows,
    to_numpy,
)
from implicitmoments.arrays.near_components import near_sums
from implicitmoments.arrays.responsibilities import linear_responsibilities
from implicitmoments.mixture.gaussians import Gaussians, GaussianSums
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search.noise import expected_factors

FAR_CENTER = 1e3  # units: subtracting the centre afterwards loses 3 of 16 digits


def as_sums(found: Sums, d: int, level: float, total: float) -> GaussianSums:
    """Return named sums of products with lifted rows (x, products, 1)."""
    moments = to_numpy(found["moments"])
    parts = (moments[:, :d], moments[:, d:-1])
    if "tails" not in found:
        return GaussianSums(level, total, moments[:, -1], *parts)
    counts, tails = (to_numpy(found[name]) for name in ("counts", "tails"))
    return GaussianSums(level, total, counts, *parts, moments[:, -1], tails)


def weighted_sums(slopes: Floats, state: Gaussians, x: Array, shares: Array) -> Sums:
    """Return the sums of lifted rows for given responsibilities, (n, k)."""
    if state.gaussian:
        return {"moments": cross_sums(shares, x)}
    xp, freedom = namespace_of(x), move_like(state.freedom, x)
    tails = state.log_tails(linear_rows(x, move_like(slopes, x)))
    return {
        "counts": xp.sum(shares, axis=0, dtype=xp.float64),
        "tails": xp.sum(shares * tails, axis=0, dtype=xp.float64),
        "moments": cross_sums(shares * expected_factors(tails, freedom, state.d), x),
    }


def unmapped(rows: Rows) -> tuple[Rows, Floats, Floats]:
    """Return rows to multiply, and the centre and scale (d,) to apply to their sums.

    Rows of double precision whose centre is near are multiplied as they are, without a copy.
    """
    d, x = rows.n_features, rows.first["x"]
    scale = np.asarray(1.0 if rows.linear is None else rows.linear, dtype=np.float64)
    double = x.dtype == namespace_of(x).float64
    if double and scale.ndim < 2 and np.all(np.abs(rows.origin * scale) <= FAR_CENTER):
        plain = rows.center is None and rows.linear is None
        return rows if plain else rows.as_given(), rows.origin, np.broadcast_to(scale, (d,))
    return rows, np.zeros(d), np.ones(d)


def block_sums(slopes: Floats, offsets: Floats, state: Gaussians, block: Block) -> Sums:
    """Return the sums of a block of rows, in which log densities of Gaussians are linear."""
    x, times = block["x"], block.get("counts")
    xp = namespace_of(x)
    total = float(x.shape[0]) if times is None else float(xp.sum(times, dtype=xp.float64))
    if state.gaussian:
        if (near := near_sums(x, slopes, offsets, times)) is not None:
            return {**near, "total": total}
        shares, densities = linear_responsibilities(x, slopes, offsets)
    else:
        joint = linear_rows(x, move_like(slopes, x)) + move_like(offsets, x)
        shares, densities = softmax_rows(state.in_law(joint))
    if times is not None:
        shares, densities = shares * times[:, None], densities * times
    return {
        **weighted_sums(slopes, state, x, shares),
        "counts": xp.sum(shares, axis=0, dtype=xp.float64),
        "log_likelihood": xp.sum(densities, dtype=xp.float64),
        "total": total,
    }


def block_sums_with_products(
    step: Callable[[Block], Sums], full: bool, center: Floats, scale: Floats, block: Block
) -> Sums:
    """Return the sums of ``step``, and of products of columns of z = (x − center) · scale.

    Products of all pairs of columns, (d, d), or squares, (d,); in double precision.
    """
    x, times = as_double(block["x"]), block.get("counts")
    z = (x - move_like(center, x)[None, :]) * move_like(scale, x)[None, :]
    weighted = z if times is None else z * as_double(times)[:, None]
    squares = cross_sums(weighted, z) if full else namespace_of(z).sum(weighted * z, axis=0)
    return {**step(block), "products": squares}
