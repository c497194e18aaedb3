"""Groups of rows that are merged by the likelihood of a Gaussian mixture of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.candidates import inverse_root
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, precisions_of
from implicitmoments.rows import DEFAULT_BUDGET, blocks
from implicitmoments.rows.draws import Integers
from implicitmoments.search.em import Places

AT_ONCE = 0.25  # of the merges that are left: the last ones are made one by one
RIDGE = 1e-6  # of the variances of columns: groups of a few rows are no narrower by chance


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums over groups of rows, from which the likelihood of their merges follows."""

    counts: Floats  # (m,)
    means: Floats  # (m, d)
    inside: Floats  # (m, q), sums of products about the means, as the type of covariance has them

    @property
    def k(self) -> int:
        """Number of groups."""
        return len(self.counts)

    def take(self, chosen: Places) -> GroupSums:
        """Return some of the groups."""
        return GroupSums(self.counts[chosen], self.means[chosen], self.inside[chosen])

    def merged(self, a: Integers, b: Integers, kind: CovarianceType) -> GroupSums:
        """Return groups a merged with groups b, pair by pair."""
        counts = self.counts[a] + self.counts[b]
        apart = self.means[b] - self.means[a]
        share = self.counts[b] / counts
        inside = self.inside[a] + self.inside[b]
        inside += (self.counts[a] * share)[:, None] * kind.products(apart)
        return GroupSums(counts, self.means[a] + share[:, None] * apart, inside)

    def joined(self, a: Integers, b: Integers, kind: CovarianceType) -> GroupSums:
        """Return all groups, with groups b merged into the places of groups a, pair by pair."""
        one, found = self.merged(a, b, kind), self.take(np.arange(self.k))
        found.counts[a], found.means[a], found.inside[a] = one.counts, one.means, one.inside
        return found.take(np.delete(np.arange(self.k), b))


class Agglomeration(ABC):
    """Groups that are merged by the likelihood of a Gaussian mixture of them.

    Pairs that are nearest to each other stay so while others are merged, but for small changes of
    shared parameters and weights: they are merged together, the cheapest first. So the time is
    quadratic in the number of groups, up to a logarithm.
    """

    def __init__(self, groups: GroupSums, family: GaussianFamily) -> None:
        self.groups, self.family, self.kind = groups, family, family.kind
        self.total, self.d = float(groups.counts.sum()), groups.means.shape[1]

    @property
    def k(self) -> int:
        """Number of groups."""
        return self.groups.k

    @property
    @abstractmethod
    def cost(self) -> float:
        """Minus the classification log-likelihood of all rows, up to a constant."""

    @abstractmethod
    def state(self) -> Gaussians:
        """Return the mixture of the groups."""

    @abstractmethod
    def _cheapest(self) -> tuple[Integers, Floats]:
        """Return the group with which each one merges at the least cost, and its rise, (k,)."""

    def merge_to(self, k: int) -> None:
        """Merge pairs until k groups are left."""
        while self.k > k:
            self.merge(max(1, int(AT_ONCE * (self.k - k))))

    def merge(self, n: int = 1) -> None:
        """Merge at most n pairs that are nearest to each other, those that cost least."""
        (nearest, rises), every = self._cheapest(), np.arange(self.k)
        a = np.flatnonzero((nearest[nearest] == every) & (every < nearest))
        a = a[np.argsort(rises[a], kind="stable")[:n]]
        self._join(a, nearest[a])

    def _join(self, a: Integers, b: Integers) -> None:
        """Merge groups b into the places of groups a."""
        self.groups = self.groups.joined(a, b, self.kind)


class FreeAgglomeration(Agglomeration):
    """Merges by the likelihood of a Gaussian for each group.

    The cost of a group is :math:`n/2 log|C| - n log(n / N)`, with a covariance C that borrows
    d + 1 rows from the pooled one; that of a pair is the rise of the sum of all costs.
    """

    def __init__(self, groups: GroupSums, family: GaussianFamily) -> None:
        super().__init__(groups, family)
        self.ridge = max(float(np.mean(family.least)), RIDGE)
        self.pooled = groups.inside.sum(axis=0) / self.total
        self.own = self._cost(groups)
        self.pairs = np.full((groups.k, groups.k), np.inf)
        self._measure(*np.triu_indices(groups.k, 1))

    @property
    def cost(self) -> float:
        """Minus the classification log-likelihood of all rows, up to a constant."""
        return float(self.own.sum())

    def state(self) -> Gaussians:
        """Return the mixture of the groups."""
        g = self.groups
        covariances = self.kind.covariances(self._borrowed(g), self.d)
        covariances = self.family.raised(covariances, g.means)
        return Gaussians(g.counts / self.total, g.means, covariances)

    def _cheapest(self) -> tuple[Integers, Floats]:
        return self.pairs.argmin(axis=1), self.pairs.min(axis=1)

    def _join(self, a: Integers, b: Integers) -> None:
        super()._join(a, b)
        kept = np.delete(np.arange(len(self.own)), b)
        self.own, self.pairs = self.own[kept], self.pairs[np.ix_(kept, kept)]
        a = np.sort(np.searchsorted(kept, a))
        self.own[a] = self._cost(self.groups.take(a))
        changed = np.zeros(self.k, dtype=bool)
        changed[a] = True
        i, j = np.repeat(a, self.k), np.tile(np.arange(self.k), len(a))
        once = ~changed[j] | (i < j)
        self._measure(i[once], j[once])

    def _measure(self, i: Integers, j: Integers) -> None:
        """Store the rise of the cost by merging pairs of groups."""
        step = max(1, DEFAULT_BUDGET.cache // max(self.d, self.groups.inside.shape[1]))
        for first in range(0, len(i), step):
            a, b = i[first : first + step], j[first : first + step]
            rises = self._cost(self.groups.merged(a, b, self.kind)) - self.own[a] - self.own[b]
            self.pairs[a, b] = self.pairs[b, a] = rises

    def _borrowed(self, groups: GroupSums) -> Floats:
        lent = self.d + 1.0
        return np.asarray((groups.inside + lent * self.pooled) / (groups.counts + lent)[:, None])

    def _cost(self, groups: GroupSums) -> Floats:
        d, counts, products = self.d, groups.counts, self._borrowed(groups)
        if self.kind.shape == "full":
            covariances = self.kind.covariances(products, d) + self.kind.ridge(d, self.ridge)
            logs = np.linalg.slogdet(covariances)[1]
        else:
            factor = d if self.kind.shape == "spherical" else 1
            logs = factor * np.log(products / factor + self.ridge).sum(axis=1)
        return np.asarray(0.5 * counts * logs - counts * np.log(counts / self.total))


class TiedAgglomeration(Agglomeration):
    r"""Merges by the likelihood of Gaussians with one covariance.

    A merge of two groups, whose means differ by δ, adds c δδᵀ to the sum of products about the
    means, with :math:`c = n_a n_b / (n_a + n_b)`. The log-likelihood of N rows falls by
    :math:`N/2 log(1 + c δᵀW^{-1}δ / N)` (matrix determinant lemma), where W is the covariance that
    all share; by d times as many terms, each of the mean over columns, if it is spherical; and by
    :math:`c δᵀW^{-1}δ / 2` if it is known. For a diagonal one the first is a lower bound.
    """

    @property
    def covariance(self) -> Floats:
        """The covariance that all groups share: (d, d), or its diagonal."""
        pooled = self.groups.inside.sum(axis=0)[None] / self.total
        covariances = self.kind.covariances(pooled, self.d)
        return np.asarray(self.family.raised(covariances, self.groups.means)[0])

    @property
    def cost(self) -> float:
        """Minus the classification log-likelihood of all rows, up to a constant."""
        n, known = self.groups.counts, self.family.known
        precisions, log_dets = precisions_of(self.metric[None])
        level = log_dets[0] if known is None else np.sum(precisions[0] * self.covariance)
        return float(0.5 * self.total * level - n @ np.log(n / self.total))

    @property
    def metric(self) -> Floats:
        """The covariance in whose metric groups are far apart or near."""
        known, own = self.family.known, self.covariance
        return own if known is None else np.asarray(np.broadcast_to(known, own.shape))

    def state(self) -> Gaussians:
        """Return the mixture of the groups."""
        g, shared = self.groups, self.metric
        covariances = np.repeat(shared[None], len(g.counts), axis=0)
        return Gaussians(g.counts / self.total, g.means.copy(), covariances)

    def _cheapest(self) -> tuple[Integers, Floats]:
        root, nearest, rises = inverse_root(self.metric), [], []
        z = self.groups.means @ root if root.ndim == 2 else self.groups.means * root
        z = z - z.mean(axis=0)
        for some in blocks(range(self.k), max(1, DEFAULT_BUDGET.cache // self.k)):
            rise = self._rises(z, slice(some.start, some.stop))
            nearest.append(rise.argmin(axis=1))
            rises.append(rise.min(axis=1))
        return np.concatenate(nearest), np.concatenate(rises)

    def _rises(self, z: Floats, some: slice) -> Floats:
        """Return the rises of merges of some groups with all, whitened means z (k, d): (m, k)."""
        total, n = self.total, self.groups.counts
        squares = np.sum(z**2, axis=1)
        rise = np.maximum(squares[some, None] + squares - 2 * (z[some] @ z.T), 0.0)
        together = n[some, None] + n
        rise *= n[some, None] * n
        rise /= together
        if self.family.known is None:
            folds = self.d if self.kind.shape == "spherical" else 1
            rise = total * folds * np.log1p(rise / (total * folds))
        own = n * np.log(n / total)
        rise = 0.5 * rise - together * np.log(together / total) + (own[some, None] + own)
        rise[np.arange(len(rise)), np.arange(self.k)[some]] = np.inf
        return np.asarray(rise)
