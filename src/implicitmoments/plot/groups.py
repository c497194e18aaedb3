"""Rows by group: what pictures and tables of a report show.

Shapes: n rows of d columns, k groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import softmax

from implicitmoments.arrays import TINY, Floats
from implicitmoments.estimator import FittedEstimator, as_floats
from implicitmoments.picture_data import Integers, LinePicture, Means, NoPictureError, RowSample
from implicitmoments.plot.canvas import colour, frozen_copy

DOUBT = 0.9  # probability of the own group, below which a row is in doubt


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows, the group of each, and how well it belongs there."""

    view: Means | LinePicture
    rows: RowSample
    noun: str  # what a group is called
    probabilities: Floats  # (n, k)

    @property
    def k(self) -> int:
        """The number of groups."""
        return len(self.view.weights)

    @property
    def labels(self) -> Integers:
        """The group of each row, (n,)."""
        return self.view.labels

    @property
    def shares(self) -> Floats:
        """The share of each group in the model, (k,)."""
        return self.view.weights

    @cached_property
    def order(self) -> list[int]:
        """The groups, the largest first."""
        return [int(i) for i in np.argsort(-self.shares, kind="stable")]

    @property
    def largest(self) -> list[int]:
        """The 60 groups that have pictures, the largest first; tables have the others too."""
        return self.order[:60]

    def colour(self, group: int) -> str:
        """Return the colour of a group; where they repeat, the largest have different ones."""
        return colour(self.order.index(group))

    def take(self, numbers: Integers) -> Groups:
        """Return the same groups with some of the rows."""
        view = replace(self.view, labels=self.labels[numbers])
        return Groups(view, self.rows.take(numbers), self.noun, self.probabilities[numbers])

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns, and of the labels."""
        return self.rows.column_names + ([self.rows.target] if len(self.rows.y) else [])

    @cached_property
    def values(self) -> Floats:
        """The columns and the labels, (n, d) or (n, d + 1)."""
        x = self.rows.x
        return np.column_stack([x, self.rows.y]) if len(self.rows.y) else x

    @cached_property
    def means(self) -> Floats:
        """The mean of each column in each group, (k, d): that of the model, or of the rows."""
        if isinstance(self.view, Means):
            return self.view.means
        own = (self.labels == np.arange(self.k)[:, None]).astype(float)
        found: Floats = own @ self.values / np.maximum(own.sum(axis=1), 1.0)[:, None]
        return np.where(own.any(axis=1)[:, None], found, np.nan)

    @cached_property
    def deviations(self) -> Floats:
        """Means less that of all rows, in standard deviations of all rows, (k, d)."""
        spread = self.values.std(axis=0)
        apart = self.means - self.values.mean(axis=0)
        found: Floats = apart / np.where(spread > 0, spread, np.inf)
        return found

    @cached_property
    def telling(self) -> list[int]:
        """Columns by how much of their variance is between the groups, the most first."""
        between = np.nansum(self.shares[:, None] * self.deviations**2, axis=0)
        return [int(j) for j in np.argsort(-between, kind="stable")]

    @cached_property
    def own(self) -> Floats:
        """The probability of the group of each row, (n,)."""
        return self.probabilities[np.arange(len(self.labels)), self.labels]

    @cached_property
    def second(self) -> Integers:
        """The next most probable group of each row, (n,)."""
        others = self.probabilities.copy()
        others[np.arange(len(self.labels)), self.labels] = -1.0
        found: Integers = np.argmax(others, axis=1)
        return found

    @cached_property
    def apart(self) -> Floats:
        """The distance of each row from the centre of its group, in its deviations, (n,)."""
        view = self.view
        if isinstance(view, LinePicture):
            return np.abs(self.residuals)
        offset = self.rows.x - view.means[self.labels]
        inverses = np.linalg.pinv(self._covariances, hermitian=True)[self.labels]
        squares: Floats = np.einsum("nd,nde,ne->n", offset, inverses, offset)
        return np.sqrt(np.maximum(squares, 0.0))

    @cached_property
    def _covariances(self) -> Floats:
        """Covariances of groups with means, (k, d, d)."""
        view = self.view
        if not isinstance(view, Means):
            raise TypeError("only groups with means have covariances")
        if view.covariances is not None:
            return view.covariances
        return np.asarray(view.variances[:, None, None] * np.eye(view.means.shape[1]))

    @cached_property
    def residuals(self) -> Floats:
        """Labels less the line of each row, in deviations of its noise, (n,)."""
        view = self.view
        if not isinstance(view, LinePicture):
            raise TypeError("only lines have residuals")
        line = np.sum(self.rows.x * view.coef[self.labels], axis=1) + view.intercept[self.labels]
        found: Floats = (self.rows.y - line) / np.maximum(view.noise[self.labels], TINY)
        return found

    def in_doubt(self, one: int, other: int) -> int:
        """Return how many rows are in one of two groups and may be of the other."""
        pairs = np.stack([self.labels, self.second])
        between = np.all((pairs == one) | (pairs == other), axis=0)
        return int(np.sum(between & (self.own < DOUBT)))

    def distance(self, one: int, other: int) -> float:
        """Return how far apart two groups are, in deviations within them.

        Of means, along the direction that separates the two best; of lines, the root mean square
        over the rows.
        """
        view = self.view
        if isinstance(view, LinePicture):
            slope = view.coef[one] - view.coef[other]
            level = view.intercept[one] - view.intercept[other]
            noise = max(float(np.sqrt(np.mean(view.noise[[one, other]] ** 2))), TINY)
            return float(np.sqrt(np.mean((self.rows.x @ slope + level) ** 2))) / noise
        gap = view.means[one] - view.means[other]
        return float(np.sqrt(max(float(self.separating(one, other) @ gap), 0.0)))

    def separating(self, one: int, other: int) -> Floats:
        """Return the linear function of rows, (d,), that separates two groups with means best."""
        means = self.view.means  # type: ignore[union-attr]
        pooled = self._covariances[[one, other]].mean(axis=0)
        return np.asarray(np.linalg.pinv(pooled, hermitian=True) @ (means[one] - means[other]))

    @cached_property
    def nearest_pairs(self) -> list[tuple[float, int, int]]:
        """Pairs of groups with their distance, the nearest first."""
        return sorted((self.distance(i, j), i, j) for i, j in combinations(range(self.k), 2))


def group_rows(model: FittedEstimator, rows: RowSample) -> Groups | None:
    """Return rows by group; None for a model without groups, or with one."""
    twin = frozen_copy(model)
    try:
        view = twin._component_view(rows)
    except NoPictureError:
        return None
    if not isinstance(view, Means | LinePicture) or len(view.weights) == 1:
        return None
    return Groups(view, rows, model.component, _probabilities(twin, view, rows))


def _probabilities(twin: Any, view: Means | LinePicture, rows: RowSample) -> Floats:
    if "probabilities" in twin.answers:
        ask = getattr(twin, twin.answers["probabilities"])
        return as_floats(ask(rows.given, rows.y) if twin.labelled else ask(rows.given))
    # Bayes' rule for spherical groups of one variance
    squares = ((rows.x[:, None, :] - view.means) ** 2).sum(axis=2)  # type: ignore[union-attr]
    logs = np.log(view.weights) - squares / (2 * view.variances)  # type: ignore[union-attr]
    found: Floats = softmax(logs, axis=1)
    return found
