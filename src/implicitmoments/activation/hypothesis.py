"""The polynomial of Theorem 4.7: subspaces from moments, coefficients from least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.activation.least_squares import (
    Choice,
    Range,
    choose,
    range_of,
    seen_labels,
    solve_ridge,
    sum_folds,
)
from implicitmoments.activation.polynomial import Features, Polynomial
from implicitmoments.activation.precision import wide
from implicitmoments.activation.subspace import MOST_TURNS, sharpen
from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.moments import implicit_moments
from implicitmoments.moments.accumulate import Averager
from implicitmoments.moments.balanced import BalancedMoments
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.closed_form import ClosedForm, Fold, estimate_closed_form
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.passes import View, whole_view
from implicitmoments.problems import Activation, ActivationSumProblem
from implicitmoments.problems.labelled_rows import LabelledRows, Rows
from implicitmoments.rows import Sums

__all__ = [
    "FittedPolynomial",
    "count_components",
    "fit_paper_polynomial",
    "fit_polynomial",
    "thin",
]

MOST_FEATURES = 300
ROWS_PER_FEATURE = 20
ROUNDS = 3  # of sharpening; the span hardly turns any more after two
SMALL_TURN = 0.02
EXPLAINED = 0.95  # of the energy of the activation, by the degree that sharpens the span
LOWEST_SHARPENING = 4
SHARPENING_RIDGE = 1e-3
FEWEST_ROWS, ROWS_PER_TURN = 10_000, 20  # from which a start is made


@dataclass(frozen=True, eq=False)
class FittedPolynomial:
    """The hypothesis and what was measured on the way.

    Attributes
    ----------
    polynomial : Polynomial
    labels : Range
        Of the labels that were seen.
    error : float
        Mean squared error on rows held out; NaN for the paper's method, which holds none out.
    basis : array of shape (p, d)
        Span of the directions, orthonormal rows.
    choice : Choice or None
    fold : Fold or None
        The moments in the last span.
    turns : tuple of float
        Sine of the angle by which each round of sharpening turned the span.
    """

    polynomial: Polynomial
    labels: Range
    error: float
    basis: Floats
    choice: Choice | None = None
    fold: Fold | None = None
    turns: tuple[float, ...] = ()

    def expected_error(self, n: float) -> float:
        """Estimate the mean squared error on new rows.

        Rows held out did not see the coefficients, but did see the span: it has p (d − p)
        unknowns, and each takes twice its share of the noise.
        """
        p, d = (int(size) for size in self.basis.shape)
        return self.error * (1 + 2 * p * (d - p) / n)

    def __call__(self, x: Array) -> Array:
        """Evaluate within the range of the labels."""
        return self.labels.clip(self.polynomial(x))


def fit_polynomial(
    rows: LabelledRows, k: int, degrees: Sequence[int], *, rounds: int = ROUNDS
) -> FittedPolynomial:
    """Fit the hypothesis by the closed form.

    Parameters
    ----------
    rows : LabelledRows
        Of an :class:`ActivationSumProblem`.
    k : int
        Number of components.
    degrees : sequence of int
        Candidates, judged on rows held out.
    rounds : int
        Rounds of sharpening the span, at most.
    """
    problem = _problem(rows)
    view = whole_view(problem, rows_per_block=rows.block_rows)
    highest, d = max(degrees), problem.n_features
    low = min(highest, _sharpening_degree(problem.activation))
    turns: list[float] = []
    if min(k, d) * (d - min(k, d)) in range(1, MOST_TURNS + 1):
        for _ in range(rounds):
            basis, turn = sharpen(rows, _rough_fit(view, rows, k, low))
            view = view.seen(_frame_of(basis, view.frame))
            turns.append(turn)
            if turn < SMALL_TURN:
                break
    return replace(_fit_in(view, rows, k, degrees), turns=tuple(turns))


def thin(rows: LabelledRows, k: int) -> LabelledRows:
    """Return as many of the rows as tell the span well enough for a start, held in memory."""
    problem = _problem(rows)
    d = problem.n_features
    p = min(k, d)
    some = rows.about(max(FEWEST_ROWS, ROWS_PER_TURN * p * (d - p)))
    if some is rows:
        return rows
    fewer = ActivationSumProblem(some.problem.rows, None, problem.activation)
    return LabelledRows(fewer, rows.block_rows)


def _rough_fit(view: View, rows: LabelledRows, k: int, degree: int) -> Polynomial:
    """Fit at one degree and ridge: good enough to tell where the span should turn."""
    problem = _problem(rows)
    how = ClosedForm(k, degree)
    moments = estimate_closed_form(how, lambda _: view, view).moments
    features = Features(moments.frame, moments.chain, tuple(how.splits(problem)), k)
    sums = sum_folds(rows, features, 1)
    return features.polynomial(solve_ridge(sums, SHARPENING_RIDGE))


def _fit_in(view: View, rows: LabelledRows, k: int, degrees: Sequence[int]) -> FittedPolynomial:
    """Find the subspaces within the span of a view, and the coefficients on them."""
    problem = _problem(rows)
    how = ClosedForm(k, max(degrees), wide=True)
    fold = estimate_closed_form(how, lambda _: view, view)
    moments = fold.moments
    splits = tuple(how.splits(problem))
    # Lemma 4.12: T_n = c_n M_n, the plain moments' answer
    plain = {s: problem.activation.coefficient(sum(s)) * f for s, f in moments.forms.items()}
    features, widths = _affordable(moments, splits, k, rows.mass)
    sums = sum_folds(rows, features)
    choice = choose(rows, sums, features, degrees, widths, features.coefficients(plain))
    polynomial = features.polynomial(choice.coefficients)
    basis = np.asarray(to_numpy(moments.frame.basis), dtype=np.float64)
    return FittedPolynomial(polynomial, sums.labels, choice.error, basis, choice, fold)


def fit_paper_polynomial(rows: LabelledRows, k: int, degree: int, seed: int) -> FittedPolynomial:
    r"""Fit the hypothesis by the paper's own method, fresh rows for every step.

    One run finds the projections up to the degree; the coefficient of each lower order is then
    averaged through the first of them, on rows that chose none. Evaluation is free of auxiliary
    noise: against a tensor that is symmetric, as :math:`M_n` is, :math:`H_n` may be replaced by
    the recursion of :class:`~implicitmoments.moments.chain.SymmetricChain`.
    """
    problem = _problem(rows)
    found = implicit_moments(
        problem,
        n_components=k,
        order=degree,
        method="paper",
        random_state=seed,
        rows_per_block=rows.block_rows,
    )
    n = int(found.stats["rows_per_step"])
    fresh = range(degree * n, (degree + 1) * n)
    average = Averager(problem, seed, rows.block_rows)
    projection = found.runs[0].projection
    d = problem.n_features
    chain = SymmetricChain(tuple(to_numpy(step.theta) for step in projection.steps), np.eye(d))
    labels = rows.fold(_sum_labels, 1, "labels")
    forms = {}
    for order in filter(problem.has_order, range(degree + 1)):
        coefficient = problem.activation.coefficient(order)
        if order == 0:
            vector = float(labels["total"] / labels["mass"]) / coefficient * np.ones(1)
        else:
            vector = to_numpy(average.vector(order, projection.first(order), fresh))
        forms[0, order] = coefficient * vector[None, :]
    polynomial = Polynomial(BalancedMoments(Frame(np.eye(d), np.zeros(d)), chain, forms))
    return FittedPolynomial(polynomial, range_of(labels), math.nan, chain.steps[0])


def count_components(rows: LabelledRows, at_most: int) -> int:
    """Count the directions that stand clear of the noise at order 2 or, if more, at order 4."""
    problem = _problem(rows)
    view = whole_view(problem, rows_per_block=rows.block_rows)
    highest = 4 if problem.has_order(4) else 2
    fold = estimate_closed_form(ClosedForm(at_most, highest), lambda _: view, view)
    return max(1, *(step.rank for step in fold.steps))


def _affordable(
    moments: BalancedMoments, splits: tuple[tuple[int, int], ...], k: int, n_rows: float
) -> tuple[Features, list[int]]:
    """Return the widest features that the rows can bear, and the widths to try."""
    most = max(n_rows / ROWS_PER_FEATURE, 1)
    widths = sorted({k, math.ceil(1.5 * k), 2 * k})
    while len(widths) > 1:
        features = Features(moments.frame, moments.chain, splits, widths[-1])
        if len(features) <= min(most, MOST_FEATURES):
            return features, widths
        widths.pop()
    return Features(moments.frame, moments.chain, splits, widths[0]), widths


def _sharpening_degree(activation: Activation) -> int:
    """Return the degree that holds most of the variance of an activation."""
    energy = activation.tail(0)
    degree = LOWEST_SHARPENING
    while degree < 2 * LOWEST_SHARPENING and activation.tail(degree) > (1 - EXPLAINED) * energy:
        degree += 2
    return degree


def _problem(rows: LabelledRows) -> ActivationSumProblem:
    if not isinstance(rows.problem, ActivationSumProblem):
        raise TypeError(f"expected rows of an ActivationSumProblem, got {rows.problem!r}")
    return rows.problem


def _frame_of(basis: Floats, like: Frame) -> Frame:
    return Frame(move_like(basis, like.basis), namespace_of(like.center).zeros_like(like.center))


def _sum_labels(rows: Rows) -> Sums:
    counts = wide(rows.counts)
    return {
        "total": wide(rows.y) @ counts,
        "mass": namespace_of(counts).sum(counts),
        **seen_labels(rows),
    }
