"""Linear algebra on small symmetric matrices, in any array library."""

from __future__ import annotations

import numpy as np

from implicitmoments.backends.namespace import Array, eye_like, namespace_of

__all__ = ["descending_eigh", "multiply_into", "orthonormality_defect", "outer_rows", "pair_rows"]


def descending_eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues from the largest down, and eigenvectors as columns in that order.

    The matrix is symmetrised first. The sign of each eigenvector is fixed (its entry of
    largest size is positive), so that the same matrix gives the same basis on any library.
    """
    xp = namespace_of(matrix)
    values, vectors = xp.linalg.eigh((matrix + xp.matrix_transpose(matrix)) / 2)
    values, vectors = xp.flip(values), xp.flip(vectors, axis=1)
    largest, smallest = xp.max(vectors, axis=0), xp.min(vectors, axis=0)
    one = xp.ones_like(largest)
    return values, vectors * xp.where(largest >= -smallest, one, -one)[None, :]


def orthonormality_defect(rows: Array) -> float:
    """Frobenius norm of ``rows @ rows.T - I``: zero for a pseudo-projection (Definition 3.4)."""
    xp = namespace_of(rows)
    gram = rows @ xp.matrix_transpose(rows)
    return float(xp.linalg.matrix_norm(gram - eye_like(rows.shape[0], rows)))


def multiply_into(target: Array, left: Array, right: Array) -> None:
    """Write ``left * right`` into an array, in NumPy without another array in between."""
    if isinstance(target, np.ndarray):
        np.multiply(left, right, out=target)
    else:
        target[...] = left * right


def outer_rows(left: Array, right: Array) -> Array:
    """Row-wise outer products, ``(n, a)`` and ``(n, b)`` to ``(n, a·b)``, right index fastest."""
    xp = namespace_of(left, right)
    n = left.shape[0]
    return xp.reshape(left[:, :, None] * right[:, None, :], (n, left.shape[1] * right.shape[1]))


def pair_rows(rows: Array) -> Array:
    """Row-wise products of pairs i ≤ j, ``(n, k)`` to ``(n, k (k + 1) / 2)``, j fastest."""
    xp = namespace_of(rows)
    n, k = rows.shape
    pairs = xp.empty((n, k * (k + 1) // 2), dtype=rows.dtype, device=rows.device)
    start = 0
    for i in range(k):
        multiply_into(pairs[:, start : start + k - i], rows[:, i : i + 1], rows[:, i:])
        start += k - i
    return pairs
