"""Predictions in the user's coordinates, and the explained variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from implicitmoments.activation.hypothesis import FittedPolynomial
from implicitmoments.activation.network import Network
from implicitmoments.arrays import Array, as_double, namespace_of
from implicitmoments.rows import Block, Rows, Sums, Whitening, weights_of


@dataclass(frozen=True, eq=False)
class Predictor:
    """Evaluates a hypothesis at points in the user's coordinates."""

    hypothesis: FittedPolynomial | Network  # of standardised points
    whitening: Whitening | None

    def __call__(self, x: Array) -> Array:
        """Predict the labels of points (n, d)."""
        if self.whitening is not None:
            x = self.whitening.apply({"x": x})["x"]
        return self.hypothesis(x)


def r_squared(rows: Rows, predictor: Predictor) -> float:
    """Return the explained share of the variance of the labels, in one pass; NaN for one row."""
    measure = partial(_sum_squares, predictor, float(rows.first["y"][0]))
    sums = rows.fold(measure, width=rows.n_features, what="score")
    left, first, second, total = (
        float(sums[name]) for name in ("left", "first", "second", "total")
    )
    spread = second - first**2 / total
    if rows.n < 2:
        return math.nan
    if spread > 0:
        return 1 - left / spread
    return 0.0 if left > 0 else 1.0


def _sum_squares(predictor: Predictor, about: float, block: Block) -> Sums:
    """Sum squares of residuals, and labels and their squares about one of them."""
    y, counts = as_double(block["y"]), as_double(weights_of(block))
    xp = namespace_of(y)
    off, residual = y - about, y - as_double(predictor(block["x"]))
    return {
        "left": xp.sum(counts * residual**2),
        "first": xp.sum(counts * off),
        "second": xp.sum(counts * off**2),
        "total": xp.sum(counts),
    }
