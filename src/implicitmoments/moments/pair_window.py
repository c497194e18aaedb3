"""Symmetric matrices as the window over all of R^p, and fourth moments from sorted quadruples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    eye_like,
    gram,
    index_like,
    move_like,
    multiply_into,
    namespace_of,
    turned,
)

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
# Columns per panel of sorted quadruples: 5 to 8 are fastest on a CPU, 7 to 10 on an H200. With
# fewer than three panels a symmetric update of all pairs is as fast.
PANEL = 8


@dataclass(frozen=True, eq=False)
class PairWindow:
    """The window over all of R^p: symmetric p × p matrices, off-diagonal entries times √2."""

    noise: Array
    exact: ClassVar[bool] = True  # it contains symmetric tensors only
    symmetry: ClassVar[None] = None  # all have eigenvalue 1 of the symmetriser

    @cached_property
    def pairs(self) -> tuple[Array, Array, Array]:
        """Row and column of each coordinate, and its factor."""
        i, j = _pairs(int(self.noise.shape[0]))
        factors = np.where(i == j, 1.0, math.sqrt(2.0))
        noise = self.noise
        return index_like(i, noise), index_like(j, noise), move_like(factors, noise)

    @property
    def dim(self) -> int:
        """Number of coordinates, p (p + 1) / 2."""
        return int(self.pairs[0].shape[0])

    def features(self, images: list[Array], points: Array, root: Array | None) -> Array:
        """Return ``x xᵀ − J`` for each row, as coordinates, times ``root``.

        Computed with the rows of data along contiguous memory, and returned transposed: row i of
        the upper triangle is then one product of long vectors.
        """
        xp = namespace_of(points)
        # φ_1 is the identity: images[1] are the points, times root
        right = turned(points)
        left = right if root is None else turned(images[1])
        ones = xp.ones_like(right[0, :]) if root is None else root[:, 0]
        p, n = (int(s) for s in right.shape)
        stretched = right * math.sqrt(2.0)
        made = xp.empty((self.dim, n), dtype=points.dtype, device=points.device)
        variances = xp.linalg.diagonal(self.noise)
        made[:p, :] = left * right - variances[:, None] * ones[None, :]
        first = p
        for i in range(p - 1):
            last = first + p - 1 - i
            multiply_into(made[first:last, :], left[i, :][None, :], stretched[i + 1 :, :])
            if not self.diagonal:
                across = math.sqrt(2.0) * self.noise[i, i + 1 :]
                made[first:last, :] -= across[:, None] * ones[None, :]
            first = last
        return xp.matrix_transpose(made)

    def gram_sums(self, images: list[Array], points: Array, root: Array | None) -> Array:
        """Sum what the Gram matrix of the features is made of: see ``gram``.

        A fourth moment does not depend on the order of its slots. Of the products of two pairs
        only those of sorted quadruples are computed, about a third.
        """
        if self.sorted:
            right = turned(points)
            return sum_quadruples(right if root is None else turned(images[1]), right)
        return gram(self.features(images, points, root))

    def gram(self, sums: Array, lower: list[Array]) -> Array:
        """Return the Gram matrix (dim, dim) of the features from ``gram_sums``.

        ``lower`` are the Gram matrices of the images of order 0 and 1, by which the noise is
        subtracted.
        """
        if not self.sorted:
            return sums
        xp, p = namespace_of(sums), int(self.noise.shape[0])
        places = index_like(np.reshape(quadruple_places(p), -1), sums)
        factors = move_like(self.pairs[2], sums)
        raw = xp.reshape(xp.take(sums, places, axis=0), (self.dim, self.dim))
        noise, square = (self.coordinates(m[None, :, :])[0, :] for m in (self.noise, lower[1]))
        half = square - noise * (lower[0][0, 0] / 2)  # h hᵀ = q qᵀ − j (q − j/2)ᵀ − (q − j/2) jᵀ
        across = noise[:, None] * half[None, :]
        return raw * factors[:, None] * factors[None, :] - across - xp.matrix_transpose(across)

    @property
    def sorted(self) -> bool:
        """Whether sorted quadruples are fewer operations than a symmetric update."""
        return int(self.noise.shape[0]) > 3 * PANEL

    @cached_property
    def diagonal(self) -> bool:
        """Whether the noise has no covariances."""
        xp = namespace_of(self.noise)
        off = self.noise * (1.0 - eye_like(self.noise.shape[0], self.noise))
        return not bool(xp.any(off != 0))

    def coordinates(self, matrices: Array) -> Array:
        """Turn symmetric matrices (n, p, p) into coordinates (n, dim)."""
        xp = namespace_of(matrices)
        p = int(self.noise.shape[0])
        i, j = _pairs(p)
        flat = xp.reshape(matrices, (matrices.shape[0], -1))
        chosen = xp.take(flat, index_like(i * p + j, flat), axis=1)
        return chosen * move_like(self.pairs[2], matrices)[None, :]

    def matrices(self, coordinates: Array) -> Array:
        """Turn coordinates (n, dim) into symmetric matrices (n, p, p)."""
        xp = namespace_of(coordinates)
        p = int(self.noise.shape[0])
        i, j = _pairs(p)
        place = np.empty((p, p), dtype=np.int64)
        place[i, j] = place[j, i] = np.arange(len(i))
        scaled = coordinates / move_like(self.pairs[2], coordinates)[None, :]
        return xp.reshape(xp.take(scaled, index_like(place.ravel(), scaled), axis=1), (-1, p, p))

    def lift(self, matrix: Array) -> Array:
        r"""Return the symmetric product :math:`A \otimes_s J` of a matrix with the noise.

        :math:`\langle X, (A \otimes_s J) Y \rangle = (\mathrm{tr}\, XAYJ + \mathrm{tr}\, XJYA)/2`.
        """
        xp = namespace_of(matrix)
        i, j, factors = self.pairs

        def pick(array: Array, rows: Array, columns: Array) -> Array:
            return xp.take(xp.take(array, rows, axis=0), columns, axis=1)

        def half(left: Array, right: Array) -> Array:
            return pick(left, i, i) * pick(right, j, j) + pick(left, i, j) * pick(right, j, i)

        product = half(matrix, self.noise) + half(self.noise, matrix)
        return factors[:, None] * factors[None, :] * product / 4

    def step(self, rows: Array) -> Array:
        """Return the matrices of the rows, flattened."""
        xp = namespace_of(rows)
        return xp.reshape(self.matrices(rows), (rows.shape[0], -1))


def _pairs(p: int) -> tuple[Integers, Integers]:
    """Return pairs i ≤ j: the p squares first, then the entries above the diagonal by row."""
    i, j = np.triu_indices(p, 1)
    return np.concatenate([np.arange(p), i]), np.concatenate([np.arange(p), j])


def sum_quadruples(left: Array, right: Array) -> Array:
    r"""Sum :math:`x_a x_b x_c x_d` over rows, for a ≤ b ≤ c ≤ d; some others too.

    Columns b are taken in panels of ``PANEL``. Each panel is the product of all pairs (a, b) with
    all pairs (c, d) from its first column on.

    Parameters
    ----------
    left, right : arrays of shape (p, n)
        The points, and the points times the square root of their weights, of which a pair has one.

    Returns
    -------
    array of shape (n_quadruples,)
        The panels one after the other, at the places of ``quadruple_places``.
    """
    xp, (p, n) = namespace_of(right), (int(s) for s in right.shape)
    later = xp.empty((p * (p + 1) // 2, n), dtype=right.dtype, device=right.device)
    starts = _starts(p)
    for c in range(p):
        multiply_into(later[starts[c] : starts[c + 1], :], left[c, :][None, :], right[c:, :])
    panels = []
    for first in range(0, p, PANEL):
        columns = range(first, min(first + PANEL, p))
        earlier = xp.empty((_height(columns), n), dtype=right.dtype, device=right.device)
        start = 0
        for b in columns:
            multiply_into(
                earlier[start : start + b + 1, :], left[b, :][None, :], right[: b + 1, :]
            )
            start += b + 1
        product = earlier @ xp.matrix_transpose(later[starts[first] :, :])
        panels.append(xp.reshape(product, (-1,)))
    return xp.concat(panels)


@cache
def quadruple_places(p: int) -> Integers:
    """Return where ``sum_quadruples`` has the product of two pairs, (dim, dim)."""
    i, j = _pairs(p)
    slots = np.broadcast_arrays(i[:, None], j[:, None], i[None, :], j[None, :])
    a, b, c, d = np.sort(np.stack(slots), axis=0)
    starts, offset = np.array(_starts(p)), 0
    places = np.empty(a.shape, dtype=np.int64)
    for first in range(0, p, PANEL):
        columns = range(first, min(first + PANEL, p))
        inside = (b >= columns.start) & (b < columns.stop)
        width = int(starts[p] - starts[first])
        row = b * (b + 1) // 2 - first * (first + 1) // 2 + a
        column = starts[c] - starts[first] + d - c
        places[inside] = (offset + row * width + column)[inside]
        offset += _height(columns) * width
    return places


def _starts(p: int) -> list[int]:
    """Return the first place of pairs (c, ·) among the pairs c ≤ d in order, and their number."""
    return [c * p - c * (c - 1) // 2 for c in range(p + 1)]


def _height(columns: range) -> int:
    """Return the number of pairs a ≤ b with b among the columns."""
    return sum(b + 1 for b in columns)
