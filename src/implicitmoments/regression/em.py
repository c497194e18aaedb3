"""EM for mixtures of regressions, with shared or separate noise, and accelerated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.likelihood import Expected, Lines, expect

__all__ = ["Climb", "Model", "climb", "maximise", "solve_lines"]

SMALLEST_VARIANCE = 1e-12  # of the variance of y: residuals below it are rounding
LARGEST_RATIO = 1e3  # of two variances: Hathaway's constraint, without which there is no maximum
RIDGE = 1e-9  # of a row: a line with fewer rows than coefficients still has an answer
PLAIN_STEPS = 3  # of EM before it is accelerated, and after a step that failed
DEPTH = 6  # steps that an extrapolation looks back on
SMALLEST_WEIGHT = 1e-9  # whose logarithm is extrapolated
CALM = 2  # passes in a row with next to nothing to gain
DAMPING = 1e-8


@dataclass(frozen=True)
class Model:
    """What is fitted.

    Attributes
    ----------
    shared : bool
        One variance for all lines.
    intercept : bool
        Lines have intercepts.
    """

    shared: bool = True
    intercept: bool = True


@dataclass(frozen=True, eq=False)
class Climb:
    """Lines after EM.

    Attributes
    ----------
    lines : Lines
    mean_log_likelihood : float
    history : tuple of float
        Mean log-likelihoods, one a pass.
    converged : bool
    """

    lines: Lines
    mean_log_likelihood: float
    history: tuple[float, ...]
    converged: bool


def maximise(expected: Expected, lines: Lines, model: Model) -> Lines:
    """Return the lines that the M-step gives; a line without rows stays where it is."""
    S = expected.products
    n, square = S[:, 0, 0], S[:, -1, -1]
    A, c = S[:, :-1, :-1], S[:, :-1, -1]
    there = n > np.finfo(float).eps * expected.mass
    coef = solve_lines(S, lines.coef, model)
    left = square - 2 * np.sum(coef * c, axis=1) + np.einsum("ki,kij,kj->k", coef, A, coef)
    left = np.maximum(left, 0.0)
    pooled = max(float(left[there].sum()) / expected.mass, SMALLEST_VARIANCE)
    if model.shared:
        variances = np.full(lines.k, pooled)
    else:
        variances = np.where(there, left / np.maximum(n, np.finfo(float).tiny), pooled)
        variances = np.maximum(variances, max(variances.max() / LARGEST_RATIO, SMALLEST_VARIANCE))
    return Lines(n / n.sum(), coef, variances)


def solve_lines(products: Floats, coef: Floats, model: Model) -> Floats:
    """Return weighted least squares of each line; one without rows stays where it is."""
    first = 0 if model.intercept else 1
    n = products[:, 0, 0]
    A, c = products[:, first:-1, first:-1], products[:, first:-1, -1]
    ridge = RIDGE * np.maximum(n, 1.0)[:, None, None] * np.eye(A.shape[1])
    found = np.linalg.solve(A + ridge, c[:, :, None])[:, :, 0]
    solved = coef.copy()
    there = n > 0
    solved[there, first:] = found[there]
    return solved


def climb(rows: FeatureRows, lines: Lines, model: Model, *, max_iter: int, tol: float) -> Climb:
    """Run EM until what is still to be gained in mean log-likelihood is below ``tol``.

    Near its end EM is a linear map, whose fixed point is extrapolated from the last steps
    (Anderson's acceleration; Henderson and Varadhan 2019 for EM). A step that lowers the
    likelihood is taken back, and EM goes on from where it was.
    """
    history: list[float] = []
    past: list[tuple[Floats, Floats]] = []
    fallback: Lines | None = None
    best, gain, measured = -np.inf, np.inf, lines
    converged, calm, plain = False, 0, PLAIN_STEPS
    for _ in range(max_iter):
        expected = expect(rows, lines)
        history.append(expected.mean_log_likelihood)
        if fallback is not None and not expected.mean_log_likelihood >= best - rows.rounding:
            lines, fallback, past, plain = fallback, None, [], PLAIN_STEPS
            calm, converged = 0, gain < tol  # the step was within rounding of the maximum
            if converged:
                break
            continue
        best, measured = expected.mean_log_likelihood, lines
        updated = maximise(expected, lines, model)
        scale = _scale(lines)
        here, there = _pack(lines), _pack(updated)
        past = [*past, (there, there - here)][-DEPTH - 1 :]
        aim = _extrapolated(past, scale)
        # The score is the scale times EM's step: a quadratic gains half its product with the rest.
        step, rest = scale * past[-1][1], scale * (aim - here)
        gain = 0.5 * max(float(step @ step), abs(float(step @ rest)))
        plain -= 1
        calm = calm + 1 if len(past) > PLAIN_STEPS and gain < tol else 0
        converged = calm == CALM
        if converged:
            break
        if plain > 0:
            lines, fallback = updated, None
        else:
            lines, fallback = _unpack(aim, updated, model), updated
    return Climb(measured, best, tuple(history), converged)


def _extrapolated(past: list[tuple[Floats, Floats]], scale: Floats) -> Floats:
    """Return where steps would vanish if they were linear in the position."""
    images, steps = (np.stack(parts) for parts in zip(*past, strict=True))
    if len(past) == 1:
        return np.asarray(images[-1])
    moved = np.diff(steps, axis=0) * scale
    gram = moved @ moved.T
    gram += (DAMPING * np.trace(gram) + np.finfo(float).tiny) * np.eye(len(gram))
    part = np.linalg.solve(gram, moved @ (steps[-1] * scale))
    return np.asarray(images[-1] - part @ np.diff(images, axis=0))


def _scale(lines: Lines) -> Floats:
    """Roots of the complete information of each parameter, for one row."""
    root = np.sqrt(lines.weights)
    slopes = np.repeat(root / np.sqrt(lines.variances), lines.coef.shape[1])
    return np.concatenate([slopes, root, root / np.sqrt(2)])


def _pack(lines: Lines) -> Floats:
    weights = np.log(np.maximum(lines.weights, SMALLEST_WEIGHT))
    return np.concatenate([lines.coef.ravel(), weights, np.log(lines.variances)])


def _unpack(packed: Floats, like: Lines, model: Model) -> Lines:
    k, q = like.coef.shape
    weights = np.exp(packed[k * q : -k] - packed[k * q : -k].max())
    variances = np.exp(np.clip(packed[-k:], np.log(SMALLEST_VARIANCE), 50.0))
    if not model.shared:
        variances = np.maximum(variances, variances.max() / LARGEST_RATIO)
    return Lines(weights / weights.sum(), packed[: k * q].reshape(k, q), variances)
