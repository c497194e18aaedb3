"""EM with squared extrapolation for any family, and what a family has to bring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from implicitmoments.arrays import Array, Entries, Floats

Places = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class State:
    """Parameters of a mixture of k components.

    A model adds fields of its own. Every field is an array whose first axis is the component;
    a parameter that all components share is repeated.
    """

    weights: Annotated[Floats, Entries(("k",), weights=True)]

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
        return replace(taken, weights=_shares(taken.weights))

    def drop(self, i: int) -> Self:
        """Return the components other than i, with weights that sum to 1."""
        return self.keep(np.arange(self.k) != i)

    def add(self, other: Self, weight: float) -> Self:
        """Return these components, and others that have ``weight`` together."""
        w = np.append((1 - weight) * self.weights, weight * _shares(other.weights))
        return replace(self.join(other), weights=w)

    def join(self, *others: Self) -> Self:
        """Return these components and others, with the weights that they have."""
        every = (self, *others)
        return type(self)(
            *(
                np.concatenate([getattr(one, field.name) for one in every])
                for field in fields(self)
            )
        )

    def split(self, i: int, other: Self) -> Self:
        """Return the components with others in the place of i, which share its weight."""
        if self.k == 1:
            return other
        return self.drop(i).add(other, float(self.weights[i] / self.weights.sum()))


def concatenate(states: Sequence[S]) -> S:
    """Return all components of several states, with the weights that they have."""
    first = states[0]
    names = (field.name for field in fields(first))
    return type(first)(*(np.concatenate([getattr(s, name) for s in states]) for name in names))


def _shares(weights: Floats) -> Floats:
    """Return weights that sum to 1, or zeros of components without rows."""
    return weights / max(float(weights.sum()), np.finfo(float).tiny)


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

    def expect(self, rows: R, shares: Array, state: S) -> E:
        """Return the sums for given responsibilities (n, m), which include the counts.

        What else the sums depend on, such as hidden scales of rows, is that of ``state``.
        """
        ...

    def pool(self, sums: E, state: S) -> Floats:
        """Return the contribution of each component to the shared parameters, (k, p).

        Sums, such as rows and squared residuals for a shared variance; p = 0 where nothing is
        shared.
        """
        ...

    def fit_trials(
        self, sums: E, before: S, size: int, rest: Floats | None, like: S | None = None
    ) -> S:
        """Return the M-step of trials of ``size`` components, each trial by itself.

        Weights sum to 1 within a trial of two parts; that of an insertion is a share of all rows.
        Shared parameters come from the trial and ``rest`` (p,), the pool of the components that
        stay as they are; for None they keep their values. A component with too few rows for
        its own parameters borrows those of ``like``, a single component; for None those of its
        trial.
        """
        ...

    def rest_bound(self, rest: Floats, trials: S, size: int) -> Floats:
        """Return the expected log-likelihood of the rest under each trial's shared parameters."""
        ...

    def fit_pairs(
        self, parts: Sequence[R], alone: S, pairs: S, rest: Floats, steps: int
    ) -> tuple[S, Floats]:
        """Run EM of trials of two parts of components, each component on rows of its own.

        Parameters
        ----------
        parts : sequence of c rows
            The rows of each component.
        alone : State
            The c components, with weights of 1.
        pairs : State
            2 s parts for each component.
        rest : array of shape (c, p)
            For each component, the pool of the others.

        Returns
        -------
        pairs : State
        gains : array of shape (c, s)
            Rise of the log-likelihood of these rows and the rest above that of the component.
        """
        ...

    def split_starts(self, part: R, state: S, i: int, rng: np.random.Generator) -> S:
        """Return two parts for component i, from several starts, for the rows that it holds.

        Include unequal parts: a light component hides in the tails of a heavy one. None where the
        rows cannot tell two parts.
        """
        ...

    def candidates(self, rows: R, state: S, log_density: Array, rng: np.random.Generator) -> S:
        """Return components that may be missing, perhaps none, each with a weight to start at."""
        ...


ROWS_PER_COMPONENT = 400  # means of unit noise are then known to 0.05: a separation of 2 shows
# EM of a search has so many even where responsibilities of all of them do not fit into memory:
# with fewer, components in many features are as likely in wrong places as in the right ones.
FEWEST_PER_COMPONENT = 100
ROWS_PER_NUMBER = 2  # of the means: above 200 columns that is more
MORE_ROWS = 4  # times the rows of a sample, where they were too few and the search is repeated


@dataclass(frozen=True)
class Budget:
    """Rows, EM steps and tolerance of one stage.

    Examples
    --------
    >>> SEARCH.rows_for(10), SEARCH.rows_for(100), SEARCH.rows_for(60, 512)
    (20000, 40000, 61440)
    """

    rows: int  # rows of the sample, at least
    steps: int  # EM steps, at most
    tol: float  # EM stops when the mean log-likelihood per row can rise by less than this

    def rows_for(self, k: int, d: int = 1) -> int:
        """Return the size of a sample for k components.

        Parameters
        ----------
        d : int
            Numbers of a location. The span of k means among many columns is found from rows in
            proportion to k·d: with fewer, moves that would help look hopeless. A sample has
            fewer where memory holds no more of them.
        """
        return max(self.rows, ROWS_PER_COMPONENT * k, ROWS_PER_NUMBER * k * d)


def most_rows(k: int, held: int) -> int:
    """Return the size of a sample for k components, at most.

    Parameters
    ----------
    held : int
        Numbers that memory should hold; responsibilities are k for each row.
    """
    return max(held // k, FEWEST_PER_COMPONENT * k)


# One component: EM of two parts. Twelve steps separate parts that are 3 deviations apart.
LOCAL = Budget(rows=4_000, steps=12, tol=0.0)
# A sample of the rows: starts and moves are compared there.
SEARCH = Budget(rows=20_000, steps=60, tol=1e-6)
# All rows: the last EM, unless the user says otherwise.
WHOLE = Budget(rows=2**62, steps=200, tol=1e-7)


# EM steps before the first extrapolation, unless EM begins at its end: the first turn sharply.
PLAIN_STEPS = 3
FALL = 1e-6  # of the mean log-likelihood per row: less is rounding in single precision
LONGEST = 60.0  # EM steps that an extrapolation replaces: at rounding |r| / |u| may be anything
# An extrapolation of length a multiplies errors that EM would remove at once by (1 − a)². Beyond
# this length it enlarges them, and an EM step has to come before the next.
STABLE = 2.0
# Times the projected rise that is left, which EM may still rise by: of 160 runs that were compared
# with others, it rose by more in two, and by 6 nats there.
HOPE = 10.0


@dataclass(frozen=True, eq=False)
class Fitted(Generic[S]):
    """A state after EM."""

    state: S
    level: float  # its mean log-likelihood per row
    # the mean log-likelihood after each step that was kept; it never falls
    history: tuple[float, ...]
    converged: bool
    n_iter: int  # passes over the rows


def run_em(
    family: EMFamily[R, S, E], rows: R, state: S, budget: Budget, least: float = -math.inf
) -> Fitted[S]:
    r"""Run EM until the mean log-likelihood can rise by less than ``budget.tol``.

    EM is slow where components overlap. So after two steps from :math:`\theta_0`, with
    :math:`r = \theta_1 - \theta_0` and :math:`u = \theta_2 - \theta_1 - r`, it extrapolates to
    :math:`\theta_0 + 2 a r + a^2 u`, :math:`a = |r| / |u|` (SQUAREM, Varadhan and Roland 2008),
    unless that lowers the likelihood. Anderson acceleration needs fewer passes near a regular
    maximum, and two to three times as many where components overlap. Where an M-step is not the
    maximum, as with components that borrow rows, the likelihood may fall: EM then ends before.

    A step that is followed by others in the ratio c is :math:`1 / (1 - c)` of them, and that is
    what a estimates: EM ends when the last rise times a is less than ``budget.tol``, or when
    neither a step nor an extrapolation gives as much. Of the budget, ``steps`` and ``tol`` are
    used. EM also ends when that rise leaves it far below ``least``, a mean log-likelihood without
    which the state is of no use.
    """
    history: list[float] = []
    trail, n_iter, converged = [state], 0, False  # at most θ_0, θ_1, θ_2
    while n_iter < budget.steps and not converged:
        sums, n_iter = family.e_step(rows, trail[-1]), n_iter + 1
        rise = sums.level - history[-1] if history else np.inf
        if n_iter > PLAIN_STEPS and rise < -max(budget.tol, FALL):  # a start may be infeasible
            converged = True
            break
        state = trail[-1]
        history.append(sums.level)
        trail = [*trail[-2:], family.m_step(sums, state)]
        turning = n_iter <= PLAIN_STEPS and abs(rise) >= budget.tol
        if turning or len(trail) < 3:
            continue
        leap, a = _extrapolate(family, trail)
        converged = rise * a < budget.tol
        hopeless = sums.level + HOPE * rise * a < least
        if converged or hopeless or n_iter == budget.steps:  # or not tried: it may not have ended
            break
        ahead, n_iter = family.e_step(rows, leap), n_iter + 1
        gained, trail = ahead.level - history[-1], trail[-1:]
        converged = rise < budget.tol and gained < budget.tol
        if gained > 0:
            state = leap
            history.append(ahead.level)
            trail = [leap, family.m_step(ahead, leap)][a > STABLE :]
    return Fitted(state, history[-1], tuple(history), converged, n_iter)


def _extrapolate(family: EMFamily[R, S, E], trail: list[S]) -> tuple[S, float]:
    """Extrapolate three successive states (SQUAREM), and return the length a of the step.

    At a = 1 it is the last of them.
    """
    first, second, third = (family.pack(state) for state in trail)
    scale = family.scale(trail[-1])  # a unit is about a standard error, whatever the parameter
    r = second - first
    u = third - second - r
    above, below = float(np.sum((scale * r) ** 2)), float(np.sum((scale * u) ** 2))
    if not below > 0 or above <= below:
        return trail[-1], 1.0
    a = min(math.sqrt(above / below), LONGEST)
    return family.unpack(first + 2 * a * r + a * a * u, trail[-1]), a


def bic(log_likelihood: float, n_parameters: int, total: float) -> float:
    """Return the Bayesian information criterion; lower is better.

    Examples
    --------
    >>> round(bic(-100.0, 3, 50.0), 1)
    211.7
    """
    return -2 * log_likelihood + n_parameters * math.log(total)
