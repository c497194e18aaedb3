"""Grow a mixture by splits, from few components to as many as wanted."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Floats, index_like, namespace_of, to_numpy
from implicitmoments.search.budget import LOCAL, Budget
from implicitmoments.search.em import Fitted, run_em
from implicitmoments.search.family import E, Family, Places, R, S
from implicitmoments.search.trials import Shares, responsibilities, split_gain

__all__ = ["GROW", "grow"]

GROW = Budget(rows=2**62, steps=20, tol=1e-4)  # EM between two splits need not converge
MOVED = 0.1  # share of a component's rows that changed, above which its gain is computed anew
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
    family : Family
    rows : rows of the family, held
    state : State
        With at most k components.
    k : int
    rng : Generator
    budget : Budget
        Of EM after each round of splits.
    local : Budget
        Of each predicted gain.

    Returns
    -------
    Fitted
    """
    fitted = run_em(family, rows, state, budget)
    gains: list[tuple[float, S] | None] = [None] * fitted.state.k
    while fitted.state.k < k:
        now = fitted.state
        found = responsibilities(family, rows, now)
        pool = family.pool(family.e_step(rows, now), now)
        known = [
            gain or split_gain(family, rows, now, found, pool, i, rng, local)
            for i, gain in enumerate(gains)
        ]
        sizes = np.array([gain for gain, _ in known])
        chosen = np.argsort(-sizes, kind="stable")[: k - now.k]
        chosen = chosen[sizes[chosen] >= TOGETHER * sizes.max()]
        larger = now
        for i in np.sort(chosen)[::-1]:  # parts go to the end, so later components first
            larger = larger.split(int(i), known[i][1])
        fitted = run_em(family, rows, larger, budget)
        kept = np.setdiff1d(np.arange(now.k), chosen)
        after = responsibilities(family, rows, fitted.state)
        moved = _moved(found, after, kept)
        gains = [known[i] if m < MOVED else None for i, m in zip(kept, moved, strict=True)]
        gains += [None] * (fitted.state.k - len(gains))
    return fitted


def _moved(before: Shares, after: Shares, kept: Places) -> Floats:
    """Return the share of the rows of kept components that they lost or gained."""
    xp = namespace_of(before.shares)
    old = xp.take(before.shares, index_like(kept, before.shares), axis=1)
    change = xp.abs(after.shares[:, : len(kept)] - old)
    held = to_numpy(before.counts @ old).astype(np.float64)
    return np.asarray(to_numpy(before.counts @ change) / np.maximum(held, np.finfo(float).tiny))
