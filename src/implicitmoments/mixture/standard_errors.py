r"""Standard errors of a mixture of any family, from differences of scores.

The score of the log-likelihood in any parameter is the derivative of the expected complete
log-likelihood, with responsibilities held fixed (Fisher's identity). EM steps at parameters that
are moved a little to either side therefore give the observed information, and the log densities
of the rows there give the scores of single rows, for the sandwich.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, expect
from implicitmoments.mixture.family import Family

STEP = 1e-3  # of the scales of parameters
MOST_PARAMETERS = 1_000  # beyond it, no standard errors are computed
UNINFORMED = 1e-8  # information per row below which a parameter has no standard error
MOST_NUMBERS = 2**34  # products that a computation may take: fewer rows are used beyond


class Errors(NamedTuple):
    """Standard errors of weights, and those of the family in the form of its parameters."""

    weights: Floats  # (k,)
    family: Any  # None if the information is not positive definite


@dataclass(frozen=True, eq=False)
class _Places:
    """Parameters in one vector: log weights of all components but the last, own, shared."""

    family: Family
    k: int
    width: int  # own parameters of a component

    def coefficients(self, theta: Floats) -> Floats:
        """Return coefficients (..., k, s) with log weights, of vectors (..., m)."""
        lead, free, own_end = theta.shape[:-1], self.k - 1, self.k - 1 + self.k * self.width
        logs = np.concatenate([theta[..., :free], np.zeros((*lead, 1))], axis=-1)
        logs = logs - np.log(np.exp(logs).sum(-1, keepdims=True))
        own = theta[..., free:own_end].reshape(*lead, self.k, self.width)
        found = self.family.coefficients_at(own, theta[..., own_end:])
        found[..., 0] += logs
        return found


def standard_errors(sample: Sample, parameters: Any, n: float, *, robust: bool) -> Errors:
    """Return standard errors of a mixture that was fitted to n rows, from a sample of them."""
    family, weights = sample.family.plain(), np.asarray(parameters.weights, dtype=np.float64)
    sample = replace(sample, family=family)
    own, shared = family.vectors(parameters)
    places = _Places(family, len(weights), own.shape[1])
    logs = np.log(np.maximum(weights, 1e-300))
    theta = np.concatenate([logs[:-1] - logs[-1], own.ravel(), shared])
    unknown = Errors(np.full(len(weights), np.nan), None)
    if len(theta) > MOST_PARAMETERS:
        return unknown
    try:
        blocks, last = family.steps(own, shared)
        steps = STEP * block_diag(np.eye(len(weights) - 1), *blocks, last)
        information, outer = _information(sample, places, theta, steps)
    except np.linalg.LinAlgError:
        return unknown
    # rows say nothing of degrees of freedom at their bound
    known = np.diag(information) > UNINFORMED * STEP**2 * sample.n
    inside = np.ix_(known, known)
    try:
        np.linalg.cholesky(information[inside])
        inverse = np.linalg.inv(information[inside])
    except np.linalg.LinAlgError:
        return unknown
    if robust:
        inverse = inverse @ outer[inside] @ inverse
    if not np.all(np.diag(inverse) > 0):
        return unknown
    covariance = steps[:, known] @ inverse @ steps[:, known].T * (sample.n / n)
    covariance[np.diag(np.any(steps[:, ~known] != 0, axis=1))] = np.nan
    free = len(weights) - 1
    turn = (np.diag(weights) - np.outer(weights, weights))[:, :free]
    squares = np.einsum("ia,ab,ib->i", turn, covariance[:free, :free], turn)
    return Errors(np.sqrt(squares), family.errors(covariance[free:, free:], len(weights)))


def _information(
    sample: Sample, places: _Places, theta: Floats, steps: Floats
) -> tuple[Floats, Floats]:
    """Return the observed information (m, m), and products of scores of rows, per step."""
    m = len(theta)
    ahead, behind = theta + steps.T, theta - steps.T
    rows = _affordable_rows(sample, m * places.k)
    factor = sample.n / float(sample.weights[rows].sum())
    # proportions add to the spread of the estimates, counts repeat rows
    counts = bool(np.all(sample.weights == np.round(sample.weights)))
    gradients, outer = np.zeros((2, m, m)), np.zeros((m, m))
    moved = [places.coefficients(ahead), places.coefficients(behind)]
    sums = [np.zeros((m, places.k, sample.features.shape[1])) for _ in moved]
    size = max(64, 2**21 // (m * places.k))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        features, weights = sample.features[some], sample.weights[some]
        logs = []
        for side, coefficients in enumerate(moved):
            log_density, _, part = expect(sample.family, coefficients, features, weights)
            sums[side] += np.asarray(part)
            logs.append(np.asarray(log_density))
        scores = (logs[0] - logs[1]) / 2  # in units of the steps
        outer += (scores * (weights if counts else weights**2)) @ scores.T
    for side, at in enumerate((ahead, behind)):
        gradients[side] = _gradients(places, at, sums[side], steps)
    information = -(gradients[0] - gradients[1]) / 2
    return factor * (information + information.T) / 2, factor * outer


def _gradients(places: _Places, theta: Floats, sums: Floats, steps: Floats) -> Floats:
    """Return the gradients (m, m) of the complete log-likelihoods of sums at vectors (m, m)."""
    m = theta.shape[1]
    found = np.empty((len(theta), m))
    level = places.family.complete_level
    for j in range(m):
        ahead, behind = (places.coefficients(theta + sign * steps[:, j]) for sign in (1, -1))
        found[:, j] = (level(sums, ahead) - level(sums, behind)).sum(-1) / 2
    return found


def _affordable_rows(sample: Sample, n_components: int) -> np.ndarray:
    """Return evenly spaced rows of a sample, as many as the computation may take."""
    n, s = sample.features.shape
    most = max(MOST_NUMBERS // (4 * n_components * s), 1_000)
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)
