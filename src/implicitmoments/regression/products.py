"""Products of the columns of rows (1, x, y), weighted by responsibilities."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Array, Floats, multiply_into, namespace_of, to_numpy
from implicitmoments.rows import Block, Rows, blocks

FEWEST_FOR_PRODUCTS, WIDEST_PRODUCTS = 12, 40  # components and columns; measured
MOST_LIFTED = 2**22  # products of columns that are kept, 32 MB: beyond it memory limits the rate
NARROW = 64  # columns below which a full product is faster than a symmetric one


def columns_of(block: Block) -> Array:
    """Return the rows of a design as columns, (q + 1, n): (1, x), and y below them."""
    return namespace_of(block["x"]).matrix_transpose(block["x"])


def as_sum(value: Array) -> Floats:
    """Return a sum over the rows of a block as it is added to others: NumPy, double precision."""
    return np.asarray(to_numpy(value), dtype=np.float64)


def lift_design(rows: Rows) -> Rows | None:
    """Return held rows with all products of their columns, computed once; None if too many.

    The first of them are the columns themselves, since the first column is 1.
    """
    side = rows.n_features
    if side > WIDEST_PRODUCTS or rows.n * side * (side + 1) > 2 * MOST_LIFTED or not rows.held:
        return None
    return rows.lifted_by(_lift)


def _lift(block: Block) -> Block:
    pairs = pair_columns(columns_of(block))
    return {**block, "x": namespace_of(pairs).matrix_transpose(pairs)}


def unfold(half: Floats, side: int) -> Floats:
    """Return symmetric matrices (k, side, side) from their parts on and above the diagonal."""
    products = np.zeros((len(half), side, side))
    i, j = np.triu_indices(side)
    products[:, i, j] = products[:, j, i] = half
    return products


def share_products(rows: Rows, shares: Array) -> Floats:
    """Return sums of share times u uᵀ over held rows, for shares (k, n)."""
    lifted = lift_design(rows)
    if lifted is None:
        u = columns_of(rows.block)
        return weighted_products(shares, u, rows.budget.rows_per_block(3 * rows.n_features, u))
    return unfold(as_sum(shares @ lifted.block["x"]), rows.n_features)


def weighted_products(shares: Array, u: Array, rows_per_block: int | None = None) -> Floats:
    """Return sums of share times u uᵀ, (k, q + 1, q + 1), for shares (k, n) and u (q + 1, n)."""
    xp, n = namespace_of(u), int(u.shape[1])
    narrow, total = u.shape[0] < NARROW, np.zeros(())
    for rows in blocks(range(n), rows_per_block or max(n, 1)):
        part = slice(rows.start, rows.stop)
        some = u[:, part]
        weighted = xp.empty_like(some)
        factors = shares[:, part] if narrow else xp.sqrt(shares[:, part])
        right = xp.matrix_transpose(some if narrow else weighted)
        products = []
        for i in range(int(shares.shape[0])):
            multiply_into(weighted, some, factors[i, :])
            products.append(weighted @ right)
        total = total + as_sum(xp.stack(products))
    return total


def pair_columns(u: Array) -> Array:
    """Return the products of columns on and above the diagonal, one per row."""
    side, n = u.shape
    xp = namespace_of(u)
    pairs = xp.empty((side * (side + 1) // 2, n), dtype=u.dtype, device=u.device)
    start = 0
    for a in range(side):
        stop = start + side - a
        multiply_into(pairs[start:stop, :], u[a, :], u[a:, :])
        start = stop
    return pairs
