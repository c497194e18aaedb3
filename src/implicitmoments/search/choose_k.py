"""Choose the number of components: grow and prune while a criterion decreases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from itertools import cycle
from operator import itemgetter
from typing import Generic, TypeVar

import numpy as np

from implicitmoments.search.em import LOCAL, SEARCH, Budget, E, Family, R, S, bic
from implicitmoments.search.moves import GROW, Searched, search_moves
from implicitmoments.search.ranking import Ranking
from implicitmoments.search.splits import OPTIMISM
from implicitmoments.search.trials import total_rows

C = TypeVar("C")  # a candidate, and what fitting makes of it
F = TypeVar("F")

# Times the sum of all predicted gains that growth may gain: several splits at once gained 0.5 to
# 1.8 times what was predicted.
FURTHER = 2.0
FAILURES = 2  # numbers in a row that are no better, before the search turns: BIC may have a bump


@dataclass(frozen=True, eq=False)
class Chosen(Generic[S]):
    """The state with the least criterion."""

    searched: Searched[S]
    # the criterion of each number of components that was tried
    scores: dict[int, float] = field(default_factory=dict)
    # and the state that has it
    states: dict[int, S] = field(default_factory=dict)


def choose_k(  # noqa: PLR0913 (each documented)
    family: Family[R, S, E],
    rows: R,
    state: S,
    most: int,
    n_moves: int,
    rng: np.random.Generator,
    budget: Budget = SEARCH,
    local: Budget = LOCAL,
    *,
    least: float = math.inf,
) -> Chosen[S]:
    """Split and merge components while the Bayesian information criterion decreases.

    First without moves: all components whose predicted gain is above the penalty are split at
    once, so that the number may double in a round, and all pairs whose merge costs less are merged
    at once. Then moves improve the number that was best and its neighbours, where they may lower
    the criterion. The result has the least criterion of all that were tried, and one component
    more and one less were tried, unless ``least`` is out of reach.

    Parameters
    ----------
    state : State
        Where the search starts.
    most : int
        The largest number of components.
    n_moves : int
        Moves tried per number of components; for none the search ends before moves.
    budget, local : Budget
        As in :func:`search_moves`.
    least : float
        A criterion to surpass: the search ends where that is out of reach.
    """
    total, scores, states = total_rows(family, rows), dict[int, float](), dict[int, S]()

    def parameters(k: int) -> int:
        return family.n_parameters(state.take(np.zeros(k, dtype=np.int64)))

    penalty = 0.5 * (parameters(2) - parameters(1)) * math.log(total)
    known: Ranking[S] | None = None

    def judge(candidate: S, n_moves: int, budget: Budget) -> tuple[float, Searched[S]]:
        nonlocal known
        k, best = candidate.k, min(least, *scores.values(), math.inf)
        target = 0.5 * (parameters(k) * math.log(total) - best)
        found = search_moves(
            family,
            rows,
            candidate,
            n_moves,
            rng,
            budget,
            local,
            target=target,
            worth=penalty / OPTIMISM,
            ranking=known,
        )
        known = found.ranking
        score = bic(found.log_likelihood, family.n_parameters(found.state), total)
        before = (scores.get(k, math.inf), states.get(k, found.state))
        scores[k], states[k] = min(before, (score, found.state), key=itemgetter(0))
        return score, found

    def hopeless(found: Searched[S]) -> bool:
        """Return whether predicted changes, each to its full extent, leave ``least`` as it is."""
        gains = FURTHER * found.ranking.gains[: max(most - found.state.k, 1)] - penalty
        reach = gains[gains > 0].sum()
        if found.ranking.merges is not None:
            losses = found.ranking.merges.losses
            reach += np.sum(penalty - losses[found.ranking.merges.cheap(penalty)])
        return bool(min(scores.values()) - 2 * reach > least)

    def grown(found: Searched[S]) -> S | None:
        k, ranking = found.state.k, found.ranking
        if k >= most or hopeless(found):
            return None
        worth = np.flatnonzero(ranking.gains > penalty)[: most - k]
        return ranking.apply(found.state, worth if len(worth) else np.array([0]))

    def pruned(found: Searched[S]) -> S | None:
        merges = found.ranking.merges
        if merges is None or hopeless(found):
            return None
        cheap = merges.cheap(penalty)
        return merges.apply(found.state, cheap if len(cheap) else 0)

    rough = grow_and_prune(
        judge(state, 0, GROW), lambda each: judge(each, 0, GROW), (grown, pruned), patience=1
    )
    if n_moves == 0 or hopeless(rough):
        return Chosen(rough, dict(sorted(scores.items())), states)
    best = grow_and_prune(
        judge(rough.state, n_moves, budget),
        lambda each: judge(each, n_moves, budget),
        (grown, pruned),
    )
    return Chosen(best, dict(sorted(scores.items())), states)


def grow_and_prune(
    start: tuple[float, F],
    judge: Callable[[C], tuple[float, F]],
    steps: Sequence[Callable[[F], C | None]],
    patience: int = FAILURES,
) -> F:
    """Take steps of each kind in turn while a criterion decreases, until no kind helps.

    Parameters
    ----------
    start : (float, fitted)
        The criterion of a fitted model, and the model.
    judge : callable
        Fits a candidate; returns its criterion, and the fitted model.
    steps : sequence of callable
        Each returns a larger or smaller candidate from a fitted model; None if there is none.
    patience : int
        Steps of one kind, one after another, that do not lower the criterion before it is left.
    """
    least, best = start
    vain = 0  # kinds of steps that have failed from the best model
    for step in cycle(steps):
        before, current, failures = best, best, 0
        while failures < patience and (changed := step(current)) is not None:
            score, current = judge(changed)
            failures += 1
            if score < least:
                least, best, failures = score, current, 0
        vain = vain + 1 if best is before else 1
        if vain >= len(steps):
            break
    return best


def fit_neighbours(
    fit: Callable[[int], F], criterion: Callable[[F], float], first: Set[int], most: int
) -> dict[int, F]:
    """Fit some numbers of components, and then the neighbours of the best, until it has both.

    Parameters
    ----------
    fit : callable
        Fits a number of components.
    criterion : callable
        Of a fit; the lower the better.
    first : set of int
        Numbers that are fitted in any case.
    most : int
        The largest number.

    Examples
    --------
    >>> fits = fit_neighbours(lambda k: (k - 4) ** 2, float, {1, 2}, 10)
    >>> sorted(fits)
    [1, 2, 3, 4, 5]
    """
    fits, wanted = dict[int, F](), set(first)
    while wanted := {k for k in wanted if 1 <= k <= most and k not in fits}:
        fits |= {k: fit(k) for k in sorted(wanted)}
        best = min(fits, key=lambda k: criterion(fits[k]))
        wanted = {best - 1, best + 1}
    return fits
