r"""Moments of what the lower orders of the labels leave: their span, and slices of them.

With biases, or an activation that is odd, order 2 alone does not determine the span. Orders 1, 2
and 3 together do: each is :math:`\sum_i w_i c_t(b_i) v_i^{\otimes t}`, whatever the signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    dot_rows,
    move_like,
    namespace_of,
    pair_rows,
    to_numpy,
)
from implicitmoments.problems import ActivationSumProblem
from implicitmoments.rows import Block, Rows, Sums, weights_of

CONTRACTIONS = 12  # of order 3, at most; an odd activation needs 5 to 8 in 50 features
SLICED = (2, 3, 4)  # orders of which slices are estimated
# Sine of the angle below which a span is not turned further: 0.04 % of a direction's energy.
SMALL_TURN = 0.02


@dataclass(frozen=True, eq=False)
class LowerOrders:
    """Orders 0, 1 and 2 of the Hermite expansion of the labels, the last within a subspace."""

    mean: float
    slope: Floats  # (d,)
    basis: Floats | None = None  # (p, d), orthonormal rows
    form: Floats | None = None  # (p, p), E[y He_2] in the basis

    def residual(self, block: Block) -> Array:
        """Return what these orders leave of the labels of a block."""
        x = block["x"]
        left = block["y"] - self.mean - x @ move_like(self.slope, x)
        if self.basis is None or self.form is None:
            return left
        z = x @ move_like(self.basis.T, x)
        squares = dot_rows(z @ move_like(self.form, x), z)
        return left - (squares - float(np.trace(self.form))) / 2


def _mean(rows: Rows, measure: Any, width: int, what: str) -> dict[str, Any]:
    """Average sums over rows."""
    sums = rows.fold(measure, width=width, what=what)
    total = float(sums["total"])
    return {name: to_numpy(value) / total for name, value in sums.items()}


def lowest_orders(rows: Rows) -> LowerOrders:
    """Estimate the mean and the slope of the labels."""
    d = rows.n_features
    zero = LowerOrders(0.0, np.zeros(d))
    mean = float(_mean(rows, partial(_sum_first, zero), d, "mean of the labels")["sum"])
    centred = replace(zero, mean=mean)
    means = _mean(rows, partial(_sum_first, centred), d, "slope of the labels")
    return replace(centred, slope=means["first"])


def second_moment(rows: Rows, lower: LowerOrders) -> Floats:
    """Estimate E[r He_2(x)] of the residual, (d, d)."""
    d = rows.n_features
    means = _mean(rows, partial(_sum_second, lower), 2 * d, "order 2 of the labels")
    moment: Floats = means["second"] - float(means["sum"]) * np.eye(d)
    return moment


def find_direction_span(problem: ActivationSumProblem, k: int) -> Floats:
    r"""Return an orthonormal basis (p, d) of the span of k directions, p = min(k, d).

    The leading left singular vectors of the orders that the problem has among 1, 2 and 3, side
    by side as matrices of d rows. Order 3 is contracted with the span found before, in rounds: of
    its :math:`d^2` columns those off the span are noise.
    """
    rows, d = problem.rows, problem.n_features
    p = min(k, d)
    if p == d:
        return np.eye(d)
    lower = lowest_orders(rows)
    second = second_moment(rows, lower) if problem.has_order(2) else np.zeros((d, d))
    basis = _leading(p, lower.slope[:, None], second / math.sqrt(2))
    for _ in range(CONTRACTIONS if problem.has_order(3) else 0):
        form = basis @ second @ basis.T
        third = _third_moment(rows, replace(lower, basis=basis, form=form), basis)
        before, columns = basis, second @ basis.T
        basis = _leading(p, lower.slope[:, None], columns / math.sqrt(2), third / math.sqrt(6))
        if sine_between(basis, before) < SMALL_TURN:
            break
    return basis


def sine_between(basis: Floats, other: Floats) -> float:
    """Return the sine of the largest angle between two spans, with orthonormal bases (p, d)."""
    cosines = np.linalg.svd(basis @ other.T, compute_uv=False)
    return math.sqrt(max(0.0, 1 - float(cosines[-1]) ** 2))


def _leading(p: int, *columns: Floats) -> Floats:
    """Return the leading left singular vectors of columns (d, n), as rows (p, d)."""
    joined = np.concatenate(columns, axis=1)
    return np.ascontiguousarray(np.linalg.svd(joined @ joined.T)[0].T[:p])


def _third_moment(rows: Rows, lower: LowerOrders, basis: Floats) -> Floats:
    """Estimate E[r He_3(x)] with two slots in a basis (p, d): (d, p (p + 1) / 2), an isometry."""
    (p, d), pairs = basis.shape, np.triu_indices(len(basis))
    width = d + p * (p + 1) // 2
    means = _mean(rows, partial(_sum_third, lower, basis), width, "order 3 of the labels")
    first = means["first"]
    inside = basis @ first
    own = np.zeros((d, p, p))
    for j in range(p):
        own[:, j, :] += np.outer(basis[j], inside)
        own[:, :, j] += np.outer(basis[j], inside)
        own[:, j, j] += first
    root = np.where(pairs[0] == pairs[1], 1.0, math.sqrt(2))
    moment: Floats = (means["third"] - own[:, pairs[0], pairs[1]]) * root
    return moment


@dataclass(frozen=True, eq=False)
class Slices:
    r"""Matrices :math:`\sum_i a_i (v_i \cdot g)^{t-2} v_i v_i^\top` of several orders t."""

    slope: Floats  # (p,), order 1
    orders: np.ndarray[Any, np.dtype[np.int64]]  # (m,), of each matrix
    against: Floats  # (m, p), the vector g of each matrix
    matrices: Floats  # (m, p, p)


def moment_slices(problem: ActivationSumProblem, against: Floats) -> Slices:
    """Estimate the slices of orders 2, 3 and 4 that the problem has, along vectors (n, p)."""
    rows, p = problem.rows, problem.n_features
    lower = lowest_orders(rows)
    found = []
    if problem.has_order(2):
        second = second_moment(rows, lower)
        found.append((2, np.zeros(p), second / math.sqrt(2)))
        lower = replace(lower, basis=np.eye(p), form=second)
    measure = partial(_sum_slices, lower, against)
    means = _mean(rows, measure, p * (2 + len(against)), "orders 3 and 4 of the labels")
    first, eye = means["first"], np.eye(p)
    for i, g in enumerate(against):
        if problem.has_order(3):
            cross = np.outer(g, first)
            moment = means[f"third {i}"] - cross - cross.T - float(g @ first) * eye
            found.append((3, g, moment / math.sqrt(6)))
        if problem.has_order(4):
            along, square = means["second"] @ g, float(g @ g)
            cross = np.outer(g, along)
            moment = means[f"fourth {i}"] - 2 * (cross + cross.T) - square * means["second"]
            moment += float(means["sum"]) * (square * eye + 2 * np.outer(g, g))
            found.append((4, g, (moment - float(g @ along) * eye) / math.sqrt(24)))
    orders, vectors, matrices = zip(*found, strict=True)
    return Slices(lower.slope, np.array(orders), np.array(vectors), np.array(matrices))


def _sum_first(lower: LowerOrders, block: Block) -> Sums:
    """Sum residuals, and their products with the points."""
    counts = weights_of(block)
    residual = lower.residual(block) * counts
    return {
        "first": as_double(residual @ block["x"]),
        "sum": namespace_of(residual).sum(as_double(residual)),
        "total": namespace_of(counts).sum(as_double(counts)),
    }


def _sum_second(lower: LowerOrders, block: Block) -> Sums:
    """Sum also products of residuals with those of the points."""
    x, residual = block["x"], lower.residual(block) * weights_of(block)
    products = namespace_of(x).matrix_transpose(x * residual[:, None]) @ x
    return {**_sum_first(lower, block), "second": as_double(products)}


def _sum_third(lower: LowerOrders, basis: Floats, block: Block) -> Sums:
    """Sum also products with the pairs of coordinates in a basis."""
    x, residual = block["x"], lower.residual(block) * weights_of(block)
    pairs = pair_rows(x @ move_like(basis.T, x))
    products = namespace_of(x).matrix_transpose(x * residual[:, None]) @ pairs
    return {**_sum_first(lower, block), "third": as_double(products)}


def _sum_slices(lower: LowerOrders, against: Floats, block: Block) -> Sums:
    """Sum also products of three and four coordinates, of which all but two are along vectors."""
    x, residual = block["x"], lower.residual(block) * weights_of(block)
    xp, along, sums = namespace_of(x), x @ move_like(against.T, x), _sum_second(lower, block)
    for i in range(len(against)):
        for name, power in (("third", 1), ("fourth", 2)):
            weights = residual * along[:, i] ** power
            products = xp.matrix_transpose(x * weights[:, None]) @ x
            sums[f"{name} {i}"] = as_double(products)
    return sums
