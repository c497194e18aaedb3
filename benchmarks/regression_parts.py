"""EM for lines from parts of the search of the library, each without the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from implicitmoments.regression import (
    LineFamily,
    Lines,
    Model,
    least_ratio,
    search_span,
    standardise,
)
from implicitmoments.regression.initialisation import WaveRows, decode_moments, first_lines
from implicitmoments.regression.line_search import rows_for
from implicitmoments.rows import Rows
from implicitmoments.search import LOCAL, SEARCH, Budget, Fitted, grow, run_em, search_moves

Floats = np.ndarray[Any, np.dtype[np.float64]]
DEFAULT = Model()


class Parts:
    """EM with the inner loops of the library, in the same coordinates.

    ``floor`` bounds the noise of lines with few rows as the library does.
    """

    def __init__(
        self, X: Floats, y: Floats, model: Model = DEFAULT, *, floor: bool = False
    ) -> None:
        self.standard, self.rows = standardise(Rows.of(X, y=y), intercept=model.intercept)
        q = self.rows.n_features - 1
        ratio = least_ratio(min(self.rows.kept, rows_for(1, q)), q) if floor else 0.0
        self.family = LineFamily(model, ratio)

    def em(self, start: Lines) -> Fitted[Lines]:
        """Run EM on all rows."""
        return run_em(self.family, self.rows, start, Budget(self.rows.n, 500, 1e-8))

    def moments_only(self, k: int, seed: int) -> Fitted[Lines]:
        """Return EM from peaks of the characteristic function and decoded moments, no moves."""
        rng, model = np.random.default_rng(seed), self.family.model
        waves = WaveRows.of(self.rows, search_span(self.rows, k))
        vectors, _ = decode_moments(self.rows, k, seed)
        return self.em(first_lines(waves, k, model, rng, vectors).lines)

    def moves_only(self, k: int, seed: int) -> Fitted[Lines]:
        """Return EM after growth from one line by splits, and moves."""
        q, rng = self.rows.n_features - 1, np.random.default_rng(seed)
        one = Lines(np.ones(1), np.zeros((1, q)), np.ones(1))
        local = replace(LOCAL, rows=30 * q)
        grown = grow(self.family, self.rows, one, k, rng, local=local).state
        budget = replace(SEARCH, tol=1e-5)
        return self.em(search_moves(self.family, self.rows, grown, 8, rng, budget, local).state)

    def to_standard(self, lines: Lines) -> Lines:
        """Return lines that were given in the units of the rows."""
        scale, inputs = self.standard.scale, self.standard.whitening
        intercept = lines.coef[:, 0] + lines.coef[:, 1:] @ inputs.mean - self.standard.center
        coef = np.column_stack([intercept, lines.coef[:, 1:] @ inputs.root.T]) / scale
        return Lines(lines.weights, coef, lines.variances / scale**2)

    def from_standard(self, lines: Lines) -> Lines:
        """Return lines in the units of the rows."""
        coef, intercept, noise = self.standard.original(lines)
        return Lines(lines.weights, np.column_stack([intercept, coef]), noise**2)
