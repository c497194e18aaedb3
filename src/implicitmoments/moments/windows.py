r"""Windows: the spaces of nearly symmetric tensors that contain the next subspace.

The window of a chain of order r is the nearly symmetric part of
:math:`U_r \otimes \mathbb{R}^p`. There are two kinds: over :math:`U_1 = \mathbb{R}^p` it is
exactly the space of symmetric matrices; at higher orders it is spanned by eigenvectors of the
compressed symmetriser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from implicitmoments.arrays import (
    Array,
    descending_eigh,
    eye_like,
    index_like,
    move_like,
    multiply_into,
    namespace_of,
    outer_rows,
    turned,
)
from implicitmoments.moments.chain import SymmetricChain, contract, lift, mixed_coefficients

Integers = np.ndarray[Any, np.dtype[np.int64]]
NEARLY_SYMMETRIC = 0.5  # eigenvalues of the compressed symmetriser; 1 is symmetric


class Window(Protocol):
    """Coordinates of the window over a chain."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""

    @property
    def exact(self) -> bool:
        """Whether the window contains symmetric tensors only."""

    def features(self, images: list[Array], points: Array, root: Array | None) -> Array:
        """Map rows into the window, times ``root``, by which ``images`` are multiplied already."""

    def lift(self, matrix: Array) -> Array:
        """Append a slot of noise on both sides of a matrix on the last step."""

    def step(self, rows: Array) -> Array:
        """Turn rows of window coordinates (k, dim) into a step (k, k_r · p) of the chain."""


@dataclass(frozen=True, eq=False)
class PairWindow:
    """Symmetric p × p matrices: the upper triangle with off-diagonal entries times √2."""

    noise: Array
    exact: bool = True

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
        """Return ``x xᵀ − J`` for each row, as coordinates.

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
        """Return the symmetric product of a matrix with the noise."""
        return symmetric_product(matrix, self.noise, self.pairs)

    def step(self, rows: Array) -> Array:
        """Return the matrices of the rows, flattened."""
        xp = namespace_of(rows)
        return xp.reshape(self.matrices(rows), (rows.shape[0], -1))


def _pairs(p: int) -> tuple[Integers, Integers]:
    """Return pairs i ≤ j: the p squares first, then the entries above the diagonal by row."""
    i, j = np.triu_indices(p, 1)
    return np.concatenate([np.arange(p), i]), np.concatenate([np.arange(p), j])


@dataclass(frozen=True, eq=False)
class ChainWindow:
    """The span of some rows of ``U_r ⊗ R^p``."""

    chain: SymmetricChain
    basis: Array  # (dim, k_r · p), orthonormal rows

    @property
    def exact(self) -> bool:
        """Whether the window contains symmetric tensors only, as at order 1."""
        return self.chain.order == 0

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0])

    def features(self, images: list[Array], points: Array, root: Array | None) -> Array:  # noqa: ARG002
        """Append a slot and project to the basis, as one more step of the chain."""
        xp = namespace_of(points)
        made = outer_rows(images[-1], points) @ xp.matrix_transpose(self.basis)
        if self.chain.order:
            made -= self.chain.order * (images[-2] @ xp.matrix_transpose(self._contraction))
        return made

    @cached_property
    def _contraction(self) -> Array:
        return contract(self.chain.steps[-1], self.basis, self.chain.noise)

    def lift(self, matrix: Array) -> Array:
        """Lift onto the basis as onto a step."""
        return lift(matrix, self.basis, self.basis, self.chain.noise)

    def step(self, rows: Array) -> Array:
        """Return rows as combinations of the basis."""
        return rows @ self.basis


def open_window(chain: SymmetricChain, k: int) -> Window:
    """Return the window over a chain, with at least k dimensions if that many exist."""
    if chain.order == 0:
        return ChainWindow(chain, eye_like(chain.p, chain.noise))
    if chain.order == 1 and chain.whole:
        return PairWindow(chain.noise)
    values, vectors = descending_eigh(chain.symmetriser())
    near = sum(1 for i in range(int(values.shape[0])) if float(values[i]) > NEARLY_SYMMETRIC)
    room = math.comb(chain.p + chain.order, chain.order + 1)  # dimension of symmetric tensors
    kept = min(max(near, k), room, int(values.shape[0]))
    return ChainWindow(chain, namespace_of(vectors).matrix_transpose(vectors[:, :kept]))


def even_moment(grams: list[Array], chain: SymmetricChain, window: Window) -> Array:
    r"""Assemble :math:`M_{2n} = \sum_l (-1)^l\, l! \binom{n}{l}^2 L^l(Q_{n-l})` on the window.

    Parameters
    ----------
    grams : list of arrays
        :math:`Q_j`, the means of :math:`c\, p_j p_j^\top`, j = 0, …, n − 1 along the chain and
        j = n in the window.
    """
    n = chain.order + 1
    coefficients = mixed_coefficients(n, n)
    lifted = coefficients[n] * grams[0]
    for j in range(1, n):  # Horner's scheme in the lift
        step = chain.steps[j - 1]
        lifted = lift(lifted, step, step, chain.noise) + coefficients[n - j] * grams[j]
    return window.lift(lifted) + grams[n]


def symmetric_product(A: Array, B: Array, pairs: tuple[Array, Array, Array]) -> Array:
    r"""Return :math:`A \otimes_s B` in coordinates of symmetric matrices.

    :math:`\langle X, (A \otimes_s B) Y \rangle = (\mathrm{tr}\, XAYB + \mathrm{tr}\, XBYA)/2`.
    """
    xp = namespace_of(A)
    i, j, factors = pairs

    def pick(matrix: Array, rows: Array, columns: Array) -> Array:
        return xp.take(xp.take(matrix, rows, axis=0), columns, axis=1)

    def half(left: Array, right: Array) -> Array:
        return pick(left, i, i) * pick(right, j, j) + pick(left, i, j) * pick(right, j, i)

    return factors[:, None] * factors[None, :] * (half(A, B) + half(B, A)) / 4
