"""Another number of components that a criterion prefers: the two that are one, or one missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np
from scipy.special import chdtri

from implicitmoments.arrays import to_numpy
from implicitmoments.notes import Note
from implicitmoments.search.em import SEARCH, E, Family, Places, R, S, run_em
from implicitmoments.search.ranking import OVERLAP, Ranking, rank_moves
from implicitmoments.search.splits import (
    OPTIMISM,
    fitted_parameters,
    further_parameters,
    gain_needed,
)
from implicitmoments.search.trials import Merges, total_rows

QUICK = replace(SEARCH, steps=40, tol=2e-5)  # EM before fits are compared: it need not converge
AFTERWARDS = replace(QUICK, steps=5)  # EM on all rows of a state that has settled on a sample

CHANCE = 1e-3  # level of the test that two components are one, for all splits of a fit
ROUNDS = 3  # of splits: each may double the number of components


@dataclass(frozen=True, eq=False)
class Alternative(Generic[S]):
    """A state with a lower Bayesian information criterion than that of a fit."""

    state: S
    # of the fit: the two that are merged, or those that are split, by their gains
    components: tuple[int, ...]
    change: float  # of the log-likelihood
    penalty: float  # by which BIC exceeds −2 times the log-likelihood, over two: its change

    @property
    def gain(self) -> float:
        """By how much BIC is lower."""
        return 2 * (self.change - self.penalty)


def penalty_of(family: Family[R, S, E], fit: S, other: S, total: float) -> float:
    """Return the log-likelihood that pays for the further parameters of another state."""
    return 0.5 * (family.n_parameters(other) - family.n_parameters(fit)) * math.log(total)


def worth_of_component(family: Family[R, S, E], rows: R, fit: S) -> float:
    """Return a predicted gain of a split from which one component more may have a lower BIC."""
    more = further_parameters(family, fit)
    penalty = 0.5 * more * math.log(total_rows(family, rows))
    return float(gain_needed(penalty, fitted_parameters(family, fit)))


def prefer(
    family: Family[R, S, E],
    fit: S,
    other: S,
    parts: Sequence[tuple[R, float]],
    components: tuple[int, ...] = (),
    most: float = math.inf,
    needed: float = 0.0,
) -> Alternative[S] | None:
    """Return another state after EM, if its BIC is lower than that of a fit.

    Parameters
    ----------
    parts : sequence of (rows, float)
        Rows, on all of which it has to be lower, and the mean log-likelihood of the fit: of a
        sample, and of all.
    components : tuple of int
        Of the fit, that differ.
    most : float
        Log-likelihood that it may lose.
    needed : float
        By how much BIC has to be lower: EM ends where it will not be.
    """
    found, budgets = None, (QUICK, *[AFTERWARDS] * (len(parts) - 1))
    for (rows, level), budget in zip(parts, budgets, strict=True):
        total = total_rows(family, rows)
        penalty = penalty_of(family, fit, other, total)
        least = max(penalty + 0.5 * needed, -most)
        settled = run_em(family, rows, other, budget, level + least / total)
        other, change = settled.state, (settled.level - level) * total
        found = Alternative(other, components, change, penalty)
        if found.gain <= needed or -found.change > most:
            return None
    return found


def one_less(
    family: Family[R, S, E], fit: S, merges: Merges[S] | None, parts: Sequence[tuple[R, float]]
) -> Alternative[S] | None:
    """Return the state after the cheapest merge and EM, if it loses no more than chance explains.

    Also less than BIC charges, on all parts.

    Parameters
    ----------
    merges : Merges or None
        Of the fit. A merge of components that do not overlap is not tried; where they do, the
        prediction, with a shared variance as it is, may be far from what EM reaches.
    parts : sequence of (rows, float)
        As in :func:`prefer`.
    """
    if merges is None:
        return None
    less, total = merges.apply(fit), total_rows(family, parts[0][0])
    saved = -penalty_of(family, fit, less, total)
    if float(merges.losses[0]) > max(OPTIMISM * saved, OVERLAP * total / fit.k):
        return None
    # where a component is dropped, the one with which it would be merged at the least loss
    with_first = np.any(merges.pairs == merges.pairs[0, 0], axis=1)
    joined = merges.pairs[with_first & (merges.pairs[:, 0] != merges.pairs[:, 1])][0]
    pair = int(joined[0]), int(joined[1])
    return prefer(family, fit, less, parts, pair, chance_loss(family, fit, less))


def chance_loss(family: Family[R, S, E], fit: S, less: S) -> float:
    """Return the log-likelihood that a component too many gains by chance, at most.

    Twice the gain is about chi-squared, with twice as many degrees of freedom as the component has
    parameters (Wolfe 1971; McLachlan 1987), and each of the others may be the one that is split.
    """
    freedom = 2 * (family.n_parameters(fit) - family.n_parameters(less))
    return 0.5 * float(chdtri(freedom, CHANCE / less.k))


def one_more(
    family: Family[R, S, E],
    fit: S,
    ranking: Ranking[S],
    rows: R,
    level: float,
    rival: float = 0.0,
    needed: float = 0.0,
) -> Alternative[S] | None:
    """Return the state after the splits and insertions that pay, and EM, if its BIC is lower.

    Parameters
    ----------
    ranking : Ranking
        Of the fit.
    level : float
        Mean log-likelihood of the fit.
    rival : float
        By how much BIC is lower in another way: those that will not surpass it are left out.
    needed : float
        By how much BIC has to be lower now to be of use.
    """
    least = worth_of_component(family, rows, fit)
    if ranking.gains[0] <= least:
        return None
    best, charge = None, _charge(family, fit, total_rows(family, rows))
    for which in _ways(ranking, charge):
        if _within_reach(ranking, charge, alone=len(which) == 1) < rival:
            continue
        larger = ranking.apply(fit, which)
        found = prefer(family, fit, larger, [(rows, level)], needed=needed)
        if found is not None and (best is None or found.gain > best.gain):
            split = [_split_component(ranking, int(at), family) for at in which]
            best = replace(found, components=tuple(dict.fromkeys(split)))
    return best


def add_components(
    family: Family[R, S, E],
    fit: S,
    ranking: Ranking[S],
    rows: R,
    level: float,
    rng: np.random.Generator,
    rival: float = 0.0,
) -> Alternative[S] | None:
    """Return :func:`one_more`, repeated while BIC falls and may fall by ``rival``, but has not.

    Once where all of several components look like two: that is a matter of their shape. Not at
    all where something else is better. Later rounds may gain three times what the first does. EM
    of each of them ends where four times its gain, in all rounds that are left, would not do.
    """
    total = total_rows(family, rows)
    charge = _charge(family, fit, total)
    double = np.count_nonzero((ranking.gains > charge) & (ranking.origins >= 0)) == fit.k > 1
    if (rival > 0 and double) or _furthest(ranking, charge) < rival:
        return None
    needed = rival / (1 + ROUNDS)
    best = further = one_more(family, fit, ranking, rows, level, rival, needed)
    for left in range(ROUNDS, 0, -1):
        if best is None or further is None or best.gain > rival:
            break
        if len(best.components) == fit.k > 1:
            break
        larger, reached = best.state, level + best.change / total
        worth = worth_of_component(family, rows, larger)
        again = rank_moves(family, rows, larger, rng, worth=worth)
        if best.gain + _furthest(again, _charge(family, larger, total)) < rival:
            break
        missing = rival - best.gain
        needed = missing / (OPTIMISM * left)
        further = one_more(family, larger, again, rows, reached, missing, needed)
        if further is not None:
            change, penalty = best.change + further.change, best.penalty + further.penalty
            best = Alternative(further.state, best.components, change, penalty)
    return best


def _charge(family: Family[R, S, E], fit: S, total: float) -> float:
    """Return the log-likelihood that pays for the parameters of a further component."""
    return 0.5 * further_parameters(family, fit) * math.log(total)


def _ways(ranking: Ranking[S], charge: float) -> list[Places]:
    """Return the best split or insertion, and all that pay where they are several.

    Where one component is missing, others may look like two beside it.
    """
    # insertions are candidates for one place: the best of them
    inserted = np.flatnonzero(ranking.origins < 0)[1:]
    worth = np.setdiff1d(np.flatnonzero(ranking.gains > charge), inserted)
    return [np.array([0]), worth][: 1 + (len(worth) > 1)]


def _furthest(ranking: Ranking[S], charge: float) -> float:
    """Return by how much BIC may be lower after all rounds."""
    return max(_within_reach(ranking, charge, alone=alone) for alone in (True, False))


def _within_reach(ranking: Ranking[S], charge: float, *, alone: bool) -> float:
    """Return by how much BIC may be lower after the best change or all, and later rounds.

    Of thirty fits several splits gained at most twice what was predicted of them, in all rounds,
    where components share no parameters; with more groups in each component, four times as much.
    """
    gains = ranking.gains[:1] if alone else ranking.gains
    rounds = ROUNDS if alone or ranking.shared else 1
    return 2 * rounds * float(np.maximum(OPTIMISM * gains - charge, 0.0).sum())


def _split_component(ranking: Ranking[S], at: int, family: Family[R, S, E]) -> int:
    """Return the component that is split, or of which an insertion takes most rows."""
    if ranking.origins[at] >= 0:
        return int(ranking.origins[at])
    shares = ranking.shares
    odds = family.log_joint(ranking.rows, ranking.parts[at]) - shares.log_density[:, None]
    taken = np.exp(np.minimum(to_numpy(odds), 0.0))
    return int(shares.weighted(taken).argmax())


def merge_note(less: Alternative[S]) -> Note:
    """Return the note on two components that are one."""
    values = {"which": sorted(less.components), "fewer": less.state.k}
    return Note(
        "components_are_one", values | {"loss": max(-less.change, 0.0), "penalty": -less.penalty}
    )
