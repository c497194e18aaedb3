"""Columns with one value in all rows: found, left out of the points, and put back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    machine_epsilon,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.rows.fold import Block, Sums

if TYPE_CHECKING:
    from implicitmoments.rows.view import Rows

# Differences of equal numbers that were rounded twice each, in epsilons of their size.
ROUNDINGS = 4
DOUBLE = float(np.finfo(np.float64).eps)
FEW = 100  # rows in which columns are compared before all rows are: most of them vary there


def find_constants(rows: Rows) -> Floats | None:
    """Return the values of columns that are the same in all rows kept, (d,), NaN in others.

    None where no column is constant, or all are. A pass over all rows only where some column
    does not vary among a few of them.
    """
    values = to_numpy(rows.first_kept["x"])[0].astype(np.float64)
    count = partial(_count_off, values, precision_of(rows.first["x"]))
    if np.all(to_numpy(count(rows.sample(FEW, 0).block)["off"]) > 0):
        return None
    found = rows.fold(count, width=2 * len(values), what="constant columns")
    varies = to_numpy(found["off"]) > 0
    return None if varies.all() or not varies.any() else np.where(varies, np.nan, values)


def restore_columns(points: Floats, constants: Floats | None, fill: float | None = None) -> Floats:
    """Put columns that were left out back into an array (…, p): (…, d).

    They have their constant values, or ``fill``.
    """
    if constants is None:
        return points
    values = constants if fill is None else fill
    whole = np.array(np.broadcast_to(values, (*points.shape[:-1], len(constants))))
    whole[..., np.isnan(constants)] = points
    return whole


def restore_matrices(matrices: Floats, constants: Floats | None, diagonal: float = 0.0) -> Floats:
    """Put columns that were left out back into matrices (…, p, p): (…, d, d).

    They have zeros, and ``diagonal`` on the diagonal.
    """
    if constants is None:
        return matrices
    rows = restore_columns(matrices, constants, 0.0)
    whole = restore_columns(np.swapaxes(rows, -1, -2), constants, 0.0)
    left_out = np.flatnonzero(~np.isnan(constants))
    whole[..., left_out, left_out] = diagonal
    return np.swapaxes(whole, -1, -2)


def resolution(size: Floats | float, epsilon: float = DOUBLE) -> Floats:
    """Return by how much numbers of a size differ that are equal but for rounding."""
    return np.asarray(ROUNDINGS * epsilon * np.abs(size))


def precision_of(array: Array) -> float:
    """Return the epsilon of the precision of an array; integers pass for double precision."""
    real = namespace_of(array).isdtype(array.dtype, "real floating")
    return machine_epsilon(array) if real else DOUBLE


def cells_off(constants: Floats, epsilon: float, x: Array) -> Array:
    """Say which cells of rows (n, d) differ from constants beyond rounding; NaN admits any."""
    xp, center = namespace_of(x), np.nan_to_num(constants)
    size = np.where(np.isnan(constants), np.inf, resolution(center, epsilon))
    return xp.abs(x - move_like(center, x)) > move_like(size, x)


def _count_off(constants: Floats, epsilon: float, block: Block) -> Sums:
    xp, off = namespace_of(block["x"]), cells_off(constants, epsilon, block["x"])
    return {"off": xp.sum(xp.astype(off, xp.int64), axis=0)}
