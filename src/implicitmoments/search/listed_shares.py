"""Responsibilities of many components, of which few matter to a row: lists instead of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csc_array

from implicitmoments.arrays import Floats, exp_into, softmax_rows
from implicitmoments.rows import DEFAULT_BUDGET, blocks
from implicitmoments.search.em import E, Family, Places, R, S
from implicitmoments.search.shares import HELD, LARGEST_LOG, SMALLEST_REST, Shares

Numbers = np.ndarray[Any, np.dtype[Any]]

# Numbers of a matrix that take as long as one on a list, whose row is looked up: 64 columns of it
# in 100 ns, for which a matrix makes a logarithm and an exponential in 8 ns.
LISTED = 16
JOINED = 8  # numbers that an entry takes while lists are joined


@dataclass(frozen=True, eq=False)
class ListedShares(Shares):
    """Responsibilities above :data:`HELD`, and the two largest of each row, in NumPy.

    Losses are sums over the rows that are listed for a component. A merged component, which is
    wider, gains in others: the loss of a merge is at least its own, by a nat or two.
    """

    listed: csc_array  # (n, k)
    rest: Numbers  # (n,), sums of responsibilities of at most one half

    @property
    def k(self) -> int:
        """Number of components."""
        return int(self.listed.shape[1])

    def _column(self, i: int) -> tuple[Places, Numbers]:
        own = slice(self.listed.indptr[i], self.listed.indptr[i + 1])
        return self.listed.indices[own], self.listed.data[own]

    def _others(self, places: Places, own: Numbers) -> Numbers:
        """Return 1 − r in some rows: a sum of shares where that would round to 0."""
        return np.where(own > 0.5, self.rest[places], 1 - own)

    def held_by(self, i: int) -> tuple[Places, Floats]:
        """Return the rows that component i holds, and its responsibilities for them."""
        places, shares = self._column(i)
        return places[shares > HELD], shares[shares > HELD]

    def common(self, other: ListedShares) -> Floats:
        """Return sums over rows of products of responsibilities, of these and others, (k, m)."""
        return np.asarray((self._counted.T @ other.listed).toarray())

    @property
    def _counted(self) -> csc_array:
        """Responsibilities times counts."""
        own = self.listed
        data = own.data * self.counts[own.indices]
        return csc_array((data, own.indices, own.indptr), shape=own.shape)

    def moved(self, before: ListedShares, which: Places) -> Floats:
        """Return for each component the responsibilities that differ from those of another."""
        return np.asarray(abs(self.listed - before.listed[:, which]).T @ self.counts)

    def totals(self) -> Floats:
        """Return the rows of each component, (k,)."""
        return np.asarray(self.listed.T @ self.counts)

    def weighted(self, values: Floats) -> Floats:
        """Return sums over rows of values (n, m) times responsibilities and counts, (k, m)."""
        return np.asarray(self._counted.T @ values)

    def drop_losses(self) -> Floats:
        """Return by how much rows lose without each component, before weights are shares."""
        own, k = self.listed, self.k
        rest = np.maximum(self._others(own.indices, own.data), SMALLEST_REST)
        logs = -self.counts[own.indices] * np.log(rest)
        components = np.repeat(np.arange(k), np.diff(own.indptr))
        return np.bincount(components, logs, k).astype(np.float64)

    def pair_losses(self, family: Family[R, S, E], rows: R, merged: S, pairs: Places) -> Floats:
        """Return the fall of the log-likelihood where each of some components replaces a pair."""
        losses = np.empty(len(pairs))
        for c, (i, j) in enumerate(pairs.tolist()):
            (of_i, share_i), (of_j, share_j) = self._column(i), self._column(j)
            places = np.union1d(of_i, of_j)
            first, second = np.zeros((2, len(places)), dtype=share_i.dtype)
            first[np.searchsorted(places, of_i)] = share_i
            second[np.searchsorted(places, of_j)] = share_j
            counts: Any = self.counts[places]
            part, one = family.part(rows, places, counts), merged.take(np.array([c]))
            joint = family.log_joint(part, one)[:, 0]
            odds = exp_into(joint - self.log_density[places], LARGEST_LOG)
            odds += np.maximum(self._others(places, first) - second, SMALLEST_REST)
            losses[c] = -counts @ np.log(odds)
        return losses


def list_shares(family: Family[R, S, E], rows: R, state: S) -> tuple[ListedShares, E] | None:
    """Return the responsibilities that matter, and the expectations of all; None if many do.

    A matrix takes less time where components are few or overlap, and on devices, which are made
    for matrices.
    """
    counts: Any = family.counts(rows)
    if not isinstance(counts, np.ndarray) or state.k < LISTED:
        return None
    lists: list[tuple[Numbers, Numbers, Numbers]] = []
    sums: E | None = None
    n_listed = 0
    rest, densities = np.empty_like(counts), np.empty_like(counts)
    for block in blocks(range(len(counts)), DEFAULT_BUDGET.rows_per_block(state.k, counts)):
        own = slice(block.start, block.stop)
        part = family.part(rows, np.arange(block.start, block.stop), counts[own])
        shares: Any
        shares, densities[own] = softmax_rows(family.log_joint(part, state))
        components, at = np.divmod(np.flatnonzero(shares.T > HELD), len(shares))
        n_listed += len(at)
        if n_listed > min(block.stop * state.k // LISTED, DEFAULT_BUDGET.held // JOINED):
            return None
        values = shares[at, components]
        lists.append((at + block.start, components, values))
        more = family.expect(part, shares * counts[own, None], state)
        sums = more if sums is None else sums + more
        # Components that are far apart share rows by their second responsibility alone.
        first = at[values > 0.5]
        shares[first, components[values > 0.5]] = 0
        rest[own] = shares.sum(axis=1)
        second = shares[first].argmax(axis=1)
        below = shares[first, second]
        kept = (below > 0) & (below <= HELD)
        lists.append((first[kept] + block.start, second[kept], below[kept]))
    if sums is None:
        return None
    at, components, values = (np.concatenate(each) for each in zip(*lists, strict=True))
    listed = coo_array((values, (at, components)), shape=(len(counts), state.k)).tocsc()
    return ListedShares(densities, counts, listed, rest), sums
