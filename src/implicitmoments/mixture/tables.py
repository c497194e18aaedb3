"""Mixtures for a table as it is: the product of a few kinds of columns, as a family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats
from implicitmoments.mixture.cells import Counts, Numbers, Outcomes
from implicitmoments.mixture.family import Family, Parameters, Places, principal_scores
from implicitmoments.rows import Block, Rows


@dataclass(frozen=True, eq=False)
class Tables(Family):
    """Rows of cells of several kinds, NaN where one is missing, independent given the component.

    Features are 1, those of the kinds, and what these lack of the log density, which is shared.
    A row without any cell has the weights as responsibilities.
    """

    kinds: tuple[Numbers | Counts | Outcomes, ...] = ()
    widths: tuple[int, ...] = ()  # features of each kind; ``prepare`` sets them

    def prepare(self, rows: Rows) -> Tables:
        """Return the family in the units of some rows."""
        x = np.asarray(rows.sample(20_000, 0).points, dtype=np.float64)
        kinds = tuple(kind.prepare(x) for kind in self.kinds)
        widths = tuple(kind.features(x[:1])[0].shape[1] for kind in kinds)
        n = 1 + sum(widths)
        return replace(self, kinds=kinds, widths=widths, n_own=n, n_features=n + 1)

    def features(self, block: Block) -> Array:
        """Return 1, the features of all kinds, and the rest of the log density."""
        x = np.asarray(block["x"], dtype=np.float64)
        parts, rests = zip(*(kind.features(x) for kind in self.kinds), strict=True)
        return np.column_stack([np.ones(len(x)), *parts, sum(rests)])

    def _parts(self, sums: Floats) -> list[Floats]:
        """Return the features or sums of each kind."""
        ends = 1 + np.cumsum(self.widths)
        return np.split(sums[..., : ends[-1]], [1, *ends[:-1].tolist()], axis=-1)[1:]

    def pool(self, sums: Floats, rest: Floats) -> Any:  # noqa: ARG002
        """Return what the components of each kind borrow from."""
        parts = zip(self.kinds, self._parts(sums), strict=True)
        return [kind.pool(part) for kind, part in parts]

    def estimate(self, sums: Floats, shared: Any) -> Parameters:
        """Return the parameters of all kinds."""
        parts = zip(self.kinds, self._parts(sums), shared, strict=True)
        return reduce(or_, [kind.estimate(part, pooled) for kind, part, pooled in parts])

    def coefficients(self, parameters: Parameters) -> tuple[Floats, Floats | None]:
        """Return the coefficients of all kinds; the rest of the log density counts once."""
        parts = [kind.coefficients(parameters) for kind in self.kinds]
        one = (*parts[0].shape[:-1], 1)
        if self.n_own == self.n_features:
            return np.concatenate([np.zeros(one), *parts, np.ones(one)], axis=-1), None
        return np.concatenate([np.zeros(one), *parts], axis=-1), np.ones((*one[:-2], 1, 1))

    def unshared(self) -> Tables:
        """Return the family whose components have a coefficient for the rest, too."""
        return replace(self, n_own=self.n_features)

    def split_scores(self, features: Floats, weights: Floats) -> Floats:
        """Return principal coordinates of what cells differ from the expected ones."""
        sums = (weights[:, None].astype(features.dtype) @ features).astype(np.float64)
        parts = zip(self.kinds, self._parts(features), self._parts(sums), strict=True)
        apart = [kind.residuals(part, whole) for kind, part, whole in parts]
        return principal_scores(np.concatenate(apart, axis=-1).astype(features.dtype), weights)

    def points(self, features: Floats) -> Floats:
        """Return cells in units of their spread."""
        parts = zip(self.kinds, self._parts(features), strict=True)
        return np.concatenate([kind.points(part) for kind, part in parts], axis=-1)

    def n_parameters(self, k: int) -> int:
        """Return the number of weights, and of parameters of all kinds."""
        return k - 1 + k * sum(kind.n_free for kind in self.kinds)

    def steps(self, parameters: Parameters) -> Parameters:
        """Return those of all kinds."""
        return reduce(or_, [kind.steps(parameters) for kind in self.kinds])

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return the parameters of all kinds in the user's units."""
        return reduce(or_, [kind.to_user(parameters) for kind in self.kinds])

    def draw(self, found: Parameters, labels: Places, rng: np.random.Generator) -> Floats:
        """Return cells (n, ·) of components, NaN in columns that are no cells."""
        n_columns = 1 + max(int(kind.places.max()) for kind in self.kinds)
        drawn = np.full((len(labels), n_columns), np.nan)
        for kind in self.kinds:
            drawn[:, kind.places] = kind.draw(found, labels, rng)
        return drawn
