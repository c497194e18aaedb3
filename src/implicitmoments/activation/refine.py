"""Refinement: directions and weights decoded from the moments, then fitted by least squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

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
from implicitmoments.moments.framed_rows import FramedRows, all_rows
from implicitmoments.notes import Note, Notes
from implicitmoments.problems import Activation, ActivationSumProblem
from implicitmoments.rows import Block, Rows, Sums, weights_of

# fit_all(start) fits a network to all rows
FitAll: TypeAlias = Callable[[Network], FittedNetwork]

QUICK_STEPS, QUICK_TOL = 8, 1e-3  # of trials that are only compared (starting values)
# Components that may be zero or equal: standard errors, relative weight, and distance below which
# they are tested (starting values).
DOUBTFUL, LIGHT, NEAR = 3.5, 0.1, 0.2
SMALL = 1e-4  # of the mean square of the labels: labels without noise, which take more steps
MOST_MORE, ROUNDS = 8, 3  # components added one by one before a fit to all rows; such fits
FIRST_STEPS = 3  # from each start, before one is chosen
GROWTH_ROWS = 20_000  # sample on which a further component is tried (starting value)
HOPE = 0.5  # of the gain needed, after a few steps, for a trial to continue (starting value)
RANDOM_STARTS = 3  # where residuals of order 2 are not informative


def network_bic(fitted: FittedNetwork, n: float) -> float:
    """Return the Bayesian information criterion of a network fitted to n rows."""
    return n * math.log(fitted.resolved_loss) + fitted.network.n_unknowns * math.log(n)


def grow(
    rows: Rows, best: FittedNetwork, fit_all: FitAll, *, even: bool, seed: int
) -> FittedNetwork:
    r"""Add components one by one while the criterion decreases.

    The moments count directions above the noise floor. A direction below it, or one near or
    opposite to another, is missed, but shows in the residuals of the network: a further component
    starts along the extreme eigenvector of :math:`E[(y - h(x))(x x^\top - I)]`. A few steps on a
    sample of the rows decide whether to continue.

    Parameters
    ----------
    even : bool
        Whether the activation is even, so that signs of directions do not matter.
    """
    rng, n = np.random.default_rng(seed), rows.total
    for _ in range(ROUNDS):  # a converged network shows what one after a few steps does not
        larger = _larger(rows, best, even, rng)
        if larger is None:
            break
        fitted = fit_all(larger)
        if network_bic(fitted, n) >= network_bic(best, n):
            break
        best = fitted
    return best


def _larger(
    rows: Rows, best: FittedNetwork, even: bool, rng: np.random.Generator
) -> Network | None:
    """Add components, each after a few steps on a sample; None if none seems to help."""
    k, d = best.network.directions.shape
    wanted = max(GROWTH_ROWS, ROWS_PER_UNKNOWN * (k + 1) * (d + 1))
    some = rows.sample(wanted, rng) if rows.n >= 2 * wanted else rows
    larger = best if some is rows else measure_loss(some, best.network)
    for _ in range(MOST_MORE):
        if 2 * (larger.network.n_unknowns + d) >= some.total:  # too few rows for more
            break
        starts = [
            fit_network(some, _with(some, larger.network, v), max_iter=FIRST_STEPS)
            for v in _further(some, larger.network, even, rng)
        ]
        start = min(starts, key=lambda fitted: fitted.loss).network
        tried = fit_network(some, start, max_iter=QUICK_STEPS, tol=QUICK_TOL)
        gain = some.total * math.log(larger.resolved_loss / tried.resolved_loss)
        if gain <= HOPE * d * math.log(some.total):
            break
        larger = tried
    return larger.network if larger.network.k > k else None


def _with(rows: Rows, network: Network, direction: Floats) -> Network:
    """Add a direction, with the best weights of all."""
    directions = np.vstack([network.directions, direction])
    return fit_weights(rows, directions, network.activation)


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


def prune(
    rows: Rows, best: FittedNetwork, errors: StandardErrors, fit_all: FitAll
) -> tuple[FittedNetwork, StandardErrors]:
    """Drop or merge components that are in doubt, while the criterion decreases."""
    n = rows.total
    while best.network.k > 1:
        # a few steps decide whether a smaller network is worth fitting
        margin = best.network.directions.shape[1] * math.log(n)
        promising = [
            fewer
            for smaller in _smaller(best.network, errors)
            for fewer in [fit_network(rows, smaller, max_iter=QUICK_STEPS, tol=QUICK_TOL)]
            if network_bic(fewer, n) < network_bic(best, n) + margin
            or fewer.loss < SMALL * fewer.size
        ]
        if not promising:
            break
        leanest = fit_all(min(promising, key=lambda fewer: network_bic(fewer, n)).network)
        if network_bic(leanest, n) >= network_bic(best, n):
            break
        best, errors = leanest, standard_errors(rows, leanest)
    return best, errors


def _smaller(network: Network, errors: StandardErrors) -> list[Network]:
    """Return the network without its lightest component, and with its nearest two merged."""
    w, V = network.weights, network.directions
    cosines = V @ V.T - 2 * np.eye(len(w))
    i, j = np.unravel_index(int(np.argmax(cosines)), cosines.shape)
    light = int(np.argmin(w))
    distance = float(np.linalg.norm(V[i] - V[j]))
    error = float(np.hypot(errors.directions[i], errors.directions[j]))
    doubtful = bool(errors.free.any())
    smaller = []
    if doubtful or w[light] < max(LIGHT * w.mean(), DOUBTFUL * errors.weights[light]):
        smaller.append(network.take(np.arange(len(w)) != light))
    joined = w[i] * V[i] + w[j] * V[j]
    if (doubtful or distance < max(NEAR, DOUBTFUL * error)) and np.linalg.norm(joined) > 0:
        rest = network.take(~np.isin(np.arange(len(w)), (i, j)))
        weights = np.append(rest.weights, w[i] + w[j])
        directions = np.vstack([rest.directions, unit_rows(joined[None, :])])
        smaller.append(replace(rest, weights=weights, directions=directions))
    return smaller


FEWEST_ROWS, ROWS_PER_UNKNOWN = 5_000, 20  # of a trial fit
TRIAL_STEPS, TRIAL_TOL = 30, 1e-4  # the last digits come from the fit to all rows
MOST_PER_ROW = 0.5  # unknowns per row, for directions to leave the span
MOST_ROUNDS = 3  # of random starts, while the network fits worse than the polynomial
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

    def measurements(self) -> dict[str, Any]:
        """Return statistics of the fit."""
        return {
            "network_error": float(self.expected_error),
            "loss_history": self.fitted.history,
            "n_starts": self.n_starts,
            "decoded": self.decoded,
        }


def refine(  # noqa: PLR0913 (keyword-only, each documented)
    problem: ActivationSumProblem,
    basis: Floats,
    k: int,
    *,
    target: float = 0.0,
    n_starts: int = 3,
    more: bool = False,
    seed: int = 0,
    max_iter: int = 100,
    tol: float = 1e-3,
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
    even = _is_even(activation)
    if more and max_iter:
        best = grow(rows, best, fit_all, even=even, seed=seed)
    errors = standard_errors(rows, best)
    if max_iter:
        best, errors = prune(rows, best, errors, fit_all)
    order = np.argsort(-best.network.weights, kind="stable")
    network = best.network.take(order)
    if even:
        network = _with_positive_entries(network)
    return Refined(
        replace(best, network=network, converged=best.converged or not max_iter),
        np.where(errors.free, np.nan, errors.directions)[order],
        np.where(errors.free, np.nan, errors.weights)[order],
        _findings(activation, errors, order),
        tried,
        decoded,
        best.expected_error(rows.total),
    )


def _best_start(
    problem: ActivationSumProblem,
    basis: Floats,
    k: int,
    target: float,
    n_starts: int,
    seed: int,
    fit_all: Any,
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


def _some_of(rows: Rows, n_unknowns: int, seed: int) -> Rows:
    """Return a sample large enough for a trial fit; all rows unless they are twice as many."""
    wanted = max(FEWEST_ROWS, ROWS_PER_UNKNOWN * n_unknowns)
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
    rng = np.random.default_rng(seed)
    p = inside.frame.p
    found = find_components(inside, k, seed=seed)
    decoded = found.guesses.copy()
    lengths = np.linalg.norm(decoded, axis=1)
    bad = ~(np.isfinite(lengths) & (lengths > 0))
    decoded[bad] = rng.standard_normal((int(bad.sum()), p))
    yield unit_rows(decoded), int(found.resolved.sum())
    while True:
        yield unit_rows(rng.standard_normal((k, p))), 0


def _with_positive_entries(network: Network) -> Network:
    """Make the largest entry of each direction positive, where signs do not matter."""
    V = network.directions
    largest = V[np.arange(len(V)), np.argmax(np.abs(V), axis=1)]
    return replace(network, directions=V * np.sign(largest)[:, None])


def _is_even(activation: Activation) -> bool:
    return all(activation.coefficient(t) == 0 for t in range(1, 20, 2))


def _is_flat(activation: Activation) -> bool:
    u = np.linspace(-3.0, 3.0, 601) + 1e-3
    return bool(np.mean(np.abs(activation.slope(u)) > 0) < FLAT)


def _findings(activation: Activation, errors: StandardErrors, order: Any) -> Notes:
    """Return why directions are not identified."""
    notes, name = Notes(), {"name": activation.name}
    if errors.free.any():
        which = np.flatnonzero(errors.free[order]).tolist()
        notes.append(Note("directions_not_identified", {"which": which}))
    if _is_flat(activation):
        notes.append(Note("activation_flat", name))
    if np.isnan(errors.directions).any():
        notes.append(Note("no_direction_errors"))
    if _is_even(activation):
        notes.append(Note("directions_up_to_sign", name))
    return notes
