"""Responsibilities of a state for held rows, and what the search asks of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of, to_numpy
from implicitmoments.search.em import E, Family, Places, R, S

HELD = 1e-3  # responsibility above which a component holds a row: less of it is no evidence
LARGEST_LOG = 80.0  # of a ratio of densities, in float32
SMALLEST_REST = 1e-37  # share of the other components in a row: the least of float32, about


@dataclass(frozen=True, eq=False)
class Densities:
    """Log densities of held rows."""

    log_density: Array  # (n,)
    counts: Array  # (n,), how often each row counts

    @property
    def log_likelihood(self) -> float:
        """Of all rows."""
        return weighted_sum(self.counts, self.log_density)

    def sampled(self, family: Family[R, S, E], rows: R, n: int) -> tuple[R, Densities]:
        """Return about n of the rows, which count as much as all, and their densities."""
        if int(self.counts.shape[0]) <= n:
            return rows, self
        some, places = some_rows(family, rows, n)
        taken = namespace_of(self.counts).take(self.log_density, index_like(places, self.counts))
        return some, Densities(taken, family.counts(some))


class Shares(Densities, ABC):
    """Responsibilities of k components for held rows: a matrix, or lists of those that matter."""

    @property
    @abstractmethod
    def k(self) -> int:
        """Number of components."""

    @abstractmethod
    def held_by(self, i: int) -> tuple[Places, Floats]:
        """Return the rows that component i holds, and its responsibilities for them."""

    @abstractmethod
    def common(self, other: Any) -> Floats:
        """Return sums over rows of products of responsibilities, of these and others, (k, m)."""

    @abstractmethod
    def moved(self, before: Any, which: Places) -> Floats:
        """Return for each component the responsibilities that differ from those of another.

        Parameters
        ----------
        before : Shares
            Of another state, for the same rows, and of the same class.
        which : array of int, (k,)
            Its components.
        """

    @abstractmethod
    def totals(self) -> Floats:
        """Return the rows of each component, (k,)."""

    @abstractmethod
    def weighted(self, values: Floats) -> Floats:
        """Return sums over rows of values (n, m) times responsibilities and counts, (k, m)."""

    @abstractmethod
    def drop_losses(self) -> Floats:
        """Return by how much rows lose without each component, before weights are shares."""

    @abstractmethod
    def pair_losses(self, family: Family[R, S, E], rows: R, merged: S, pairs: Places) -> Floats:
        """Return the fall of the log-likelihood where each of some components replaces a pair.

        Parameters
        ----------
        merged : State
            A component for each pair.
        pairs : array of int, (m, 2)
        """


def some_rows(family: Family[R, S, E], rows: R, n: int) -> tuple[R, Places]:
    """Return n of the rows, drawn at random, which count as much as all, and their places."""
    own = family.counts(rows)
    every = int(own.shape[0])
    places = np.sort(np.random.default_rng(0).choice(every, n, replace=False))
    at = index_like(places, own)
    counts = every / n * to_numpy(namespace_of(own).take(own, at)).astype(np.float64)
    return family.part(rows, places, counts), places


def weighted_sum(counts: Array, values: Array) -> float:
    """Return the sum of values that count as given, in double precision."""
    xp = namespace_of(values)
    product: Any = xp.sum(counts * values, dtype=xp.float64)
    return float(product)
