r"""F/G of a mixture of regressions as a truncated Hermite expansion in compressed form.

Let (x, z) come from k regressions on a standard Gaussian x, and let G be the standard Gaussian
on (x, z). Since :math:`E[He_a(x) f(z)] = \sum_i w_i \beta_i^{\otimes a} E_i[f^{(a)}(z)]`, with
:math:`E_i` the mean over component i, the Hermite coefficients of F/G are

.. math:: E[He_a(x)\, He_{a+r}(z)]
   = \frac{(a+r)!}{r!} \sum_i w_i \eta_{ir} \beta_i^{\otimes a}, \qquad \eta_{ir} = E_i[He_r(z)],

and 0 where z has fewer slots than x. They are the tensors T_n of the proof of Theorem 4.22, n =
2a + r, by the number of slots of either kind; there :math:`\eta_{ir}` is expressed by the norm
of :math:`\beta_i` and the variance of the noise, and estimated through moments of higher order
(``regression_contraction``). Averaged directly, as here, they have less noise, and hold for
components with their own intercept and noise variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from typing import Protocol

import numpy as np

from implicitmoments.arrays import Array, Floats, descending_eigh, move_like, namespace_of
from implicitmoments.density.graded_chain import (
    assemble_graded,
    graded_answers,
    graded_images,
    graded_noise,
    graded_sums,
    widen,
)
from implicitmoments.density.hermite_expansion import (
    Constant,
    DenseExpansion,
    evaluate_blocks,
    ones_like_rows,
)
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.closed_form import OVERSAMPLING, split_order
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import Block, Rows, Sums, weights_of

HEIGHT = 1.0  # of the constant: coefficients of all orders are then about equally noisy


class LabelExpansion(Protocol):
    """A polynomial in (x, z) that estimates F/G."""

    @property
    def degree(self) -> int:
        """Highest order that is kept."""

    def in_label(self, x: Array) -> Array:
        """Return its coefficients (n, degree + 1) of He_0(z), He_1(z), … at points (n, p)."""

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p + 1), z last."""


def hermite_values(z: Array, degree: int) -> Array:
    """Return He_0(z), …, He_degree(z) as rows (degree + 1, n)."""
    xp = namespace_of(z)
    values = [xp.ones_like(z), z][: degree + 1]
    for n in range(2, degree + 1):
        values.append(z * values[n - 1] - (n - 1) * values[n - 2])
    return xp.stack(values)


def expansion_at(expansion: LabelExpansion, coordinates: Array) -> Array:
    """Evaluate an expansion from its coefficients in the label."""
    xp = namespace_of(coordinates)
    coefficients = expansion.in_label(coordinates[:, :-1])
    values = hermite_values(coordinates[:, -1], expansion.degree)
    return xp.sum(coefficients * xp.matrix_transpose(values), axis=1)


class LabelConstant(Constant):
    """The expansion of one component: F is G."""

    def in_label(self, x: Array) -> Array:
        """Return 1 for He_0 and 0 for the others."""
        ones = ones_like_rows(x, self.degree + 1)
        return ones * move_like(np.eye(1, self.degree + 1), ones)


@dataclass(frozen=True, eq=False)
class GradedExpansion:
    r"""Compressed coefficients, those of one r together.

    With a constant h before every regressor, :math:`\tilde M_r = \sum_i w_i \eta_{ir}
    (h, \beta_i)^{\otimes m}`, m = (n − r)/2 rounded down, contains the coefficients of all a ≤ m.
    It is a matrix on :math:`U_{m/2} \times U_{m/2}`, and the subspaces are those of powers of
    :math:`(h, \beta_i)` for every r: low orders, which are less noisy, help to find them.
    """

    degree: int
    chain: SymmetricChain  # over :math:`(h, x)`
    # for (a, b, r) the matrix of :math:`\tilde M_r` on U_a × U_b
    forms: dict[tuple[int, int, int], Floats]
    height: float = HEIGHT

    @property
    def n_coefficients(self) -> int:
        """Numbers that were estimated."""
        return sum(form.size for form in self.forms.values())

    def in_label(self, x: Array) -> Array:
        """Return coefficients (n, degree + 1) of He_l(z) at points (n, p)."""
        chain = self.chain.like(x)
        width = sum((n + 1) * chain.dim(n) * chain.p for n in range(chain.order + 1))
        return evaluate_blocks(partial(self._evaluate, chain), x, width)

    def _evaluate(self, chain: SymmetricChain, x: Array) -> Array:
        images = graded_images(chain, x, 1.0 / self.height)
        found = 0 * ones_like_rows(x, self.degree + 1)
        for (a, b, r), form in self.forms.items():
            answers = graded_answers(chain, images, a, b, move_like(form, x))
            for grade in range(a + b + 1):
                # ⟨β^a, He_a(x)⟩ / (a! r!), and the query has a binomial coefficient
                ways = math.comb(a + b, grade) * math.factorial(grade) * math.factorial(r)
                found[:, grade + r] += answers[grade, :] / ways
        return found

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p + 1), z last."""
        return expansion_at(self, coordinates)


def expand_labels(rows: Rows, basis: Floats, k: int, degree: int, *, odd: bool) -> LabelExpansion:
    """Estimate the expansion of F/G up to a degree, directly.

    Parameters
    ----------
    rows : Rows
        Rows (x', z).
    basis : array of shape (p, d)
        Spans the regressors.
    odd : bool
        Keep odd orders, which are 0 if all components have the same intercept.
    """
    p = len(basis)
    if p == 0 or degree < 2:
        return LabelConstant(degree)
    on_span = rows.mapped(linear=basis.T)
    last = split_order(degree // 2)[1]
    chain = SymmetricChain((np.eye(1 + p),), graded_noise(p))
    for q in range(2, last + 1):
        wide = widen(chain, OVERSAMPLING * k)
        form = _measure(on_span, wide, [(q, q, 0)])[q, q, 0]
        _, vectors = descending_eigh((form + form.T) / 2)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if q == last else OVERSAMPLING * k, wide.dim(q))
        chain = chain.extend(np.ascontiguousarray(vectors[:, :width].T @ wide.steps[-1]))
    splits = [(*split_order((degree - r) // 2), r) for r in range(0, degree + 1, 1 if odd else 2)]
    return GradedExpansion(degree, chain, _measure(on_span, chain, splits))


def _measure(
    rows: Rows, chain: SymmetricChain, splits: list[tuple[int, int, int]]
) -> dict[tuple[int, int, int], Floats]:
    """Average moments over rows, with weights r!/(a + r)! He_{a+r}(z) at grade a."""
    width = sum((n + 1) * chain.dim(n) for n in range(chain.order + 1))
    width += max(chain.dim(n) for n in range(chain.order)) * chain.p
    highest = max(a + b + r for a, b, r in splits)
    measure = partial(_sum_graded, chain, tuple(splits), highest)
    sums = rows.fold(measure, width=width, what=f"coefficients to degree {highest}")
    found = assemble_graded(chain, splits, sums)
    return {split: form / float(sums["total"]) for split, form in found.items()}


def _sum_graded(
    chain: SymmetricChain, splits: tuple[tuple[int, int, int], ...], highest: int, block: Block
) -> Sums:
    """Sum graded products over rows."""
    x, counts = block["x"], weights_of(block)
    values = hermite_values(block["y"], highest) * counts[None, :]

    def weights(grade: int, r: int) -> Array:
        return values[grade + r, :] * (math.factorial(r) / math.factorial(grade + r))

    xp = namespace_of(x)
    sums = graded_sums(chain.like(x), HEIGHT, splits, x, weights)
    return {**sums, "total": float(xp.sum(counts, dtype=xp.float64))}


def expand_labels_dense(coordinates: Floats, degree: int, *, odd: bool) -> DenseExpansion:
    r"""Average :math:`T_n = E[H_n(x, z)]` over rows (n, p + 1).

    Entries with fewer slots of z than of x are set to 0, as they are for every mixture of
    regressions; so are odd orders unless ``odd``.
    """
    width = coordinates.shape[1]
    tensors = []
    for n in range(degree + 1):
        tensor = np.asarray(np.mean(hermite_dense(coordinates, n), axis=0)).copy()
        for slots in product(range(width), repeat=n):
            if 2 * slots.count(width - 1) < n or (n % 2 and not odd):
                tensor[slots] = 0.0
        tensors.append(tensor)
    return DenseExpansion(degree, tuple(tensors))


def contract_dense(moments: Sequence[Floats], noise: float, degree: int) -> DenseExpansion:
    r"""Return T_n by the double sum over (a, b, c) of the proof of Theorem 4.22.

    With Errata 5 and 7. Not symmetrised: Hermite tensors are.

    Parameters
    ----------
    moments : sequence of arrays
        :math:`M_0, \ldots, M_{degree}` as tensors over R^p.
    noise : float
        The variance :math:`\sigma^2`.
    """
    p = len(moments[1])
    label = np.append(np.zeros(p), 1.0)
    tensors: list[Floats] = []
    for n in range(degree + 1):
        tensor = np.zeros((p + 1,) * n)
        for a, b in product(range(n // 2 + 1), repeat=2):
            c = n // 2 - a - b
            if n % 2 or c < 0:
                continue
            moment = moments[a + 2 * b]
            for _ in range(b):
                moment = np.trace(moment, axis1=-2, axis2=-1)
            padded = np.pad(moment, [(0, 1)] * a) if a else moment  # slots of (x, z), 0 along z
            ways = math.factorial(n // 2) // (
                math.factorial(a) * math.factorial(b) * math.factorial(c)
            )
            term = reduce(np.multiply.outer, [label] * (n - a), padded)
            tensor = tensor + ways * 2.0**a * (noise - 1.0) ** c * term
        odd_product = math.prod(range(n - 1, 0, -2))  # (n − 1)!!
        tensors.append(np.asarray(odd_product / math.sqrt(math.factorial(n)) * tensor))
    return DenseExpansion(degree, tuple(tensors))
