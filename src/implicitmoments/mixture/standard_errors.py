r"""Standard errors of a mixture of any family, from differences of scores.

The score of the log-likelihood in any parameter is the derivative of the expected complete
log-likelihood, with responsibilities held fixed (Fisher's identity). EM steps at parameters that
are moved a little to either side therefore give the observed information, and the log densities
of the rows there give the scores of single rows, for the sandwich.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, expect
from implicitmoments.mixture.family import Family, Parameters, Places, all_coefficients

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool]]

STEP = 1e-3  # of the noise
MOST_PARAMETERS = 1_000  # beyond it, no standard errors are computed
UNINFORMED = 1e-8  # information per row below which a parameter has no standard error
MOST_NUMBERS = 2**34  # products that a computation may take: fewer rows are used beyond


class Errors(NamedTuple):
    """Standard errors of weights, and those of the parameters in the user's units."""

    weights: Floats  # (k,)
    parameters: Parameters | None  # None if the information is not positive definite


@dataclass(frozen=True, eq=False)
class _Chart:
    """Steps of m free parameters: log weights of all components but the last, and others."""

    family: Family
    log_weights: Floats  # (k,)
    parameters: Parameters
    steps: Parameters  # (c, q, ·) of each array (c, ·) that is not known, c = 1 if shared

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.log_weights)

    @property
    def m(self) -> int:
        """Number of free parameters."""
        return self.k - 1 + sum(len(each) * int(each.shape[1]) for each in self.steps.values())

    def moved(self, size: float) -> tuple[Floats, Parameters]:
        """Return log weights (m, k) and parameters (m, c, ·) after one step each."""
        logs = np.repeat(self.log_weights[None], self.m, axis=0)
        logs[: self.k - 1, : self.k - 1] += size * np.eye(self.k - 1)
        found = {
            name: np.repeat(part[None], self.m, axis=0) for name, part in self.parameters.items()
        }
        start = self.k - 1
        for name, steps in self.steps.items():
            c, q = steps.shape[:2]
            rows = start + np.arange(c * q)
            found[name][rows, np.repeat(np.arange(c), q)] += size * steps.reshape(
                c * q, *steps.shape[2:]
            )
            start += c * q
        return logs, found

    def coefficients(self, logs: Floats, parameters: Parameters) -> Floats:
        """Return coefficients (m, k, n_features), log weights included."""
        found = all_coefficients(self.family, parameters)
        found[..., 0] += logs - np.log(np.exp(logs).sum(-1, keepdims=True))
        return found

    def gradients(self, logs: Floats, parameters: Parameters, sums: Floats) -> Floats:
        """Return gradients (m, m) of the complete log-likelihoods of m sums at m parameters.

        A step of one kind is taken in all components at once, because each step of a component
        changes its own part alone.
        """
        shares = np.exp(logs) / np.exp(logs).sum(-1, keepdims=True)
        sizes = sums[..., 0]
        found = [STEP * (sizes - sizes.sum(-1, keepdims=True) * shares)[:, :-1]]
        for name, steps in self.steps.items():
            changes = STEP * np.moveaxis(steps, 1, 0)  # (q, c, ·)
            slopes = np.stack(
                [
                    self._level(sums, parameters, name, change)
                    - self._level(sums, parameters, name, -change)
                    for change in changes
                ],
                axis=-1,
            )
            if len(steps) < self.k:  # shared by all components
                slopes = slopes.sum(1, keepdims=True)
            found.append(slopes.reshape(len(sums), -1) / 2)
        return np.hstack(found)

    def _level(self, sums: Floats, parameters: Parameters, name: str, change: Floats) -> Floats:
        """Return complete log-likelihoods (m, k) after a change of one array."""
        return self.family.complete_level(sums, parameters | {name: parameters[name] + change})


def standard_errors(
    sample: Sample, weights: Floats, parameters: Parameters, n: float, *, robust: bool
) -> Errors:
    """Return standard errors of a mixture that was fitted to n rows, from a sample of them.

    ``parameters`` are in the units of the family.
    """
    family = sample.family.plain()
    unknown = Errors(np.full(len(weights), np.nan), None)
    try:
        chart = _Chart(family, np.log(weights), parameters, family.steps(parameters))
        if chart.m > MOST_PARAMETERS:
            return unknown
        information, outer = _information(replace(sample, family=family), chart)
        # rows say nothing of degrees of freedom at their bound
        known = np.diag(information) > UNINFORMED * STEP**2 * sample.n
        inside = np.ix_(known, known)
        np.linalg.cholesky(information[inside])
        inverse = np.linalg.inv(information[inside])
    except np.linalg.LinAlgError:
        return unknown
    if robust:
        inverse = inverse @ outer[inside] @ inverse
    if not np.all(np.diag(inverse) > 0):
        return unknown
    covariance = np.zeros_like(information)
    covariance[inside] = inverse * (sample.n / n)
    free = len(weights) - 1
    turn = STEP * (np.diag(weights) - np.outer(weights, weights))[:free]
    ahead, behind = (family.to_user(chart.moved(size)[1]) for size in (STEP, -STEP))
    errors = {
        name: _deviations((ahead[name] - behind[name]) / 2, covariance, known)
        for name in parameters
    }
    return Errors(_deviations(turn, covariance[:free, :free], known[:free]), errors)


def _deviations(changes: Floats, covariance: Floats, known: Mask) -> Floats:
    """Return the standard errors (·) of numbers that m steps change by (m, ·).

    They are NaN where an unknown step changes them.
    """
    flat = changes.reshape(len(covariance), math.prod(changes.shape[1:]))
    squares = (flat * (covariance @ flat)).sum(0)
    squares[np.any(flat[~known] != 0, axis=0)] = np.nan
    return np.asarray(np.sqrt(squares)).reshape(changes.shape[1:])


def _information(sample: Sample, chart: _Chart) -> tuple[Floats, Floats]:
    """Return the observed information (m, m), and products of scores of rows, per step."""
    rows = _affordable_rows(sample, chart.m * chart.k)
    factor = sample.n / float(sample.weights[rows].sum())
    # proportions add to the spread of the estimates, counts repeat rows
    counts = bool(np.all(sample.weights == np.round(sample.weights)))
    sides = [chart.moved(STEP), chart.moved(-STEP)]
    coefficients = [chart.coefficients(*side) for side in sides]
    shape = (chart.m, chart.k, sample.features.shape[1])
    outer, sums = np.zeros((chart.m, chart.m)), [np.zeros(shape) for _ in sides]
    size = max(64, 2**21 // (chart.m * chart.k))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        features, weights = sample.features[some], sample.weights[some]
        logs = []
        for side, each in enumerate(coefficients):
            log_density, _, part = expect(sample.family, each, features, weights)
            sums[side] += np.asarray(part)
            logs.append(np.asarray(log_density))
        scores = (logs[0] - logs[1]) / 2  # in units of the steps
        outer += (scores * (weights if counts else weights**2)) @ scores.T
    ahead, behind = (chart.gradients(*side, part) for side, part in zip(sides, sums, strict=True))
    information = (behind - ahead) / 2
    return factor * (information + information.T) / 2, factor * outer


def _affordable_rows(sample: Sample, n_components: int) -> Places:
    """Return evenly spaced rows of a sample, as many as the computation may take."""
    n, s = sample.features.shape
    most = max(MOST_NUMBERS // (4 * n_components * s), 1_000)
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)
