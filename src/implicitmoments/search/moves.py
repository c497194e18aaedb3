"""Moves at a fixed number of components: split or insert, then merge or drop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Generic

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.search import trials
from implicitmoments.search.em import (
    LOCAL,
    SEARCH,
    Budget,
    E,
    Family,
    Fitted,
    Places,
    R,
    S,
    run_em,
)
from implicitmoments.search.shares import Shares
from implicitmoments.search.splits import (
    fitted_parameters,
    gain_needed,
    most_by_chance,
    split_gains,
)
from implicitmoments.search.trials import Merges, total_rows

ENOUGH = 2.0  # minimum log-likelihood gain of a move, above rounding and EM error
PATIENCE = 4  # swaps of a kind that are tried from one state, those of the best prediction
# Nats per row that a merge costs where components overlap, or as much as chance explains. The rows
# of a missing component are then held by several others, and no split of one of them shows it:
# insertions are tried too.
OVERLAP = 0.5
SAME = 0.1  # of its responsibilities that may move while a component keeps its predicted split
BETWEEN = 10  # EM steps with a component more or less, between the halves of a swap


@dataclass(frozen=True, eq=False)
class Ranking(Generic[S]):
    """Splits and insertions, ranked by predicted log-likelihood gain."""

    gains: Floats  # (m,), the largest first
    origins: Places  # (m,), the component that would be split; -1 for an insertion
    # the two parts of a split; the component to insert, its weight a share of all rows
    parts: list[S]
    merges: Merges[S] | None  # ways back to as many components; None for a single component
    overlap: bool  # the cheapest merge costs little
    shares: Shares  # of the state, for the rows that were looked at
    chance: float  # gain of a split by chance: a nat for each further parameter
    rows: Any  # that were looked at
    unit: float = 1.0  # for how many rows each of them stands: chance is so many times as large

    def needed(self, loss: Floats | float) -> Floats:
        """Return the least predicted gain that may make up for a loss."""
        return gain_needed(loss, self.chance, self.unit)

    @property
    def by_chance(self) -> float:
        """The most that a split gains by chance."""
        return most_by_chance(self.chance, self.unit)

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

    def without(self, which: Places) -> Ranking[S]:
        """Return the ranking without some changes."""
        others = ~np.isin(np.arange(len(self.gains)), which)
        parts = [part for part, kept in zip(self.parts, others, strict=True) if kept]
        return replace(self, gains=self.gains[others], origins=self.origins[others], parts=parts)

    def sure(self) -> Places:
        """Return changes that repay merges of other components, each with one of its own.

        No component takes part in two of them, so that they add up.
        """
        found, taken = list[int](), set[int]()
        if self.merges is None:
            return np.array(found, dtype=np.int64)
        merges = iter(zip(self.merges.losses, self.merges.pairs.tolist(), strict=True))
        for at, i in enumerate(self.origins.tolist()):
            if i in taken:
                continue
            taken |= {i} - {-1}
            loss, pair = next((m for m in merges if not taken & set(m[1])), (math.inf, []))
            if self.gains[at] < max(loss + ENOUGH, self.by_chance):
                break
            found.append(at)
            taken |= set(pair)
        return np.array(found, dtype=np.int64)

    def promising(self, needed: float = 0.0) -> Iterator[int]:
        """Yield the changes that may repay the cheapest merge of other components.

        The best insertions and the best splits, whose gains are larger by chance.

        Parameters
        ----------
        needed : float
            The least rise of the log-likelihood that is of use.
        """
        if self.merges is None:
            return
        cheapest = self.merges.cheapest_after_split(self.origins)
        order = np.argsort(cheapest - self.gains, kind="stable")
        inserts = self.origins[order] < 0
        for at in np.concatenate([order[inserts][:PATIENCE], order[~inserts][:PATIENCE]]):
            if self.gains[at] > max(ENOUGH, float(self.needed(cheapest[at] + needed))):
                yield int(at)


@dataclass(frozen=True, eq=False)
class Searched(Generic[S]):
    """A state after moves."""

    state: S
    log_likelihood: float  # of the rows that were searched
    accepted: int  # moves that raised the likelihood, and moves in all
    tried: int
    ranking: Ranking[S]  # of the moves from ``state``
    returned: int = 0  # moves that led back to the same likelihood

    @property
    def failed(self) -> int:
        """Moves that were promising, and led to a lower likelihood."""
        return self.tried - self.accepted - self.returned


def search_moves(  # noqa: PLR0913 (each documented)
    family: Family[R, S, E],
    rows: R,
    state: S,
    n_moves: int,
    rng: np.random.Generator,
    budget: Budget = SEARCH,
    local: Budget = LOCAL,
    *,
    target: float = -math.inf,
    worth: float = math.inf,
    ranking: Ranking[S] | None = None,
) -> Searched[S]:
    """Exchange components while that raises the likelihood; try at most ``n_moves`` times.

    Parameters
    ----------
    target : float
        A log-likelihood: moves that are not likely to reach it are not tried. Those that are sure
        to pay always are; for inf no others.
    worth, ranking
        As ``worth`` and ``before`` in :func:`rank_moves`.
    budget : Budget
        Of EM, before the first move and after each.
    local : Budget
        Of the EM of two parts of one component, and of insertions.
    """
    best, ranking = _begin(family, rows, state, rng, budget, local, ranking, worth)
    total, accepted, tried, returned = total_rows(family, rows), 0, 0, 0
    while True:
        before, needed = best, max(target - best.level * total, 0.0)
        swaps = _swaps(family, rows, best.state, ranking, needed, rng, budget, local)
        for which, swapped in islice(swaps, n_moves - tried):
            tried += 1
            if swapped is None:
                returned += 1
                continue
            trial = run_em(family, rows, swapped, budget, best.level + ENOUGH / total)
            if (trial.level - best.level) * total > ENOUGH:
                best, accepted = trial, accepted + 1
                ranking = ranking.without(which)
                break
            returned += (best.level - trial.level) * total <= ENOUGH
        if best is before and not best.converged:  # EM in transit misleads a ranking
            further = run_em(family, rows, best.state, budget)
            if (further.level - best.level) * total > ENOUGH:
                best = further
        if best is before:
            return Searched(best.state, best.level * total, accepted, tried, ranking, returned)
        ranking = rank_moves(family, rows, best.state, rng, local, ranking, worth)


def _begin(
    family: Family[R, S, E],
    rows: R,
    state: S,
    rng: np.random.Generator,
    budget: Budget,
    local: Budget,
    ranking: Ranking[S] | None,
    worth: float,
) -> tuple[Fitted[S], Ranking[S]]:
    """Run EM, and rank the first moves.

    EM is slow while components are missing elsewhere. Where several merges cost no more than
    chance explains, and changes repay them, moves come before EM has converged.
    """
    fitted = run_em(family, rows, state, replace(budget, steps=BETWEEN))
    if not fitted.converged:
        if _several_spare(family, rows, fitted.state):
            ranking = rank_moves(family, rows, fitted.state, rng, local, ranking, worth)
            if len(ranking.sure()) > 1:
                return fitted, ranking
        fitted = run_em(family, rows, fitted.state, budget)
    return fitted, rank_moves(family, rows, fitted.state, rng, local, ranking, worth)


def _several_spare(family: Family[R, S, E], rows: R, state: S) -> bool:
    """Whether several components could be merged or dropped for no more than chance explains."""
    if state.k <= 2:
        return False
    n = int(family.counts(rows).shape[0])
    rows, state, found, sums = trials.look_at(family, rows, state)
    unit = n / int(found.counts.shape[0])
    by_chance = most_by_chance(float(fitted_parameters(family, state)), unit)
    return len(trials.merge_losses(family, rows, state, found, sums).cheap(by_chance)) > 1


def _swaps(
    family: Family[R, S, E],
    rows: R,
    state: S,
    ranking: Ranking[S],
    needed: float,
    rng: np.random.Generator,
    budget: Budget,
    local: Budget,
) -> Iterator[tuple[Places, S | None]]:
    """Yield states with components elsewhere, and the places in the ranking that each used.

    None for a split that comes to nothing.

    First splits or insertions, EM of all components, and the merges or drops that then cost least:
    all splits that are sure to repay a merge, where they are several, and then one at a time. Last
    the reverse: a component in the wrong place holds rows of a missing one, and a split finds
    them only without it. Where an infinite rise is needed, only what is sure.
    """
    few, sure = replace(budget, steps=BETWEEN), ranking.sure()
    alone = math.isinf(needed)
    several = [sure] if len(sure) > (0 if alone else 1) else []
    single = (np.array([at]) for at in ranking.promising(needed))
    for places in chain(several, single):
        larger = run_em(family, rows, ranking.apply(state, places), few).state
        merges = trials.merges_of(family, rows, larger)
        split = len(places) == 1 and ranking.origins[places[0]] >= 0
        if split and set(merges.pairs[0].tolist()) == {state.k - 1, state.k}:
            yield places, None  # its parts, which are last, are one again: EM would end as before
        else:
            yield places, merge_to(family, rows, larger, state.k, merges, ranking.by_chance)
    if ranking.merges is not None and ranking.overlap and not alone:
        smaller = run_em(family, rows, ranking.merges.apply(state), few).state
        worth = float(ranking.needed(ranking.merges.losses[0] + needed))
        again = rank_moves(family, rows, smaller, rng, local, ranking, worth)
        for at in np.flatnonzero(again.gains > worth)[:PATIENCE]:
            yield np.zeros(0, dtype=np.int64), again.apply(smaller, np.array([at]))


def rank_moves(
    family: Family[R, S, E],
    rows: R,
    state: S,
    rng: np.random.Generator,
    local: Budget = LOCAL,
    before: Ranking[S] | None = None,
    worth: float = 0.0,
) -> Ranking[S]:
    """Predict the gain of every split and insertion, and the loss of every merge.

    Parameters
    ----------
    local : Budget
        Of one component.
    before : Ranking, optional
        Of a state before: components that hold the same rows as then keep their splits.
    worth : float
        A gain that is of use with a component more. Smaller ones that do not repay a merge
        either are estimates.
    """
    every = rows
    rows, state, found, sums = trials.look_at(family, every, state)
    pool = family.pool(sums, state)
    known = {} if before is None else _unchanged(before, found)
    merges = trials.merge_losses(family, rows, state, found, sums) if state.k > 1 else None
    enough, chance = np.full(state.k, worth), float(fitted_parameters(family, state))
    unit = int(family.counts(every).shape[0]) / int(found.counts.shape[0])
    overlap = False
    if merges is not None:
        cheapest = merges.cheapest_after_split(np.arange(state.k))
        enough = np.minimum(enough, gain_needed(cheapest, chance, unit))
        most = max(OVERLAP * sums.total / state.k, most_by_chance(chance, unit))
        overlap = float(merges.losses[0]) < most
    new = np.array([i for i in range(state.k) if i not in known], dtype=np.int64)
    known |= split_gains(family, rows, state, found, pool, new, rng, local, worth=enough[new])
    splits = [known[i] for i in range(state.k)]
    candidates = state.take(np.zeros(0, dtype=np.int64))
    if overlap:
        candidates = family.candidates(rows, state, found.log_density, rng)
    added, inserted = trials.insertion_gains(family, rows, found, candidates, local)
    gains = np.append([gain for gain, _ in splits], added)
    parts = [part for _, part in splits]
    parts += [inserted.take(np.array([c])) for c in range(inserted.k)]
    origins = np.append(np.arange(state.k), np.full(inserted.k, -1))
    order = np.argsort(-gains, kind="stable")
    parts = [parts[i] for i in order]
    return Ranking(gains[order], origins[order], parts, merges, overlap, found, chance, rows, unit)


def _unchanged(before: Ranking[S], found: Shares) -> dict[int, tuple[float, S]]:
    """Return the splits known of components whose responsibilities have hardly changed."""
    old = before.shares
    if type(old) is not type(found) or old.counts.shape != found.counts.shape:
        return {}  # other rows were looked at
    which = old.common(found).argmax(axis=0)
    moved, most = found.moved(old, which), SAME * old.totals()[which]
    places = {int(i): at for at, i in enumerate(before.origins) if i >= 0}
    same = ((j, places.get(int(which[j]))) for j in np.flatnonzero(moved < most).tolist())
    return {j: (float(before.gains[at]), before.parts[at]) for j, at in same if at is not None}


def merge_cheapest(family: Family[R, S, E], rows: R, state: S) -> S:
    """Return the state with one component less, by the merge or drop that loses least."""
    return trials.merges_of(family, rows, state).apply(state)


def merge_to(
    family: Family[R, S, E],
    rows: R,
    state: S,
    k: int,
    merges: Merges[S],
    by_chance: float = 0.0,
) -> S:
    """Return the state with k components: half of those that are too many merge at once.

    All merges that lose no more than chance explains are made at once as well.

    Parameters
    ----------
    merges : Merges
        Of the state.
    by_chance : float
        The most that two parts of a component gain by chance.
    """
    while True:
        surplus, parts = state.k - k, len(merges.cheap(by_chance))
        at_once = min(surplus, max(parts, (surplus + 1) // 2))
        state = merges.apply(state, merges.cheap(math.inf)[:at_once])
        if state.k == k:
            return state
        merges = trials.merges_of(family, rows, state)


GROW = Budget(rows=2**62, steps=20, tol=1e-4)  # EM between two splits need not converge
TOGETHER = 0.5  # of the largest gain: components that gain more are split at once


def grow(
    family: Family[R, S, E],
    rows: R,
    state: S,
    k: int,
    rng: np.random.Generator,
    budget: Budget = GROW,
    local: Budget = LOCAL,
) -> Fitted[S]:
    """Split the components with the largest predicted gains until there are k.

    Parameters
    ----------
    state : State
        With at most k components.
    budget : Budget
        Of EM after each round of splits.
    local : Budget
        Of the EM of two parts of one component.
    """
    fitted = run_em(family, rows, state, budget)
    ranking: Ranking[S] | None = None
    while fitted.state.k < k:
        ranking = rank_moves(family, rows, fitted.state, rng, local, ranking)
        worth = np.append(
            0, 1 + np.flatnonzero(ranking.gains[1:] > TOGETHER * abs(ranking.gains[0]))
        )
        larger = ranking.apply(fitted.state, worth[: k - fitted.state.k])
        fitted = run_em(family, rows, larger, budget)
    return fitted
