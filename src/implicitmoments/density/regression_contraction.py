r"""T_n through moments of the regressors, as in the proof of Theorem 4.22.

A component with regressor :math:`\beta` and noise of variance :math:`\sigma^2` is the Gaussian of
covariance I + A, :math:`A = \beta e_y^\top + e_y \beta^\top + (\|\beta\|^2 + \sigma^2 - 1)\, e_y
e_y^\top`, so that

.. math:: \langle T_n, H_n(x, z) \rangle = \frac{(n-1)!!}{\sqrt{n!}} \sum_{a+b+c=n/2}
   \binom{n/2}{a, b, c} 2^a (\sigma^2 - 1)^c
   \langle M_{a+2b} \otimes e_y^{\otimes n-a}, H_n(x, z) \otimes I^{\otimes b} \rangle.

Erratum 5: the factor is (n − 1)!!/√n! throughout. Erratum 7: :math:`\|\beta\|^{2b}` is
:math:`M_{a+2b}` contracted with b identities; one Gaussian in 2b slots would give (2b − 1)!! times
that. In compressed form the contraction is exact and takes no draws.

With j = b + c and :math:`\langle \beta^{\otimes a} \otimes e_y^{\otimes n-a}, He_n \rangle =
\langle \beta^{\otimes a}, He_a(x) \rangle He_{a+2j}(z)` the factors of a term add up to
:math:`\binom{j}{b} (\sigma^2 - 1)^{j-b} / (a!\, j!\, 2^j)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, dot_rows, move_like, namespace_of, to_numpy
from implicitmoments.density.hermite_expansion import DenseExpansion
from implicitmoments.density.regression_expansion import (
    LabelConstant,
    LabelExpansion,
    expand_labels,
    hermite_values,
)
from implicitmoments.moments import PaperMoments, implicit_moments
from implicitmoments.moments.chain import (
    SymmetricChain,
    drop,
    split_slot,
)
from implicitmoments.moments.closed_form import (
    BalancedMoments,
    contracted_forms,
    split_order,
)
from implicitmoments.moments.implicit import Run
from implicitmoments.problems import RegressionMixtureProblem
from implicitmoments.rows import Block, Rows, Sums, weights_of


def term_factor(a: int, b: int, c: int, excess: float) -> float:
    r"""Return what multiplies :math:`\langle M_{a+2b} I^b, He_a(x) \rangle He_{a+2(b+c)}(z)`.

    ``excess`` is :math:`\sigma^2 - 1`.
    """
    j = b + c
    return math.comb(j, b) * excess**c / (math.factorial(a) * math.factorial(j) * 2.0**j)


@dataclass(frozen=True, eq=False)
class ContractedExpansion(LabelExpansion):
    r"""Contracted moments, summed over b for each (a, j)."""

    degree: int
    chain: SymmetricChain
    scale: float  # the unit of length of the frame of the moments
    basis: Floats  # (q, p), from coordinates to those of the chain
    # for (a, j) the matrix of :math:`\sum_i w_i (\|\beta_i\|^2 + \sigma^2 - 1)^j \beta_i^{\otimes
    # a} / (a!\, j!\, 2^j)` on :math:`U_{a/2} \times U_{a/2}`
    forms: dict[tuple[int, int], Floats]

    def in_label(self, x: Array) -> Array:
        """Return coefficients (n, degree + 1) of He_l(z) at points (n, p)."""
        xp, chain = namespace_of(x), self.chain.like(x)
        found = self.zeros(x)
        basis = xp.matrix_transpose(move_like(self.basis, x))
        images = chain.images(x @ basis / self.scale)
        for (a, j), form in self.forms.items():
            left, right = split_order(a)
            moved = move_like(form, x)
            for n, matrix in enumerate(contracted_forms(chain, left, right, moved)):
                answer = dot_rows(images[left - n] @ matrix, images[right - n])
                found[:, a + 2 * j] += self.scale ** (2 * a) * answer
        return found


def contract_moments(moments: BalancedMoments, excess: float, degree: int) -> ContractedExpansion:
    """Contract moments of orders 0, …, degree exactly, and sum them to T_0, …, T_degree.

    The frame of the moments is centred at the origin; ``excess`` is the variance of the noise
    less 1.
    """
    moments = moments.like(np.zeros(1))  # in main memory, in double precision
    chain, scale = moments.chain, moments.frame.scale
    forms: dict[tuple[int, int], Floats] = {}
    for order in range(degree + 1):
        left, right = moments.by_order[order]
        form = to_numpy(moments.forms[left, right])
        for b in range(order // 2 + 1):
            a = order - 2 * b
            if b:
                # the noise of the frame is I / scale², and the form lacks scale² of its own
                steps = chain.steps[left], chain.steps[right]
                form = to_numpy(drop(form, *steps, chain.noise)) * scale**4
            for c in range(degree // 2 - a - b + 1):
                term = term_factor(a, b, c, excess) * form
                forms[a, b + c] = forms[a, b + c] + term if (a, b + c) in forms else term
            left, right = left - 1, right - 1
    return ContractedExpansion(degree, chain, scale, to_numpy(moments.frame.basis), forms)


def expand_contracted(
    rows: Rows, basis: Floats, k: int, degree: int, *, excess: float
) -> LabelExpansion:
    """Estimate moments of the regressors by the closed form, and contract them."""
    degree -= degree % 2
    if len(basis) == 0 or degree < 2:
        return LabelConstant(degree)
    on_span = RegressionMixtureProblem(rows.mapped(linear=basis.T), None, weights="orthogonal")
    moments = implicit_moments(on_span, n_components=k, order=degree, method="closed_form")
    return contract_moments(moments.folds[0].moments, excess, degree)


@dataclass(frozen=True, eq=False)
class PaperExpansion(LabelExpansion):
    """Contracted moments by the paper's algorithm, with auxiliary draws in every query."""

    degree: int
    # :math:`M_{a+2b}` contracted with b identities, a of at least 1
    terms: tuple[tuple[int, int, PaperMoments], ...]
    # for b the moment :math:`M_{2b}` contracted with b identities: a number
    norms: dict[int, float]
    excess: float
    n_draws: int | None
    seed: int

    def in_label(self, x: Array) -> Array:
        """Return coefficients (n, degree + 1) of He_l(z) at points (n, p)."""
        found = self.zeros(x)
        answers: list[tuple[int, int, Any]] = [(0, b, norm) for b, norm in self.norms.items()]
        for a, b, moment in self.terms:
            answer = moment.hermite(x, n_draws=self.n_draws, random_state=self.seed)
            answers.append((a, b, math.sqrt(math.factorial(a)) * answer))
        for a, b, answer in answers:
            for c in range(self.degree // 2 - a - b + 1):
                found[:, a + 2 * (b + c)] += term_factor(a, b, c, self.excess) * answer
        return found


def contract_run(run: Run, times: int) -> Run:
    """Contract the last pairs of slots of a moment with identities, exactly.

    The result lies on the first steps of the same projection.
    """
    projection, coordinates = run.projection, np.asarray(to_numpy(run.coordinates))
    order, d = projection.order, projection.n_features
    for _ in range(times):
        last, before = (
            split_slot(np.asarray(to_numpy(projection.steps[order - n].as_matrix())), d)
            for n in (1, 2)
        )
        # A[o] φ[o, u, j] θ[u, v, j]
        coordinates = np.einsum("o,ouj,uvj->v", coordinates, last, before)
        order -= 2
    return replace(run, projection=projection.first(order), coordinates=coordinates)


def expand_paper(
    rows: Rows,
    basis: Floats,
    k: int,
    degree: int,
    *,
    excess: float,
    n_draws: int | None,
    seed: int,
) -> LabelExpansion:
    """Run the paper's algorithm for every order, with its weights y^t / t!."""
    degree -= degree % 2
    if len(basis) == 0 or degree < 2:
        return LabelConstant(degree)
    on_span = RegressionMixtureProblem(rows.mapped(linear=basis.T), None, weights="monomial")
    # weights sum to 1, and the regressors have mean zero about the least-squares line
    norms, terms = {0: 1.0}, []
    for order in range(2, degree + 1):
        whole = implicit_moments(
            on_span, n_components=k, order=order, method="paper", random_state=seed
        )
        for b in range(order // 2 + 1):
            a = order - 2 * b
            if a + b > degree // 2:
                continue
            run = contract_run(whole.runs[0], b)
            if a == 0:
                norms[b] = float(run.coordinates[0])
            else:
                terms.append((a, b, replace(whole, order=a, runs=(run,))))
    return PaperExpansion(degree, tuple(terms), norms, excess, n_draws, seed)


class LabelHermiteProblem(RegressionMixtureProblem):
    r"""Moments of the regressors with weights :math:`w_i \eta_{ir}`.

    :math:`\eta_{ir} = E_i[He_r(z)]` is the mean over component i. The weight of a row at order t
    is :math:`r!/(t+r)!\, He_{t+r}(z)`.
    """

    def __init__(self, rows: Rows, r: int) -> None:
        super().__init__(rows, None, weights="monomial")
        self.r = r

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        """Return the weight of each row at an order."""
        value = hermite_values(block["y"], order + self.r)[order + self.r, :]
        return value * (math.factorial(self.r) / math.factorial(order + self.r))


@dataclass(frozen=True, eq=False)
class ShiftedExpansion(LabelExpansion):
    r"""Moments with weights :math:`w_i \eta_{ir}`, for each r: for lines with intercepts.

    Then :math:`\eta_{ir}` is not a function of :math:`\|\beta_i\|` and the noise, and there is no
    contraction: the coefficient of :math:`He_a(x) He_{a+r}(z)` is the moment over a! r!.
    """

    degree: int
    means: Floats  # (degree + 1,), of He_r(z)
    closed: dict[int, BalancedMoments]  # for r the moments of all orders, by the closed form
    terms: tuple[tuple[int, int, PaperMoments], ...]  # or (a, r, moment) by the paper's algorithm
    n_draws: int | None
    seed: int

    def in_label(self, x: Array) -> Array:
        """Return coefficients (n, degree + 1) of He_l(z) at points (n, p)."""
        found = self.zeros(x)
        for r, mean in enumerate(self.means):
            found[:, r] += float(mean) / math.factorial(r)
        for a, r, answer in self._answers(x):
            found[:, a + r] += answer / (math.sqrt(math.factorial(a)) * math.factorial(r))
        return found

    def _answers(self, x: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield ⟨M_a, H_a(x)⟩ for every a and r, but for M_1 of r = 0: it is 0 about the line."""
        for r, stored in self.closed.items():
            moments = stored.like(x)
            orders = range(2 if r == 0 else 1, (self.degree - r) // 2 + 1)
            found = moments.hermite(moments.frame.points(x), orders)
            yield from ((a, r, answer) for a, answer in found.items())
        for a, r, moment in self.terms:
            yield a, r, moment.hermite(x, n_draws=self.n_draws, random_state=self.seed)


def expand_shifted(
    rows: Rows, basis: Floats, k: int, degree: int, *, method: str, n_draws: int | None, seed: int
) -> LabelExpansion:
    r"""Estimate moments with weights :math:`w_i \eta_{ir}`, which have either sign."""
    if len(basis) == 0 or degree < 2:
        return LabelConstant(degree)
    on_span, closed, terms = rows.mapped(linear=basis.T), {}, []
    how: dict[str, Any] = {"n_components": k, "subspace": "singular", "random_state": seed}
    for r in range(degree - 1):
        problem, last = LabelHermiteProblem(on_span, r), (degree - r) // 2
        if method == "contracted":
            found = implicit_moments(problem, order=last, method="closed_form", **how)
            closed[r] = found.folds[0].moments.like(np.zeros(1))
            continue
        for a in range(2 if r == 0 else 1, last + 1):
            terms.append((a, r, implicit_moments(problem, order=a, method="paper", **how)))
    sums = on_span.fold(partial(_sum_hermite, degree), width=degree, what="moments of labels")
    means = to_numpy(sums["values"]) / float(sums["total"])
    return ShiftedExpansion(degree, means, closed, tuple(terms), n_draws, seed)


def expand_lines(
    rows: Rows,
    basis: Floats,
    k: int,
    degree: int,
    *,
    method: str,
    intercepts: bool,
    excess: float,
    **draws: Any,
) -> LabelExpansion:
    """Estimate the expansion of F/G from rows (x', z), by one of the methods of the estimator.

    ``excess`` is the variance of the noise less 1; ``draws`` are ``n_draws`` and ``seed``.
    """
    if method == "closed_form":
        return expand_labels(rows, basis, k, degree, odd=intercepts)
    if intercepts:
        return expand_shifted(rows, basis, k, degree, method=method, **draws)
    if method == "contracted":
        return expand_contracted(rows, basis, k, degree, excess=excess)
    return expand_paper(rows, basis, k, degree, excess=excess, **draws)


def _sum_hermite(degree: int, block: Block) -> Sums:
    counts = weights_of(block)
    xp, values = namespace_of(counts), hermite_values(block["y"], degree)
    return {
        "values": xp.sum(values * counts[None, :], axis=1, dtype=xp.float64),
        "total": xp.sum(counts, dtype=xp.float64),
    }


def contract_dense(moments: Sequence[Floats], noise: float, degree: int) -> DenseExpansion:
    r"""Return T_n by the double sum over (a, b, c) of the proof of Theorem 4.22.

    With Errata 5 and 7. Not symmetrised: Hermite tensors are. ``moments`` are :math:`M_0, \ldots,
    M_{degree}` as tensors over R^p, ``noise`` is the variance :math:`\sigma^2`.
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
