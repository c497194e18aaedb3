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

An entry of grade a is estimated with its own weight, :math:`r!/(a+r)!\, He_{a+r}(z)`. With one
weight for all grades the sum over grades is the closed form on the point (h, x).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    descending_eigh,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.density.hermite_expansion import (
    DenseExpansion,
    evaluate_blocks,
    expand_dense,
    graded_answers,
    graded_images,
    graded_width,
    kind_of,
)
from implicitmoments.moments.chain import SymmetricChain, assemble_form, open_window
from implicitmoments.moments.closed_form import OVERSAMPLING, split_order
from implicitmoments.rows import Block, Rows, Sums, weights_of

# Symmetric tensors are all kept, below the last order, if they have no more dimensions: moments
# are symmetric, and on other subspaces the error of each order adds to the next.
WHOLE = 70
HEIGHT = 1.0  # of the constant: coefficients of all orders are then about equally noisy
# (a, b, r): the moment with weights :math:`\eta_{ir}`, of order a + b, as a matrix on U_a × U_b
Splits: TypeAlias = Sequence[tuple[int, int, int]]


class LabelExpansion(ABC):
    """A polynomial in (x, z) that estimates F/G."""

    degree: int  # highest order that is kept

    @abstractmethod
    def in_label(self, x: Array) -> Array:
        """Return its coefficients (n, degree + 1) of He_0(z), He_1(z), … at points (n, p)."""

    def __call__(self, coordinates: Array) -> Array:
        """Evaluate at rows of coordinates (n, p + 1), z last."""
        xp = namespace_of(coordinates)
        coefficients = self.in_label(coordinates[:, :-1])
        values = hermite_values(coordinates[:, -1], self.degree)
        return xp.sum(coefficients * xp.matrix_transpose(values), axis=1)

    def zeros(self, x: Array) -> Array:
        """Return coefficients of 0 at points (n, p)."""
        return namespace_of(x).zeros((x.shape[0], self.degree + 1), **kind_of(x))


def hermite_values(z: Array, degree: int) -> Array:
    """Return He_0(z), …, He_degree(z) as rows (degree + 1, n)."""
    xp = namespace_of(z)
    values = [xp.ones_like(z), z][: degree + 1]
    for n in range(2, degree + 1):
        values.append(z * values[n - 1] - (n - 1) * values[n - 2])
    return xp.stack(values)


@dataclass(frozen=True)
class LabelConstant(LabelExpansion):
    """The expansion of one component: F is G."""

    degree: int

    def in_label(self, x: Array) -> Array:
        """Return 1 for He_0 and 0 for the others."""
        found = self.zeros(x)
        found[:, 0] = 1.0
        return found


@dataclass(frozen=True, eq=False)
class GradedExpansion(LabelExpansion):
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
        return evaluate_blocks(partial(self._evaluate, chain), x, graded_width(chain))

    def _evaluate(self, chain: SymmetricChain, x: Array) -> Array:
        images, found = graded_images(chain, x, 1.0 / self.height), self.zeros(x)
        for (a, b, r), form in self.forms.items():
            answers = graded_answers(chain, images, a, b, move_like(form, x))
            for grade in range(a + b + 1):
                found[:, grade + r] += answers[grade, :] / math.factorial(r)
        return found


def expand_labels(rows: Rows, basis: Floats, k: int, degree: int, *, odd: bool) -> LabelExpansion:
    """Estimate the expansion of F/G from rows (x', z), directly.

    ``basis`` (p, d) spans the regressors. Odd orders are 0 if all components have the same
    intercept, and are left out unless ``odd``.
    """
    p = len(basis)
    if p == 0 or degree < 2:
        return LabelConstant(degree)
    on_span = rows.mapped(linear=basis.T)
    last = split_order(degree // 2)[1]
    chain = SymmetricChain((np.eye(1 + p),), np.diag(np.append(0.0, np.ones(p))))
    for q in range(2, last + 1):
        room = math.comb(p + q, q)  # dimension of symmetric tensors of order q over (h, x)
        many = room if room <= WHOLE else OVERSAMPLING * k
        window = open_window(chain, many)
        wide = chain.extend(np.ascontiguousarray(window.step(np.eye(window.dim))))
        form = average_graded(on_span, wide, [(q, q, 0)])[q, q, 0]
        _, vectors = descending_eigh((form + form.T) / 2)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if q == last else many, window.dim)
        chain = chain.extend(np.ascontiguousarray(vectors[:, :width].T @ wide.steps[-1]))
    splits = [(*split_order((degree - r) // 2), r) for r in range(0, degree + 1, 1 if odd else 2)]
    return GradedExpansion(degree, chain, average_graded(on_span, chain, splits))


def average_graded(
    rows: Rows, chain: SymmetricChain, splits: Splits
) -> dict[tuple[int, int, int], Floats]:
    """Average moments over rows (x, z) on the subspaces of a chain, with weights by grade."""
    highest = max(a + b + r for a, b, r in splits)
    measure = partial(_sum_graded, chain, tuple(splits), highest)
    what = f"coefficients to degree {highest}"
    sums = rows.fold(measure, width=graded_width(chain), what=what)
    found = {}
    for a, b, r in splits:
        means = [to_numpy(sums[f"{a},{b},{r},{n}"]) for n in range(a + 1)]
        found[a, b, r] = to_numpy(assemble_form(chain, means, a, b)) / float(sums["total"])
    return found


def _sum_graded(chain: SymmetricChain, splits: Splits, highest: int, block: Block) -> Sums:
    """Sum over rows the products from which moments on U_a × U_b are assembled, a ≤ b."""
    x, counts = block["x"], weights_of(block)
    xp = namespace_of(x)
    values = hermite_values(block["y"], highest) * counts[None, :]
    images = graded_images(chain.like(x), x, HEIGHT)
    sums: Sums = {"total": xp.sum(counts, dtype=xp.float64)}
    for a, b, r in splits:
        weights = [
            values[grade + r, :] * (math.factorial(r) / math.factorial(grade + r))
            for grade in range(a + b + 1)
        ]
        for n in range(a + 1):
            sums[f"{a},{b},{r},{n}"] = _graded_gram(images[a - n], images[b - n], weights[2 * n :])
    return sums


def _graded_gram(left: Array, right: Array, weights: list[Array]) -> Array:
    """Sum outer products of images, each with the weight of its total grade."""
    xp = namespace_of(left)
    total = xp.zeros((left.shape[2], right.shape[2]), **kind_of(left))
    for i in range(int(left.shape[0])):
        weighted = xp.zeros_like(right[0, :, :])
        for j in range(int(right.shape[0])):
            weighted += weights[i + j][:, None] * right[j, :, :]
        total += xp.matrix_transpose(left[i, :, :]) @ weighted
    return xp.astype(total, xp.float64, copy=False)


def expand_labels_dense(coordinates: Floats, degree: int, *, odd: bool) -> DenseExpansion:
    r"""Average :math:`T_n = E[H_n(x, z)]` over rows (n, p + 1): the dense twin.

    Entries with fewer slots of z than of x are set to 0, as they are for every mixture of
    regressions; so are odd orders unless ``odd``.
    """
    dense, width = expand_dense(coordinates, degree), coordinates.shape[1]
    for n, tensor in enumerate(dense.tensors):
        for slots in product(range(width), repeat=n):
            if 2 * slots.count(width - 1) < n or (n % 2 and not odd):
                tensor[slots] = 0.0
    return dense
