"""The polynomial of Theorem 4.7: subspaces from moments, coefficients by least squares."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.activation.least_squares import ROWS_PER_UNKNOWN
from implicitmoments.activation.polynomial import (
    Choice,
    Features,
    Polynomial,
    Range,
    choose_coefficients,
    solve_ridge,
    sum_folds,
    sum_labels,
)
from implicitmoments.activation.residual_moments import (
    SMALL_TURN,
    find_direction_span,
    sine_between,
)
from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    move_like,
    namespace_of,
    outer_rows,
    to_numpy,
)
from implicitmoments.moments import implicit_moments
from implicitmoments.moments.chain import Frame, SymmetricChain
from implicitmoments.moments.closed_form import (
    BalancedMoments,
    ClosedForm,
    Fold,
    estimate_closed_form,
)
from implicitmoments.moments.components import spectrum_stats
from implicitmoments.moments.hermite_problem import FramedRows, all_rows
from implicitmoments.moments.implicit import StepReport
from implicitmoments.moments.problem import CircuitMeans
from implicitmoments.notes import AssumptionWarning, Note
from implicitmoments.problems import ActivationSumProblem
from implicitmoments.rows import Block, Rows, Sums, Whitening, weights_of

MOST_FEATURES = 300  # of the least squares; 114 candidates and 5 folds solve in about a second
TURNING_ROUNDS = 3  # the span hardly turns after two
MOST_TURNS = 3_000  # p (d − p) unknowns: the square matrix then takes 72 MB
DAMPING = 1e-6  # relative to the mean eigenvalue: keeps a singular matrix solvable
EXPLAINED, LOWEST_DEGREE = 0.95, 4  # energy of the activation, and degree, used to turn the span
TURNING_RIDGE = 1e-3  # one of RIDGES: a rough fit is enough to turn the span
SPAN_ROWS = 10_000  # fewest of a sample from which the span is found


@dataclass(frozen=True, eq=False)
class FittedPolynomial:
    """The polynomial hypothesis and its measurements."""

    polynomial: Polynomial
    labels: Range  # of the labels of the fit
    # held-out mean squared error; NaN for the paper's method, which holds no rows out
    error: float
    basis: Floats  # (p, d), span of the directions, orthonormal rows
    choice: Choice | None = None
    fold: Fold | None = None  # the moments in the last span
    turns: tuple[float, ...] = ()  # sine of the angle by which each round turned the span
    # a moment of even order with a negative eigenvalue that rivals those of its subspace
    rival: StepReport | None = None

    @property
    def notes(self) -> list[Note]:
        """What the moments of standardised inputs say against positive weights."""
        if self.rival is None:
            return []
        values = {
            "order": self.rival.order,
            "below": -self.rival.rival,
            "top": float(max(self.rival.spectrum)),
        }
        return [Note("negative_weights_likely", values)]

    def expected_error(self, n: float) -> float:
        """Estimate the mean squared error on new rows.

        Held-out rows did not determine the coefficients, but did determine the span: it has
        p (d − p) unknowns, and each contributes twice its share of the noise.
        """
        p, d = (int(size) for size in self.basis.shape)
        return self.error * (1 + 2 * p * (d - p) / n)

    def measurements(self, n: float) -> dict[str, Any]:
        """Return statistics of the fit to n rows."""
        stats: dict[str, Any] = {
            "held_out_error": float(self.error),
            "polynomial_error": float(self.expected_error(n)),
            "turns": self.turns,
        }
        if self.choice is not None:
            names = {"error_by_degree": "by_degree", "plain_error": "plain_error"}
            names |= {"width": "width", "ridge": "ridge"}
            stats |= {name: getattr(self.choice, field) for name, field in names.items()}
        steps = () if self.fold is None else self.fold.steps
        reports = [(step.spectrum, step.floor, step.rank, step.order) for step in steps]
        return stats | spectrum_stats(*reports) if reports else stats

    def __call__(self, x: Array) -> Array:
        """Evaluate within the range of the labels."""
        return self.labels.clip(self.polynomial(x))


def count_components(problem: ActivationSumProblem, at_most: int, *, positive: bool = True) -> int:
    """Count the directions above the noise floor at order 2 or, if more, at orders 3 and 4."""
    view = all_rows(problem)
    if not problem.has_order(2):
        view = _in_span(view, find_direction_span(problem, at_most))
    highest = max((t for t in (2, 3, 4) if problem.has_order(t)), default=2)
    how = ClosedForm(at_most, highest, subspace=_subspace(problem, positive=positive))
    fold = estimate_closed_form(how, [view])
    return max(1, *(step.rank for step in fold.steps))


def _subspace(problem: ActivationSumProblem, *, positive: bool) -> str:
    """Return the subspace to keep: even moments of positive sums have no negative eigenvalue."""
    return "positive" if positive and not problem.biased else "singular"


def sample_problem(problem: ActivationSumProblem, k: int, seed: int) -> ActivationSumProblem:
    """Return the problem on enough rows to find the span; all unless they are twice as many."""
    rows, d = problem.rows, problem.n_features
    wanted = max(SPAN_ROWS, ROWS_PER_UNKNOWN * min(k, d) * (d - min(k, d)))
    if rows.n < 2 * wanted:
        return problem
    return problem.of(rows.sample(wanted, seed))


def fit_polynomial(
    problem: ActivationSumProblem,
    k: int,
    degrees: Sequence[int],
    *,
    positive: bool = True,
    rounds: int = TURNING_ROUNDS,
    seed: int = 0,
) -> FittedPolynomial:
    """Fit the hypothesis of k components by the closed form.

    The span is turned first, in at most ``rounds`` rounds on a sample and one on all rows. Degrees
    are compared by held-out error.
    If order 2 need not determine the span, since weights may cancel or depend on the order, it is
    found from orders 1, 2 and 3 first.
    """
    d, subspace = problem.n_features, _subspace(problem, positive=positive)
    turned = 0 < min(k, d) * (d - min(k, d)) <= MOST_TURNS and rounds > 0
    some = sample_problem(problem, k, seed) if turned else problem
    view = all_rows(some)
    if subspace == "singular" or not problem.has_order(2):
        view = _in_span(view, find_direction_span(some, k))
    # with signs, a strong direction of one order may be at the noise floor of another
    how = ClosedForm(
        k, max(degrees), wide=True, subspace=subspace, drop_noise=subspace == "positive"
    )
    turns: list[float] = []
    steps: tuple[StepReport, ...] = ()
    if turned:
        tail, low = problem.activation.tail, LOWEST_DEGREE
        while low < 2 * LOWEST_DEGREE and tail(low) > (1 - EXPLAINED) * tail(0):
            low += 2
        rough = replace(how, m=min(how.m, low), wide=False)
        # the last turn is that of all rows
        for rows in [some.rows] * rounds + [problem.rows] * (some is not problem):
            if rows is some.rows and turns and turns[-1] < SMALL_TURN:
                continue
            fold = estimate_closed_form(rough, [view])
            steps = steps or fold.steps
            basis, turn = turn_span(rows, _fit_roughly(view, rough, fold))
            view = _in_span(view, basis)
            turns.append(turn)
        view = _in_span(all_rows(problem), to_numpy(view.frame.basis))
    fitted = _fit_in_span(view, problem, how, degrees)
    # as estimated first: a span that was fitted to the labels is no sample
    steps = steps or (() if fitted.fold is None else fitted.fold.steps)
    return replace(fitted, turns=tuple(turns), rival=_find_rival(steps))


def _find_rival(steps: Sequence[StepReport]) -> StepReport | None:
    """Return the first step with a negative eigenvalue that rivals those of its subspace."""
    return next((step for step in steps if step.rival), None)


def _in_span(view: FramedRows, basis: Floats) -> FramedRows:
    """Return the rows in a basis (p, d)."""
    center = namespace_of(view.frame.center).zeros_like(view.frame.center)
    return view.in_frame(Frame(move_like(basis, view.frame.basis), center))


def _fit_roughly(view: FramedRows, how: ClosedForm, fold: Fold) -> Polynomial:
    """Fit at one degree and ridge, to see where the span should turn."""
    moments = fold.moments
    splits = tuple(how.splits(view.problem))
    features = Features(moments.frame, moments.chain, splits, how.k)
    sums = sum_folds(view.problem.rows, features, 1)
    return features.polynomial(solve_ridge(*sums.without(None), TURNING_RIDGE))


def turn_span(rows: Rows, polynomial: Polynomial) -> tuple[Floats, float]:
    r"""Turn the span of a hypothesis by one Gauss-Newton step.

    For a hypothesis H on :math:`B x` the residual of a nearby basis :math:`B + D`, with D
    orthogonal to B, is to first order :math:`y - H(Bx) - \nabla H(Bx) \cdot D x`: a least-squares
    problem in the p (d − p) entries of D. :math:`M_2` alone determines the span through labels of
    order two; this uses all orders together, with their noise removed.

    Returns
    -------
    basis : array of shape (p, d)
        Orthonormal rows.
    turn : float
        Sine of the largest angle by which the span turned.
    """
    basis = np.asarray(to_numpy(polynomial.tensors.frame.basis), dtype=np.float64)
    p, d = basis.shape
    off = np.linalg.svd(basis)[2][p:]  # (d − p, d)
    unknowns = p * (d - p)
    sums = rows.fold(partial(_sum_turns, polynomial, off), width=unknowns, what="turning the span")
    total = float(sums["total"])
    gram, right = to_numpy(sums["gram"]) / total, to_numpy(sums["right"]) / total
    gram[np.diag_indices_from(gram)] += DAMPING * max(float(np.trace(gram)) / unknowns, 1e-300)
    step = np.linalg.solve(gram, right).reshape(p, d - p)
    turned = np.linalg.qr((basis + step @ off).T)[0].T
    return np.ascontiguousarray(turned), sine_between(turned, basis)


def _sum_turns(polynomial: Polynomial, off: Floats, block: Block) -> Sums:
    """Sum the normal equations of D, whose rows are in a basis (d − p, d) off the span."""
    x, counts = block["x"], weights_of(block)
    xp, root = namespace_of(x), namespace_of(x).sqrt(counts)
    outside = x @ xp.matrix_transpose(move_like(off, x))
    turned = outer_rows(polynomial.gradient(x) * root[:, None], outside)
    residual = (block["y"] - polynomial(x)) * root
    return {
        "gram": as_double(xp.matrix_transpose(turned) @ turned),
        "right": as_double(residual @ turned),
        "total": xp.sum(as_double(counts)),
    }


def _fit_in_span(
    view: FramedRows, problem: ActivationSumProblem, how: ClosedForm, degrees: Sequence[int]
) -> FittedPolynomial:
    """Find the subspaces within the span of a view, and the coefficients on them."""
    k, rows = how.k, problem.rows
    fold = estimate_closed_form(how, [view])
    moments = fold.moments
    # Lemma 4.12: T_n = c_n M_n, the answer of the plain moments
    plain = {s: problem.coefficient(sum(s)) * f for s, f in moments.forms.items()}
    # the widest features for which there are enough rows
    most = min(max(rows.total / ROWS_PER_UNKNOWN, 1), MOST_FEATURES)
    widths = sorted({k, math.ceil(1.5 * k), 2 * k})
    features = Features(moments.frame, moments.chain, tuple(how.splits(problem)), widths[-1])
    while len(widths) > 1 and len(features) > most:
        widths.pop()
        features = replace(features, width=widths[-1])
    choice, labels = choose_coefficients(
        rows, features, degrees, widths, features.coefficients(plain)
    )
    polynomial = features.polynomial(choice.coefficients)
    basis = np.asarray(to_numpy(moments.frame.basis), dtype=np.float64)
    return FittedPolynomial(polynomial, labels, choice.error, basis, choice, fold)


def fit_paper_polynomial(
    problem: ActivationSumProblem, k: int, degree: int, seed: int, *, positive: bool = True
) -> FittedPolynomial:
    r"""Fit the hypothesis by the paper's own method, fresh rows for every step.

    One run finds the projections up to the degree; the coefficient of each lower order is then
    averaged through the first of them, on rows that chose none. Evaluation is free of auxiliary
    noise: against a tensor that is symmetric, as :math:`M_n` is, :math:`H_n` may be replaced by
    the recursion of :class:`~implicitmoments.moments.chain.SymmetricChain`. This departs from step
    7 of the box: the estimate of :math:`M_n` is symmetric in the limit only.
    """
    d, size = problem.n_features, problem.rows.rows_per_block
    subspace = _subspace(problem, positive=positive)
    with warnings.catch_warnings():  # an estimator warns of its own notes
        warnings.simplefilter("ignore", AssumptionWarning)
        found = implicit_moments(
            problem,
            n_components=k,
            order=degree,
            method="paper",
            subspace=subspace,
            random_state=seed,
            rows_per_block=size,
        )
    n = int(found.stats["rows_per_step"])
    fresh, average = range(degree * n, (degree + 1) * n), CircuitMeans(problem, seed, size)
    projection = found.runs[0].projection
    steps = tuple(to_numpy(s.theta) for s in projection.steps if s.theta is not None)
    chain = SymmetricChain(steps, np.eye(d))
    labels = problem.rows.fold(sum_labels, what="labels")
    forms = {}
    for order in filter(problem.has_order, range(degree + 1)):
        coefficient = problem.coefficient(order)
        if order == 0:
            vector = float(labels["sum"] / labels["total"]) / coefficient * np.ones(1)
        else:
            vector = to_numpy(average.vector(order, projection.first(order), fresh))
        forms[0, order] = coefficient * vector[None, :]
    polynomial = Polynomial(BalancedMoments(Frame(np.eye(d), np.zeros(d)), chain, forms))
    # Signs are tested on all rows by the closed form: order 2 of a fraction of the rows, with
    # auxiliary noise, needs several times as many of them.
    how = ClosedForm(k, 2, subspace=subspace)
    tested = estimate_closed_form(how, [all_rows(problem)]).steps if subspace == "positive" else ()
    return FittedPolynomial(
        polynomial, Range.of(labels), math.nan, steps[0], rival=_find_rival(tested)
    )


def evaluate_hypothesis(
    hypothesis: Callable[[Array], Array], whitening: Whitening | None, x: Array
) -> Array:
    """Evaluate a hypothesis of standardised points at points (n, d) as given."""
    return hypothesis(x if whitening is None else whitening.apply({"x": x})["x"])


def sum_squared_errors(predict: Callable[[Array], Array], about: float, block: Block) -> Sums:
    """Sum squares of residuals, and labels and their squares about one of them."""
    y, counts = as_double(block["y"]), as_double(weights_of(block))
    xp = namespace_of(y)
    off, residual = y - about, y - as_double(predict(block["x"]))
    return {
        "left": xp.sum(counts * residual**2),
        "first": xp.sum(counts * off),
        "second": xp.sum(counts * off**2),
        "total": xp.sum(counts),
    }
