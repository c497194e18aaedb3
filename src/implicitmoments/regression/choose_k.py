"""How many lines: from the peaks of the characteristic function, judged by BIC."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from implicitmoments.regression.candidate_gains import audition
from implicitmoments.regression.em import Model, climb
from implicitmoments.regression.fit import FittedLines, Workspace, fit_lines, mend
from implicitmoments.regression.initialisation import decoded_points, first_lines
from implicitmoments.regression.likelihood import Lines
from implicitmoments.regression.repair import missing_peaks, prune
from implicitmoments.regression.splits import split, split_steps

__all__ = ["bic", "choose_lines", "n_parameters"]

FAILURES = {1: 2, -1: 1}  # numbers of lines in a row, more or fewer, that are no better
MOST_HEARD = 16
TRIAL_STEPS, TRIAL_TOL = 60, 1e-6


def n_parameters(k: int, q: int, model: Model) -> int:
    """Count free parameters of k lines with q features, the constant among them."""
    slopes = q if model.intercept else q - 1
    return k * slopes + (k - 1) + (1 if model.shared else k)


def bic(mean_log_likelihood: float, mass: float, n: int) -> float:
    """Return the Bayesian information criterion; the less the better."""
    return -2 * mass * mean_log_likelihood + n * math.log(mass)


def choose_lines(
    space: Workspace, model: Model, *, most: int, seed: int, max_iter: int, tol: float
) -> tuple[FittedLines, dict[int, float]]:
    """Fit as many lines as there are clear peaks, then more, or fewer, while BIC falls.

    Parameters
    ----------
    space : Workspace
    model : Model
    most : int
        Lines at most.
    seed : int
    max_iter, tol : int and float

    Returns
    -------
    best : FittedLines
    scores : dict of int to float
        BIC of each number of lines that was tried.
    """
    rng = np.random.default_rng(seed)
    none = np.zeros((0, space.rows.n_features))
    seen = first_lines(space.waves, most, model, rng, none).n_clear
    first = min(max(1, seen), most)
    best = fit_lines(space, first, model, seed=seed, max_iter=max_iter, tol=tol)
    scores = {first: _score(space, best, model)}
    least = scores[first]

    def fitted_from(lines: Lines, steps: int, tol: float) -> FittedLines:
        """Fit from given lines, keeping what is known of the start."""
        whole = climb(space.rows, lines, model, max_iter=steps, tol=tol)
        return replace(
            best,
            lines=whole.lines.keep(np.argsort(-whole.lines.weights, kind="stable")),
            mean_log_likelihood=whole.mean_log_likelihood,
            history=whole.history,
            converged=whole.converged,
        )

    for direction in (1, -1):
        current, failures = best, 0
        while failures < FAILURES[direction] and 1 <= current.lines.k + direction <= most:
            if direction > 0:
                lines = _grown(space, current.lines, model, rng)
            else:
                lines = prune(space.seen, current.lines, current.lines.k - 1)
            if lines.k > 1:
                lines = mend(space, lines, model, rng).climb.lines
            current = fitted_from(lines, TRIAL_STEPS, TRIAL_TOL)
            k = current.lines.k
            scores[k] = min(_score(space, current, model), scores.get(k, math.inf))
            if scores[k] < least:
                best, least, failures = current, scores[k], 0
            else:
                failures += 1
        if best.lines.k > first:
            break
    if best.lines.k != first:
        best = _measured(space, fitted_from(best.lines, max_iter, tol), model, seed, rng)
    return best, scores


def _measured(
    space: Workspace, fitted: FittedLines, model: Model, seed: int, rng: np.random.Generator
) -> FittedLines:
    """Measure anew what was measured of another number of lines."""
    decoded, read = decoded_points(space.seen, fitted.lines.k, seed)
    peaks = missing_peaks(space.waves, fitted.lines, model, rng)
    z = float(peaks.z[0]) if len(peaks.z) else 0.0
    return replace(fitted, n_decoded=len(decoded), read=read, z=z)


def _grown(space: Workspace, lines: Lines, model: Model, rng: np.random.Generator) -> Lines:
    """Return one line more: the best of a peak that is left and the widest line in two."""
    trials = [
        climb(space.seen, more, model, max_iter=TRIAL_STEPS, tol=TRIAL_TOL)
        for more in _one_more(space, lines, model, rng)
    ]
    return max(trials, key=lambda each: each.mean_log_likelihood).lines


def _one_more(
    space: Workspace, lines: Lines, model: Model, rng: np.random.Generator
) -> Iterator[Lines]:
    peaks = missing_peaks(space.waves, lines, model, rng)
    heard = audition(space.seen, lines, peaks.points[:MOST_HEARD], model)
    yield lines.add(heard.points[:1], heard.weights[:1])
    scores, away = split_steps(space.seen, lines, model)
    i = int(np.argmax(scores))
    yield split(lines, i, away[i])


def _score(space: Workspace, fitted: FittedLines, model: Model) -> float:
    n = n_parameters(fitted.lines.k, space.rows.n_features, model)
    return bic(fitted.mean_log_likelihood, space.rows.mass, n)
