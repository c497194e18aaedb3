r"""Standard errors of a mixture of any family, from differences of scores.

The score of the log-likelihood in any parameter is the derivative of the expected complete
log-likelihood, with responsibilities held fixed (Fisher's identity). EM steps at parameters that
are moved a little to either side therefore give the observed information, and the log densities
of the rows there give the scores of single rows, for the sandwich.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, expect
from implicitmoments.mixture.family import Family, Parameters

STEP = 1e-3  # of the noise


@dataclass(frozen=True, eq=False)
class Chart:
    """Steps of m free parameters: log weights of all components but the last, and others."""

    family: Family
    log_weights: Floats  # (k,)
    parameters: Parameters
    steps: Parameters  # (c, q, ·) of each array (c, ·) that is not known, c = 1 if shared
    m: int

    def moved(self, size: float) -> tuple[Floats, Parameters]:
        """Return log weights (m, k) and parameters (m, c, ·) after one step each."""
        start = len(self.log_weights) - 1
        logs = np.tile(self.log_weights, (self.m, 1))
        logs[:start, :start] += size * np.eye(start)
        found = {name: np.stack([part] * self.m) for name, part in self.parameters.items()}
        for name, steps in self.steps.items():
            c, q = steps.shape[:2]
            rows, components = start + np.arange(c * q), np.repeat(np.arange(c), q)
            found[name][rows, components] += size * steps.reshape(c * q, *steps.shape[2:])
            start += c * q
        return log_softmax(logs, axis=-1), found

    def gradients(self, logs: Floats, parameters: Parameters, sums: Floats) -> Floats:
        """Return gradients (m, m) of the complete log-likelihoods of m sums at m parameters.

        A step of one kind is taken in all components at once, because each step of a component
        changes its own part alone.
        """
        sizes = sums[..., 0]
        found = [STEP * (sizes - sizes.sum(-1, keepdims=True) * np.exp(logs))[:, :-1]]
        for name, steps in self.steps.items():
            slopes = np.zeros((*sums.shape[:-1], steps.shape[1]))
            for q, change in enumerate(STEP * np.moveaxis(steps, 1, 0)):
                for sign in (1, -1):
                    moved = parameters | {name: parameters[name] + sign * change}
                    slopes[..., q] += sign * self.family.complete_level(sums, moved) / 2
            if len(steps) == 1:  # of all components, which may be one
                slopes = slopes.sum(1, keepdims=True)
            found.append(slopes.reshape(len(sums), -1))
        return np.hstack(found)


def standard_errors(
    sample: Sample, weights: Floats, parameters: Parameters, n: float, *, robust: bool
) -> Parameters:
    """Return standard errors of weights and parameters, with the names and shapes of attributes.

    Of a mixture that was fitted to n rows, from a sample of them; ``parameters`` are in the units
    of the family. They are NaN where the information is not positive definite, and for more than
    1,000 parameters.
    """
    family = sample.family.plain().unshared()
    steps = family.steps(parameters)
    m = len(weights) - 1 + sum(part.shape[0] * part.shape[1] for part in steps.values())
    chart = Chart(family, np.log(weights), parameters, steps, m)
    found = {"weights": weights, **family.to_user(parameters)}
    unknown = {name: np.full(np.shape(part), np.nan) for name, part in found.items()}
    if chart.m > 1_000:
        return unknown
    try:
        information, outer = measure_information(replace(sample, family=family), chart)
        # rows say nothing of degrees of freedom at their bound
        known = np.diag(information) > 1e-8 * STEP**2 * sample.n
        inside = np.ix_(known, known)
        np.linalg.cholesky(information[inside])
        inverse = np.linalg.inv(information[inside])
    except np.linalg.LinAlgError:
        return unknown
    if robust:
        inverse = inverse @ outer[inside] @ inverse
    sides = (chart.moved(size) for size in (STEP, -STEP))
    ahead, behind = ({"weights": np.exp(logs)} | family.to_user(part) for logs, part in sides)
    errors = {}
    for name, part in unknown.items():
        turn = (ahead[name] - behind[name]).reshape(chart.m, -1) / 2
        squares = (turn[known] * (inverse @ turn[known])).sum(0) * (sample.n / n)
        squares[np.any(turn[~known] != 0, axis=0)] = np.nan
        errors[name] = np.sqrt(squares).reshape(part.shape)
    return errors


def measure_information(sample: Sample, chart: Chart) -> tuple[Floats, Floats]:
    """Return the observed information (m, m), and products of scores of rows, per step.

    From so few rows that it takes some seconds at most.
    """
    k, s = len(chart.log_weights), sample.family.n_own
    few = sample.thinned(max(2**30 // (chart.m * k * s), 1_000))
    factor = sample.n / few.n
    # proportions add to the spread of the estimates, counts repeat rows
    counts = bool(np.all(sample.weights == np.round(sample.weights)))
    sides = [chart.moved(STEP), chart.moved(-STEP)]
    coefficients = [few.family.coefficients(parameters)[0] for _, parameters in sides]
    for (logs, _), found in zip(sides, coefficients, strict=True):
        found[..., 0] += logs
    outer, sums = np.zeros((chart.m, chart.m)), np.zeros((2, chart.m, k, s))
    for _, features, weights in few.blocks(chart.m * k):
        parts = [expect(few.family, each, features, weights) for each in coefficients]
        sums += np.stack([np.asarray(part[2]) for part in parts])
        scores = np.asarray(parts[0][0] - parts[1][0]) / 2  # in units of the steps
        outer += (scores * (weights if counts else weights**2)) @ scores.T
    ahead, behind = (chart.gradients(*side, part) for side, part in zip(sides, sums, strict=True))
    information = (behind - ahead) / 2
    return factor * (information + information.T) / 2, factor * outer
