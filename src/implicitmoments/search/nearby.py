"""A split and EM of the components around it, while the others keep their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.search import trials
from implicitmoments.search.em import Budget, E, Family, Places, R, S, run_em
from implicitmoments.search.ranking import Ranking
from implicitmoments.search.shares import Shares
from implicitmoments.search.trials import Merges


@dataclass(frozen=True)
class _Part(Generic[R, S, E]):
    """A family for EM of some of the components: what all of them share stays as it is."""

    whole: Family[R, S, E]

    def e_step(self, rows: R, state: S) -> E:
        return self.whole.e_step(rows, state)

    def m_step(self, sums: E, before: S) -> S:
        return self.whole.fit_trials(sums, before, before.k, None)

    def pack(self, state: S) -> Floats:
        return self.whole.pack(state)

    def unpack(self, packed: Floats, like: S) -> S:
        return self.whole.unpack(packed, like)

    def scale(self, state: S) -> Floats:
        return self.whole.scale(state)


def split_nearby(
    family: Family[R, S, E], state: S, ranking: Ranking[S], at: int, near: Places, budget: Budget
) -> tuple[S, Merges[S]]:
    """Return the state after a split and EM of some components, and its merges.

    Partial EM (Ueda et al. 2000): rows count as much as these components hold of them, so that
    the log-likelihood of all components rises at least as much as theirs. Merges of the others
    are those known. The parts of the split come last.

    Parameters
    ----------
    ranking : Ranking
        Of the state.
    at : int
        The split.
    near : array of int
        Components that take part, in ascending order, among them the one to split.
    """
    others, alone = np.setdiff1d(np.arange(state.k), near), state.keep(near)
    rows = family.part(ranking.rows, *_held(ranking.shares, near))
    own, part = int(np.searchsorted(near, ranking.origins[at])), _Part(family)
    # the parts of a split bring parameters of their own trial: those that all share stay
    like = alone.split(own, alone.take(np.array([own, own])))
    inside = alone.split(own, ranking.parts[at])
    inside = part.m_step(part.e_step(rows, inside), like)
    inside = run_em(part, rows, inside, budget).state
    weight = float(state.weights[near].sum() / state.weights.sum())
    merges = trials.merges_of(family, rows, inside)
    if ranking.merges is not None:
        merges = merges.beside(ranking.merges, others, weight)
    return state.keep(others).add(inside, weight), merges


def _held(found: Shares, components: Places) -> tuple[Places, Floats]:
    """Return the rows that components hold, and how often they count there."""
    total = np.zeros(int(found.counts.shape[0]))
    for i in components.tolist():
        places, shares = found.held_by(i)
        total[places] += shares
    places = np.flatnonzero(total)
    return places, total[places] * to_numpy(found.counts)[places]
