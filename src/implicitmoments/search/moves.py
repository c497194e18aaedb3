"""Moves at a fixed number of components: split or insert, merge or drop; the likelihood judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.search.budget import LOCAL, SEARCH, Budget
from implicitmoments.search.em import Fitted, run_em
from implicitmoments.search.family import E, Family, Places, R, S
from implicitmoments.search.trials import (
    Merges,
    insertion_gains,
    merge_losses,
    responsibilities,
    split_gain,
)

__all__ = ["Ranking", "Searched", "merge_cheapest", "rank_moves", "search_moves"]

ENOUGH = 2.0  # nats that a move must bring, above what rounding and the last EM steps make
PATIENCE = 4  # moves in a row that fail before the search ends
OPTIMISM = 4.0  # times its prediction that a split may gain once EM moves all components
AFTER_SPLIT = 10  # EM steps with one component more than wanted


@dataclass(frozen=True, eq=False)
class Ranking(Generic[S]):
    """Splits and insertions, ranked by the rise of the log-likelihood they predict.

    Attributes
    ----------
    gains : array of shape (m,)
        The largest first.
    origins : array of int of shape (m,)
        The component that would be split; -1 for an insertion.
    parts : list of State
        The two parts of a split; the component to insert, its weight a share of all rows.
    merges : Merges or None
        Ways back to as many components; None for a single component.
    """

    gains: Floats
    origins: Places
    parts: list[S]
    merges: Merges[S] | None

    def apply(self, state: S, which: Places) -> S:
        """Return the state after some of the splits and insertions."""
        # from the last component on, since the parts of a split go to the end
        for at in sorted(which, key=lambda at: -self.origins[at]):
            i, parts = int(self.origins[at]), self.parts[at]
            if i < 0:
                state = state.add(parts, float(parts.weights.sum()))
            else:
                state = state.split(i, parts)
        return state

    def promising(self) -> Iterator[int]:
        """Yield the changes that may repay the cheapest merge of other components."""
        if self.merges is None:
            return
        losses, pairs = self.merges.losses, self.merges.pairs
        elsewhere = [losses[~np.any(pairs == i, axis=1)] for i in self.origins]
        cheapest = np.array([loss[0] if len(loss) else np.inf for loss in elsewhere])
        for at in np.argsort(cheapest - self.gains, kind="stable")[:PATIENCE]:
            if self.gains[at] > max(ENOUGH, cheapest[at] / OPTIMISM) or cheapest[at] < ENOUGH:
                yield int(at)


@dataclass(frozen=True, eq=False)
class Searched(Generic[S]):
    """A state after moves.

    Attributes
    ----------
    state : State
    log_likelihood : float
        Of the rows that were searched.
    accepted, tried : int
        Moves that raised the likelihood, and moves in all.
    ranking : Ranking
        Of the moves from ``state``.
    """

    state: S
    log_likelihood: float
    accepted: int
    tried: int
    ranking: Ranking[S]


def search_moves(
    family: Family[R, S, E],
    rows: R,
    state: S,
    n_moves: int,
    rng: np.random.Generator,
    budget: Budget = SEARCH,
    local: Budget = LOCAL,
) -> Searched[S]:
    """Exchange components while that raises the likelihood; try at most ``n_moves`` times.

    Parameters
    ----------
    family : Family
    rows : rows of the family, held
    state : State
    n_moves : int
    rng : Generator
    budget : Budget
        Of EM, before the first move and after each.
    local : Budget
        Of each predicted gain.

    Returns
    -------
    Searched
    """
    best = run_em(family, rows, state, budget)
    total, accepted, tried = family.e_step(rows, best.state).total, 0, 0
    while True:
        ranking, before = rank_moves(family, rows, best.state, rng, local), best
        for at in ranking.promising():
            if tried == n_moves:
                break
            tried += 1
            larger = ranking.apply(best.state, np.array([at]))
            trial = _exchange(family, rows, larger, best.state.k, budget)
            if (trial.level - best.level) * total > ENOUGH:
                best, accepted = trial, accepted + 1
                break
        if best is before:
            return Searched(best.state, best.level * total, accepted, tried, ranking)


def rank_moves(
    family: Family[R, S, E],
    rows: R,
    state: S,
    rng: np.random.Generator,
    local: Budget = LOCAL,
) -> Ranking[S]:
    """Predict the gain of every split and insertion, and the loss of every merge."""
    found, sums = responsibilities(family, rows, state), family.e_step(rows, state)
    pool = family.pool(sums, state)
    splits = [split_gain(family, rows, state, found, pool, i, rng, local) for i in range(state.k)]
    candidates = family.candidates(rows, state, found.log_density, rng)
    inserted = insertion_gains(family, rows, found, candidates)
    gains = np.append([gain for gain, _ in splits], inserted.gains)
    parts = [part for _, part in splits]
    parts += [inserted.state.take(np.array([c])) for c in range(inserted.state.k)]
    origins = np.append(np.arange(state.k), np.full(inserted.state.k, -1))
    merges = merge_losses(family, rows, state, found, sums) if state.k > 1 else None
    order = np.argsort(-gains, kind="stable")
    return Ranking(gains[order], origins[order], [parts[i] for i in order], merges)


def merge_cheapest(family: Family[R, S, E], rows: R, state: S) -> S:
    """Return the state with one component less, by the merge or drop that loses least."""
    found, sums = responsibilities(family, rows, state), family.e_step(rows, state)
    return merge_losses(family, rows, state, found, sums).apply(state)


def _exchange(family: Family[R, S, E], rows: R, larger: S, k: int, budget: Budget) -> Fitted[S]:
    """Let EM settle a larger state, merge back to k components, and settle that."""
    few = replace(budget, steps=AFTER_SPLIT)
    state = run_em(family, rows, larger, few).state
    while state.k > k:
        state = merge_cheapest(family, rows, state)
    return run_em(family, rows, state, budget)
