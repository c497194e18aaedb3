r"""Nested symmetric subspaces, and Hermite tensors projected to them without auxiliary noise.

Let :math:`K_0 = 1`, :math:`K_1 = x` and :math:`K_n = K_{n-1} \otimes x - (n-1) K_{n-2} \otimes J`,
with the noise covariance J in the last two slots. Then :math:`\mathrm{Sym}\, K_n = He_n`, so
both have the same inner products with symmetric tensors; and :math:`K_n` passes through a
recursive projection by a three-term recursion. All formulas assume subspaces of *symmetric*
tensors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    descending_eigh,
    eye_like,
    gram,
    index_like,
    move_like,
    namespace_of,
    outer_rows,
    pair_rows,
    turned,
)
from implicitmoments.moments.pair_window import PairWindow

NEARLY_SYMMETRIC = 0.5  # eigenvalues of the compressed symmetriser; 1 is symmetric


@dataclass(frozen=True, eq=False)
class Frame:
    r"""An affine map of points, :math:`x \mapsto (h, B (x - c)) / s`, and its effect on noise."""

    basis: Array  # (p, d), orthonormal rows B that span the subspace kept
    center: Array  # (d,), the point c that becomes the origin
    scale: float = 1.0  # the unit of length s. Moments of order t are divided by :math:`s^t`
    # A constant first coordinate h. Hidden vectors become :math:`(h, v)`: their signs are then
    # determined, and short vectors contribute to high moments. None for no such coordinate
    height: float | None = None

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0]) + (self.height is not None)

    @property
    def noise(self) -> Array:
        """Covariance (p, p) of standard Gaussian noise in the frame; the constant has none."""
        xp = namespace_of(self.basis)
        covariance = eye_like(self.p, self.basis) / self.scale**2
        if self.height is None:
            return covariance
        return xp.concat([covariance[:1, :] * 0, covariance[1:, :]])

    def points(self, x: Array) -> Array:
        """Map points (n, d) to coordinates (n, p)."""
        xp = namespace_of(x)
        basis, center = move_like(self.basis, x), move_like(self.center, x)
        moved = (x - center[None, :]) @ xp.matrix_transpose(basis) / self.scale
        if self.height is None:
            return moved
        first = xp.ones_like(moved[:, :1]) * (self.height / self.scale)
        return xp.concat([first, moved], axis=1)

    def vectors(self, coordinates: Array) -> Array:
        """Map hidden vectors (k, p) back to (k, d).

        With a height, the first coordinate determines the length and sign of a vector.
        """
        if self.height is None:
            moved = coordinates * self.scale
        else:
            moved = coordinates[:, 1:] * (self.height / coordinates[:, :1])
        return moved @ self.basis + self.center[None, :]


@dataclass(frozen=True, eq=False)
class SymmetricChain:
    r"""Steps :math:`\phi_1, \ldots, \phi_r` onto nested subspaces of symmetric tensors."""

    steps: tuple[Array, ...]  # step n of shape (k_n, k_{n-1} · p), orthonormal rows, k_0 = 1
    noise: Array  # (p, p), the covariance J of the Gaussian noise in the points

    @property
    def order(self) -> int:
        """Number of steps."""
        return len(self.steps)

    @property
    def p(self) -> int:
        """Length of a point."""
        return int(self.noise.shape[0])

    def dim(self, n: int) -> int:
        """Return the dimension after n steps."""
        return int(self.steps[n - 1].shape[0]) if n else 1

    def extend(self, step: Array) -> SymmetricChain:
        """Return the chain with one more step."""
        return SymmetricChain((*self.steps, step), self.noise)

    def first(self, order: int) -> SymmetricChain:
        """Return the chain of the first steps; this one, with what it has computed, for all."""
        if order == self.order:
            return self
        return SymmetricChain(self.steps[:order], self.noise)

    def like(self, other: Array) -> SymmetricChain:
        """Return the chain in the library, the precision and on the device of an array."""
        noise = move_like(self.noise, other)
        if noise is self.noise:
            return self
        return SymmetricChain(tuple(move_like(step, other) for step in self.steps), noise)

    @cached_property
    def contractions(self) -> tuple[Array, ...]:
        r"""Matrices that pair the slots of successive steps, (k_n, k_{n-2}) for n = 2, …, order.

        :math:`C_n = \sum_{jl} J_{jl}\, \phi_n(\phi_{n-1}(\cdot \otimes e_j) \otimes e_l)`.
        """
        return tuple(contract(a, b, self.noise) for a, b in pairwise(self.steps))

    def images(self, points: Array) -> list[Array]:
        r"""Return the images of points (n_samples, p): arrays (n_samples, k_n), n = 0, …, order.

        :math:`p_n = \phi_n(p_{n-1} \otimes x) - (n-1)\, C_n p_{n-2}`.
        """
        xp = namespace_of(points)
        carried = [xp.ones_like(points[:, :1])]
        if self.steps:
            carried.append(points if self.whole else points @ xp.matrix_transpose(self.steps[0]))
        for n, step in enumerate(self.steps[1:], start=2):
            if n == 2 and self.whole:  # x ⊗ x is symmetric: half of its entries are enough
                image = pair_rows(points) @ xp.matrix_transpose(self._second_step_on_pairs)
            else:
                image = outer_rows(carried[-1], points) @ xp.matrix_transpose(step)
            image -= (n - 1) * (carried[-2] @ xp.matrix_transpose(self.contractions[n - 2]))
            carried.append(image)
        return carried

    @cached_property
    def whole(self) -> bool:
        """Whether the first step is the identity: all of R^p is kept."""
        if not self.steps or self.dim(1) != self.p:
            return False
        xp = namespace_of(self.noise)
        return bool(xp.all(self.steps[0] == eye_like(self.p, self.noise)))

    @cached_property
    def _second_step_on_pairs(self) -> Array:
        """The second step (k_2, p (p + 1) / 2) on products of pairs i ≤ j of a point."""
        xp, p = namespace_of(self.noise), self.p
        step = split_slot(self.steps[1], p)
        i, j = np.triu_indices(p)
        above = xp.reshape(step, (step.shape[0], p * p))
        below = xp.reshape(xp.permute_dims(step, (0, 2, 1)), (step.shape[0], p * p))
        halves = move_like(np.where(i == j, 0.5, 1.0), step)
        return xp.take(above + below, index_like(i * p + j, step), axis=1) * halves[None, :]

    def symmetriser(self) -> Array:
        r"""Return :math:`\Pi = (I + r \cdot \mathrm{swap})/(r+1)` on the window, (k_r·p, k_r·p).

        The swap exchanges the last two slots; it is sufficient, since the tensors are symmetric in
        the others. ``swap[(a,j), (a',j')] = Σ_b φ[a,b,j'] φ[a',b,j]``.
        Symmetric tensors in the window are its eigenvectors of eigenvalue 1.
        """
        r = self.order
        xp = namespace_of(self.noise)
        k, p = self.dim(r), self.p
        eye = eye_like(k * p, self.noise)
        if r == 0:
            return eye
        # rows (a, j'), columns b, so that the Gram matrix is indexed (a, j', a', j)
        slots = xp.permute_dims(split_slot(self.steps[-1], p), (0, 2, 1))
        split = xp.reshape(slots, (k * p, self.dim(r - 1)))
        gram = xp.reshape(split @ xp.matrix_transpose(split), (k, p, k, p))
        swap = xp.reshape(xp.permute_dims(gram, (0, 3, 2, 1)), (k * p, k * p))
        return (eye + r * swap) / (r + 1)


def split_slot(step: Array, p: int) -> Array:
    """Return a step (k_n, k_{n-1}·p) as an array (k_n, k_{n-1}, p)."""
    return namespace_of(step).reshape(step, (step.shape[0], step.shape[1] // p, p))


def contract(before: Array, after: Array, noise: Array) -> Array:
    """Contract the slots of two successive steps through the noise: (k_n, k_{n-2})."""
    xp = namespace_of(noise)
    p = noise.shape[0]
    first, second = split_slot(before, p), split_slot(after, p)
    # Σ_{a,l} second[o, a, l] (J · first)[a, l, b]
    mixed = xp.permute_dims(first @ noise, (0, 2, 1))  # (a, l, b)
    flat = xp.reshape(mixed, (-1, first.shape[1]))
    return xp.reshape(second, (second.shape[0], -1)) @ flat


def lift(matrix: Array, left: Array, right: Array, noise: Array) -> Array:
    r"""Append a slot of noise on both sides of a matrix, and project to steps.

    :math:`L(Q) = \sum_{jl} J_{jl}\, \phi(\cdot \otimes e_j)\, Q\, \theta(\cdot \otimes e_l)^\top`,
    from (k_{a-1}, k_{b-1}) to (k_a, k_b), for steps (k_a, k_{a-1}·p) and (k_b, k_{b-1}·p).
    """
    xp = namespace_of(noise)
    phi, theta = split_slot(left, noise.shape[0]), split_slot(right, noise.shape[0])
    joined = xp.permute_dims(phi, (0, 2, 1)) @ matrix  # (k_a, p, k_{b-1})
    joined = xp.permute_dims(joined, (0, 2, 1)) @ noise  # (k_a, k_{b-1}, p)
    flat = xp.reshape(joined, (phi.shape[0], -1))
    return flat @ xp.matrix_transpose(xp.reshape(theta, (theta.shape[0], -1)))


def drop(matrix: Array, left: Array, right: Array, noise: Array) -> Array:
    """Return the adjoint of :func:`lift`: from (k_a, k_b) to (k_{a-1}, k_{b-1})."""
    xp = namespace_of(noise)
    phi, theta = split_slot(left, noise.shape[0]), split_slot(right, noise.shape[0])
    # φ[o, a, j] B[o, q] θ[q, b, l] J[j, l]
    outer = matrix @ xp.reshape(theta, (theta.shape[0], -1))  # (k_a, k_{b-1}·p)
    outer = xp.reshape(outer, (phi.shape[0], theta.shape[1], -1)) @ noise  # (k_a, k_{b-1}, p)
    first = xp.reshape(xp.permute_dims(phi, (1, 0, 2)), (phi.shape[1], -1))  # (k_{a-1}, k_a·p)
    second = xp.reshape(xp.permute_dims(outer, (0, 2, 1)), (-1, theta.shape[1]))
    return first @ second


def mixed_coefficients(a: int, b: int) -> list[float]:
    r"""Return :math:`(-1)^l\, l! \binom{a}{l} \binom{b}{l}` for l = 0, …, min(a, b).

    The factors in :math:`\langle A \otimes B, He_{a+b}(x) \rangle`, A and B symmetric, of A and B
    contracted l times and applied to :math:`He_{a-l}(x) \otimes He_{b-l}(x)`.
    """
    return [
        float((-1) ** n * math.factorial(n) * math.comb(a, n) * math.comb(b, n))
        for n in range(min(a, b) + 1)
    ]


@dataclass(frozen=True, eq=False)
class ChainWindow:
    """A window over a chain: the span of some rows of ``U_r ⊗ R^p``."""

    chain: SymmetricChain
    basis: Array  # (dim, k_r · p), orthonormal rows, eigenvectors of the symmetriser
    symmetry: Array | None = None  # (dim,), their eigenvalues; None if all are 1

    @property
    def exact(self) -> bool:
        """Whether all of its tensors are symmetric, as at order 1."""
        return self.chain.order == 0

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0])

    def features(self, images: list[Array], points: Array, root: Array | None) -> Array:  # noqa: ARG002
        """Map rows into the window as by one more step of the chain.

        Times ``root``, by which ``images`` are multiplied already.
        """
        xp = namespace_of(points)
        made = outer_rows(images[-1], points) @ xp.matrix_transpose(self.basis)
        if self.chain.order:
            made -= self.chain.order * (images[-2] @ xp.matrix_transpose(self.contraction))
        return made

    def gram_sums(self, images: list[Array], points: Array, root: Array | None) -> Array:
        """Sum the outer products of the features of rows, (dim, dim)."""
        return gram(self.features(images, points, root))

    def gram(self, sums: Array, lower: list[Array]) -> Array:  # noqa: ARG002 (of pairs)
        """Return the Gram matrix of the features from ``gram_sums``: it is the same."""
        return sums

    @cached_property
    def contraction(self) -> Array:
        """The contraction of the last slot of the chain with that of the window."""
        return contract(self.chain.steps[-1], self.basis, self.chain.noise)

    def lift(self, matrix: Array) -> Array:
        """Lift onto the basis as onto a step."""
        return lift(matrix, self.basis, self.basis, self.chain.noise)

    def step(self, rows: Array) -> Array:
        """Return rows as combinations of the basis."""
        return rows @ self.basis


Window: TypeAlias = PairWindow | ChainWindow


def open_window(chain: SymmetricChain, k: int, near: float = NEARLY_SYMMETRIC) -> Window:
    """Return the directions over a chain that the symmetriser keeps above ``near``, at least k."""
    if chain.order == 0:
        return ChainWindow(chain, eye_like(chain.p, chain.noise))
    if chain.order == 1 and chain.whole:
        return PairWindow(chain.noise)
    values, vectors = descending_eigh(chain.symmetriser())
    symmetric = sum(1 for i in range(int(values.shape[0])) if float(values[i]) > near)
    room = math.comb(chain.p + chain.order, chain.order + 1)  # dimension of symmetric tensors
    kept = min(max(symmetric, k), room, int(values.shape[0]))
    return ChainWindow(chain, turned(vectors[:, :kept]), values[:kept])


def assemble_form(
    chain: SymmetricChain, means: Sequence[Array], a: int, b: int, window: Window | None = None
) -> Array:
    r"""Return the matrix of M_{a+b} on U_a × U_b, a ≤ b.

    From the means (k_{a-n}, k_{b-n}) of :math:`c\, p_{a-n} p_{b-n}^\top` for n = 0, …, a. For
    a = b = n it is :math:`\sum_l (-1)^l\, l! \binom{n}{l}^2 L^l(Q_{n-l})`, with :math:`Q_j` the
    mean of :math:`c\, p_j p_j^\top`; a window over a chain of order n − 1 may then replace U_n.
    """
    coefficients = mixed_coefficients(a, b)
    total = coefficients[a] * means[a]
    for j in range(1, a + 1):  # Horner's scheme in the lift
        if j == a and window is not None:
            lifted = window.lift(total)
        else:
            lifted = lift(total, chain.steps[j - 1], chain.steps[b - a + j - 1], chain.noise)
        total = lifted + coefficients[a - j] * means[a - j]
    return total
