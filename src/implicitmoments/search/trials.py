"""Predicted changes of the log-likelihood by insertions, merges and drops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    exp_into,
    index_like,
    machine_epsilon,
    map_into,
    move_like,
    namespace_of,
    on_host,
    softmax_rows,
    to_numpy,
)
from implicitmoments.rows import DEFAULT_BUDGET, blocks
from implicitmoments.rows.constants import DOUBLE
from implicitmoments.search.em import LOCAL, SEARCH, Budget, E, Family, Places, R, S

PARTNERS = 3  # merge candidates per component: 3 k exact losses were enough in prototypes
SAME_ROWS = 0.5  # cosine of the responsibilities of two insertions that are at one place
FEWEST_TRIALS = 3  # starts of a split or an insertion that run to the end
LARGEST_LOG = 80.0  # of a ratio of densities, in float32
# Times the least loss of a merge. A merge matters if it is the cheapest, or, at half its loss, the
# cheapest with a part of a component: less than twice the least, and twice that for few rows.
FAR = 4.0
PART = 0.5  # of the rows of a component that a part of it holds
SMALLEST_REST = 1e-37  # share of the other components in a row: the least of float32, about


@dataclass(frozen=True, eq=False)
class Shares:
    """Responsibilities of a state for held rows."""

    shares: Array  # (n, k)
    log_density: Array  # (n,)
    counts: Array  # (n,), how often each row counts

    @property
    def log_likelihood(self) -> float:
        """Of all rows."""
        return weighted_sum(self.counts, self.log_density)

    def columns(self, chosen: Places) -> Array:
        """Return responsibilities of some components, (n, m)."""
        if isinstance(self.shares, np.ndarray):
            return self.shares.T[chosen].T  # which stays in column-major order
        return namespace_of(self.shares).take(self.shares, index_like(chosen, self.shares), axis=1)

    @cached_property
    def _small(self) -> Array:
        """Sums of responsibilities of at most one half, (n,)."""
        xp = namespace_of(self.shares)
        total = xp.zeros_like(self.log_density)
        for chosen in _column_blocks(self, int(self.shares.shape[1])):
            own = self.columns(chosen)
            total = total + xp.sum(xp.where(own > 0.5, xp.zeros_like(own), own), axis=1)
        return total

    def others(self, chosen: Places) -> Array:
        """Return 1 − r of some components, (n, m): a sum of shares where that would round to 0."""
        xp, own = namespace_of(self.shares), self.columns(chosen)
        return xp.where(own > 0.5, self._small[:, None], 1 - own)

    def common(self, other: Shares) -> Floats:
        """Return sums over rows of products of responsibilities, of these and others, (k, m)."""
        found = [
            to_numpy(cross_sums(self.shares, other.columns(chosen) * self.counts[:, None]))
            for chosen in _column_blocks(other, int(other.shares.shape[1]), DEFAULT_BUDGET.block)
        ]
        return np.concatenate(found, axis=1)

    def part(self, family: Family[R, S, E], rows: R, n: int) -> tuple[R, Shares]:
        """Return about n of the rows, which count as much as all, and their responsibilities.

        All of them where they are less than twice as many: looking at some first then saves
        nothing.
        """
        if int(self.counts.shape[0]) < 2 * n:
            return rows, self
        some, places = _some_rows(family, rows, n)
        at, xp = index_like(places, self.counts), namespace_of(self.counts)
        # in column-major order as before
        shares = xp.matrix_transpose(xp.take(xp.matrix_transpose(self.shares), at, axis=1))
        return some, Shares(shares, xp.take(self.log_density, at), family.counts(some))


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

    def cheap(self, most: float) -> Places:
        """Return merges of different components that lose less, the cheapest first."""
        taken, found = set[int](), list[int]()
        for at in np.flatnonzero(self.losses < most):
            pair = {int(c) for c in self.pairs[at]}
            if not pair & taken:
                taken |= pair
                found.append(int(at))
        return np.array(found[: int(self.pairs.max())], dtype=np.int64)  # one component stays

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


def responsibilities(family: Family[R, S, E], rows: R, state: S) -> Shares:
    """Return the responsibilities and log densities of held rows."""
    shares, log_density = softmax_rows(family.log_joint(rows, state))
    return Shares(shares, log_density, family.counts(rows))


def affordable(family: Family[R, S, E], rows: R, state: S) -> tuple[R, S]:
    """Return held rows whose responsibilities fit into memory, and the state after EM of them.

    All rows where they fit. Others count as much as all: predictions are of all rows. A step of EM
    on some rows gives the state what changes that are fitted to the same rows will have.
    """
    counts = family.counts(rows)
    halves = 2 if machine_epsilon(counts) > DOUBLE else 1  # numbers of single precision in one
    n = halves * DEFAULT_BUDGET.held // state.k
    if int(counts.shape[0]) <= n:
        return rows, state
    some, _ = _some_rows(family, rows, n)
    return some, family.m_step(family.e_step(some, state), state)


def _some_rows(family: Family[R, S, E], rows: R, n: int) -> tuple[R, Places]:
    """Return n of the rows, drawn at random, which count as much as all, and their places."""
    own = family.counts(rows)
    every = int(own.shape[0])
    places = np.sort(np.random.default_rng(0).choice(every, n, replace=False))
    at = index_like(places, own)
    counts = every / n * to_numpy(namespace_of(own).take(own, at)).astype(np.float64)
    return family.part(rows, places, counts), places


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
        With the weights to start at, as shares of all rows.
    budget : Budget
        Its ``steps``.
    """
    if candidates.k == 0:
        return np.zeros(0), candidates
    few = budget.steps // 3
    some, there = found.part(family, rows, SEARCH.rows)
    gains, trials = _fit_insertions(family, some, there, candidates, few)
    best = _different(family, some, there, gains, trials)
    trials = trials.take(best[: max(FEWEST_TRIALS, trials.k // 4)])
    gains, trials = _fit_insertions(family, rows, found, trials, budget.steps - few)
    order = _different(family, some, there, gains, trials)
    return gains[order], trials.take(order)


def _different(
    family: Family[R, S, E], rows: R, found: Shares, gains: Floats, trials: S
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
    family: Family[R, S, E], rows: R, found: Shares, candidates: S, steps: int
) -> tuple[Floats, S]:
    """Run EM of each candidate beside a mixture, in parts that bound the memory."""
    parts = map(candidates.take, _column_blocks(found, candidates.k, DEFAULT_BUDGET.block))
    climbed = [_insert_at_once(family, rows, found, part, steps) for part in parts]
    gains, trials = zip(*climbed, strict=True)
    return np.concatenate(gains), trials[0].join(*trials[1:])


def _insert_at_once(
    family: Family[R, S, E], rows: R, found: Shares, trials: S, steps: int
) -> tuple[Floats, S]:
    for _ in range(steps):
        odds, rest = _odds(family, rows, found, trials)
        odds /= odds + rest
        odds *= found.counts[:, None]
        trials = family.fit_trials(family.expect(rows, odds, trials), trials, 1, None)
        del odds  # before the next one is made
    odds, rest = _odds(family, rows, found, trials)
    odds += rest
    return to_numpy(found.counts @ map_into("log", odds)).astype(np.float64), trials


def _odds(family: Family[R, S, E], rows: R, found: Shares, trials: S) -> tuple[Array, Array]:
    """Return w φ / p of each row and trial (n, m), and the shares 1 - w of the mixture (m,)."""
    odds = family.log_joint(rows, trials)
    odds -= found.log_density[:, None]
    odds = exp_into(odds, LARGEST_LOG)
    return odds, 1 - move_like(trials.weights, odds)


def merges_of(family: Family[R, S, E], rows: R, state: S) -> Merges[S]:
    """Return what it costs to merge pairs of components or to drop one, the cheapest first."""
    rows, state = affordable(family, rows, state)
    found = responsibilities(family, rows, state)
    sums = family.expect(rows, found.shares * found.counts[:, None], state)
    return merge_losses(family, rows, state, found, sums)


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
    k, xp, counts = state.k, namespace_of(found.shares), found.counts
    pairs = _overlapping_pairs(found, state.weights)
    # one component for each pair, its weight a share of all rows
    merged = family.fit_trials(sums.join(*pairs.T), state.take(pairs[:, 0]), 1, None)
    logs = [
        -counts @ map_into("log", xp.clip(found.others(chosen), min=SMALLEST_REST))
        for chosen in _column_blocks(found, k)
    ]
    dropped = np.concatenate([to_numpy(each) for each in logs]) + float(xp.sum(counts)) * np.log1p(
        -np.minimum(state.weights, 1 - np.finfo(float).eps)
    )
    # Where there are many rows, some of them show which pairs are not the cheapest by far.
    some, there = found.part(family, rows, SEARCH.rows)
    losses = _pair_losses(family, some, merged, there, pairs)
    if there is not found:
        close = np.flatnonzero(losses < FAR * max(float(losses.min()), 1.0))
        near, one = pairs[close], merged.take(close)
        losses[close] = _pair_losses(family, rows, one, found, near)
    every = np.append(losses, dropped)
    own = np.repeat(np.arange(k)[:, None], 2, axis=1)
    order = np.argsort(every, kind="stable")
    both = np.vstack([pairs, own])
    padded = merged.take(np.append(np.arange(len(pairs)), np.zeros(k, dtype=int)))
    return Merges(every[order], both[order], padded.take(order))


def _pair_losses(
    family: Family[R, S, E], rows: R, merged: S, found: Shares, pairs: Places
) -> Floats:
    """Return the fall of the log-likelihood where each of some components replaces a pair."""
    xp, counts = namespace_of(found.shares), found.counts
    losses = []
    for chosen in _column_blocks(found, len(pairs)):
        odds = family.log_joint(rows, merged.take(chosen))
        odds -= found.log_density[:, None]
        odds = exp_into(odds, LARGEST_LOG)
        i, j = pairs[chosen].T
        odds += xp.clip(found.others(i) - found.columns(j), min=SMALLEST_REST)
        losses.append(to_numpy(-counts @ map_into("log", odds)))
    return np.concatenate(losses).astype(np.float64)


def _column_blocks(found: Shares, m: int, numbers: int | None = None) -> Iterator[Places]:
    """Yield the places of m columns in blocks of so many numbers, for all rows.

    By default they stay in the cache of the host.
    """
    if numbers is None:
        numbers = DEFAULT_BUDGET.cache if on_host(found.counts) else DEFAULT_BUDGET.block
    for part in blocks(range(m), max(1, numbers // int(found.counts.shape[0]))):
        yield np.arange(part.start, part.stop)


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


def weighted_sum(counts: Array, values: Array) -> float:
    """Return the sum of values that count as given, in double precision."""
    xp = namespace_of(values)
    product: Any = xp.sum(counts * values, dtype=xp.float64)
    return float(product)
