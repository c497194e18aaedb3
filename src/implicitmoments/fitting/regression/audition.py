"""Try lines beside others, and measure how far each would raise the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.em import Model, solve_lines
from implicitmoments.fitting.regression.features import FeatureRows
from implicitmoments.fitting.regression.likelihood import (
    Lines,
    densities,
    responsibilities,
    weighted_products,
)

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
    weights = np.full(len(points), 1 / (lines.k + 1))
    known = [responsibilities(lines, block)[1] for block in rows.blocks()]
    gains = np.zeros(len(points))
    for step in range(len(widths) + 1):
        width = widths[min(step, len(widths) - 1)]
        products = np.zeros((len(points), rows.n_features + 1, rows.n_features + 1))
        gains[:] = 0.0
        for block, there in zip(rows.blocks(), known, strict=True):
            excess = densities(points, width**2, block) - there
            np.clip(excess, -LARGEST_LOG, LARGEST_LOG, out=excess)
            np.exp(excess, out=excess)
            excess *= weights[:, None]
            total = excess + (1 - weights)[:, None]
            gains += np.log(total) @ block.counts
            excess /= total
            excess *= block.counts
            weighted_products(products, excess, block.u)
        if step < len(widths):
            points = solve_lines(products, points, model)
            weights = np.clip(products[:, 0, 0] / rows.mass, LIGHTEST / lines.k, 0.5)
    order = np.argsort(-gains, kind="stable")
    return Auditioned(points[order], weights[order], gains[order] / rows.mass)
