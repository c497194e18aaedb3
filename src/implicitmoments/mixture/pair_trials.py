"""EM of pairs of Gaussian parts of many components at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians, GaussianSums
from implicitmoments.rows import DEFAULT_BUDGET, Rows
from implicitmoments.search import splits
from implicitmoments.search.em import concatenate
from implicitmoments.search.shares import LARGEST_LOG

if TYPE_CHECKING:
    from implicitmoments.mixture.family import GaussianFamily


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows of several components, lifted about the mean of their component.

    About other points single precision would not be enough for the parts of a component.
    """

    lifted: list[Any]  # (p, n) of each component, contiguous
    bounds: list[int]  # where the rows of each begin
    counts: Any  # (n,), of all

    @classmethod
    def of(cls, parts: Sequence[Rows], means: Floats, kind: CovarianceType) -> PairRows:
        """Lift the rows of components with some means, (c, d)."""
        points = [part.block["x"] for part in parts]
        lifted = [
            np.asarray(kind.lift({"x": x - mean.astype(x.dtype)})["x"]).T
            for x, mean in zip(points, means, strict=True)
        ]
        bounds = np.cumsum([0, *(part.n for part in parts)]).tolist()
        counts = np.concatenate([part.counts for part in parts]).astype(points[0].dtype)
        return cls(lifted, bounds, counts)

    def each(self) -> Iterator[tuple[Any, slice]]:
        """Yield the lifted rows of each component, and their places."""
        for x, (first, last) in zip(self.lifted, pairwise(self.bounds), strict=True):
            yield x, slice(first, last)

    def sums(self) -> Floats:
        """Return the sums of lifted rows of each component, (c, p)."""
        return np.array([x @ self.counts[own] for x, own in self.each()], dtype=np.float64)

    def log_odds(self, slopes: Floats) -> Any:
        """Return the log odds of the first part of each pair, (s, n), for slopes (2 c s, p)."""
        apart = (slopes[0::2] - slopes[1::2]).astype(self.counts.dtype)
        apart = apart.reshape(len(self.lifted), -1, apart.shape[1])
        odds = np.empty((apart.shape[1], len(self.counts)), dtype=self.counts.dtype)
        for own_slopes, (x, own) in zip(apart, self.each(), strict=True):
            np.matmul(own_slopes, x, out=odds[:, own])
        return odds

    def moments(self, shares: Any) -> Floats:
        """Return the sums of lifted rows times shares (s, n), (c s, p)."""
        return np.concatenate([shares[:, own] @ x.T for x, own in self.each()]).astype(np.float64)

    def levels(self, odds: Any) -> Floats:
        """Return the log-likelihood above that of the first part alone, (c, s)."""
        size = np.abs(odds)
        np.exp(np.negative(size, out=size), out=size)
        gained = np.log1p(size, out=size)
        gained += np.maximum(np.negative(odds, out=odds), 0, out=odds)
        return np.array([gained[:, own] @ self.counts[own] for _, own in self.each()], dtype=float)


def fit_pairs(
    family: GaussianFamily,
    parts: Sequence[Rows],
    alone: Gaussians,
    pairs: Gaussians,
    rest: Floats,
    steps: int,
) -> tuple[Gaussians, Floats]:
    """Run EM of pairs of parts, as ``fit_pairs`` of the family.

    Many at once for Gaussians on rows held in NumPy.
    """
    held = all(isinstance(part.block["x"], np.ndarray) for part in parts)
    if not (held and pairs.gaussian):
        return splits.fit_pairs(family, parts, alone, pairs, rest, steps)
    size = pairs.k // len(parts)
    fitted, gains = [], []
    for first, last in _groups(parts, size):
        own, places = np.arange(first, last), np.arange(first * size, last * size)
        some, gained = _fit_group(
            family, parts[first:last], alone.take(own), pairs.take(places), rest[own], steps
        )
        fitted.append(some)
        gains.append(gained)
    return concatenate(fitted), np.concatenate(gains)


def _groups(parts: Sequence[Rows], size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of parts whose log odds stay in the cache, or single ones."""
    first, n = 0, 0
    for at, part in enumerate(parts):
        n += part.n * size // 2
        if at > first and n > DEFAULT_BUDGET.cache:
            yield first, at
            first, n = at, part.n * size // 2
    yield first, len(parts)


def _fit_group(
    family: GaussianFamily,
    parts: Sequence[Rows],
    alone: Gaussians,
    pairs: Gaussians,
    rest: Floats,
    steps: int,
) -> tuple[Gaussians, Floats]:
    kind, c, d, k = family.kind, len(parts), alone.d, pairs.k
    rows = PairRows.of(parts, alone.means, kind)
    every, centers = rows.sums(), np.repeat(alone.means, k // c, axis=0)
    within, others = np.repeat(every, k // (2 * c), axis=0), np.repeat(rest, k // (2 * c), axis=0)
    now = replace(pairs, means=pairs.means - centers)
    both = np.empty((k, every.shape[1]))
    for _ in range(steps):
        odds = rows.log_odds(kind.slopes(now).T)
        np.exp(np.minimum(odds, LARGEST_LOG, out=odds), out=odds)
        odds += 1
        # shares of the second parts, the lighter ones; those of the first are what is left
        both[1::2] = rows.moments(np.divide(rows.counts, odds, out=odds))
        both[0::2] = within - both[1::2]
        sums = GaussianSums(
            0.0, float(every[:, -1].sum()), both[:, -1], both[:, :d], both[:, d:-1]
        )
        now = family.fit_trials(sums, now, 2, others)
    slopes = kind.slopes(now).T
    gains = rows.levels(rows.log_odds(slopes))
    gains += np.sum(slopes[0::2] * within, axis=1).reshape(c, -1)
    gains += family.rest_bound(others, now, 2).reshape(c, -1)
    single = replace(alone, means=np.zeros_like(alone.means))
    before = np.sum(kind.slopes(single).T * every, axis=1) + family.rest_bound(rest, single, 1)
    return replace(now, means=now.means + centers), gains - before[:, None]
