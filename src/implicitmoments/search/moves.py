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
# One in so many components is exchanged at a time, while that raises the likelihood: the merges
# that follow undo the splits that do not pay.
AT_ONCE = 3
# Nats per row that a merge costs where components overlap, or as much as chance explains. The rows
# of a missing component are then held by several others, and no split of one of them shows it:
# insertions are tried too.
OVERLAP = 0.5
SAME = 0.1  # of its responsibilities that may move while a component keeps its predicted split
BETWEEN = 10  # EM steps with a component more or less, between the halves of a swap
SETTLED = 20  # EM steps after which a state that is more likely than the one before is kept


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
    shared: bool = False  # components share parameters: splits gain more together than one by one

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

    def groups(self, size: int, needed: float = 0.0) -> list[Places]:
        """Return changes to try together: so many that are promising, or one at a time.

        Where an infinite rise is needed, those that are sure.
        """
        if size > 1 or math.isinf(needed):
            found = self.sure() if math.isinf(needed) else [*self.promising(needed, size)]
            return [np.array(found, dtype=np.int64)][: len(found)]
        return [np.array([at]) for at in self.promising(needed)]

    def promising(self, needed: float = 0.0, most: int = PATIENCE) -> Iterator[int]:
        """Yield the changes that may repay the cheapest merge of other components.

        The best insertions and the best splits, whose gains are larger by chance.

        Parameters
        ----------
        needed : float
            The least rise of the log-likelihood that is of use.
        most : int
            So many of each kind.
        """
        if self.merges is None:
            return
        cheapest = self.merges.cheapest_after_split(self.origins)
        order = np.argsort(cheapest - self.gains, kind="stable")
        inserts = self.origins[order] < 0
        for at in np.concatenate([order[inserts][:most], order[~inserts][:most]]):
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
    failed: int = 0  # swaps of one component that were promising, and lowered the likelihood


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
    best = run_em(family, rows, state, replace(budget, steps=SETTLED))
    ranking = rank_moves(family, rows, best.state, rng, local, ranking, worth)
    total, accepted, tried, failed = total_rows(family, rows), 0, 0, 0
    size, rested = max(1, state.k // AT_ONCE), best.converged
    while True:
        before, enough = best, ENOUGH / total
        needed = max(target - best.level * total, 0.0)
        swaps = _swaps(family, rows, best.state, ranking, ranking.groups(size, needed), budget)
        if size == 1 and ranking.overlap and math.isfinite(needed):
            last = _reverse(family, rows, best.state, ranking, needed, rng, budget, local)
            swaps = chain(swaps, last)
        for which, swapped in islice(swaps, n_moves - tried):
            tried += 1
            if swapped is None:
                continue
            trial = _settle(family, rows, swapped, budget, before.level + enough)
            if trial.level > before.level + enough:
                best, rested, accepted = trial, trial.converged, accepted + 1
                if (best.level - before.level) * total < ranking.by_chance:
                    size = 1
                ranking = ranking.without(which)
                break
            failed += size == 1 and trial.level < before.level - enough
        else:
            if not rested:  # EM in transit misleads a ranking
                best, rested = run_em(family, rows, best.state, budget), True
            elif size == 1:
                level = best.level * total
                return Searched(best.state, level, accepted, tried, ranking, failed)
            size = 1
        if best.level > before.level + enough:
            ranking = rank_moves(family, rows, best.state, rng, local, ranking, worth)


def _settle(family: Family[R, S, E], rows: R, state: S, budget: Budget, least: float) -> Fitted[S]:
    """Run EM until it has settled above a level, or may no longer reach it."""
    fitted = run_em(family, rows, state, replace(budget, steps=SETTLED), least)
    if fitted.level > least or fitted.converged or fitted.n_iter < SETTLED:
        return fitted
    return run_em(family, rows, fitted.state, budget, least)


def _swaps(
    family: Family[R, S, E],
    rows: R,
    state: S,
    ranking: Ranking[S],
    groups: list[Places],
    budget: Budget,
) -> Iterator[tuple[Places, S | None]]:
    """Yield states with components elsewhere, and the places in the ranking that each used.

    Splits or insertions, EM of all components, and the merges or drops that then cost least. None
    for splits that come to nothing.
    """
    for places in groups:
        larger = ranking.apply(state, places)
        larger = run_em(family, rows, larger, replace(budget, steps=BETWEEN)).state
        merges = trials.merges_of(family, rows, larger)
        chosen, n_splits = merges.cheap(math.inf)[: len(places)], sum(ranking.origins[places] >= 0)
        if _undo(merges.pairs[chosen], int(n_splits), state.k):
            yield places, None  # EM would end as before
        else:
            yield places, merge_to(family, rows, larger, state.k, merges)


def _undo(pairs: Places, n_splits: int, k: int) -> bool:
    """Whether merges of pairs undo all of so many splits of k components, whose parts are last."""
    first = k - n_splits + 2 * np.arange(n_splits)
    return np.array_equal(np.sort(pairs, axis=0), np.column_stack([first, first + 1]))


def _reverse(
    family: Family[R, S, E],
    rows: R,
    state: S,
    ranking: Ranking[S],
    needed: float,
    rng: np.random.Generator,
    budget: Budget,
    local: Budget,
) -> Iterator[tuple[Places, S]]:
    """Yield states after the cheapest merge, and then a split or an insertion.

    A component in the wrong place holds rows of a missing one, and a split finds them only without
    it.
    """
    if ranking.merges is None:
        return
    smaller = run_em(family, rows, ranking.merges.apply(state), replace(budget, steps=BETWEEN))
    worth = float(ranking.needed(ranking.merges.losses[0] + needed))
    again = rank_moves(family, rows, smaller.state, rng, local, ranking, worth)
    for at in np.flatnonzero(again.gains > worth)[:PATIENCE]:
        yield np.zeros(0, dtype=np.int64), again.apply(smaller.state, np.array([at]))


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
    shared = pool.shape[1] > 0
    ranked = gains[order], origins[order], parts
    return Ranking(*ranked, merges, overlap, found, chance, rows, unit, shared)


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


def _undone(pairs: Places, n_splits: int, k: int) -> bool:
    """Whether merges of pairs undo all of so many splits of k components, whose parts are last."""
    first = k - n_splits + 2 * np.arange(n_splits)
    return np.array_equal(np.sort(pairs, axis=0), np.column_stack([first, first + 1]))


def merge_to(family: Family[R, S, E], rows: R, state: S, k: int, merges: Merges[S]) -> S:
    """Return the state with k components, after as many merges at once as there are pairs.

    Parameters
    ----------
    merges : Merges
        Of the state.
    """
    while True:
        state = merges.apply(state, merges.cheap(math.inf)[: state.k - k])
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
