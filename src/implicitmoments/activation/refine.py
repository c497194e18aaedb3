"""Refinement: networks decoded from the moments, fitted by least squares.

Components are added, exchanged and dropped by ``moves.grow_and_prune``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.activation.alternatives import note_alternative
from implicitmoments.activation.least_squares import fit_network, fit_weights
from implicitmoments.activation.moves import (
    QUICK_STEPS,
    QUICK_TOL,
    TRIAL_STEPS,
    TRIAL_TOL,
    criterion,
    exchanged,
    fit_relaxed,
    grow_and_prune,
    in_memory,
    larger,
    loss_of,
    smaller,
    some_of,
)
from implicitmoments.activation.network import FittedNetwork, Network
from implicitmoments.activation.standard_errors import StandardErrors, standard_errors
from implicitmoments.activation.starts import network_starts
from implicitmoments.arrays import Floats
from implicitmoments.notes import Note, Notes
from implicitmoments.problems import Activation, ActivationSumProblem
from implicitmoments.rows import Rows

# fit_all(start) fits a network to all rows
FitAll: TypeAlias = Callable[[Network], FittedNetwork]

MOST_PER_ROW = 0.5  # unknowns per row, for directions to leave the span
CONTINUED = 3  # starts of least error after a few steps, which are fitted further
MOST_ROUNDS = 3  # of random starts, while the network fits worse than the polynomial
FLAT = 0.05  # share of inputs with a slope, of an activation that is a step function


@dataclass(frozen=True, eq=False)
class Refined:
    """A network fitted to all rows."""

    fitted: FittedNetwork  # in the coordinates of the points, in decreasing order of weight
    # of its directions as angles, weights and biases, in that order; NaN where a direction is not
    # identified
    errors: StandardErrors
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
    positive: bool,
    seed: int,
    max_iter: int,
    tol: float,
) -> Refined:
    """Fit weights, directions and biases, from the moments and from random directions.

    Starts are compared within the span, on a sample of the rows: directions decoded from the
    moments, and random ones. Components of the best are exchanged, and it is fitted on all rows
    and features. While it fits worse than ``target``, more random starts are tried. Then
    components are added and dropped while the Bayesian information criterion decreases.

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
    positive : bool
        Keep weights positive.
    max_iter : int
        Steps of the fit on all rows.
    tol : float
        The fit ends when a step lowers the error by less than this fraction of what fitting so
        many unknowns removes by chance, k d over the number of rows.
    """
    rows, activation = in_memory(problem.rows), problem.activation
    # fitting k d numbers removes this fraction of the noise; a fraction tol of it is negligible
    by_chance = k * problem.n_features / rows.total
    if by_chance > MOST_PER_ROW:  # too few rows to leave the span
        max_iter = 0
    fit_all = partial(_fit_in_stages, rows, seed=seed, max_iter=max_iter, tol=tol * by_chance)
    starts = network_starts(problem.through(basis), k, positive=positive, seed=seed)
    best, tried, decoded = _best_start(
        problem, basis, starts, fit_all, target=target, n_starts=n_starts, seed=seed
    )
    parity = problem.parity
    errors_of = cache(partial(standard_errors, rows))

    def judge(candidate: Network) -> tuple[float, FittedNetwork]:
        fitted = fit_all(candidate)
        return criterion(fitted, rows.total), fitted

    if max_iter:
        rng = np.random.default_rng(seed)
        grown = partial(larger, rows, rng=rng)
        pruned = partial(smaller, rows, errors_of, parity=parity)
        moved = partial(exchanged, rows, rng=rng)
        # trials on few steps come first, so that a step that fails is not followed by another
        steps = (grown, pruned) if more else (pruned,)
        if not (more or best.network.simple):
            steps = (moved, pruned)
        best = grow_and_prune((criterion(best, rows.total), best), judge, steps)
    errors, notes = errors_of(best), Notes()
    if max_iter:
        whitened = problem.whitening is not None
        notes += note_alternative(rows, best, np.random.default_rng(seed), whitened=whitened)
    order = np.argsort(-np.abs(best.network.weights), kind="stable")
    network = _choose_signs(best.network.take(order), parity)
    return Refined(
        replace(best, network=network, converged=best.converged or not max_iter),
        errors.take(order),
        Notes([*notes, *_findings(activation, errors, order, parity > 0)]),
        tried,
        decoded,
        best.expected_error(rows.total),
    )


def _choose_signs(network: Network, parity: int) -> Network:
    """Choose one of two equal networks: a positive largest entry if even, or weight if odd."""
    if parity > 0:
        V = network.directions
        signs = np.sign(V[np.arange(len(V)), np.argmax(np.abs(V), axis=1)])
    elif parity < 0:
        signs = np.where(network.weights < 0, -1.0, 1.0)
        network = replace(network, weights=np.abs(network.weights))
    else:
        return network
    return network.with_rows(network.weights, network.rows * signs[:, None])


def _best_start(
    problem: ActivationSumProblem,
    basis: Floats,
    starts: Iterator[tuple[Network, int]],
    fit_all: FitAll,
    *,
    target: float,
    n_starts: int,
    seed: int,
) -> tuple[FittedNetwork, int, int]:
    """Compare starts within the span, and fit the best on all rows, until one is good enough."""
    first, decoded = next(starts)
    inside = in_memory(problem.rows.mapped(linear=basis.T))
    some = some_of(inside, first.k + first.n_unknowns, seed)
    rng = np.random.default_rng(seed)
    fits: list[FittedNetwork] = []
    wanted, tried = chain([first], (network for network, _ in starts)), 0

    def judge(network: Network) -> tuple[float, FittedNetwork]:
        fitted = fit_network(some, network, max_iter=TRIAL_STEPS, tol=TRIAL_TOL)
        return criterion(fitted, some.total), fitted

    exchange = partial(exchanged, some, rng=rng)
    for _ in range(MOST_ROUNDS):
        chosen = [fit_weights(some, start) for start in islice(wanted, n_starts + (not fits))]
        tried += len(chosen)
        if not (first.simple or problem.parity):
            chosen += [fit_relaxed(some, start) for start in chosen]
        if first.simple:  # others have more local minima, which few steps do not tell apart
            quick = [
                fit_network(some, start, max_iter=QUICK_STEPS, tol=QUICK_TOL) for start in chosen
            ]
            chosen = [each.network for each in sorted(quick, key=loss_of)[:CONTINUED]]
        trials = [judge(start) for start in chosen]
        trial = grow_and_prune(min(trials, key=itemgetter(0)), judge, (exchange,))
        network = trial.network
        fits.append(fit_all(network.through(basis)))
        if fits[-1].loss <= target:
            break
    return min(fits, key=loss_of), tried, decoded


def _fit_in_stages(
    rows: Rows, start: Network, *, seed: int, max_iter: int, tol: float
) -> FittedNetwork:
    """Fit to a sample of the rows while far from the minimum, then to all rows."""
    some = some_of(rows, start.n_unknowns + start.k, seed)
    if some is not rows and max_iter:
        start = fit_network(some, start, max_iter=TRIAL_STEPS, tol=TRIAL_TOL).network
    return fit_network(rows, start, max_iter=max_iter, tol=tol)


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
