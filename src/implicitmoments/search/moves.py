"""Moves at a fixed number of components: split or insert, then merge or drop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Generic

import numpy as np

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
from implicitmoments.search.nearby import split_nearby
from implicitmoments.search.ranking import ENOUGH, PATIENCE, Ranking, rank_moves
from implicitmoments.search.trials import Merges, total_rows

# One in so many components is exchanged at a time, while that raises the likelihood: the merges
# that follow undo the splits that do not pay.
AT_ONCE = 3
BETWEEN = 10  # EM steps with a component more or less, between the halves of a swap
SETTLED = 20  # EM steps after which a state that is more likely than the one before is kept


@dataclass(frozen=True, eq=False)
class Searched(Generic[S]):
    """A state after moves."""

    state: S
    log_likelihood: float  # of the rows that were searched
    accepted: int  # moves that raised the likelihood, and moves in all
    tried: int
    ranking: Ranking[S]  # of the moves from ``state``, up to the last steps of EM
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
    n_moves : int
        Changes that are tried together count as one move.
    target : float
        A log-likelihood: moves that are not likely to reach it are not tried. Those that are sure
        to pay always are; for inf no others.
    worth, ranking
        As ``worth`` and ``before`` in :func:`rank_moves`.
    budget : Budget
        Of EM, before the first move and after each: at most :data:`SETTLED` steps at first.
    local : Budget
        Of the EM of two parts of one component, and of insertions.
    """
    best = run_em(family, rows, state, replace(budget, steps=min(SETTLED, budget.steps)))
    ranking = rank_moves(family, rows, best.state, rng, local, ranking, worth)
    total, accepted, tried, failed = total_rows(family, rows), 0, 0, 0
    size, spent = max(2, state.k // AT_ONCE), list[S]()  # tried since the last that was kept
    while True:
        before, enough, left = best, ENOUGH / total, ranking.without(spent)
        needed = max(target - best.level * total, 0.0)
        swaps = _swaps(family, rows, best.state, left, left.groups(size, needed), budget)
        if size == 1 and ranking.overlap and math.isfinite(needed):
            last = _reverse(family, rows, best.state, ranking, needed, rng, budget, local)
            swaps = chain(swaps, last)
        swaps = islice(swaps, n_moves - tried)
        outcome = _try(family, rows, best, swaps, budget, enough)
        tried, failed = tried + outcome.tried, failed + (size == 1) * outcome.failed
        if outcome.kept is not None:
            best, accepted, spent = outcome.kept, accepted + 1, []
            ranking = ranking.without(outcome.parts)
            if (best.level - before.level) * total < ranking.by_chance:
                size = 1
        else:
            end = size == 1
            spent, size = [*spent, *outcome.parts] if end else [], 1
            if not best.converged:  # EM in transit misleads a ranking
                best = _go_on(family, rows, best, budget, enough)
            if best.level <= before.level + enough:
                if end:
                    level = best.level * total
                    return Searched(best.state, level, accepted, tried, ranking, failed)
                if best.state is before.state:
                    continue
        ranking = rank_moves(family, rows, best.state, rng, local, ranking, worth)


@dataclass(frozen=True, eq=False)
class _Outcome(Generic[S]):
    """What came of swaps."""

    kept: Fitted[S] | None  # the first that is more likely, if any
    parts: list[S]  # that it used, or that all of them used
    tried: int
    failed: int  # less likely than the state before


def _try(
    family: Family[R, S, E],
    rows: R,
    best: Fitted[S],
    swaps: Iterable[tuple[list[S], S | None]],
    budget: Budget,
    enough: float,
) -> _Outcome[S]:
    """Run EM after swaps until one has raised the mean log-likelihood by enough."""
    tried, failed, spent, least = 0, 0, list[S](), best.level + enough
    for parts, swapped in swaps:
        tried += 1
        trial = best if swapped is None else _settle(family, rows, swapped, budget, least)
        if trial.level > least:
            return _Outcome(trial, parts, tried, failed)
        spent += parts
        failed += trial.level < best.level - enough
    return _Outcome(None, spent, tried, failed)


def _go_on(
    family: Family[R, S, E], rows: R, best: Fitted[S], budget: Budget, enough: float
) -> Fitted[S]:
    """Run EM from where it ended; it has converged if it rises by less than is enough."""
    further = run_em(family, rows, best.state, budget)
    if further.level > best.level + enough:
        return further
    return replace(further if further.level > best.level else best, converged=True)


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
) -> Iterator[tuple[list[S], S | None]]:
    """Yield states with components elsewhere, and the parts that each used.

    Splits or insertions, a short EM, and the merges or drops that then cost least. None for
    splits that come to nothing.
    """
    for places in groups:
        larger, merges = _enlarge(family, rows, state, ranking, places, budget)
        chosen, n_splits = merges.apart()[: len(places)], sum(ranking.origins[places] >= 0)
        parts = [ranking.parts[at] for at in places]
        if _undo(merges.pairs[chosen], int(n_splits), state.k):
            yield parts, None  # EM would end as before
        else:
            yield parts, merge_to(family, rows, merges.apply(larger, chosen), state.k)


def _enlarge(
    family: Family[R, S, E],
    rows: R,
    state: S,
    ranking: Ranking[S],
    places: Places,
    budget: Budget,
) -> tuple[S, Merges[S]]:
    """Return the state after splits or insertions and a short EM, and its merges.

    After a split of one of many components EM of those around it.
    """
    budget, i = replace(budget, steps=BETWEEN), int(ranking.origins[places[0]])
    if len(places) == 1 and i >= 0 and ranking.merges is not None:
        near = ranking.merges.around(i)
        if len(near) < state.k:
            return split_nearby(family, state, ranking, int(places[0]), near, budget)
    larger = run_em(family, rows, ranking.apply(state, places), budget).state
    return larger, trials.merges_of(family, rows, larger)


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
) -> Iterator[tuple[list[S], S]]:
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
        yield [], again.apply(smaller.state, np.array([at]))


def merge_cheapest(family: Family[R, S, E], rows: R, state: S) -> S:
    """Return the state with one component less, by the merge or drop that loses least."""
    return trials.merges_of(family, rows, state).apply(state)


def merge_to(family: Family[R, S, E], rows: R, state: S, k: int) -> S:
    """Return the state after merges, as many at once as there are pairs, until k are left."""
    while state.k > k:
        merges = trials.merges_of(family, rows, state)
        state = merges.apply(state, merges.apart()[: state.k - k])
    return state


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
