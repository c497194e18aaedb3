"""Try lines beside others, and measure how far each would raise the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, map_into, move_like, namespace_of
from implicitmoments.regression.design_rows import FeatureBlock, FeatureRows, as_sum
from implicitmoments.regression.em import Model, solve_lines
from implicitmoments.regression.likelihood import (
    Lines,
    densities,
    responsibilities,
    weighted_products,
)
from implicitmoments.rows import Sums

__all__ = ["Auditioned", "audition"]

STEPS, LAST_STEPS = 8, 6  # while the noise of a candidate falls, and after
LIGHTEST = 0.03  # weight of a candidate, over the mean weight
WIDEST = 0.5  # standard deviation from which candidates start, of that of y
LARGEST_LOG = 60.0


@dataclass(frozen=True, eq=False)
class Auditioned:
    """Candidates after a few steps of EM, each alone beside the lines that are there.

    Attributes
    ----------
    points : array of shape (m, q)
    weights : array of shape (m,)
    gains : array of shape (m,)
        In mean log-likelihood, of adding the one candidate. The best comes first.
    """

    points: Floats
    weights: Floats
    gains: Floats


def audition(rows: FeatureRows, lines: Lines, points: Floats, model: Model) -> Auditioned:
    """Run EM for each candidate by itself, the lines fixed, and measure what it adds.

    The noise of a candidate falls from that of y to that of the lines, so that it is drawn to
    rows from afar first.
    """
    deviation = float(np.sqrt(lines.weights @ lines.variances))
    widths = np.geomspace(max(WIDEST, deviation), deviation, STEPS)
    widths = np.append(widths, np.full(LAST_STEPS, deviation))
    weights, gains = np.full(len(points), 1 / (lines.k + 1)), np.zeros(len(points))
    rows = rows.noting(_Known(lines))
    width = 2 * rows.n_features + 4 * (len(points) + lines.k)
    for step in range(len(widths) + 1):
        variance = float(widths[min(step, len(widths) - 1)] ** 2)
        trial = _Trial(lines, points, weights, variance)
        sums = rows.fold(trial, width, "trial of candidates")
        gains, products = sums["gains"], sums["products"]
        if step < len(widths):
            points = solve_lines(products, points, model)
            weights = np.clip(products[:, 0, 0] / rows.mass, LIGHTEST / lines.k, 0.5)
    order = np.argsort(-gains, kind="stable")
    return Auditioned(points[order], weights[order], gains[order] / rows.mass)


@dataclass(frozen=True, eq=False)
class _Known:
    """Log-likelihoods of the rows of a block under the lines that are there."""

    lines: Lines

    def __call__(self, block: FeatureBlock) -> Array:
        return responsibilities(self.lines, block)[1]


@dataclass(frozen=True, eq=False)
class _Trial:
    """What each candidate by itself would gain beside the lines, and the sums of its M-step."""

    lines: Lines
    points: Floats
    weights: Floats
    variance: float

    def __call__(self, block: FeatureBlock) -> Sums:
        xp = namespace_of(block.u)
        known = _Known(self.lines)(block) if block.known is None else block.known
        weights = move_like(self.weights, block.u)[:, None]
        excess = densities(self.points, self.variance, block)
        excess -= known
        excess = map_into("exp", _clipped(excess))
        excess *= weights
        total = excess + (1 - weights)
        gains = as_sum(xp.log(total) @ block.counts)
        excess /= total
        excess *= block.counts
        return {"gains": gains, "products": weighted_products(excess, block.u)}


def _clipped(logs: Array) -> Array:
    """Bound logarithms of ratios; in NumPy in place."""
    if isinstance(logs, np.ndarray):
        return np.clip(logs, -LARGEST_LOG, LARGEST_LOG, out=logs)
    return namespace_of(logs).clip(logs, -LARGEST_LOG, LARGEST_LOG)
