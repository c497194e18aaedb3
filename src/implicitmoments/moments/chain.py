r"""Nested symmetric subspaces, and Hermite tensors projected to them without auxiliary noise.

Let :math:`K_0 = 1`, :math:`K_1 = x` and :math:`K_n = K_{n-1} \otimes x - (n-1) K_{n-2} \otimes J`,
with the noise covariance J in the last two slots. Then :math:`\mathrm{Sym}\, K_n = He_n`, so
both have the same inner products with symmetric tensors; and :math:`K_n` passes through a
recursive projection by a three-term recursion. All formulas assume subspaces of *symmetric*
tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array, kron
from scipy.special import fdtri

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    eye_like,
    index_like,
    move_like,
    namespace_of,
    outer_rows,
    pair_rows,
    place_of_pair,
    sorted_products,
    to_numpy,
    turned,
)

OVERSAMPLING = 2  # intermediate subspaces keep 2k directions: a lost one cannot be recovered
MARGIN = 1.25  # the largest of many noise eigenvalues may slightly exceed the floor


@dataclass(frozen=True, eq=False)
class Frame:
    r"""An affine map of points, :math:`x \mapsto B (x - c) / s`, and its effect on noise."""

    basis: Array  # (p, d), orthonormal rows B that span the subspace kept
    center: Array  # (d,), the point c that becomes the origin
    scale: float = 1.0  # the unit of length s. Moments of order t are divided by :math:`s^t`
    # The first coordinate is h / s, a constant, where B has zeros. Hidden vectors become (h, v):
    # their signs are then determined, and short ones contribute to high moments. None for no such
    height: float | None = None

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0])

    @property
    def noise(self) -> Array:
        """Covariance (p, p) of standard Gaussian noise in the frame; the constant has none."""
        squares = namespace_of(self.basis).sum(self.basis**2, axis=1)  # 1, or 0 for the constant
        return eye_like(self.p, self.basis) * squares[:, None] / self.scale**2

    def points(self, x: Array) -> Array:
        """Map points (n, d) to coordinates (n, p)."""
        basis, center = move_like(self.basis, x), move_like(self.center, x)
        points = (x - center[None, :]) @ namespace_of(x).matrix_transpose(basis / self.scale)
        if self.height is not None:
            points[:, 0] = self.height / self.scale
        return points

    def vectors(self, coordinates: Array) -> Any:
        """Map hidden vectors (k, p) back to (k, d).

        With a height, the first coordinate determines the length and sign of a vector.
        """
        length = self.scale if self.height is None else self.height / coordinates[:, :1]
        return coordinates * length @ self.basis + self.center[None, :]


@dataclass(frozen=True, eq=False)
class SymmetricChain:
    r"""Steps :math:`\phi_1, \ldots, \phi_r` onto nested subspaces of symmetric tensors."""

    steps: tuple[Array, ...]  # step n of shape (k_n, k_{n-1} · p), orthonormal rows, k_0 = 1
    noise: Array  # (p, p), the covariance J of the Gaussian noise in the points

    @classmethod
    def whole_of(cls, frame: Frame) -> SymmetricChain:
        """Return the chain of order 1 that keeps all coordinates of a frame."""
        return cls((eye_like(frame.p, frame.basis),), frame.noise)

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

    @property
    def width(self) -> int:
        """Numbers computed for each row by a step."""
        return self.p * max(map(self.dim, range(self.order)), default=1) + self.dim(self.order)

    def extend(self, step: Array) -> SymmetricChain:
        """Return the chain with one more step."""
        return SymmetricChain((*self.steps, step), self.noise)

    def keep(self, rows: Array) -> SymmetricChain:
        """Return the chain with a part of its last subspace, by coordinates (n, k_r) in it."""
        return SymmetricChain((*self.steps[:-1], rows @ self.steps[-1]), self.noise)

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
        for n, step in enumerate(self.steps, start=1):
            # x ⊗ x is symmetric: half of it is enough, where the first step is the identity
            paired = n == 2 and self.dim(1) == self.p
            joined = pair_rows(points) if paired else outer_rows(carried[-1], points)
            image = joined @ xp.matrix_transpose(self._second_on_pairs if paired else step)
            if n > 1:
                image -= (n - 1) * (carried[-2] @ xp.matrix_transpose(self.contractions[n - 2]))
            carried.append(image)
        return carried

    @cached_property
    def _second_on_pairs(self) -> Array:
        """The second step on products of coordinates i ≤ j, (k_2, p (p + 1) / 2)."""
        every = SymmetricMatrices.over(SymmetricChain(self.steps[:1], self.noise))
        turned = namespace_of(self.noise).matrix_transpose(every.steps[1])
        return (self.steps[1] @ turned) * every.factors[None, :]

    def assemble(self, means: Sequence[Array], a: int, b: int) -> Array:
        r"""Return the matrix of M_{a+b} on U_a × U_b, a ≤ b.

        From the means (k_{a-n}, k_{b-n}) of :math:`c\, p_{a-n} p_{b-n}^\top` for n = 0, …, a. For
        a = b = n it is :math:`\sum_l (-1)^l\, l! \binom{n}{l}^2 L^l(Q_{n-l})`, with :math:`Q_j`
        the mean of :math:`c\, p_j p_j^\top`.
        """
        coefficients = mixed_coefficients(a, b)
        total = coefficients[a] * means[a]
        for j in range(1, a + 1):  # Horner's scheme in the lift
            lifted = lift(total, self.steps[j - 1], self.steps[b - a + j - 1], self.noise)
            total = lifted + coefficients[a - j] * means[a - j]
        return total

    def symmetriser(self) -> Array:
        r"""Return :math:`\Pi = (I + r \cdot \mathrm{swap})/(r+1)` on the window, (k_r·p, k_r·p).

        The swap exchanges the last two slots; it is sufficient, since the tensors are symmetric in
        the others. ``swap[(a,j), (a',j')] = Σ_b φ[a,b,j'] φ[a',b,j]``.
        Symmetric tensors in the window are its eigenvectors of eigenvalue 1.
        """
        r, k, p, xp = self.order, self.dim(self.order), self.p, namespace_of(self.noise)
        eye = eye_like(k * p, self.noise)
        if r == 0:
            return eye
        step = split_slot(self.steps[-1], p)
        products = xp.tensordot(step, step, axes=((1,), (1,)))  # (a, j', a', j)
        swap = xp.reshape(xp.permute_dims(products, (0, 3, 2, 1)), (k * p, k * p))
        return (eye + r * swap) / (r + 1)


def split_slot(step: Array, p: int) -> Array:
    """Return a step (k_n, k_{n-1}·p) as an array (k_n, k_{n-1}, p)."""
    return namespace_of(step).reshape(step, (step.shape[0], step.shape[1] // p, p))


def contract(before: Array, after: Array, noise: Array) -> Array:
    """Contract the slots of two successive steps through the noise: (k_n, k_{n-2})."""
    xp, p = namespace_of(noise), noise.shape[0]
    first = xp.tensordot(split_slot(before, p), noise, axes=((2,), (0,)))  # (a, b, l)
    return xp.tensordot(split_slot(after, p), first, axes=((1, 2), (0, 2)))


def lift(matrix: Array, left: Array, right: Array, noise: Array) -> Array:
    r"""Append a slot of noise on both sides of a matrix, and project to steps.

    :math:`L(Q) = \sum_{jl} J_{jl}\, \phi(\cdot \otimes e_j)\, Q\, \theta(\cdot \otimes e_l)^\top`,
    from (k_{a-1}, k_{b-1}) to (k_a, k_b), for steps (k_a, k_{a-1}·p) and (k_b, k_{b-1}·p).
    """
    xp, phi = namespace_of(noise), split_slot(left, noise.shape[0])
    joined = xp.tensordot(xp.tensordot(phi, matrix, axes=((1,), (0,))), noise, axes=((1,), (0,)))
    return xp.reshape(joined, (phi.shape[0], -1)) @ xp.matrix_transpose(right)


def drop(matrix: Array, left: Array, right: Array, noise: Array) -> Array:
    """Return the adjoint of :func:`lift`: from (k_a, k_b) to (k_{a-1}, k_{b-1})."""
    xp, p = namespace_of(noise), noise.shape[0]
    outer = xp.tensordot(split_slot(matrix @ right, p), noise, axes=((2,), (1,)))  # (k_a, b, j)
    return xp.tensordot(split_slot(left, p), outer, axes=((0, 2), (0, 2)))


def split_order(n: int) -> tuple[int, int]:
    """Return (a, b) with a + b = n, in halves."""
    return n // 2, n - n // 2


def mixed_coefficients(a: int, b: int) -> list[float]:
    r"""Return :math:`(-1)^l\, l! \binom{a}{l} \binom{b}{l}` for l = 0, …, min(a, b).

    The factors in :math:`\langle A \otimes B, He_{a+b}(x) \rangle`, A and B symmetric, of A and B
    contracted l times and applied to :math:`He_{a-l}(x) \otimes He_{b-l}(x)`.
    """
    return [
        float((-1) ** n * math.factorial(n) * math.comb(a, n) * math.comb(b, n))
        for n in range(min(a, b) + 1)
    ]


def contracted_forms(chain: SymmetricChain, a: int, b: int, form: Array) -> list[Array]:
    r"""Return a form on U_a × U_b after 0, 1, … contractions with the noise, times factors.

    For a symmetric tensor T of order a + b with this form,
    :math:`\langle T, He_{a+b}(x) \rangle` is the sum over n of :math:`p_{a-n}^\top F_n p_{b-n}`.
    """
    forms = [form]
    for n in range(min(a, b)):
        left, right = chain.steps[a - n - 1], chain.steps[b - n - 1]
        forms.append(drop(forms[-1], left, right, chain.noise))
    return [c * matrix for c, matrix in zip(mixed_coefficients(a, b), forms, strict=True)]


@dataclass(frozen=True, eq=False)
class SymmetricMatrices(SymmetricChain):
    r"""All of R^p, and all symmetric p × p matrices.

    Coordinates are the entries on and above the diagonal, those above times :math:`\sqrt 2`.
    """

    @classmethod
    def over(cls, chain: SymmetricChain) -> SymmetricMatrices:
        """Extend a chain that keeps all of R^p."""
        i, j = np.triu_indices(chain.p)
        step, rows = np.zeros((len(i), chain.p, chain.p)), np.arange(len(i))
        step[rows, i, j] = step[rows, j, i] = np.where(i == j, 1.0, math.sqrt(0.5))
        flat = move_like(step.reshape(len(i), -1), chain.noise)
        return cls((*chain.steps, flat), chain.noise)

    @cached_property
    def factors(self) -> Array:
        """Factors of the products of two coordinates of a point."""
        return namespace_of(self.noise).sum(self.steps[1], axis=1)

    def quadruples(self, points: Array, c: Array | None) -> dict[str, Array]:
        """Sum products of four and two coordinates times weights c, and the weights."""
        fourth = sorted_products(points, pair_rows(points), range(self.p, 0, -1), c)
        return {"fourth": fourth, **sum_squares(points, c)}

    def fourth(self, means: Mapping[str, Array]) -> Array:
        r"""Return M_4 from means of :meth:`quadruples`.

        With q the products of pairs, j and t the coordinates of J and T, and L the :func:`lift`,
        :math:`M_4 = E[c\, q q^\top] - j t^\top - t j^\top - 4\, L(T)`,
        :math:`T = E[c\, x x^\top] - E[c]\, J / 2`.
        """
        raw, second, mass = (to_numpy(means[name]) for name in ("fourth", "second", "mass"))
        step, noise = csr_array(to_numpy(self.steps[1])), to_numpy(self.noise)
        T, factors = second - mass / 2 * noise, to_numpy(self.factors)
        across = np.outer(step @ noise.ravel(), step @ T.ravel())
        lifted = step @ kron(4 * T, csr_array(noise)) @ step.T
        found = raw[self.places] * np.outer(factors, factors) - across - across.T
        return move_like(found - lifted.toarray(), self.noise)

    @cached_property
    def places(self) -> tuple[Any, Any]:
        """Where :func:`sorted_products` has the product of two pairs."""
        i, j = np.triu_indices(self.p)
        low, high = np.maximum.outer(i, i), np.minimum.outer(j, j)
        b, c, last = np.minimum(low, high), np.maximum(low, high), self.p - 1
        row = place_of_pair(last - b, last - np.minimum.outer(i, i), self.p)
        return row, place_of_pair(c, np.maximum.outer(j, j), self.p)


def sum_squares(points: Array, c: Array | None) -> dict[str, Array]:
    """Sum products of two coordinates times weights, and the weights."""
    xp = namespace_of(points)
    ones = xp.ones_like(points[:, :1]) if c is None else c[:, None]
    return {"second": xp.matrix_transpose(points * ones) @ points, "mass": xp.sum(ones)}


def open_window(
    chain: SymmetricChain, k: int, near: float = 0.5
) -> tuple[SymmetricChain, Array | None]:
    """Return the chain with the candidates for the next subspace, and how symmetric each is.

    The candidates are those directions of ``U_r ⊗ R^p`` that the symmetriser keeps above ``near``,
    at least k. How symmetric are eigenvalues, None if all are 1.
    """
    if chain.order == 0:
        return chain.extend(eye_like(chain.p, chain.noise)), None
    if chain.order == 1 and chain.dim(1) == chain.p:
        return SymmetricMatrices.over(chain), None
    values, vectors = descending_eigh(chain.symmetriser())
    symmetric = sum(1 for i in range(int(values.shape[0])) if float(values[i]) > near)
    room = math.comb(chain.p + chain.order, chain.order + 1)  # dimension of symmetric tensors
    kept = min(max(symmetric, k), room, int(values.shape[0]))
    return chain.extend(turned(vectors[:, :kept])), values[:kept]


@dataclass(frozen=True, eq=False)
class SplitMean:
    """A mean over rows, kept as the means of two halves of them."""

    halves: tuple[Any, Any]
    counts: tuple[float, float]  # rows in each half, with their multiplicity

    @cached_property
    def value(self) -> Any:
        """The mean over all rows."""
        (first, second), (one, two) = self.halves, self.counts
        return (first * one + second * two) / (one + two or 1.0)

    @cached_property
    def half_difference(self) -> Any:
        """Half the difference of the halves: as large as the error of the mean."""
        return (self.halves[0] - self.halves[1]) / 2

    def map(self, function: Callable[..., Any], *others: SplitMean) -> SplitMean:
        """Apply a linear function to both halves, of other means too."""
        halves = zip(self.halves, *(mean.halves for mean in others), strict=True)
        first, second = (function(*half) for half in halves)
        return SplitMean((first, second), self.counts)


@dataclass(frozen=True, eq=False)
class StepReport:
    """Measurements of one step of the recursion.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(5_000, 2, 4, radius=3.0, random_state=0)
    >>> problem = im.moments.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=2, order=4)
    >>> [(step.order, step.rank, bool(step.floor < step.spectrum[1])) for step in moments.steps]
    [(2, 2, True), (4, 2, True)]
    """

    order: int  # of the moment that was averaged
    rank: int  # directions kept: fewer if the others are below the noise floor
    spectrum: Floats  # all eigenvalues, by value, or by magnitude if the subspace is singular
    floor: float  # noise floor of the eigenvalues
    negative: float  # an eigenvalue below 0 and beyond the noise; 0 if there is none

    def scaled(self, unit: float) -> StepReport:
        """Return the report in another unit."""
        values = (self.spectrum * unit, self.floor * unit, self.negative * unit)
        return StepReport(self.order, self.rank, *values)


def leading_subspace(
    moment: SplitMean, order: int, k: int, subspace: str = "positive", weights: Array | None = None
) -> tuple[Array, StepReport]:
    """Return eigenvectors of a moment (as columns), and its eigenvalues beside their noise.

    Sorted by the eigenvalues: with positive weights a moment of even order is positive
    semidefinite (Erratum 8). For weights of both signs, ``subspace="singular"``, by their
    magnitudes. ``weights`` say how symmetric each direction is, None for all symmetric ones.
    """
    positive, w = subspace == "positive", weights
    if not positive and w is not None:
        # beside the moment, which lives on symmetric tensors, the window has values of both signs
        moment = moment.map(lambda matrix: w[:, None] * matrix * w[None, :])
    values, vectors = descending_eigh(moment.value)
    spectrum = np.asarray(to_numpy(values), dtype=np.float64)
    below = max(0.0, -spectrum[-1]) if positive and w is None else 0.0
    if not positive:
        places = np.argsort(-np.abs(spectrum), kind="stable")
        spectrum = spectrum[places]
        vectors = namespace_of(vectors).take(vectors, index_like(places, vectors), axis=1)
    is_noise, floor = below <= largest_noise(moment), noise_floor(moment, vectors, k)
    if is_noise:
        floor = max(floor, below)
    sizes = spectrum[:k] if positive else np.abs(spectrum[:k])
    rank = int(np.sum(sizes > MARGIN * floor))
    return vectors, StepReport(order, rank, spectrum, floor, 0.0 if is_noise else -below)


def noise_floor(moment: SplitMean, vectors: Array, k: int) -> float:
    """Return the spectral norm of half the difference of two halves, off the top k directions.

    Inside them the difference also contains the sampling noise of the signal.
    """
    if k >= vectors.shape[0]:
        return 0.0
    xp, off = namespace_of(vectors), vectors[:, k:]
    projected = xp.matrix_transpose(off) @ moment.half_difference @ off
    sizes = xp.abs(xp.linalg.eigvalsh((projected + xp.matrix_transpose(projected)) / 2))
    return float(xp.max(sizes))


def largest_noise(moment: SplitMean, level: float = 1e-4) -> float:
    """Return what the eigenvalues of noise alone rarely exceed, by split halves.

    The Frobenius norm of half their difference is distributed as that of the noise, which is not
    below its eigenvalues. If the noise is Gaussian and equally large in all directions of the
    symmetric matrices, the ratio of squared norms has an F distribution with their dimension as
    degrees of freedom, and the probability is at most ``level``.
    """
    difference = moment.half_difference
    dimension = difference.shape[0] * (difference.shape[0] + 1) / 2
    factor = math.sqrt(float(fdtri(dimension, dimension, 1 - level)))
    return factor * float(namespace_of(difference).linalg.matrix_norm(difference))
