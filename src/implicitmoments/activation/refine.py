"""Refinement: directions and weights decoded from the moments, then fitted by least squares.

Components are added and dropped by :func:`~implicitmoments.search.grow_and_prune`. Moves and EM of
``search`` do not apply: a sum of activations has no responsibilities, and its components share
every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.activation.hypothesis import ROWS_PER_UNKNOWN
from implicitmoments.activation.network import (
    FittedNetwork,
    Network,
    StandardErrors,
    fit_network,
    fit_weights,
    measure_loss,
    standard_errors,
    unit_rows,
)
from implicitmoments.arrays import Floats, as_double, namespace_of, to_numpy
from implicitmoments.moments.components import find_components
from implicitmoments.moments.hermite_problem import FramedRows, all_rows
from implicitmoments.notes import Note, Notes
from implicitmoments.problems import Activation, ActivationSumProblem
from implicitmoments.rows import Block, Rows, Sums, weights_of
from implicitmoments.search import bic, grow_and_prune

# fit_all(start) fits a network to all rows
FitAll: TypeAlias = Callable[[Network], FittedNetwork]

TRIAL_ROWS, GROWTH_ROWS = (
    5_000,
    20_000,
)  # fewest rows of a trial fit; of one with a further component
TRIAL_STEPS, TRIAL_TOL = 30, 1e-4  # the last digits come from the fit to all rows
QUICK_STEPS, QUICK_TOL = 8, 1e-3  # of trials that are only compared
FIRST_STEPS = 3  # from each start of a further component, before one is chosen
MOST_PER_ROW = 0.5  # unknowns per row, for directions to leave the span
MOST_ROUNDS = 3  # of random starts, while the network fits worse than the polynomial
MOST_MORE = 8  # components added one by one before a fit to all rows
HOPE = 0.5  # of the gain that the criterion needs, for a trial of a few steps to continue
RANDOM_STARTS = 3  # of a further component, where residuals of order 2 are not informative
# Components that may be zero or equal: standard errors, relative weight, and distance below which
# they are tested. The criterion decides; a component beyond these would never be dropped.
DOUBTFUL, LIGHT, NEAR = 3.5, 0.1, 0.2
SMALL = 1e-4  # of the mean square of the labels: labels without noise, which take more steps
FLAT = 0.05  # share of inputs with a slope, of an activation that is a step function


@dataclass(frozen=True, eq=False)
class Refined:
    """A network fitted to all rows."""

    fitted: FittedNetwork  # in the coordinates of the points, in decreasing order of weight
    # (k,), standard errors of the directions, as angles, and of the weights; NaN where a direction
    # is not identified
    direction_errors: Floats
    weight_errors: Floats  # (k,)
    notes: Notes  # which directions are not identified, and why
    n_starts: int  # starts that were tried
    decoded: int  # components that the moments alone resolved
    expected_error: float  # estimated mean squared error on new rows


def refine(  # noqa: PLR0913 (keyword-only, each documented)
    problem: ActivationSumProblem,
    basis: Floats,
    k: int,
    *,
    target: float,
    n_starts: int,
    more: bool,
    seed: int,
    max_iter: int,
    tol: float,
) -> Refined:
    """Fit weights and directions, from the moments and from random directions.

    Starts are compared within the span, on a sample of the rows: directions decoded from the
    moments, and random ones. The best is fitted on all rows and features. While it fits worse than
    ``target``, more random starts are tried. Then components are added and dropped while the
    Bayesian information criterion decreases.

    Parameters
    ----------
    basis : array of shape (p, d)
        Span of the directions.
    target : float
        Mean squared error to be reached, such as that of the polynomial.
    n_starts : int
        Random starts beside that of the moments.
    more : bool
        Add components while the criterion decreases: k is an estimate, not a bound.
    max_iter : int
        Steps of the fit on all rows.
    tol : float
        The fit ends when a step lowers the error by less than this fraction of what fitting so
        many unknowns removes by chance, k d over the number of rows.
    """
    rows, activation = problem.rows, problem.activation
    # fitting k d numbers removes this fraction of the noise; a fraction tol of it is negligible
    by_chance = k * problem.n_features / rows.total
    if by_chance > MOST_PER_ROW:  # too few rows to leave the span
        max_iter = 0
    fit_all = partial(_fit_in_stages, rows, seed=seed, max_iter=max_iter, tol=tol * by_chance)
    best, tried, decoded = _best_start(problem, basis, k, target, n_starts, seed, fit_all)
    even = all(activation.coefficient(t) == 0 for t in range(1, 20, 2))
    errors_of = cache(partial(standard_errors, rows))

    def judge(candidate: Network) -> tuple[float, FittedNetwork]:
        fitted = fit_all(candidate)
        return _criterion(fitted, rows.total), fitted

    if max_iter:
        rng = np.random.default_rng(seed)
        grown = partial(_larger, rows, even=even, rng=rng)
        pruned = partial(_smaller, rows, errors_of)
        # trials on few steps come first, so that a step that fails is not followed by another
        steps = (grown, pruned) if more else (pruned,)
        best = grow_and_prune((_criterion(best, rows.total), best), judge, steps, patience=1)
    errors = errors_of(best)
    order = np.argsort(-best.network.weights, kind="stable")
    network = best.network.take(order)
    if even:  # signs do not matter: the largest entry of each direction is positive
        V = network.directions
        largest = V[np.arange(len(V)), np.argmax(np.abs(V), axis=1)]
        network = replace(network, directions=V * np.sign(largest)[:, None])
    return Refined(
        replace(best, network=network, converged=best.converged or not max_iter),
        np.where(errors.free, np.nan, errors.directions)[order],
        np.where(errors.free, np.nan, errors.weights)[order],
        _findings(activation, errors, order, even),
        tried,
        decoded,
        best.expected_error(rows.total),
    )


def _criterion(fitted: FittedNetwork, n: float) -> float:
    """Return the Bayesian information criterion of a network fitted to n rows."""
    return bic(-0.5 * n * math.log(fitted.resolved_loss), fitted.network.n_unknowns, n)


def _best_start(
    problem: ActivationSumProblem,
    basis: Floats,
    k: int,
    target: float,
    n_starts: int,
    seed: int,
    fit_all: FitAll,
) -> tuple[FittedNetwork, int, int]:
    """Compare starts within the span, and fit the best on all rows, until one is good enough."""
    inside = problem.through(basis)
    some = _some_of(inside.rows, k * (len(basis) + 1), seed)
    starts = _starts(all_rows(inside), k, seed)
    fits: list[FittedNetwork] = []
    tried, decoded = 0, 0
    for _ in range(MOST_ROUNDS):
        trials = []
        for directions, resolved in islice(starts, n_starts + (not fits)):
            decoded += resolved
            start = fit_weights(some, directions, problem.activation)
            trials.append(fit_network(some, start, max_iter=TRIAL_STEPS, tol=TRIAL_TOL))
        tried += len(trials)
        trial = min(trials, key=_loss).network
        fits.append(fit_all(replace(trial, directions=trial.directions @ basis)))
        if fits[-1].loss <= target:
            break
    return min(fits, key=_loss), tried, decoded


def _loss(fitted: FittedNetwork) -> float:
    return fitted.loss


def _some_of(rows: Rows, n_unknowns: int, seed: Any, fewest: int = TRIAL_ROWS) -> Rows:
    """Return a sample large enough for a trial fit; all rows unless they are twice as many."""
    wanted = max(fewest, ROWS_PER_UNKNOWN * n_unknowns)
    return rows.sample(wanted, seed) if rows.n >= 2 * wanted else rows


def _fit_in_stages(
    rows: Rows, start: Network, *, seed: int, max_iter: int, tol: float
) -> FittedNetwork:
    """Fit to a sample of the rows while far from the minimum, then to all rows."""
    some = _some_of(rows, start.n_unknowns + start.k, seed)
    if some is not rows and max_iter:
        start = fit_network(some, start, max_iter=TRIAL_STEPS, tol=TRIAL_TOL).network
    return fit_network(rows, start, max_iter=max_iter, tol=tol)


def _starts(inside: FramedRows, k: int, seed: int) -> Iterator[tuple[Floats, int]]:
    """Yield initial directions: those decoded from the moments first, then random ones."""
    rng, p = np.random.default_rng(seed), inside.frame.p
    found = find_components(inside, k, seed=seed)
    decoded = found.guesses.copy()
    lengths = np.linalg.norm(decoded, axis=1)
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    decoded[bad] = rng.standard_normal((int(bad.sum()), p))
    yield unit_rows(decoded), int(found.resolved.sum())
    while True:
        yield unit_rows(rng.standard_normal((k, p))), 0


def _larger(
    rows: Rows, best: FittedNetwork, *, even: bool, rng: np.random.Generator
) -> Network | None:
    r"""Add components, each after a few steps on a sample; None if none seems to help.

    The moments count directions above the noise floor. A direction below it, or one near or
    opposite to another, is missed, but shows in the residuals of the network: a further component
    starts along the extreme eigenvector of :math:`E[(y - h(x))(x x^\top - I)]`.
    """
    k, d = best.network.directions.shape
    some = _some_of(rows, (k + 1) * (d + 1), rng, GROWTH_ROWS)
    larger = best if some is rows else measure_loss(some, best.network)
    for _ in range(MOST_MORE):
        network = larger.network
        if 2 * (network.n_unknowns + d) >= some.total:  # too few rows for more
            break
        starts = [
            fit_network(
                some,
                fit_weights(some, np.vstack([network.directions, v]), network.activation),
                max_iter=FIRST_STEPS,
            )
            for v in _further(some, network, even, rng)
        ]
        start = min(starts, key=_loss).network
        tried = fit_network(some, start, max_iter=QUICK_STEPS, tol=QUICK_TOL)
        gain = some.total * math.log(larger.resolved_loss / tried.resolved_loss)
        if gain <= HOPE * d * math.log(some.total):
            break
        larger = tried
    return larger.network if larger.network.k > k else None


def _further(rows: Rows, network: Network, even: bool, rng: np.random.Generator) -> list[Floats]:
    """Return unit vectors from which a further component may start."""
    d, second = network.directions.shape[1], network.activation.coefficient(2)
    if second == 0:
        return list(unit_rows(rng.standard_normal((RANDOM_STARTS, d))))
    sums = rows.fold(partial(_sum_residuals, network), width=2 * d, what="residuals")
    moment = to_numpy(sums["moment"]) - float(sums["sum"]) * np.eye(d)
    _, vectors = np.linalg.eigh(moment * math.copysign(1.0, second))
    return [vectors[:, -1]] if even else [vectors[:, -1], -vectors[:, -1]]


def _sum_residuals(network: Network, block: Block) -> Sums:
    """Sum residuals of a network, and their products with those of the points."""
    x, xp = block["x"], namespace_of(block["x"])
    residual = (block["y"] - network(x)) * weights_of(block)
    return {
        "moment": as_double(xp.matrix_transpose(x * residual[:, None]) @ x),
        "sum": xp.sum(as_double(residual)),
    }


def _smaller(
    rows: Rows, errors_of: Callable[[FittedNetwork], StandardErrors], best: FittedNetwork
) -> Network | None:
    """Drop the lightest component or merge the nearest two, where they are in doubt."""
    if best.network.k == 1:
        return None
    errors, n = errors_of(best), rows.total
    w, V = best.network.weights, best.network.directions
    cosines = V @ V.T - 2 * np.eye(len(w))
    i, j = np.unravel_index(int(np.argmax(cosines)), cosines.shape)
    light = int(np.argmin(w))
    distance = float(np.linalg.norm(V[i] - V[j]))
    error = float(np.hypot(errors.directions[i], errors.directions[j]))
    doubtful = bool(errors.free.any())
    smaller = []
    if doubtful or w[light] < max(LIGHT * w.mean(), DOUBTFUL * errors.weights[light]):
        smaller.append(best.network.take(np.arange(len(w)) != light))
    joined = w[i] * V[i] + w[j] * V[j]
    if (doubtful or distance < max(NEAR, DOUBTFUL * error)) and np.linalg.norm(joined) > 0:
        rest = best.network.take(~np.isin(np.arange(len(w)), (i, j)))
        weights = np.append(rest.weights, w[i] + w[j])
        directions = np.vstack([rest.directions, unit_rows(joined[None, :])])
        smaller.append(replace(rest, weights=weights, directions=directions))
    # a few steps decide whether a smaller network is worth fitting
    tried = [fit_network(rows, each, max_iter=QUICK_STEPS, tol=QUICK_TOL) for each in smaller]
    worst = _criterion(best, n) + V.shape[1] * math.log(n)
    promising = [f for f in tried if _criterion(f, n) < worst or f.loss < SMALL * f.size]
    if not promising:
        return None
    return min(promising, key=lambda fewer: _criterion(fewer, n)).network


def _findings(activation: Activation, errors: StandardErrors, order: Any, even: bool) -> Notes:
    """Return why directions are not identified."""
    notes, name = Notes(), {"name": activation.name}
    u = np.linspace(-3.0, 3.0, 601) + 1e-3
    if errors.free.any():
        which = np.flatnonzero(errors.free[order]).tolist()
        notes.append(Note("directions_not_identified", {"which": which}))
    if np.mean(np.abs(activation.slope(u)) > 0) < FLAT:
        notes.append(Note("activation_flat", name))
    if np.isnan(errors.directions).any():
        notes.append(Note("no_direction_errors"))
    if even:
        notes.append(Note("directions_up_to_sign", name))
    return notes
