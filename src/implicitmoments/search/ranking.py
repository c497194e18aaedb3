"""Splits and insertions, ranked by their predicted gains, and the losses of merges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.search import trials
from implicitmoments.search.em import LOCAL, Budget, E, Family, Places, R, S
from implicitmoments.search.shares import Shares
from implicitmoments.search.splits import (
    OPTIMISM,
    fitted_parameters,
    gain_needed,
    most_by_chance,
    split_gains,
)
from implicitmoments.search.trials import Merges

ENOUGH = 2.0  # minimum log-likelihood gain of a move, above rounding and EM error
PATIENCE = 4  # swaps of a kind that are tried from one state, those of the best prediction
# Nats per row that a merge costs where components overlap, or as much as chance explains. The rows
# of a missing component are then held by several others, and no split of one of them shows it:
# insertions are tried too.
OVERLAP = 0.5
SAME = 0.1  # of its responsibilities that may move while a component keeps its predicted split


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

    def without(self, parts: Sequence[S]) -> Ranking[S]:
        """Return the ranking without some changes, by what :attr:`parts` has for them."""
        others = [
            at for at, own in enumerate(self.parts) if all(own is not each for each in parts)
        ]
        kept = [self.parts[at] for at in others]
        return replace(self, gains=self.gains[others], origins=self.origins[others], parts=kept)

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
        """Return changes to try together: up to so many at once, or one at a time.

        Several are tried at once where together they may raise the log-likelihood as much as is
        needed, or are sure to repay merges.
        """
        if size == 1:
            return [np.array([at]) for at in self.promising(needed)]
        many, surplus = self._ordered()
        if surplus[many[:size]].sum() >= needed and len(many) > 1:
            return [many[:size]]
        sure = self.sure()
        return [sure][: len(sure)]

    def promising(self, needed: float = 0.0) -> Iterator[int]:
        """Yield the changes that may repay the cheapest merge of other components.

        The best insertions and the best splits, whose gains are larger by chance.

        Parameters
        ----------
        needed : float
            The least rise of the log-likelihood that is of use.
        """
        order, _ = self._ordered(needed)
        inserts = self.origins[order] < 0
        yield from order[inserts][:PATIENCE].tolist()
        yield from order[~inserts][:PATIENCE].tolist()

    def _ordered(self, needed: float = 0.0) -> tuple[Places, Floats]:
        """Return promising changes by their net gain, and the most that each may gain, net."""
        if self.merges is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        cheapest = self.merges.cheapest_after_split(self.origins)
        open_ = self.gains > np.maximum(ENOUGH, self.needed(cheapest + needed))
        order = np.argsort(cheapest - self.gains, kind="stable")
        return order[open_[order]], OPTIMISM * self.gains - cheapest


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
