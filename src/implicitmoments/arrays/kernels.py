"""Kernels of log densities, in place if the array library supports it."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays.linalg import pair_rows, turned
from implicitmoments.arrays.namespace import Array, move_like, namespace_of, on_host, to_numpy

STACK = 4_096  # rows per product of a stack


def lift_rows(x: Array, center: Array | None = None, scale: float = 1.0) -> Array:
    r"""Return :math:`(z, |z|^2, 1)` for :math:`z = (x - c) / s` and rows x (n, d), (n, d + 2).

    One matrix product then gives log densities of spherical Gaussians, and another the sums
    needed by EM.
    """
    if isinstance(x, np.ndarray):
        return _lift_in_numpy(x, center, scale)
    xp: Any = namespace_of(x)
    n, d = x.shape
    lifted: Any = xp.empty((n, d + 2), dtype=x.dtype, device=array_api_compat.device(x))
    points = lifted[:, :d]
    if array_api_compat.is_torch_array(x):
        points.copy_(x) if center is None else xp.subtract(x, center, out=points).div_(scale)
        xp.linalg.vector_norm(points, axis=1, out=lifted[:, d]).square_()
    else:
        points = x if center is None else (x - center) / scale
        lifted[:, :d], lifted[:, d] = points, xp.sum(points * points, axis=1)
    lifted[:, d + 1] = 1.0
    rows: Array = lifted
    return rows


def _lift_in_numpy(
    x: np.ndarray[Any, Any], center: Array | None, scale: float
) -> np.ndarray[Any, Any]:
    n, d = x.shape
    columns = np.empty((d + 2, n), dtype=x.dtype)
    points = columns[:d]
    if center is None:
        points[...] = x.T
    else:
        np.subtract(x.T, center[:, None], out=points)
        points /= scale
    np.einsum("ij,ij->j", points, points, out=columns[d])
    columns[d + 1] = 1.0
    return columns.T


def quadratic_rows(x: Array, *, pairs: bool) -> Array:
    """Return (x, products of columns, 1) for rows x (n, d): of pairs i ≤ j, or squares alone.

    Log densities of Gaussians are linear in these numbers, and the sums of EM are sums of them.
    In NumPy in column-major order.
    """
    n, d = x.shape
    xp = namespace_of(x)
    if not isinstance(x, np.ndarray):
        products = pair_rows(x) if pairs else x * x
        return xp.concat([x, products, xp.ones_like(x[:, :1])], axis=1)
    width = d * (d + 1) // 2 if pairs else d
    columns = np.empty((d + width + 1, n), dtype=x.dtype)
    points = columns[:d]
    points[...] = x.T
    start = d
    for i in range(d if pairs else 0):
        np.multiply(points[i], points[i:], out=columns[start : start + d - i])
        start += d - i
    if not pairs:
        np.multiply(points, points, out=columns[d : 2 * d])
    columns[-1] = 1.0
    return columns.T


def linear_rows(lifted: Array, slopes: Array) -> Array:
    """Return the product (n, k) of rows and slopes.

    In NumPy in column-major order, since its reductions along short rows are slow.
    """
    if isinstance(lifted, np.ndarray):
        return (slopes.T @ lifted.T).T
    return lifted @ slopes


def softmax_rows(joint: Array) -> tuple[Array, Array]:
    """Return the softmax of each row (n, k), and the logarithms of the sums.

    The argument is overwritten if the library supports it.
    """
    xp = namespace_of(joint)
    top = xp.max(joint, axis=1)
    if array_api_compat.is_torch_array(joint):
        shares = joint.softmax(1)
        # the largest share is 1 / Σ exp(joint − top)
        return shares, top - shares.amax(1).log_()
    joint -= top[:, None]
    joint = xp.exp(joint, out=joint) if _has_out(joint) else xp.exp(joint)
    total = xp.sum(joint, axis=1)
    joint /= total[:, None]
    return joint, top + xp.log(total)


def cross_sums(left: Array, right: Array) -> Array:
    """Return ``leftᵀ right`` in float64 for rows (n, k) and (n, p).

    On a device in stacks of rows, each product in the precision of the rows: a product that is
    long only in the summed dimension uses few units of a device.
    """
    return _stacked_sums(left, right, int(left.shape[0]) if on_host(left) else STACK)


def _stacked_sums(left: Array, right: Array, size: int) -> Array:
    xp, n = namespace_of(left), int(left.shape[0])
    whole = n - n % size if size < n else 0
    tail = xp.matrix_transpose(left[whole:, :]) @ right[whole:, :]
    total = xp.astype(tail, xp.float64, copy=False)
    if whole:
        one = xp.reshape(left[:whole, :], (whole // size, size, left.shape[1]))
        other = xp.reshape(right[:whole, :], (whole // size, size, right.shape[1]))
        products = xp.matmul(xp.matrix_transpose(one), other)
        total = total + xp.sum(products, axis=0, dtype=xp.float64)
    return total


def _has_out(array: Array) -> bool:
    return isinstance(array, np.ndarray) or array_api_compat.is_cupy_array(array)


LOWEST_63 = 2**63 - 1  # mask of all bits but the sign


def row_keys(x: Array) -> Array:
    """Return a hash of the entries of every row, (n,) int64: equal rows have equal keys."""
    xp = namespace_of(x)
    factors = move_like(math.pi * np.sqrt(np.arange(1, x.shape[1] + 1)), x)
    columns = turned(x) * factors[:, None]
    mixed = columns[0, :]
    for j in range(1, int(x.shape[1])):  # in a fixed order for all blocks
        mixed = mixed + columns[j, :]
    bits = _bits(xp.astype(mixed, xp.float64) + 0.0)  # + 0.0 maps −0 to 0
    # splitmix64; signed integers wrap around as unsigned ones do, and are masked after a shift
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        shifted = xp.bitwise_and(xp.bitwise_right_shift(bits, shift), 2 ** (64 - shift) - 1)
        bits = xp.bitwise_xor(bits, shifted) * (factor if factor < 2**63 else factor - 2**64)
    return bits


def key_shares(keys: Array, n_shares: int) -> Array:
    """Assign every key to a share: (n,) integers from 0."""
    xp = namespace_of(keys)
    # as an unsigned integer, whose highest bit is the sign
    high = xp.astype(keys < 0, xp.int64) * (2**63 % n_shares)
    return (xp.bitwise_and(keys, LOWEST_63) % n_shares + high) % n_shares


def _bits(values: Any) -> Array:
    """Return the bits of float64 as int64."""
    xp = namespace_of(values)
    if hasattr(values, "view"):
        bits: Array = values.view(xp.int64)
        return bits
    on_host = to_numpy(values).view(np.int64)
    return xp.asarray(on_host, device=array_api_compat.device(values))
