"""Responsibilities of all components for all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    exp_into,
    index_like,
    machine_epsilon,
    map_into,
    namespace_of,
    on_host,
    softmax_rows,
    to_numpy,
)
from implicitmoments.rows import DEFAULT_BUDGET, blocks
from implicitmoments.rows.constants import DOUBLE
from implicitmoments.search.em import SEARCH, E, Family, Places, R, S
from implicitmoments.search.shares import (
    HELD,
    LARGEST_LOG,
    SMALLEST_REST,
    Densities,
    Shares,
    some_rows,
)

# Times the least loss of a merge. A merge matters if it is the cheapest, or, at half its loss, the
# cheapest with a part of a component: less than twice the least, and twice that for few rows.
FAR = 4.0


@dataclass(frozen=True, eq=False)
class MatrixShares(Shares):
    """Responsibilities of all components for all rows."""

    shares: Array  # (n, k)

    @property
    def k(self) -> int:
        """Number of components."""
        return int(self.shares.shape[1])

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
        for chosen in column_blocks(self, self.k):
            own = self.columns(chosen)
            total = total + xp.sum(xp.where(own > 0.5, xp.zeros_like(own), own), axis=1)
        return total

    def others(self, chosen: Places) -> Array:
        """Return 1 − r of some components, (n, m): a sum of shares where that would round to 0."""
        xp, own = namespace_of(self.shares), self.columns(chosen)
        return xp.where(own > 0.5, self._small[:, None], 1 - own)

    def held_by(self, i: int) -> tuple[Places, Floats]:
        """Return the rows that component i holds, and its responsibilities for them."""
        share = to_numpy(self.shares[:, i])
        places = np.flatnonzero(share > HELD)
        return places, share[places]

    def common(self, other: MatrixShares) -> Floats:
        """Return sums over rows of products of responsibilities, of these and others, (k, m)."""
        found = [
            to_numpy(cross_sums(self.shares, other.columns(chosen) * self.counts[:, None]))
            for chosen in column_blocks(other, other.k, DEFAULT_BUDGET.block)
        ]
        return np.concatenate(found, axis=1)

    def moved(self, before: MatrixShares, which: Places) -> Floats:
        """Return for each component the responsibilities that differ from those of another."""
        xp, old, new = namespace_of(self.shares), before.shares, self.shares
        every = (
            xp.sum(xp.abs(new[:, j] - old[:, int(i)]) * self.counts) for j, i in enumerate(which)
        )
        return np.array([float(each) for each in every])

    def totals(self) -> Floats:
        """Return the rows of each component, (k,)."""
        found = (
            namespace_of(self.counts).sum(self.shares[:, i] * self.counts) for i in range(self.k)
        )
        return np.array([float(each) for each in found])

    def weighted(self, values: Floats) -> Floats:
        """Return sums over rows of values (n, m) times responsibilities and counts, (k, m)."""
        return np.asarray(to_numpy(self.shares * self.counts[:, None]).T @ values)

    def drop_losses(self) -> Floats:
        """Return by how much rows lose without each component, before weights are shares."""
        xp = namespace_of(self.shares)
        logs = [
            -self.counts @ map_into("log", xp.clip(self.others(chosen), min=SMALLEST_REST))
            for chosen in column_blocks(self, self.k)
        ]
        return np.concatenate([to_numpy(each) for each in logs])

    def pair_losses(self, family: Family[R, S, E], rows: R, merged: S, pairs: Places) -> Floats:
        """Return the fall of the log-likelihood where each of some components replaces a pair.

        Where there are many rows, some of them show which pairs are not the cheapest by far.
        """
        some, there = self._part(family, rows, SEARCH.rows)
        losses = there._all_losses(family, some, merged, pairs)
        if there is not self:
            close = np.flatnonzero(losses < FAR * max(float(losses.min()), 1.0))
            near, one = pairs[close], merged.take(close)
            losses[close] = self._all_losses(family, rows, one, near)
        return losses

    def _part(self, family: Family[R, S, E], rows: R, n: int) -> tuple[R, MatrixShares]:
        """Return about n of the rows, which count as much as all, and their responsibilities.

        All of them where they are less than twice as many: looking at some first then saves
        nothing.
        """
        if int(self.counts.shape[0]) < 2 * n:
            return rows, self
        some, places = some_rows(family, rows, n)
        at, xp = index_like(places, self.counts), namespace_of(self.counts)
        # in column-major order as before
        shares = xp.matrix_transpose(xp.take(xp.matrix_transpose(self.shares), at, axis=1))
        return some, MatrixShares(xp.take(self.log_density, at), family.counts(some), shares)

    def _all_losses(self, family: Family[R, S, E], rows: R, merged: S, pairs: Places) -> Floats:
        xp, losses = namespace_of(self.shares), []
        for chosen in column_blocks(self, len(pairs)):
            odds = family.log_joint(rows, merged.take(chosen))
            odds -= self.log_density[:, None]
            odds = exp_into(odds, LARGEST_LOG)
            i, j = pairs[chosen].T
            odds += xp.clip(self.others(i) - self.columns(j), min=SMALLEST_REST)
            losses.append(to_numpy(-self.counts @ map_into("log", odds)))
        return np.concatenate(losses).astype(np.float64)


def responsibilities(family: Family[R, S, E], rows: R, state: S) -> MatrixShares:
    """Return the responsibilities and log densities of held rows."""
    shares, log_density = softmax_rows(family.log_joint(rows, state))
    return MatrixShares(log_density, family.counts(rows), shares)


def most_rows_of(family: Family[R, S, E], rows: R, state: S) -> int:
    """Return of how many rows a matrix of responsibilities fits into memory."""
    halves = 2 if machine_epsilon(family.counts(rows)) > DOUBLE else 1  # of a number of float64
    return halves * DEFAULT_BUDGET.held // state.k


def affordable(family: Family[R, S, E], rows: R, state: S) -> tuple[R, S]:
    """Return held rows whose responsibilities fit into memory, and the state after EM of them.

    All rows where they fit. Others count as much as all: predictions are of all rows. A step of EM
    on some rows gives the state what changes that are fitted to the same rows will have.
    """
    n = most_rows_of(family, rows, state)
    if int(family.counts(rows).shape[0]) <= n:
        return rows, state
    some, _ = some_rows(family, rows, n)
    return some, family.m_step(family.e_step(some, state), state)


def column_blocks(found: Densities, m: int, numbers: int | None = None) -> Iterator[Places]:
    """Yield the places of m columns in blocks of so many numbers, for all rows.

    By default they stay in the cache of the host.
    """
    if numbers is None:
        numbers = DEFAULT_BUDGET.cache if on_host(found.counts) else DEFAULT_BUDGET.block
    for part in blocks(range(m), max(1, numbers // int(found.counts.shape[0]))):
        yield np.arange(part.start, part.stop)
