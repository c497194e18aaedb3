r"""F/G of a mixture of regressions as a truncated Hermite expansion in compressed form.

Let (x, z) come from k regressions on a standard Gaussian x, and let G be the standard Gaussian
on (x, z). Since :math:`E[He_a(x) f(z)] = \sum_i w_i \beta_i^{\otimes a} E_i[f^{(a)}(z)]`, with
:math:`E_i` the mean over component i, the Hermite coefficients of F/G are

.. math:: E[He_a(x)\, He_{a+r}(z)]
   = \frac{(a+r)!}{r!} \sum_i w_i \eta_{ir} \beta_i^{\otimes a}, \qquad \eta_{ir} = E_i[He_r(z)],

and 0 where z has fewer slots than x. They are the tensors T_n of the proof of Theorem 4.22, n =
2a + r, seen by the number of slots of either kind; there
:math:`\eta_{ir}` is written out by the norm of :math:`\beta_i` and the variance of the noise, and
estimated through moments of higher order (``regression_contraction``). Averaged over rows as they
stand here they have less noise, and hold for components with an intercept or a noise of their
own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from implicitmoments.backends import Floats, descending_eigh
from implicitmoments.fitting.density.graded_chain import (
    graded_answers,
    graded_images,
    graded_moments,
    graded_noise,
    widen,
)
from implicitmoments.fitting.rows import LabelledRows
from implicitmoments.moments.balanced import split_order
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.closed_form import OVERSAMPLING
from implicitmoments.samples import blocks

__all__ = [
    "GradedExpansion",
    "LabelConstant",
    "LabelExpansion",
    "expand_labels",
    "expansion_at",
    "hermite_values",
]

EVALUATED = 2**21  # numbers made of the points that are evaluated at a time
HEIGHT = 1.0  # of the constant: coefficients of all orders are then about equally noisy


class LabelExpansion(Protocol):
    """A polynomial in (x, z) that estimates F/G."""

    @property
    def degree(self) -> int:
        """Highest order that is kept."""

    def in_label(self, x: Floats) -> Floats:
        """Return its coefficients (n, degree + 1) of He_0(z), He_1(z), … at points (n, p)."""

    def __call__(self, coordinates: Floats) -> Floats:
        """Evaluate at rows of coordinates (n, p + 1), z last."""


def hermite_values(z: Floats, degree: int) -> Floats:
    """Return He_0(z), …, He_degree(z) as rows (degree + 1, n)."""
    values = np.empty((degree + 1, len(z)))
    values[0] = 1.0
    if degree:
        values[1] = z
    for n in range(2, degree + 1):
        values[n] = z * values[n - 1] - (n - 1) * values[n - 2]
    return values


def expansion_at(expansion: LabelExpansion, coordinates: Floats) -> Floats:
    """Evaluate an expansion from its coefficients in the label."""
    coefficients = expansion.in_label(coordinates[:, :-1])
    values = hermite_values(coordinates[:, -1], expansion.degree)
    found: Floats = np.einsum("nl,ln->n", coefficients, values)
    return found


@dataclass(frozen=True)
class LabelConstant:
    """The expansion of one component: F is G."""

    degree: int

    def in_label(self, x: Floats) -> Floats:
        """Return 1 for He_0 and 0 for the others."""
        return np.eye(1, self.degree + 1).repeat(len(x), axis=0)

    def __call__(self, coordinates: Floats) -> Floats:
        """Return ones."""
        return np.ones(len(coordinates))


@dataclass(frozen=True, eq=False)
class GradedExpansion:
    r"""Compressed coefficients, those of one r together.

    With a constant h before every regressor, :math:`\tilde M_r = \sum_i w_i \eta_{ir}
    (h, \beta_i)^{\otimes m}`, m = (n − r)/2 rounded down, holds the coefficients of all a ≤ m. It
    is a matrix on :math:`U_{m/2} \times U_{m/2}`, and the subspaces are those of powers of
    :math:`(h, \beta_i)` for every r: what is known well, the low orders, helps to find them.

    Attributes
    ----------
    degree : int
    chain : SymmetricChain
        Over :math:`(h, x)`.
    forms : dict of (int, int, int) to array
        For (a, b, r) the matrix of :math:`\tilde M_r` on U_a × U_b.
    height : float
    """

    degree: int
    chain: SymmetricChain
    forms: dict[tuple[int, int, int], Floats]
    height: float = HEIGHT

    @property
    def n_coefficients(self) -> int:
        """Numbers that were estimated."""
        return sum(form.size for form in self.forms.values())

    def in_label(self, x: Floats) -> Floats:
        """Return coefficients (n, degree + 1) of He_l(z) at points (n, p)."""
        found = np.zeros((len(x), self.degree + 1))
        chain = self.chain
        width = sum((n + 1) * chain.dim(n) * chain.p for n in range(chain.order + 1))
        for rows in blocks(range(len(x)), max(64, EVALUATED // width)):
            part = slice(rows.start, rows.stop)
            images = graded_images(chain, x[part], 1.0 / self.height)
            for (a, b, r), form in self.forms.items():
                answers = graded_answers(chain, images, a, b, form)
                for grade, answer in enumerate(answers):
                    # ⟨β^a, He_a(x)⟩ / (a! r!), and the query has a binomial coefficient
                    ways = math.comb(a + b, grade) * math.factorial(grade) * math.factorial(r)
                    found[part, grade + r] += answer / ways
        return found

    def __call__(self, coordinates: Floats) -> Floats:
        """Evaluate at rows of coordinates (n, p + 1), z last."""
        return expansion_at(self, coordinates)


def expand_labels(
    rows: LabelledRows, basis: Floats, k: int, degree: int, *, odd: bool
) -> LabelExpansion:
    """Estimate the expansion of F/G up to a degree, directly.

    Parameters
    ----------
    rows : LabelledRows
        Rows (x', z).
    basis : array of shape (p, d)
        Spans the regressors.
    k, degree : int
    odd : bool
        Keep odd orders, which are 0 where no component has an intercept of its own.
    """
    p = len(basis)
    if p == 0 or degree < 2:
        return LabelConstant(degree)
    last = split_order(degree // 2)[1]
    chain = SymmetricChain((np.eye(1 + p),), graded_noise(p))
    for q in range(2, last + 1):
        wide = widen(chain, OVERSAMPLING * k)
        form = _measure(rows, basis, wide, [(q, q, 0)])[q, q, 0]
        _, vectors = descending_eigh((form + form.T) / 2)
        # below the last order more than k directions are kept: what is lost cannot be regained
        width = min(k if q == last else OVERSAMPLING * k, wide.dim(q))
        chain = chain.extend(np.ascontiguousarray(vectors[:, :width].T @ wide.steps[-1]))
    splits = [(*split_order((degree - r) // 2), r) for r in range(0, degree + 1, 1 if odd else 2)]
    return GradedExpansion(degree, chain, _measure(rows, basis, chain, splits))


def _measure(
    rows: LabelledRows, basis: Floats, chain: SymmetricChain, splits: list[tuple[int, int, int]]
) -> dict[tuple[int, int, int], Floats]:
    """Average moments over rows, with weights r!/(a + r)! He_{a+r}(z) at grade a."""
    highest = max(a + b + r for a, b, r in splits)
    width = sum((n + 1) * chain.dim(n) for n in range(chain.order + 1))
    width += max(chain.dim(n) for n in range(chain.order)) * chain.p

    def weighted() -> Iterator[tuple[Floats, Callable[[int, int], Floats]]]:
        for block in rows.blocks(width):
            values = hermite_values(block.y, highest) * block.counts

            def weights(grade: int, r: int, values: Floats = values) -> Floats:
                factor = math.factorial(r) / math.factorial(grade + r)
                return np.asarray(values[grade + r] * factor)

            yield block.x @ basis.T, weights

    sums = graded_moments(chain, HEIGHT, splits, weighted())
    return {split: form / rows.mass for split, form in sums.items()}
