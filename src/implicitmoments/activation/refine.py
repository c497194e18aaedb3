"""Read directions and weights off the moments, and polish them on the model itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from implicitmoments.activation.choose_k import grow, prune
from implicitmoments.activation.network import Network, Polished, fit_weights, polish
from implicitmoments.activation.standard_errors import measure_certainty
from implicitmoments.arrays import Floats
from implicitmoments.moments.decode import find_components
from implicitmoments.moments.passes import View, whole_view
from implicitmoments.problems import Activation, ActivationSumProblem
from implicitmoments.problems.labelled_rows import LabelledRows

__all__ = ["Refined", "refine"]

FEWEST_ROWS, ROWS_PER_UNKNOWN = 5_000, 20  # of a trial fit
TRIAL_STEPS, TRIAL_TOL = 30, 1e-4
MOST_BY_CHANCE = 0.5  # unknowns a row, for directions to be polished off the span
MOST_TRIALS = 3  # times as many starts, while the network fits worse than the polynomial


@dataclass(frozen=True, eq=False)
class Refined:
    """A network fitted to all rows.

    Attributes
    ----------
    network : Network
        In the coordinates of the points, the heaviest component first.
    loss : float
        Mean squared error on the rows.
    errors, weight_errors : array of shape (k,)
        Standard errors of the directions, as angles, and of the weights; NaN where a direction
        is not identified.
    reasons : tuple of str
        Which directions are not identified, and why.
    history : tuple of float
    converged : bool
    n_starts : int
        Starts that were tried.
    decoded : int
        Components that the moments told apart by themselves.
    expected_error : float
        Estimated mean squared error on new rows.
    """

    network: Network
    loss: float
    errors: Floats
    weight_errors: Floats
    reasons: tuple[str, ...]
    history: tuple[float, ...]
    converged: bool
    n_starts: int
    decoded: int
    expected_error: float


def refine(  # noqa: PLR0913 (keyword-only, each documented)
    rows: LabelledRows,
    basis: Floats,
    k: int,
    *,
    target: float = math.inf,
    n_starts: int = 3,
    fewer: bool = True,
    more: bool = False,
    seed: int = 0,
    max_iter: int = 100,
    tol: float = 1e-3,
) -> Refined:
    """Fit the network itself.

    Starts are compared in the span of the directions, on some of the rows: what the moments
    read, and random directions. The best is polished on all rows and features. While it fits
    worse than ``target``, more random starts are tried.

    Parameters
    ----------
    rows : LabelledRows
        Of an :class:`ActivationSumProblem`.
    basis : array of shape (p, d)
        Span of the directions.
    k : int
    target : float
        Mean squared error to be reached, such as that of the polynomial.
    n_starts : int
        Random starts beside the one of the moments.
    fewer : bool
        Leave out or merge components while the Bayesian information criterion falls.
    more : bool
        Add components while it falls, before that: k is a count, not a bound.
    seed : int
    max_iter : int
        Steps of the polish on all rows.
    tol : float
        The polish ends when a step lowers the error by less than this part of what fitting so
        many unknowns takes away by chance, k d over the number of rows.
    """
    problem = rows.problem
    if not isinstance(problem, ActivationSumProblem):
        raise TypeError(f"expected rows of an ActivationSumProblem, got {problem!r}")
    inside = problem.through(basis)
    some = LabelledRows(inside, rows.block_rows).about(
        max(FEWEST_ROWS, ROWS_PER_UNKNOWN * k * (len(basis) + 1))
    )
    starts = _starts(whole_view(inside, rows_per_block=rows.block_rows), k, seed)
    # fitting k d numbers takes that part of the noise away; what tol is of it does not matter
    by_chance = k * problem.n_features / rows.mass
    if by_chance > MOST_BY_CHANCE:  # the span is all that so few rows can tell
        max_iter = 0
    polish_all = partial(_polish_in_stages, rows, max_iter=max_iter, tol=tol * by_chance)
    best: Polished | None = None
    tried, decoded = 0, 0
    for _ in range(MOST_TRIALS):
        trials = []
        for directions, resolved in islice(starts, n_starts + (best is None)):
            decoded += resolved
            start = fit_weights(some, directions, problem.activation)
            trials.append(polish(some, start, max_iter=TRIAL_STEPS, tol=TRIAL_TOL))
        tried += len(trials)
        trial = min(trials, key=_loss_of).network
        full = polish_all(replace(trial, directions=trial.directions @ basis))
        best = full if best is None else min(best, full, key=_loss_of)
        if best.loss <= target:
            break
    if best is None:
        raise ValueError("no start")
    if more and max_iter:
        even = _is_even(problem.activation)
        best = grow(rows, best, polish_all, even=even, seed=seed)
    certainty = measure_certainty(rows, best)
    if fewer and max_iter:
        best, certainty = prune(rows, best, certainty, polish_all)
    order = np.argsort(-best.network.weights, kind="stable")
    return Refined(
        _in_order(best.network, order),
        best.loss,
        np.where(certainty.loose, np.nan, certainty.direction_errors)[order],
        np.where(certainty.loose, np.nan, certainty.weight_errors)[order],
        _reasons(best.network.activation, certainty.loose[order], certainty.direction_errors),
        best.history,
        best.converged or not max_iter,
        tried,
        decoded,
        best.expected_error(rows.mass),
    )


def _loss_of(polished: Polished) -> float:
    return polished.loss


def _polish_in_stages(
    rows: LabelledRows, start: Network, *, max_iter: int, tol: float
) -> Polished:
    """Polish on some of the rows while far away, then on all."""
    some = rows.about(max(FEWEST_ROWS, ROWS_PER_UNKNOWN * (start.n_unknowns + len(start.weights))))
    near = start
    if some is not rows and max_iter:
        near = polish(some, start, max_iter=TRIAL_STEPS, tol=TRIAL_TOL).network
    return polish(rows, near, max_iter=max_iter, tol=tol)


def _starts(inside: View, k: int, seed: int) -> Iterator[tuple[Floats, int]]:
    """Yield directions to start from: what the moments read first, then random ones."""
    rng = np.random.default_rng(seed)
    p = inside.frame.p
    found = find_components(inside, k, seed=seed)
    read = found.guesses.copy()
    lengths = np.linalg.norm(read, axis=1)
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    read[bad] = rng.standard_normal((int(bad.sum()), p))
    yield _unit(read), int(found.resolved.sum())
    while True:
        yield _unit(rng.standard_normal((k, p))), 0


def _unit(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float64)


def _in_order(network: Network, order: np.ndarray[Any, np.dtype[np.intp]]) -> Network:
    """Put components in order; where signs do not matter, make the largest entry positive."""
    directions = network.directions[order]
    if _is_even(network.activation):
        largest = np.argmax(np.abs(directions), axis=1)
        signs = np.sign(directions[np.arange(len(directions)), largest])
        directions = directions * signs[:, None]
    return replace(network, weights=network.weights[order], directions=directions)


def _is_flat(activation: Activation) -> bool:
    u = np.linspace(-3.0, 3.0, 601) + 1e-3
    return bool(np.mean(np.abs(activation.slope(u)) > 0) < 0.05)


def _is_even(activation: Activation) -> bool:
    return all(activation.coefficient(t) == 0 for t in range(1, 20, 2))


def _reasons(
    activation: Activation, loose: np.ndarray[Any, np.dtype[np.bool_]], errors: Floats
) -> tuple[str, ...]:
    reasons = []
    if loose.any():
        places = ", ".join(map(str, np.flatnonzero(loose)))
        subject = "directions {} are" if loose.sum() > 1 else "direction {} is"
        reasons.append(
            f"{subject.format(places)} not identified: the fit does not change with a turn, as "
            "when two directions are equal, a weight is zero, there are more components than the "
            "truth has, or the activation is a polynomial"
        )
    if _is_flat(activation):
        reasons.append(
            f"{activation.name} is constant but for jumps, so that no step can turn a direction: "
            "they are as the moments gave them"
        )
    if np.isnan(errors).any():
        reasons.append("there are too many unknowns to compute errors of the directions")
    if _is_even(activation):
        reasons.append(f"directions are known up to sign: {activation.name} is even")
    return tuple(reasons)
