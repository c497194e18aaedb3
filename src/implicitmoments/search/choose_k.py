"""Choose the number of components: grow and prune while a criterion decreases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Generic, TypeVar

import numpy as np

from implicitmoments.search.em import LOCAL, SEARCH, Budget, E, Family, R, S, bic
from implicitmoments.search.moves import Searched, merge_cheapest, search_moves

C = TypeVar("C")  # a candidate, and what fitting makes of it
F = TypeVar("F")

FAILURES = 2  # numbers in a row that are no better, before the search turns: BIC may have a bump


@dataclass(frozen=True, eq=False)
class Chosen(Generic[S]):
    """The state with the least criterion."""

    searched: Searched[S]
    # the criterion of each number of components that was tried
    scores: dict[int, float] = field(default_factory=dict)


def choose_k(
    family: Family[R, S, E],
    rows: R,
    state: S,
    most: int,
    n_moves: int,
    rng: np.random.Generator,
    budget: Budget = SEARCH,
    local: Budget = LOCAL,
) -> Chosen[S]:
    """Split, then merge components while the Bayesian information criterion decreases.

    All components whose predicted gain is above the penalty are split at once, so that the number
    may double in a round. Moves improve every number. The result has the least criterion of all
    that were tried, and one component more and one less were tried.

    Parameters
    ----------
    state : State
        Where the search starts.
    most : int
        The largest number of components.
    n_moves : int
        Moves tried per number of components.
    budget, local : Budget
        As in :func:`search_moves`.
    """
    total, scores = family.e_step(rows, state).total, dict[int, float]()

    def judge(candidate: S) -> tuple[float, Searched[S]]:
        found = search_moves(family, rows, candidate, n_moves, rng, budget, local)
        score = bic(found.log_likelihood, family.n_parameters(found.state), total)
        scores[found.state.k] = min(score, scores.get(found.state.k, math.inf))
        return score, found

    def grown(found: Searched[S]) -> S | None:
        k, ranking = found.state.k, found.ranking
        if k >= most:
            return None
        larger = ranking.apply(found.state, np.array([0]))
        extra = family.n_parameters(larger) - family.n_parameters(found.state)
        penalty = 0.5 * extra * math.log(total)
        worth = np.flatnonzero(ranking.gains > penalty)[: most - k]
        return ranking.apply(found.state, worth) if len(worth) > 1 else larger

    def pruned(found: Searched[S]) -> S | None:
        return merge_cheapest(family, rows, found.state) if found.state.k > 1 else None

    best = grow_and_prune(judge(state), judge, (grown, pruned))
    return Chosen(best, dict(sorted(scores.items())))


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
