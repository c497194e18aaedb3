"""Kernels: linear algebra and hashes of rows, in any array library, and threads of BLAS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from threading import Lock
from typing import Any

import array_api_compat
import numpy as np
from threadpoolctl import ThreadpoolController

from implicitmoments.arrays.namespace import (
    Array,
    Floats,
    index_like,
    namespace_of,
    to_numpy,
)

PANEL = 8  # columns of a panel of sorted products: 4 to 16 take the same time


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


def outer_rows(left: Array, right: Array) -> Array:
    """Return outer products per row, ``(n, a)`` and ``(n, b)`` to ``(n, a·b)``, b fastest."""
    xp, (n, a), b = namespace_of(left, right), left.shape, right.shape[1]
    if not (isinstance(left, np.ndarray) and isinstance(right, np.ndarray)):
        return xp.reshape(left[:, :, None] * right[:, None, :], (n, a * b))
    # NumPy loops over the last axis: where it is short, a loop over rows is four times as fast.
    # Products by einsum take half the time of those of broadcast arrays.
    if b < 8:
        by_column = xp.reshape(turned(left)[:, None, :] * turned(right)[None, :, :], (a * b, n))
        return xp.matrix_transpose(by_column)
    return xp.reshape(np.einsum("ia,ib->iab", left, right), (n, a * b))


def dot_rows(left: Array, right: Array) -> Array:
    """Return the inner product of each row of one matrix with that of another, (n,)."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        products: Array = np.einsum("ij,ij->i", left, right)
        return products
    return namespace_of(left, right).sum(left * right, axis=1)


def pair_rows(rows: Array) -> Array:
    """Return products of pairs i ≤ j per row, ``(n, k)`` to ``(n, k (k + 1) / 2)``, j fastest."""
    xp, columns = namespace_of(rows), turned(rows)  # by columns: copies of long rows are fast
    k, n = columns.shape
    pairs = xp.empty((k * (k + 1) // 2, n), dtype=rows.dtype, device=rows.device)
    start = 0
    for i in range(k):
        multiply_into(pairs[start : start + k - i, :], columns[i : i + 1, :], columns[i:, :])
        start += k - i
    return xp.matrix_transpose(pairs)


def sorted_products(
    points: Array, right: Array, counts: Sequence[int], weights: Array | None
) -> Array:
    r"""Sum :math:`x_a x_b` times columns of another matrix, for all columns that belong to c ≥ b.

    A third of all products. Of the columns ``counts[c]`` belong to c, in order. Rows of the sum
    are pairs by decreasing b, then by decreasing a ≤ b. Products are computed in panels, of which
    the first columns c < b are sums too; 0 stands for those not computed.
    """
    xp, p = namespace_of(points), len(counts)
    pairs = xp.matrix_transpose(pair_rows(xp.flip(points, axis=1)))
    columns = turned(right if weights is None else right * weights[:, None])
    total = xp.zeros((pairs.shape[0], columns.shape[0]), dtype=pairs.dtype, device=pairs.device)
    for first in range(0, p, PANEL):
        last = min(first + PANEL, p)
        rows = slice(place_of_pair(first, first, p), place_of_pair(last, last, p))
        left = sum(counts[: p - last])
        total[rows, left:] = pairs[rows, :] @ xp.matrix_transpose(columns[left:, :])
    return total


def place_of_pair(i: Any, j: Any, p: int) -> Any:
    """Return the column of a pair i ≤ j in :func:`pair_rows`."""
    return i * p - i * (i + 1) // 2 + j


def row_keys(x: Array) -> Array:
    """Return a hash of the entries of every row, (n,) int64: equal rows have equal keys."""
    xp = namespace_of(x)
    if isinstance(x, np.ndarray):
        step = max(1, 2**15 // max(1, x.shape[1]))  # numbers that stay in the cache
        pieces = [_mix_in_place(x[i : i + step]) for i in range(0, len(x), step)]
        bits: Array = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    else:
        bits = _mix_columns(x)
    # splitmix64; signed integers wrap around as unsigned ones do, and are masked after a shift
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits = _fold_bits(xp, bits, shift) * (factor if factor < 2**63 else factor - 2**64)
    return bits


def _mix_columns(x: Array) -> Array:
    """Return a combination of the bits of columns (n, d): no column is lost beside larger ones."""
    xp = namespace_of(x)
    # + 0.0 maps −0 to 0; upper bits go to the lower half too, where those of integers are 0
    bits = _fold_bits(xp, _bits(xp.astype(turned(x), xp.float64) + 0.0), 32)
    factors = index_like(_column_factors(x), bits)
    return xp.sum(bits * factors[:, None], axis=0)


def _mix_in_place(x: Floats) -> Array:
    """Return what :func:`_mix_columns` does, in the layout of the rows and in one copy of them."""
    by_columns = x.strides[0] < x.strides[1]
    copied = np.add(x.T if by_columns else x, 0.0, dtype=np.float64, order="C")
    bits = copied.view(np.int64)
    bits ^= (bits >> 32) & (2**32 - 1)
    factors = _column_factors(x)
    mixed: Array = factors @ bits if by_columns else bits @ factors
    return mixed


def _column_factors(x: Array) -> Any:
    """Return a factor for each column of rows (n, d)."""
    golden = np.int64(0x9E3779B97F4A7C15 - 2**64)  # odd; 2⁶⁴ by the golden ratio
    return np.cumprod(np.full(int(x.shape[1]), golden))


def _fold_bits(xp: Any, bits: Array, shift: int) -> Array:
    """Combine integers with their upper bits."""
    shifted = xp.bitwise_and(xp.bitwise_right_shift(bits, shift), 2 ** (64 - shift) - 1)
    combined: Array = xp.bitwise_xor(bits, shifted)
    return combined


def key_shares(keys: Array, n_shares: int) -> Array:
    """Assign every key to a share: (n,) integers from 0."""
    xp = namespace_of(keys)
    # as an unsigned integer, whose highest bit is the sign
    high = xp.astype(keys < 0, xp.int64) * (2**63 % n_shares)
    return (xp.bitwise_and(keys, 2**63 - 1) % n_shares + high) % n_shares


def _bits(values: Any) -> Array:
    """Return the bits of float64 as int64."""
    xp = namespace_of(values)
    if hasattr(values, "view"):
        bits: Array = values.view(xp.int64)
        return bits
    on_host = to_numpy(values).view(np.int64)
    return xp.asarray(on_host, device=array_api_compat.device(values))


class BlasThreads:
    """Threads of BLAS, which belong to the process: one limit for all threads that fit or predict.

    It is set by the first of overlapping holders, and the last one restores what was before.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self._holders: list[object] = []
        self._before: list[tuple[Any, int]] = []

    @cached_property
    def libraries(self) -> list[Any]:
        """The controllers of BLAS libraries: finding them takes milliseconds."""
        return list(ThreadpoolController().select(user_api="blas").lib_controllers)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit BLAS to one thread."""
        holder = object()
        try:  # begins before the limit is set: an interruption at any point releases it
            with self.lock:
                if not self._holders:
                    self._before = [(library, library.num_threads) for library in self.libraries]
                    self._set([(library, 1) for library in self.libraries])
                self._holders.append(holder)
            yield
        finally:
            with self.lock:
                self._holders = [other for other in self._holders if other is not holder]
                if not self._holders:  # a library of more threads was changed by the user since
                    self._set([each for each in self._before if each[0].num_threads == 1])
                    self._before = []

    def _set(self, limits: Sequence[tuple[Any, int]]) -> None:
        """Set the threads of libraries from any thread of the process.

        From version 3.8 on, threadpoolctl ignores all threads but the first that has set those of
        OpenBLAS, until that ends.
        """
        for library, n_threads in limits:
            release = getattr(library, "clear_controlling_thread", lambda **_: None)
            release(force=True)
            library.set_num_threads(n_threads)
            release(force=True)


BLAS = BlasThreads()
_threads_of_folds: ContextVar[int | None] = ContextVar("threads of folds", default=None)


def allowed_threads() -> int:
    """Return the number of threads that the user, joblib or the machine allows BLAS.

    While another thread of the process is in a fit, that is one: it has the others.
    """
    given = _threads_of_folds.get()
    if given is not None:
        return given
    with BLAS.lock:
        return max((library.num_threads for library in BLAS.libraries), default=1)


@contextmanager
def threads_for_folds(n_threads: int | None = None) -> Iterator[None]:
    """Give folds the threads that BLAS may use, and BLAS one, for as long as it is open.

    For fits whose products are small: threads of BLAS would only wait for one another.

    Parameters
    ----------
    n_threads : int, optional
        Threads of a fold; those that BLAS may use by default, and 1 where folds themselves run in
        threads, as tasks of Dask do.
    """
    token = _threads_of_folds.set(allowed_threads() if n_threads is None else n_threads)
    try:
        with BLAS.limited():
            yield
    finally:
        _threads_of_folds.reset(token)
