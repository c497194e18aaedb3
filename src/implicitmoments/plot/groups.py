"""Rows by group: what profiles, facets and tables of a report show.

Shapes: n rows of d columns, k groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.description import as_floats
from implicitmoments.estimator import FittedEstimator
from implicitmoments.picture_data import (
    Integers,
    LinePicture,
    Means,
    NoPictureError,
    RowSample,
)
from implicitmoments.plot.canvas import PALETTE, frozen_copy

MOST_GROUPS = 60  # that have pictures, the largest; tables of parameters have the others
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
        """The groups that have pictures, the largest first."""
        return self.order[:MOST_GROUPS]

    @cached_property
    def counts(self) -> Integers:
        """How many of the rows are in each group, (k,)."""
        return np.bincount(self.labels, minlength=self.k)

    def colour(self, group: int) -> int:
        """Return the number of the colour of a group.

        Where there are more groups than colours, the largest have different ones.
        """
        return group if self.k <= len(PALETTE) else self.order.index(group)

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns, and of the labels."""
        return self.rows.column_names + ([self.rows.target] if len(self.rows.y) else [])

    @cached_property
    def values(self) -> Floats:
        """The columns and the labels in the units of the file, (n, d) or (n, d + 1)."""
        x = self.rows.shown
        return np.column_stack([x, self.rows.y]) if len(self.rows.y) else x

    @cached_property
    def means(self) -> Floats:
        """The mean of each column in each group, (k, d): that of the model, or of the rows."""
        if isinstance(self.view, Means):
            return self.rows.units.points(self.view.means)
        sums = np.zeros((self.k, self.values.shape[1]))
        np.add.at(sums, self.labels, self.values)
        found: Floats = sums / np.where(self.counts > 0, self.counts, np.nan)[:, None]
        return found

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
        view, x = self.view, self.rows.x
        if isinstance(view, LinePicture):
            return np.abs(self.residuals)
        offset = x - view.means[self.labels]
        if view.covariances is None:
            found: Floats = np.linalg.norm(offset, axis=1) / np.sqrt(view.variances[self.labels])
            return found
        inverses = np.linalg.pinv(view.covariances, hermitian=True)[self.labels]
        squares: Floats = np.einsum("nd,nde,ne->n", offset, inverses, offset)
        return np.sqrt(np.maximum(squares, 0.0))

    @cached_property
    def residuals(self) -> Floats:
        """Labels less the line of each row, in deviations of its noise, (n,)."""
        view = self.view
        if not isinstance(view, LinePicture):
            raise TypeError("only lines have residuals")
        line = np.einsum("nd,nd->n", self.rows.x, view.coef[self.labels])
        noise = np.maximum(view.noise[self.labels], np.finfo(np.float64).tiny)
        found: Floats = (self.rows.y - line - view.intercept[self.labels]) / noise
        return found

    def in_doubt(self, one: int, other: int) -> int:
        """Return how many rows are in one of two groups and may be of the other."""
        pairs = np.stack([self.labels, self.second])
        between = np.all((pairs == one) | (pairs == other), axis=0)
        return int(np.sum(between & (self.own < DOUBT)))

    @cached_property
    def distances(self) -> Floats:
        """How far apart groups are, in deviations within them, (k, k), infinite on the diagonal.

        Of means, along the direction that separates the two best; of lines, the root mean square
        over the rows.
        """
        view, found = self.view, np.full((self.k, self.k), np.inf)
        if isinstance(view, LinePicture):
            heights = self.rows.x @ view.coef.T + view.intercept
            for i, j in _pairs(self.k):
                noise = max(float(np.hypot(view.noise[i], view.noise[j])), 1e-300) / np.sqrt(2)
                gap = np.sqrt(np.mean((heights[:, i] - heights[:, j]) ** 2)) / noise
                found[i, j] = found[j, i] = gap
            return found
        for i, j in _pairs(self.k):
            along = self.separating(i, j) @ (view.means[i] - view.means[j])
            found[i, j] = found[j, i] = np.sqrt(max(float(along), 0.0))
        return found

    def separating(self, one: int, other: int) -> Floats:
        """Return the linear function of rows, (d,), that separates two groups with means best."""
        view = self.view
        if not isinstance(view, Means):
            raise TypeError("only groups with means have a direction that separates them")
        gap = view.means[one] - view.means[other]
        if view.covariances is None:
            found: Floats = gap / max(float(view.variances[[one, other]].mean()), 1e-300)
            return found
        pooled = view.covariances[[one, other]].mean(axis=0)
        return np.asarray(np.linalg.pinv(pooled, hermitian=True) @ gap)

    def nearest_pairs(self, most: int) -> list[tuple[int, int]]:
        """Return the pairs of groups that are nearest to each other, the nearest first."""
        pairs = sorted(_pairs(self.k), key=lambda pair: self.distances[pair])
        return pairs[:most]


def _pairs(k: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(k) for j in range(i + 1, k)]


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
    if not isinstance(view, Means):
        certain: Floats = np.eye(len(view.weights))[to_numpy(view.labels)]
        return certain
    # Bayes' rule for spherical groups of one variance
    squares = ((rows.x[:, None, :] - view.means) ** 2).sum(axis=2)
    logs = np.log(view.weights) - squares / (2 * view.variances)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Floats = shares / shares.sum(axis=1, keepdims=True)
    return found
