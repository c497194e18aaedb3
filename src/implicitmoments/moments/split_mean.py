"""Means over rows with their noise, from groups of the rows, and symmetric arrays of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats


@dataclass(frozen=True, eq=False)
class SplitMean:
    """A mean over rows, kept as the means of groups of them, of which there is an even number."""

    groups: tuple[Array, ...]
    counts: tuple[float, ...]  # rows in each group, with their multiplicity

    @cached_property
    def value(self) -> Array:
        """The mean over all rows."""
        return _pooled(self.groups, self.counts)

    @cached_property
    def halves(self) -> tuple[Array, Array]:
        """The means over the groups of even and of odd number."""
        first, second = (_pooled(self.groups[i::2], self.counts[i::2]) for i in (0, 1))
        return first, second

    @cached_property
    def half_difference(self) -> Array:
        """Half the difference of the halves: as large as the error of the mean."""
        return (self.halves[0] - self.halves[1]) / 2

    def without(self, group: int) -> Array:
        """Return the mean over the rows of all other groups."""
        kept = [i for i in range(len(self.groups)) if i != group]
        return _pooled([self.groups[i] for i in kept], [self.counts[i] for i in kept])

    def deviate(self, estimates: Floats) -> Floats:
        """Return deviations whose sum of squares is the variance of an estimate.

        The delete-a-group jackknife, for groups of any size: ``estimates[g]`` was computed without
        group g. With two groups it is half the difference of the halves.
        """
        n, there = sum(self.counts), [count > 0 for count in self.counts]
        shares = np.array([1 - count / n for count in self.counts]) * there
        factors = np.array([(n - c) / c if c > 0 else 0.0 for c in self.counts]) / sum(there)
        center = np.tensordot(shares / np.sum(shares), estimates, axes=1)
        scale = np.sqrt(factors).reshape(-1, *[1] * (estimates.ndim - 1))
        return np.asarray(scale * (estimates - center))

    def map(self, function: Callable[[Array], Array]) -> SplitMean:
        """Apply a linear function to every group."""
        return SplitMean(tuple(map(function, self.groups)), self.counts)


def _pooled(means: Sequence[Array], counts: Sequence[float]) -> Array:
    """Return the mean over rows of several groups; without rows all means are 0."""
    n = sum(counts) or 1.0
    total: Any = means[0] * (counts[0] / n)
    for mean, count in zip(means[1:], counts[1:], strict=True):
        total = total + mean * (count / n)
    pooled: Array = total
    return pooled


def symmetrise(array: Floats) -> Floats:
    """Average a three-way array over the permutations of its axes."""
    twice = (array + array.transpose(1, 0, 2)) / 2
    averaged: Floats = (twice + twice.transpose(2, 1, 0) + twice.transpose(0, 2, 1)) / 3
    return averaged
