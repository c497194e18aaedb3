"""Crossings: the components of two fits together, merged back to as many as one has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from implicitmoments.search import trials
from implicitmoments.search.em import Budget, E, Family, Fitted, R, S, run_em
from implicitmoments.search.ranking import ENOUGH
from implicitmoments.search.trials import total_rows

MEMBERS = 8  # of a population: fewer are soon alike, and more take longer to improve
# EM steps: of a random start, of two fits together, after each round of merges, and of a child.
ROUGH, TOGETHER, BETWEEN, LAST = 20, 10, 4, 60
TOL = 1e-5  # of these EM runs: they are compared, and the best goes on
SAME = 0.05  # of ENOUGH: members of the same likelihood are the same fit


@dataclass(frozen=True, eq=False)
class Crossed(Generic[S]):
    """The best fit of several populations."""

    state: S
    apart: float  # nats by which the best fits of the first two differed before they met


def cross(
    family: Family[R, S, E], rows: R, one: S, other: S, least: float = -math.inf
) -> Fitted[S]:
    """Return a fit with the best components of two fits.

    All components run EM together. Then the pairs whose merge costs least become one, half of the
    surplus in each round, and EM runs again (Fränti 2000, for vector quantisation). What either
    fit has found is kept, and what both have found is one. ``least`` is as in :func:`run_em`.
    """
    both = run_em(family, rows, one.add(other, 0.5), Budget(0, TOGETHER, TOL)).state
    while both.k > one.k:
        merges = trials.merges_of(family, rows, both)
        both = merges.apply(both, merges.apart()[: (both.k - one.k + 1) // 2])
        both = run_em(family, rows, both, Budget(0, BETWEEN, TOL)).state
    return run_em(family, rows, both, Budget(0, LAST, TOL), least)


def cross_fresh(
    family: Family[R, S, E],
    rows: R,
    state: S,
    fresh: Callable[[], S],
    patience: int,
    settled: Callable[[Fitted[S]], bool],
) -> Fitted[S]:
    """Cross a fit with random ones while that raises the likelihood.

    Parameters
    ----------
    fresh : callable
        Returns a random state.
    patience : int
        Crossings in a row that do not raise the likelihood before they end.
    settled : callable
        Returns whether a fit that has a higher likelihood than those before is good enough.
    """
    best, failures = run_em(family, rows, state, Budget(0, LAST, TOL)), 0
    while failures < patience:
        other = run_em(family, rows, fresh(), Budget(0, ROUGH, TOL)).state
        child = cross(family, rows, best.state, other, best.level)
        gain = (child.level - best.level) * total_rows(family, rows)
        failures, best = 0 if gain > ENOUGH else failures + 1, max(child, best, key=_level)
        if failures == 0 and settled(best):
            break
    return best


def cross_populations(
    family: Family[R, S, E],
    rows: R,
    starts: Sequence[S],
    fresh: Callable[[], S],
    patience: int,
    rng: np.random.Generator,
) -> Crossed[S]:
    """Cross the fits of a population, and those of others that have nothing in common with it.

    Two populations, each by itself, that end at the same likelihood have probably found its
    maximum. Where they do not, they are crossed with each other, and while that raises the
    likelihood, with a further one.

    Parameters
    ----------
    starts : sequence of State
        Where members of the first population start.
    fresh : callable
        Returns a random state: where all other members start, and a parent of every other child.
    patience : int
        Crossings that do not raise the likelihood before a population is left. Where several
        members begin at the same maximum it is easily found, and fewer are tried.
    """

    def fit(state: S) -> Fitted[S]:
        return run_em(family, rows, state, Budget(0, ROUGH, TOL))

    def evolve(members: list[Fitted[S]]) -> list[Fitted[S]]:
        levels, failures = np.array([each.level for each in members]), 0
        alike = float(np.mean(levels.max() - levels < ENOUGH / total))
        while failures < (1 - alike) * patience:
            failures, best = failures + 1, _best(members)
            if failures % 2:
                one, other = best, fit(fresh())
            else:
                one, other = (members[i] for i in rng.choice(len(members), 2, replace=False))
            least = min(each.level for each in members)
            child = cross(family, rows, one.state, other.state, least)
            if (child.level - best.level) * total > ENOUGH:
                failures = 0
            members = _replaced(members, child, SAME * ENOUGH / total)
        return members

    def population(starts: Sequence[S] = ()) -> list[Fitted[S]]:
        known = [run_em(family, rows, start, Budget(0, LAST, TOL)) for start in starts]
        return evolve([*known, *(fit(fresh()) for _ in range(MEMBERS - len(known)))])

    total, apart = total_rows(family, rows), list[float]()
    members, reached = population(starts), -np.inf
    while (_best(members).level - reached) * total > ENOUGH and len(apart) <= patience // MEMBERS:
        other, reached = population(), _best(members).level
        apart.append(abs(_best(other).level - reached) * total)
        both = [*sorted(members, key=_level)[-MEMBERS:], *other]
        members = evolve(both) if apart[-1] > ENOUGH else both
    return Crossed(_best(members).state, apart[0])


def _level(member: Fitted[S]) -> float:
    return member.level


def _best(members: Sequence[Fitted[S]]) -> Fitted[S]:
    return max(members, key=_level)


def _replaced(members: list[Fitted[S]], child: Fitted[S], same: float) -> list[Fitted[S]]:
    """Return members with a child in the place of the worst, unless it is worse or not new."""
    if any(abs(child.level - each.level) < same for each in members):
        return members
    return sorted([*members, child], key=_level)[1:]
