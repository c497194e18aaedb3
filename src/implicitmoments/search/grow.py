"""Grow a mixture by splits, from few components to as many as wanted."""

from __future__ import annotations

import numpy as np

from implicitmoments.search.budget import LOCAL, Budget
from implicitmoments.search.em import Fitted, run_em
from implicitmoments.search.family import E, Family, R, S
from implicitmoments.search.moves import Ranking, rank_moves

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
