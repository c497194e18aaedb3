"""Interface between a model and the search: states, expectations, the family protocol."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from implicitmoments.arrays import Array, Floats

Places = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class State:
    """Parameters of a mixture of k components.

    A model adds fields of its own. Every field is an array whose first axis is the component;
    a parameter that all components share is repeated.
    """

    weights: Floats  # (k,)

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    def take(self, chosen: Places) -> Self:
        """Return the chosen components, with the weights that they have."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def keep(self, chosen: Places) -> Self:
        """Return the chosen components, with weights that sum to 1."""
        taken = self.take(chosen)
        total = max(float(taken.weights.sum()), np.finfo(float).tiny)  # of components without rows
        return replace(taken, weights=taken.weights / total)

    def without(self, i: int) -> Self:
        """Return the components other than i, with weights that sum to 1."""
        return self.keep(np.arange(self.k) != i)

    def add(self, other: Self, weight: float) -> Self:
        """Return these components, and others that have ``weight`` together."""
        w = np.append((1 - weight) * self.weights, weight * other.weights / other.weights.sum())
        rest = (
            np.concatenate([getattr(self, field.name), getattr(other, field.name)])
            for field in fields(self)[1:]
        )
        return type(self)(w, *rest)

    def split(self, i: int, other: Self) -> Self:
        """Return the components with others in the place of i, which share its weight."""
        if self.k == 1:
            return other
        return self.without(i).add(other, float(self.weights[i] / self.weights.sum()))


@dataclass(frozen=True, eq=False)
class Expectations:
    """Sums over rows that an M-step needs.

    A model adds fields of its own: arrays whose first axis is the component, all of them sums
    over rows, so that the sums of two sets of rows, or of two components, may be added.
    """

    log_likelihood: float  # of all rows
    total: float  # rows, with their weights

    @property
    def level(self) -> float:
        """Mean log-likelihood per row."""
        return self.log_likelihood / self.total

    def __add__(self, other: Self) -> Self:
        return type(self)(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def times(self, factor: float) -> Self:
        """Return the sums of rows that count ``factor`` times as much."""
        return type(self)(*(factor * value for value in _values(self)))

    def join(self, i: Places, j: Places) -> Self:
        """Return the sums of components i and j as one, pair by pair."""
        own = (value[i] + value[j] for value in _values(self)[2:])
        return type(self)(self.log_likelihood, self.total, *own)


def _values(sums: Expectations) -> list[Any]:
    return [getattr(sums, field.name) for field in fields(sums)]


R = TypeVar("R")  # rows, held in memory or not
R_contra = TypeVar("R_contra", contravariant=True)
S = TypeVar("S", bound=State)
E = TypeVar("E", bound=Expectations)


class EMFamily(Protocol[R_contra, S, E]):
    """Requirements of EM: a model with an E-step and an M-step, on any rows."""

    def e_step(self, rows: R_contra, state: S) -> E:
        """Return the sums of one pass over all rows."""
        ...

    def m_step(self, sums: E, before: S) -> S:
        """Return the state that maximises the expected log-likelihood.

        A component without rows stays as it was ``before``.
        """
        ...

    def pack(self, state: S) -> Floats:
        """Return the parameters as one vector without constraints (logarithms of weights)."""
        ...

    def unpack(self, packed: Floats, like: S) -> S:
        """Return the state of a vector, within the constraints of the model."""
        ...

    def scale(self, state: S) -> Floats:
        """Return roots of the complete-data information per row, entry by entry of ``pack``."""
        ...


class Family(EMFamily[R, S, E], Protocol[R, S, E]):
    """Requirements of moves in addition to EM, on rows held in memory.

    A *trial* is a small model fitted beside the rest: two parts of one component (a split), or
    one further component (an insertion). All trials of a kind are one state, with the components
    of a trial next to one another, so that one product serves them all.
    """

    def n_parameters(self, state: S) -> int:
        """Count the free parameters, for criteria."""
        ...

    def log_joint(self, rows: R, state: S) -> Array:
        """Return log weight plus log density, (n, k)."""
        ...

    def counts(self, rows: R) -> Array:
        """Return how often each row counts, (n,)."""
        ...

    def part(self, rows: R, places: Places, counts: Floats) -> R:
        """Return the rows at some places, each counting as often as given."""
        ...

    def expect(self, rows: R, shares: Array) -> E:
        """Return the sums for given responsibilities (n, m), which include the counts."""
        ...

    def pool(self, sums: E, state: S) -> Floats:
        """Return the contribution of each component to the shared parameters, (k, p).

        Sums, such as rows and squared residuals for a shared variance; p = 0 where nothing is
        shared.
        """
        ...

    def fit_trials(self, sums: E, before: S, size: int, rest: Floats | None) -> S:
        """Return the M-step of trials of ``size`` components, each trial by itself.

        Weights sum to 1 within a trial of two parts; that of an insertion is a share of all rows.
        Shared parameters come from the trial and ``rest`` (p,), the pool of the components that
        stay as they are; for None they keep their values.
        """
        ...

    def rest_bound(self, rest: Floats, trials: S, size: int) -> Floats:
        """Return the expected log-likelihood of the rest under each trial's shared parameters."""
        ...

    def split_starts(self, part: R, state: S, i: int, rng: np.random.Generator) -> S:
        """Return two parts for component i, from several starts, for the rows that it holds.

        Include unequal parts: a light component hides in the tails of a heavy one.
        """
        ...

    def candidates(self, rows: R, state: S, log_density: Array, rng: np.random.Generator) -> S:
        """Return components that may be missing, perhaps none, each with a weight to start at."""
        ...
