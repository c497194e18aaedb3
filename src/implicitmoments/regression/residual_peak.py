"""The highest peak of the characteristic function of the residual of lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.regression.initialisation import (
    WaveRows,
    noise_maximum,
    peaks_left,
    search_span,
)
from implicitmoments.regression.lines import Lines, Model
from implicitmoments.rows import Rows


@dataclass(frozen=True, eq=False)
class Peak:
    """The highest peak of the characteristic function of the residual of lines."""

    height: float  # in standard errors
    bound: float  # where nothing but noise is left
    point: Floats  # (q,), where it is

    @property
    def unexplained(self) -> bool:
        """Whether noise does not explain it."""
        return self.height > self.bound


def highest_peak(model: Model, rows: Rows, lines: Lines, rng: np.random.Generator) -> Peak:
    """Search the residual of lines for a peak: with discrete inputs too it shows wrong lines."""
    waves = WaveRows.of(rows, search_span(rows, lines.k))
    peaks = peaks_left(waves, lines, model, rng)
    return Peak(float(peaks.z[0]), noise_maximum(waves.n_searched), peaks.points[0])
