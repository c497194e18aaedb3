"""What a fitted hypothesis says of points as they were given, and how much it explains."""

from __future__ import annotations

import math
from dataclasses import dataclass

from implicitmoments.activation.hypothesis import FittedPolynomial
from implicitmoments.activation.network import Network
from implicitmoments.activation.precision import wide
from implicitmoments.arrays import Array, namespace_of
from implicitmoments.rows import Block, RowDraws, Source, Stream, Sums, Whitening

__all__ = ["Predictor", "explained"]

SCORED_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class Predictor:
    """Evaluates a hypothesis at points as they were given.

    Attributes
    ----------
    hypothesis : FittedPolynomial or Network
        Of standardised points.
    whitening : Whitening or None
    """

    hypothesis: FittedPolynomial | Network
    whitening: Whitening | None

    def __call__(self, x: Array) -> Array:
        """Predict the labels of points (n, d)."""
        if self.whitening is not None:
            x = self.whitening.apply({"x": x})["x"]
        return self.hypothesis(x)


def explained(source: Source, predictor: Predictor, block_rows: int | None = None) -> float:
    """Return the part of the variance of the labels that predictions explain, in one pass.

    NaN for a single row.
    """
    n, begin = source.n_rows or 0, range(1)
    first = float(source.read(begin, RowDraws(0, begin, (Stream.ROWS,)))["y"][0])
    size = block_rows or SCORED_ROWS
    sums = source.fold(_Squares(predictor, first), range(n), size, what="score")
    left, total, square, mass = (float(sums[name]) for name in ("left", "total", "square", "mass"))
    spread = square - total**2 / mass
    if n < 2:
        return math.nan
    if spread > 0:
        return 1 - left / spread
    return 0.0 if left > 0 else 1.0


@dataclass(frozen=True)
class _Squares:
    """Sums squares of residuals, and labels and their squares about the first of them."""

    predictor: Predictor
    about: float

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        y = wide(block["y"])
        xp = namespace_of(y)
        counts = wide(block["counts"]) if "counts" in block else xp.ones_like(y)
        off, residual = y - self.about, y - wide(self.predictor(block["x"]))
        return {
            "left": xp.sum(counts * residual**2),
            "total": xp.sum(counts * off),
            "square": xp.sum(counts * off**2),
            "mass": xp.sum(counts),
        }
