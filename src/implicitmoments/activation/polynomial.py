r"""The hypothesis of Theorem 4.7: a polynomial whose Hermite tensors are kept compressed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    move_like,
    namespace_of,
    outer_rows,
    pair_rows,
    to_numpy,
)
from implicitmoments.moments.chain import (
    Frame,
    SymmetricChain,
    drop,
    mixed_coefficients,
    split_slot,
)
from implicitmoments.moments.closed_form import BalancedMoments


@dataclass(frozen=True, eq=False)
class Polynomial:
    r"""The function :math:`\sum_n \langle T_n, H_n(x) \rangle`.

    Attributes
    ----------
    tensors : BalancedMoments
        Compressed forms of the :math:`T_n`, by order.
    """

    tensors: BalancedMoments

    @property
    def degree(self) -> int:
        """Highest order of a tensor."""
        return max((a + b for a, b in self.tensors.forms), default=0)

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d); no randomness."""
        tensors = self.tensors.like(x)
        orders = [a + b for a, b in tensors.forms]
        answers = tensors.hermite(tensors.frame.points(x), orders)
        return sum(answers.values(), namespace_of(x).zeros_like(x[:, 0]))

    def gradient(self, x: Array) -> Array:
        r"""Return the gradient in the coordinates of the frame, (n, p).

        With :math:`\nabla He_n = n\, He_{n-1} \otimes \cdot` the image :math:`p_n` of a row has
        derivative :math:`n\, \phi_n(p_{n-1} \otimes \cdot)`, and each form is bilinear in images.
        """
        tensors = self.tensors.like(x)
        frame, chain = tensors.frame, tensors.chain
        z = frame.points(x)
        images = chain.images(z)
        total = namespace_of(z).zeros_like(z)
        for n, forms in tensors.dropped.items():
            a, b = tensors.by_order[n]
            unit = frame.scale ** (2 * n - 1) / math.sqrt(math.factorial(n))
            for contracted, form in enumerate(forms):
                form = move_like(form, z) * unit  # noqa: PLW2901
                left, right = a - contracted, b - contracted
                total = total + _slope(chain, images, left, images[right] @ form.T)
                total = total + _slope(chain, images, right, images[left] @ form)
        return total


def _slope(chain: SymmetricChain, images: list[Array], n: int, against: Array) -> Array:
    """Return the derivative of ⟨p_n, against⟩ in the coordinates, (rows, p)."""
    xp = namespace_of(against)
    if n == 0:
        return xp.zeros_like(images[1])
    step = split_slot(move_like(chain.steps[n - 1], against), chain.p)  # (k_n, k_{n-1}, p)
    joined = xp.reshape(
        against @ xp.reshape(step, (step.shape[0], -1)), (-1, step.shape[1], chain.p)
    )
    return n * xp.sum(images[n - 1][:, :, None] * joined, axis=1)


@dataclass(frozen=True, eq=False)
class Features:
    r"""Polynomials :math:`\langle Q_f, H_n(x) \rangle` that span the compressed hypotheses.

    :math:`Q_f` is a symmetrised product of the i-th direction of :math:`U_a` and the j-th of
    :math:`U_b`, for each pair with i ≤ j where a = b.

    Attributes
    ----------
    frame : Frame
    chain : SymmetricChain
    splits : tuple of (int, int)
        Pairs (a, b) for the orders a + b of the hypothesis.
    width : int
        Directions of each subspace that are used.
    """

    frame: Frame
    chain: SymmetricChain
    splits: tuple[tuple[int, int], ...]
    width: int

    @cached_property
    def pairs(self) -> list[tuple[int, int, int, int]]:
        """(a, b, i, j) of every feature."""
        return [
            (a, b, i, j)
            for a, b in self.splits
            for i in range(min(self.width, self.chain.dim(a)))
            for j in range(min(self.width, self.chain.dim(b)))
            if a != b or i <= j
        ]

    @property
    def orders(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Order of every feature."""
        return np.array([a + b for a, b, _, _ in self.pairs])

    def up_to(self, degree: int, width: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which features have no higher order, and use no more directions."""
        ranks = np.array([1 + max(i, j) for _, _, i, j in self.pairs])
        return (self.orders <= degree) & (ranks <= width)

    @property
    def numbers(self) -> int:
        """Numbers made per row; outer products of images are the widest."""
        widest = max(self.chain.dim(n) for n in range(self.chain.order + 1))
        return len(self) + 1 + widest**2

    def __len__(self) -> int:
        return len(self.pairs)

    def evaluate(self, x: Array) -> Array:
        """Return the features of points (n, d), as (n, len(self))."""
        z = self.frame.points(x)
        xp = namespace_of(z)
        images = self.chain.images(z)
        columns = []
        for (a, b), maps in self._maps.items():
            total: Any = 0.0
            for contracted, matrix in enumerate(maps):
                left, right = images[a - contracted], images[b - contracted]
                outer = pair_rows(left) if a == b else outer_rows(left, right)
                total = total + outer @ move_like(matrix, z)
            columns.append(total)
        return xp.concat(columns, axis=1)

    def forms(self, coefficients: Floats) -> Mapping[tuple[int, int], Array]:
        """Return the nonzero compressed tensors of a linear combination of features."""
        forms = {split: np.zeros(tuple(map(self.chain.dim, split))) for split in self.splits}
        for (a, b, i, j), value in zip(self.pairs, coefficients, strict=True):
            forms[a, b] += value * self._unit(a, b, i, j)
        return {
            (a, b): move_like(form / self.frame.scale ** (a + b), self.chain.noise)
            for (a, b), form in forms.items()
            if form.any()
        }

    def polynomial(self, coefficients: Floats) -> Polynomial:
        """Return a linear combination of features as a hypothesis."""
        return Polynomial(BalancedMoments(self.frame, self.chain, self.forms(coefficients)))

    def coefficients(self, forms: Mapping[tuple[int, int], Array]) -> Floats:
        """Return the combination closest to compressed tensors: the adjoint of :meth:`forms`."""
        scaled = {
            split: to_numpy(form) * self.frame.scale ** sum(split) for split, form in forms.items()
        }
        return np.array(
            [
                float(np.sum(scaled[a, b] * self._unit(a, b, i, j))) if (a, b) in scaled else 0.0
                for a, b, i, j in self.pairs
            ]
        )

    def _unit(self, a: int, b: int, i: int, j: int) -> Floats:
        """Return the form of one feature, of norm 1."""
        form = np.zeros((self.chain.dim(a), self.chain.dim(b)))
        form[i, j] = 1.0
        return (form + form.T) / np.linalg.norm(form + form.T) if a == b else form

    @cached_property
    def _maps(self) -> dict[tuple[int, int], list[Floats]]:
        """For each order, matrices from outer products of images to features, by contractions."""
        steps = [to_numpy(step) for step in self.chain.steps]
        noise = to_numpy(self.chain.noise)
        maps: dict[tuple[int, int], list[Floats]] = {}
        for a, b in self.splits:
            unit = self.frame.scale ** (a + b) / math.sqrt(math.factorial(a + b))
            factors = [unit * factor for factor in mixed_coefficients(a, b)]
            columns: list[list[Floats]] = [[] for _ in factors]
            for i, j in ((i, j) for c, e, i, j in self.pairs if (c, e) == (a, b)):
                form = self._unit(a, b, i, j)
                for contracted, factor in enumerate(factors):
                    if contracted:
                        left, right = steps[a - contracted], steps[b - contracted]
                        form = to_numpy(drop(form, left, right, noise))
                    columns[contracted].append(factor * form.ravel())
            matrices = [np.array(column).T for column in columns]
            maps[a, b] = [_folded(m) for m in matrices] if a == b else matrices
        return maps


def _folded(matrix: Floats) -> Floats:
    """Add the rows (j, i) of a map from outer products to the rows (i, j) with i < j."""
    k = math.isqrt(len(matrix))
    square = matrix.reshape(k, k, -1)
    i, j = np.triu_indices(k)
    folded: Floats = square[i, j] + np.where((i < j)[:, None], square[j, i], 0.0)
    return np.ascontiguousarray(folded)
