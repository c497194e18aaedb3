"""The E-step of Gaussian mixtures: sums over the rows of a block, and over all rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    cross_sums,
    dot_columns,
    move_like,
    namespace_of,
    softmax_rows,
    to_numpy,
)
from implicitmoments.arrays.near_components import near_sums
from implicitmoments.arrays.responsibilities import linear_responsibilities
from implicitmoments.mixture.expansion import Expansion
from implicitmoments.mixture.gaussians import GaussianSums
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search.noise import expected_factors

FAR_CENTER = 1e3  # units: subtracting the centre afterwards loses 3 of 16 digits


def as_sums(
    found: Sums, d: int, level: float, total: float, about: Floats | None = None
) -> GaussianSums:
    """Return named sums of products with lifted rows (x, products, 1)."""
    moments = to_numpy(found["moments"])
    about = np.zeros_like(moments[:, :d]) if about is None else about
    counts, factors, tails = moments[:, -1], moments[:, -1], np.zeros(len(moments))
    if "tails" in found:
        counts, tails = to_numpy(found["counts"]), to_numpy(found["tails"])
    points, products = moments[:, :d], moments[:, d:-1]
    return GaussianSums(level, total, counts, points, products, factors, tails, about)


def weighted_sums(
    expansion: Expansion, x: Array, shares: Array, tails: Array | None = None
) -> Sums:
    """Return the sums of lifted rows for given responsibilities, (n, k).

    Parameters
    ----------
    tails : array of shape (n, k), optional
        Of the rows, where they are known.
    """
    state = expansion.state
    if state.gaussian:
        return {"moments": expansion.moments(x, shares)}
    xp, freedom = namespace_of(x), move_like(state.freedom, x)
    tails = state.log_tails(expansion.joint(x)) if tails is None else tails
    return {
        "counts": xp.sum(shares, axis=0, dtype=xp.float64),
        "tails": xp.sum(shares * tails, axis=0, dtype=xp.float64),
        "moments": expansion.moments(x, shares * expected_factors(tails, freedom, state.d)),
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


def block_sums(expansion: Expansion, block: Block) -> Sums:
    """Return the sums of a block of lifted rows."""
    state = expansion.state
    x = expansion.precise(block["x"])
    if state.gaussian and not len(expansion.far):
        return linear_sums(expansion.slopes, np.zeros(state.k), {**block, "x": x})
    joint = expansion.joint(x)
    tails = None if state.gaussian else state.log_tails(joint)
    shares, sums = _counted(*softmax_rows(state.in_law(joint, tails)), block)
    return {**sums, **weighted_sums(expansion, x, shares, tails)}


def sums_in_double(step: Callable[[Block], Sums], block: Block) -> Sums:
    """Return the sums of ``step`` for a block in double precision."""
    return step({**block, "x": as_double(block["x"])})


def linear_sums(slopes: Floats, offsets: Floats, block: Block) -> Sums:
    """Return the sums of a block of rows, in which log densities of Gaussians are linear."""
    x, times = block["x"], block.get("counts")
    if (near := near_sums(x, slopes, offsets, times)) is not None:
        return {**near, "total": _total(block)}
    shares, sums = _counted(*linear_responsibilities(x, slopes, offsets), block)
    return {**sums, "moments": cross_sums(shares, x)}


def sums_with_products(
    step: Callable[[Block], Sums], full: bool, center: Floats, scale: Floats, block: Block
) -> Sums:
    """Return the sums of ``step``, and of products of columns of z = (x − center) · scale.

    Products of all pairs of columns, (d, d), or squares, (d,); in double precision.
    """
    x, times = as_double(block["x"]), block.get("counts")
    z = (x - move_like(center, x)[None, :]) * move_like(scale, x)[None, :]
    weighted = z if times is None else z * as_double(times)[:, None]
    squares = cross_sums(weighted, z) if full else dot_columns(weighted, z)
    return {**step(block), "products": squares}


def _counted(shares: Array, densities: Array, block: Block) -> tuple[Array, Sums]:
    """Return responsibilities times counts, (n, k), and the sums that every law has."""
    xp, times = namespace_of(shares), block.get("counts")
    if times is not None:
        shares, densities = shares * times[:, None], densities * times
    return shares, {
        "counts": xp.sum(shares, axis=0, dtype=xp.float64),
        "log_likelihood": xp.sum(densities, dtype=xp.float64),
        "total": _total(block),
    }


def _total(block: Block) -> float:
    x, times = block["x"], block.get("counts")
    xp = namespace_of(x)
    return float(x.shape[0]) if times is None else float(xp.sum(times, dtype=xp.float64))
