"""Predicted changes of the log-likelihood by insertions, merges and drops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    exp_into,
    map_into,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.rows import DEFAULT_BUDGET
from implicitmoments.search.em import (
    FEWEST_PER_COMPONENT,
    LOCAL,
    SEARCH,
    Budget,
    E,
    Family,
    Places,
    R,
    S,
)
from implicitmoments.search.listed_shares import list_shares
from implicitmoments.search.matrix_shares import (
    affordable,
    column_blocks,
    most_rows_of,
    responsibilities,
)
from implicitmoments.search.shares import LARGEST_LOG, Densities, Shares

PARTNERS = 3  # merge candidates per component: 3 k exact losses were enough in prototypes
SAME_ROWS = 0.5  # cosine of the responsibilities of two insertions that are at one place
FEWEST_TRIALS = 3  # starts of a split or an insertion that run to the end
PART = 0.5  # of the rows of a component that a part of it holds


@dataclass(frozen=True, eq=False)
class Merges(Generic[S]):
    """Merges and drops that remove one component, the cheapest first."""

    losses: Floats  # (m,), fall of the log-likelihood with the other components as they are
    pairs: Places  # (m, 2), components that become one; (j, j) drops component j
    state: S  # the merged component of each pair

    def apply(self, before: S, which: Places | int = 0) -> S:
        """Return the state after one of the merges, or several of different components."""
        which = np.atleast_1d(which)
        pairs = self.pairs[which]
        kept = np.setdiff1d(np.arange(before.k), pairs)
        joined = pairs[:, 0] != pairs[:, 1]
        if not joined.any():
            return before.keep(kept)
        merged = self.state.keep(which[joined])
        if len(kept) == 0:
            return merged
        weight = float(before.weights[pairs[joined]].sum())
        return before.keep(kept).add(merged, weight / (weight + before.weights[kept].sum()))

    def apart(self) -> Places:
        """Return merges with no component in common, the cheapest first; one component stays."""
        taken, found = set[int](), list[int]()
        for at, pair in enumerate(map(set, self.pairs.tolist())):
            if not pair & taken:
                taken |= pair
                found.append(at)
        return np.array(found[: int(self.pairs.max())], dtype=np.int64)

    def cheap(self, most: float) -> Places:
        """Return those of them that lose less."""
        found = self.apart()
        return found[self.losses[found] < most]

    def around(self, i: int) -> Places:
        """Return i, the components with which it may merge, and those with which they may."""
        near = np.array([i])
        for _ in range(2):
            near = np.unique(np.append(near, self.pairs[np.isin(self.pairs, near).any(axis=1)]))
        return near

    def beside(self, other: Merges[S], others: Places, weight: float) -> Merges[S]:
        """Return these merges and some of another state, in a state in which these come last.

        Parameters
        ----------
        other : Merges
            Of another state.
        others : array of int
            Those of its components that come first: only merges among them are kept.
        weight : float
            Of the components of these merges together.
        """
        kept = np.flatnonzero(np.isin(other.pairs, others).all(axis=1))
        pairs = np.vstack([np.searchsorted(others, other.pairs[kept]), self.pairs + len(others)])
        losses = np.append(other.losses[kept], self.losses)
        own = replace(self.state, weights=weight * self.state.weights)
        order, merged = np.argsort(losses, kind="stable"), other.state.take(kept).join(own)
        return Merges(losses[order], pairs[order], merged.take(order))

    def cheapest_after_split(self, components: Places) -> Floats:
        """Return the predicted loss of a merge after a split of each of some components.

        Of two others; or of one part with another component, which holds half of the rows. For an
        insertion, a component of -1, of any two.
        """
        joined = self.pairs[:, 0] != self.pairs[:, 1]
        losses, pairs = self.losses[joined], self.pairs[joined]
        with_part = np.any(pairs[:, None, :] == np.asarray(components)[:, None], axis=2)
        every = np.where(with_part, PART * losses[:, None], losses[:, None])
        return np.asarray(every.min(axis=0))


def look_at(family: Family[R, S, E], rows: R, state: S) -> tuple[R, S, Shares, E]:
    """Return held rows, a state, its responsibilities for them, and its expectations.

    All rows where a matrix of responsibilities fits into memory, or a list of those that matter.
    Else some of the rows, and the state after a step of EM on them.
    """
    if int(family.counts(rows).shape[0]) > most_rows_of(family, rows, state):
        listed = list_shares(family, rows, state)
        if listed is not None:
            return rows, state, *listed
    rows, state = affordable(family, rows, state)
    found = responsibilities(family, rows, state)
    return rows, state, found, family.expect(rows, found.shares * found.counts[:, None], state)


def total_rows(family: Family[R, S, E], rows: R) -> float:
    """Return the number of rows, as often as they count."""
    counts = family.counts(rows)
    return float(namespace_of(counts).sum(counts, dtype=namespace_of(counts).float64))


def insertion_gains(
    family: Family[R, S, E],
    rows: R,
    found: Shares,
    candidates: S,
    budget: Budget = LOCAL,
) -> tuple[Floats, S]:
    r"""Run EM of each candidate with the other components fixed; return gains and candidates.

    Beside the density p of the mixture a candidate of weight w and density φ gains
    :math:`\sum \log((1 - w) + w φ / p)`. Its weight is free, so that light components are found.

    Parameters
    ----------
    found : Shares
        Of the mixture.
    candidates : State
        With the weights to start at, as shares of all rows. What a candidate with few rows
        borrows is that of the first.
    budget : Budget
        Its ``steps``.
    """
    if candidates.k == 0:
        return np.zeros(0), candidates
    few, enough = budget.steps // 3, FEWEST_PER_COMPONENT * found.k
    some = found.sampled(family, rows, SEARCH.rows)  # which tell places apart
    first = some if enough <= SEARCH.rows else found.sampled(family, rows, enough)
    like = candidates.take(np.zeros(1, dtype=np.int64))
    gains, trials = _fit_insertions(family, *first, candidates, like, few)
    best = _different(family, *some, gains, trials)
    trials = trials.take(best[: max(FEWEST_TRIALS, trials.k // 4)])
    gains, trials = _fit_insertions(family, rows, found, trials, like, budget.steps - few)
    order = _different(family, *some, gains, trials)
    return gains[order], trials.take(order)


def _different(
    family: Family[R, S, E], rows: R, found: Densities, gains: Floats, trials: S
) -> Places:
    """Return trials by their gains, without those that take the same rows as a better one."""
    most = max(FEWEST_TRIALS, DEFAULT_BUDGET.block // int(found.counts.shape[0]))
    order = np.argsort(-gains, kind="stable")[:most]
    odds, rest = _odds(family, rows, found, trials.take(order))
    odds /= odds + rest
    common = to_numpy(cross_sums(odds, odds * found.counts[:, None]))
    size = np.sqrt(np.maximum(np.diag(common), np.finfo(float).tiny))
    same, kept = common > SAME_ROWS * np.outer(size, size), list[int]()
    for c in range(len(order)):
        if not same[c, kept].any():
            kept.append(c)
    return order[kept]


def _fit_insertions(
    family: Family[R, S, E], rows: R, found: Densities, candidates: S, like: S, steps: int
) -> tuple[Floats, S]:
    """Run EM of each candidate beside a mixture, in parts that bound the memory."""
    parts = map(candidates.take, column_blocks(found, candidates.k, DEFAULT_BUDGET.block))
    climbed = [_insert_at_once(family, rows, found, part, like, steps) for part in parts]
    gains, trials = zip(*climbed, strict=True)
    return np.concatenate(gains), trials[0].join(*trials[1:])


def _insert_at_once(
    family: Family[R, S, E], rows: R, found: Densities, trials: S, like: S, steps: int
) -> tuple[Floats, S]:
    for _ in range(steps):
        odds, rest = _odds(family, rows, found, trials)
        odds /= odds + rest
        odds *= found.counts[:, None]
        sums = family.expect(rows, odds, trials)
        trials = family.fit_trials(sums, trials, 1, None, like)
        del odds  # before the next one is made
    odds, rest = _odds(family, rows, found, trials)
    odds += rest
    return to_numpy(found.counts @ map_into("log", odds)).astype(np.float64), trials


def _odds(family: Family[R, S, E], rows: R, found: Densities, trials: S) -> tuple[Array, Array]:
    """Return w φ / p of each row and trial (n, m), and the shares 1 - w of the mixture (m,)."""
    odds = family.log_joint(rows, trials)
    odds -= found.log_density[:, None]
    odds = exp_into(odds, LARGEST_LOG)
    return odds, 1 - move_like(trials.weights, odds)


def merges_of(family: Family[R, S, E], rows: R, state: S) -> Merges[S]:
    """Return what it costs to merge pairs of components or to drop one, the cheapest first."""
    return merge_losses(family, *look_at(family, rows, state))


def merge_losses(family: Family[R, S, E], rows: R, state: S, found: Shares, sums: E) -> Merges[S]:
    r"""Return what it costs to merge pairs of components or to drop one, the cheapest first.

    Pairs are those that share most rows. With p the density and :math:`r` responsibilities, rows
    lose :math:`-\log(1 - r_a - r_b + φ / p)` when φ, the M-step of the added sums, replaces a and
    b, and :math:`-\log((1 - r_j) / (1 - w_j))` when j is dropped.

    Parameters
    ----------
    sums : Expectations
        Both of ``state``.
    """
    k, rest = state.k, np.log1p(-np.minimum(state.weights, 1 - np.finfo(float).eps))
    pairs = _overlapping_pairs(found, state.weights)
    # one component for each pair, its weight a share of all rows
    merged = family.fit_trials(sums.join(*pairs.T), state.take(pairs[:, 0]), 1, None)
    dropped = found.drop_losses() + total_rows(family, rows) * rest
    losses = found.pair_losses(family, rows, merged, pairs)
    every = np.append(losses, dropped)
    own = np.repeat(np.arange(k)[:, None], 2, axis=1)
    order = np.argsort(every, kind="stable")
    both = np.vstack([pairs, own])
    padded = merged.take(np.append(np.arange(len(pairs)), np.zeros(k, dtype=int)))
    return Merges(every[order], both[order], padded.take(order))


def _overlapping_pairs(found: Shares, weights: Floats) -> Places:
    """Return for each component the others with which it shares most rows, (m, 2)."""
    k = len(weights)
    common = found.common(found)
    common = common / np.sqrt(np.maximum(np.outer(weights, weights), np.finfo(float).tiny))
    np.fill_diagonal(common, -1.0)
    n = min(PARTNERS, k - 1)
    partners = np.argsort(-common, axis=1, kind="stable")[:, :n]
    pairs = np.column_stack([np.repeat(np.arange(k), n), partners.ravel()])
    return np.unique(np.sort(pairs, axis=1), axis=0)
