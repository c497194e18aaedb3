r"""Moments of every order up to m in balanced form: :math:`M_{a+b}` as a (U_a × U_b) matrix.

:math:`M_{2r} \in U_r \otimes U_r` and :math:`M_{2r+1} \in U_r \otimes U_{r+1}`: degree n
requires subspaces of order n/2 and moments of order n, not n and 2n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from implicitmoments.arrays import Array, move_like, namespace_of
from implicitmoments.circuits import Circuit
from implicitmoments.moments.chain import SymmetricChain, drop, lift, mixed_coefficients
from implicitmoments.moments.framed_rows import Frame, FramedRows, Lower, Weights
from implicitmoments.moments.split_means import SplitMean, average
from implicitmoments.projections import RecursiveProjection, evaluate, evaluate_split
from implicitmoments.rows import Sums


def split_order(n: int, *, balanced: bool = True) -> tuple[int, int]:
    """Return (a, b) with a + b = n: halves, or all slots on one side."""
    return (n // 2, n - n // 2) if balanced else (0, n)


@dataclass(frozen=True, eq=False)
class BalancedMoments:
    """Compressed moments of several orders, and their answers to queries."""

    frame: Frame
    chain: SymmetricChain  # its first step is the identity on the frame
    # for (a, b) the matrix of M_{a+b} on U_a × U_b, in the frame's units
    forms: Mapping[tuple[int, int], Array]

    @cached_property
    def by_order(self) -> dict[int, tuple[int, int]]:
        """The split (a, b) of each order."""
        return {a + b: (a, b) for a, b in self.forms}

    @cached_property
    def dropped(self) -> dict[int, list[Array]]:
        """For each order, its form after 0, 1, … contractions with the noise, times factors."""
        return {a + b: contracted_forms(self.chain, a, b, f) for (a, b), f in self.forms.items()}

    def like(self, other: Array) -> BalancedMoments:
        """Return the moments in the library, the precision and on the device of an array."""
        chain = self.chain.like(other)
        forms = {split: move_like(form, other) for split, form in self.forms.items()}
        if chain is self.chain and all(form is self.forms[split] for split, form in forms.items()):
            return self
        basis, center = (move_like(a, other) for a in (self.frame.basis, self.frame.center))
        return BalancedMoments(replace(self.frame, basis=basis, center=center), chain, forms)

    def hermite(self, coordinates: Array, orders: Iterable[int]) -> dict[int, Array]:
        r"""Return :math:`\langle H_n(x), M_n \rangle` for rows given in the frame, by order.

        Deterministic, in O(n · k² p) operations per row: the images of the row along the chain,
        and a bilinear form in them for each number of contractions.
        """
        wanted = list(orders)
        longest = max((max(self.by_order[n]) for n in wanted), default=0)
        images = SymmetricChain(self.chain.steps[:longest], self.chain.noise).images(coordinates)
        xp = namespace_of(coordinates)
        answers = {}
        for n in wanted:
            a, b = self.by_order[n]
            total = xp.zeros_like(coordinates[:, 0])
            for contracted, form in enumerate(self.dropped[n]):
                left, right = images[a - contracted], images[b - contracted]
                total = total + xp.sum((left @ move_like(form, left)) * right, axis=1)
            # the frame divides both the point and the moment by scale, n times each
            answers[n] = total * self.frame.scale ** (2 * n) / math.sqrt(math.factorial(n))
        return answers

    def evaluator(self) -> Lower | None:
        """Return a function of points that gives the answers of all known orders."""
        orders = list(self.by_order)
        return (lambda x: self.hermite(self.frame.points(x), orders)) if orders else None

    def inner(self, circuit: Circuit, inputs: Mapping[str, Array]) -> Array:
        """Return ⟨T(inputs), M_n⟩ for a circuit of one of the orders, row by row."""
        a, b = self.by_order[circuit.order]
        form = self.forms[a, b] * self.frame.scale**circuit.order
        left, right = self.projection.first(a), self.projection.first(b)
        if a == 0:
            images: Array = evaluate(circuit, inputs, right)
            return images @ move_like(form[0, :], images)
        total: Any = 0.0
        for head, tail in evaluate_split(circuit, inputs, left, right):
            total = total + namespace_of(head).sum((head @ move_like(form, head)) * tail, axis=1)
        found: Array = total
        return found

    @cached_property
    def projection(self) -> RecursiveProjection:
        """The chain as a recursive projection of tensors over the features."""
        basis, p = self.frame.basis, self.chain.p
        xp = namespace_of(basis)
        projection = RecursiveProjection.identity(int(basis.shape[1]), 0)
        for step in self.chain.steps:
            # φ[o, a, j] basis[j, i]: each slot of the frame becomes a slot of the features
            split = xp.reshape(step, (step.shape[0], -1, p)) @ basis
            projection = projection.extend(xp.reshape(split, (step.shape[0], -1)))
        return projection


def contracted_forms(chain: SymmetricChain, a: int, b: int, form: Array) -> list[Array]:
    r"""Return a form on U_a × U_b after 0, 1, … contractions with the noise, times factors.

    For a symmetric tensor T of order a + b with this form,
    :math:`\langle T, He_{a+b}(x) \rangle` is the sum over n of :math:`p_{a-n}^\top F_n p_{b-n}`.
    """
    forms = [form]
    for n in range(min(a, b)):
        left, right = chain.steps[a - n - 1], chain.steps[b - n - 1]
        forms.append(drop(forms[-1], left, right, chain.noise))
    pairs = zip(mixed_coefficients(a, b), forms, strict=True)
    return [coefficient * matrix for coefficient, matrix in pairs]


def assemble_form(chain: SymmetricChain, means: Sequence[Array], a: int, b: int) -> Array:
    r"""Return the matrix of M_{a+b} on U_a × U_b, a ≤ b.

    Parameters
    ----------
    means : sequence of arrays (k_{a-n}, k_{b-n})
        The means of :math:`c\, p_{a-n} p_{b-n}^\top` for n = 0, …, a.
    """
    coefficients = mixed_coefficients(a, b)
    total = coefficients[a] * means[a]
    for j in range(1, a + 1):  # Horner's scheme in the lift
        lifted = lift(total, chain.steps[j - 1], chain.steps[b - a + j - 1], chain.noise)
        total = lifted + coefficients[a - j] * means[a - j]
    return total


def mean_moments(
    view: FramedRows, chain: SymmetricChain, splits: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], SplitMean]:
    """Average the moments of the given splits along a chain, in one pass.

    Parameters
    ----------
    splits : sequence of (int, int)
        Pairs (a, b) with a ≤ b, for M_{a+b} on U_a × U_b.
    """
    orders = sorted({a + b for a, b in splits})

    def measure(points: Array, weights: Weights) -> Sums:
        xp = namespace_of(points)
        images = chain.images(points)
        sums: Sums = {}
        for a, b in splits:
            c = weights[a + b]
            for n in range(min(a, b) + 1):
                left = images[a - n] if c is None else images[a - n] * c[:, None]
                sums[f"{a},{b},{n}"] = xp.matrix_transpose(left) @ images[b - n]
        return sums

    def assembled(a: int, b: int) -> Callable[[Sums], Array]:
        def build(means: Sums) -> Array:
            return assemble_form(chain, [means[f"{a},{b},{n}"] for n in range(a + 1)], a, b)

        return build

    builders = {f"{a},{b}": assembled(a, b) for a, b in splits}
    width = max(chain.dim(n) for n in range(chain.order + 1)) * chain.p
    means = average(view, orders, measure, builders, "moments", width)
    return {(a, b): means[f"{a},{b}"] for a, b in splits}
