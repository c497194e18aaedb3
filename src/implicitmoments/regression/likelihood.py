"""Log densities of rows under lines, and the sums of an E-step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    map_into,
    move_like,
    multiply_into,
    namespace_of,
    to_numpy,
)
from implicitmoments.rows import Block, Rows, Sums, blocks
from implicitmoments.search import Expectations, State


@dataclass(frozen=True)
class Model:
    """Which parameters are free.

    Attributes
    ----------
    shared : bool
        One noise variance for all lines.
    intercept : bool
        Lines have intercepts.
    """

    shared: bool = True
    intercept: bool = True

    @property
    def first(self) -> int:
        """The first feature of z = (1, x) that has a coefficient."""
        return 0 if self.intercept else 1

    def n_parameters(self, k: int, q: int) -> int:
        """Count the free parameters of k lines in q features, the constant among them."""
        return k * (q - self.first) + (k - 1) + (1 if self.shared else k)


@dataclass(frozen=True, eq=False)
class Lines(State):
    r"""A mixture of regressions :math:`y = b_i \cdot z + N(0, v_i)`, with z = (1, x).

    Attributes
    ----------
    weights : array of shape (k,)
    coef : array of shape (k, q)
        The intercept first.
    variances : array of shape (k,)
        Equal where they are shared.
    """

    coef: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class LineSums(Expectations):
    """Sums of responsibility times u uᵀ, u = (1, x, y)."""

    products: Floats  # (k, q + 1, q + 1)


def design(block: Block) -> Block:
    """Return rows with points u = (1, x, y), each column contiguous, and their counts.

    In NumPy in double precision, which costs little there.
    """
    x, y, counts = block["x"], block["y"], block.get("counts")
    xp = namespace_of(x)
    if isinstance(x, np.ndarray):
        u = np.empty((x.shape[1] + 2, len(x)))
        u[0], u[1:-1], u[-1] = 1.0, x.T, y
        counts = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
        return {"x": u.T, "counts": counts}
    ones = xp.ones_like(y)
    columns = xp.concat([ones[None, :], xp.matrix_transpose(x), y[None, :]], axis=0)
    return {"x": xp.matrix_transpose(columns), "counts": ones if counts is None else counts}


def columns_of(block: Block) -> Array:
    """Return the rows of a design as columns, (q + 1, n): (1, x), and y below them."""
    return namespace_of(block["x"]).matrix_transpose(block["x"])


def as_sum(value: Array) -> Floats:
    """Return a sum over the rows of a block as it is added to others: NumPy, double precision."""
    return np.asarray(to_numpy(value), dtype=np.float64)


LOG_TWO_PI = math.log(2 * math.pi)  # of the normal density
FEWEST_FOR_PRODUCTS, WIDEST_PRODUCTS = 12, 40  # components and columns; measured
NARROW = 64  # columns below which a full product is faster than a symmetric one


def log_joint(lines: Lines, u: Array) -> Array:
    """Return the log weight of each line plus the log density of y given x, (k, n)."""
    weights = np.maximum(lines.weights, np.finfo(float).tiny)
    constant = np.log(weights) - 0.5 * (LOG_TWO_PI + np.log(lines.variances))
    joint = u[-1, :] - move_like(lines.coef, u) @ u[:-1, :]
    joint *= joint
    joint *= move_like(-0.5 / lines.variances, u)[:, None]
    joint += move_like(constant, u)[:, None]
    return joint


def responsibilities(lines: Lines, u: Array) -> tuple[Array, Array]:
    """Return the probability of each line given the row (k, n), and log densities (n,).

    Parameters
    ----------
    u : array of shape (q + 1, n)
        Rows (1, x, y) as columns.
    """
    joint, xp = log_joint(lines, u), namespace_of(u)
    largest = xp.max(joint, axis=0)
    joint -= largest
    joint = map_into("exp", joint)
    total = xp.sum(joint, axis=0)
    joint /= total
    return joint, largest + xp.log(total)


def expect(rows: Rows, lines: Lines) -> LineSums:
    """Return the sums of one pass over the rows of a design: the E-step."""
    side = rows.n_features
    fast = lines.k >= FEWEST_FOR_PRODUCTS and side <= WIDEST_PRODUCTS
    width = 4 * lines.k + (side * (side + 1) // 2 if fast else 2 * side)
    sums = rows.fold(_Expect(lines, fast), width=width + side, what="EM")
    products = sums["products"]
    if fast:
        half, products = products, np.zeros((lines.k, side, side))
        i, j = np.triu_indices(side)
        products[:, i, j] = products[:, j, i] = half
    return LineSums(float(sums["log_likelihood"]), float(sums["mass"]), products)


@dataclass(frozen=True, eq=False)
class _Expect:
    """Log-likelihood, and products of features by responsibility; in half if they are many."""

    lines: Lines
    fast: bool

    def __call__(self, block: Block) -> Sums:
        u, counts = columns_of(block), block["counts"]
        shares, logs = responsibilities(self.lines, u)
        sums = _likelihood(counts, logs)
        shares *= counts
        if self.fast:
            pairs = namespace_of(shares).matrix_transpose(_pairs(u))
            return {**sums, "products": as_sum(shares @ pairs)}
        return {**sums, "products": weighted_products(shares, u)}


def _likelihood(counts: Array, logs: Array) -> Sums:
    """Sum in double precision: the last steps of EM gain little."""
    xp = namespace_of(logs)
    counts, logs = (xp.astype(a, xp.float64, copy=False) for a in (counts, logs))
    return {"log_likelihood": as_sum(counts @ logs), "mass": as_sum(xp.sum(counts))}


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


def _pairs(u: Array) -> Array:
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
