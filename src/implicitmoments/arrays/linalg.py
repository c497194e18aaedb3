"""Linear algebra on small symmetric matrices, in any array library."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays.namespace import Array, eye_like, namespace_of

PANEL = 128  # columns per panel of a Gram matrix; the fastest of 96 to 640 on an H200


def descending_eigh(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues in descending order, and eigenvectors as columns in that order.

    The matrix is symmetrised first. The sign of each eigenvector is fixed (its largest entry in
    absolute value is positive), so that the basis does not depend on the library.
    """
    xp = namespace_of(matrix)
    values, vectors = xp.linalg.eigh((matrix + xp.matrix_transpose(matrix)) / 2)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    largest, smallest = xp.max(vectors, axis=0), xp.min(vectors, axis=0)
    one = xp.ones_like(largest)
    return values, vectors * xp.where(largest >= -smallest, one, -one)[None, :]


def orthonormality_defect(rows: Array) -> float:
    """Return ``|rows @ rows.T - I|_F``: zero for a pseudo-projection (Definition 3.4)."""
    xp = namespace_of(rows)
    gram = rows @ xp.matrix_transpose(rows)
    return float(xp.linalg.matrix_norm(gram - eye_like(rows.shape[0], rows)))


def multiply_into(target: Array, left: Array, right: Array) -> None:
    """Write ``left * right`` into an array, without a temporary if the library supports it."""
    xp: Any = namespace_of(target)
    if array_api_compat.is_array_api_strict_namespace(xp):
        target[...] = left * right
    else:
        xp.multiply(left, right, out=target)


def turned(matrix: Array) -> Array:
    """Return a transposed copy whose rows are contiguous in memory.

    Arithmetic keeps the layout of its operands, so ``+ 0`` is not sufficient.
    """
    xp = namespace_of(matrix)
    flipped: Any = xp.matrix_transpose(matrix)
    if array_api_compat.is_torch_array(matrix):
        flipped = flipped.contiguous()
    elif hasattr(xp, "ascontiguousarray"):
        flipped = xp.ascontiguousarray(flipped)
    copied: Array = flipped
    return copied


def map_into(name: str, values: Array) -> Array:
    """Apply a function of the array API, such as ``"exp"``; in place for NumPy."""
    if isinstance(values, np.ndarray):
        mapped: Array = getattr(np, name)(values, out=values)
    else:
        mapped = getattr(namespace_of(values), name)(values)
    return mapped


def gram(rows: Array) -> Array:
    """Return ``rowsᵀ rows``, (s, s), in about half the operations of a general product.

    NumPy uses a symmetric update. Other libraries would compute a general product; for them the
    columns are divided into panels, and the part below the diagonal follows by symmetry.
    """
    xp = namespace_of(rows)
    side = int(rows.shape[1])
    flipped = xp.matrix_transpose(rows)
    if side <= PANEL or isinstance(rows, np.ndarray):
        return flipped @ rows
    made = xp.empty((side, side), dtype=rows.dtype, device=rows.device)
    for first in range(0, side, PANEL):
        last = min(first + PANEL, side)
        panel = flipped[first:last, :] @ rows[:, first:]
        made[first:last, first:] = panel
        made[last:, first:last] = xp.matrix_transpose(panel[:, last - first :])
    return made


def outer_rows(left: Array, right: Array) -> Array:
    """Return outer products per row, ``(n, a)`` and ``(n, b)`` to ``(n, a·b)``, b fastest."""
    xp = namespace_of(left, right)
    n = left.shape[0]
    return xp.reshape(left[:, :, None] * right[:, None, :], (n, left.shape[1] * right.shape[1]))


def pair_rows(rows: Array) -> Array:
    """Return products of pairs i ≤ j per row, ``(n, k)`` to ``(n, k (k + 1) / 2)``, j fastest."""
    xp = namespace_of(rows)
    n, k = rows.shape
    pairs = xp.empty((n, k * (k + 1) // 2), dtype=rows.dtype, device=rows.device)
    start = 0
    for i in range(k):
        multiply_into(pairs[:, start : start + k - i], rows[:, i : i + 1], rows[:, i:])
        start += k - i
    return pairs
