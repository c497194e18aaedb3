"""Predicted rises of the log-likelihood by splits of components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, namespace_of, to_numpy
from implicitmoments.rows import DEFAULT_BUDGET
from implicitmoments.search.em import LOCAL, Budget, E, Family, Places, R, S, concatenate
from implicitmoments.search.shares import LARGEST_LOG, Shares, weighted_sum
from implicitmoments.search.trials import FEWEST_TRIALS

# A split is judged by few steps on few rows first: 3 steps, on 400 rows, four per parameter, or so
# many that no gain by chance, a nat per parameter, is taken for one that is of use.
SCREEN_ROWS, SCREEN_STEPS, SCREEN_SAFETY = 400, 3, 3.0
OPTIMISM = 4.0  # times its prediction that a split may gain once EM moves all components


@dataclass(frozen=True, eq=False)
class _Held:
    """The rows that a component holds."""

    places: Places  # (n,)
    weights: Floats  # (n,), responsibilities times counts

    @classmethod
    def of(cls, found: Shares, i: int) -> _Held:
        """Return the rows of component i."""
        places, shares = found.held_by(i)
        counts = to_numpy(found.counts[index_like(places, found.counts)])
        return cls(places, shares.astype(np.float64) * counts)

    @property
    def n(self) -> int:
        """How many they are."""
        return len(self.places)

    @property
    def total(self) -> float:
        """How often they count together."""
        return float(self.weights.sum())

    def some(self, n: int, family: Family[R, S, E], rows: R, rng: np.random.Generator) -> R:
        """Return all of them, or about n if they are more, which count as much as all.

        Rows are drawn with probabilities in proportion to their weights, since those that are
        hardly of the component tell little of it.
        """
        if self.n <= n:
            return family.part(rows, self.places, self.weights)
        chances = np.minimum(n / self.total * self.weights, 1.0)
        ends = np.floor(np.cumsum(chances) + rng.uniform())  # systematic sampling
        chosen = np.flatnonzero(np.diff(ends, prepend=0.0))
        weights = self.weights[chosen] / chances[chosen]
        return family.part(rows, self.places[chosen], weights)


@dataclass(frozen=True, eq=False)
class _Splits(Generic[S]):
    """Pairs of parts of several components, as many for each."""

    components: Places  # (c,)
    pairs: S  # 2 s parts for each component
    gains: Floats  # (c, s), rise of the log-likelihood

    @property
    def n(self) -> int:
        """Pairs of each component."""
        return int(self.gains.shape[1])

    def take(self, chosen: Places, n: int | None = None) -> _Splits[S]:
        """Return the best n pairs, or all, of some of the components."""
        gains = self.gains[chosen]
        order = np.argsort(-np.nan_to_num(gains, nan=-np.inf), axis=1, kind="stable")[:, :n]
        pairs = np.asarray(chosen)[:, None] * self.n + order
        parts = np.stack([2 * pairs, 2 * pairs + 1], axis=-1).ravel()
        best = np.take_along_axis(gains, order, axis=1)
        return _Splits(self.components[chosen], self.pairs.take(parts), best)

    def best(self, c: int) -> tuple[float, S]:
        """Return the gain of the best pair of a component, and its parts."""
        one = self.take(np.array([c]), 1)
        return float(np.nan_to_num(one.gains[0, 0], nan=-np.inf)), one.pairs.keep(np.arange(2))


def split_gains(  # noqa: PLR0913 (each documented)
    family: Family[R, S, E],
    rows: R,
    state: S,
    found: Shares,
    pool: Floats,
    components: Places,
    rng: np.random.Generator,
    budget: Budget = LOCAL,
    *,
    worth: Floats | float = 0.0,
) -> dict[int, tuple[float, S]]:
    """Return for each component the rise of the log-likelihood by its best split, and the parts.

    EM of two parts runs on the rows that the component holds, weighted by responsibility, from
    all starts of all components at once. The responsibilities of the other components are fixed,
    so the rise is a lower bound of what EM of all components reaches. Successive halving: few
    steps on few rows, then the best starts on as many rows as the component has, and on all that
    it holds, since parameters that fit some of the rows by chance do not fit the others.

    Parameters
    ----------
    found : Shares
        Of ``state``.
    pool : array of shape (k, p)
        ``family.pool`` of ``state``.
    components : array of int, (c,)
        Those to split.
    budget : Budget
        Of one component; ``budget.rows`` are the most of the second round.
    worth : float, or array of shape (c,)
        A gain that is of use. Where some rows show that less is to be expected, the others are not
        used, and the gain is an estimate.
    """
    held = {int(i): _Held.of(found, int(i)) for i in components}
    least = dict(zip(held, np.broadcast_to(worth, len(held)).tolist(), strict=True))
    # copies of the rows of all components would be several times the sample where they share rows
    one = family.n_parameters(state.keep(np.array([0])))
    parts = np.cumsum([one * each.n for each in held.values()]) // DEFAULT_BUDGET.held
    splits: dict[int, tuple[float, S]] = {}
    for part in np.unique(parts):
        own = {i: held[i] for i, its in zip(held, parts, strict=True) if its == part}
        splits |= _split_together(family, rows, state, pool, own, least, rng, budget)
    return splits


def _split_together(
    family: Family[R, S, E],
    rows: R,
    state: S,
    pool: Floats,
    held: dict[int, _Held],
    least: dict[int, float],
    rng: np.random.Generator,
    budget: Budget,
) -> dict[int, tuple[float, S]]:
    """Return the best splits of components that hold some rows, and have to gain so much."""
    splits = {i: (-np.inf, state.keep(np.array([i, i]))) for i in held}
    one, more = family.n_parameters(state.keep(np.array([0]))), fitted_parameters(family, state)

    def fit(
        begun: _Splits[S], sizes: dict[int, int], steps: int, parts: dict[int, R]
    ) -> _Splits[S]:
        """Run EM on so many rows of each component; return those whose split may be of use."""
        own = begun.components
        alone = replace(state.take(own), weights=np.ones(len(own)))
        rest = pool.sum(axis=0) - pool[own]
        drawn = [parts.get(i) or held[i].some(sizes[i], family, rows, rng) for i in own.tolist()]
        ended = _Splits(own, *family.fit_pairs(drawn, alone, begun.pairs, rest, steps))
        further = []
        for c, i in enumerate(own.tolist()):
            splits[i] = ended.best(c)
            counts = to_numpy(family.counts(drawn[c])).astype(np.float64)
            chance = more * float(counts @ counts / counts.sum())  # a nat per parameter and unit
            if not _most_gain(splits[i][0], chance) < least[i]:
                further.append(c)
        return ended.take(np.array(further, dtype=np.int64))

    few, parts, starts = {}, {}, {}
    for i in (i for i in held if held[i].n > 1):
        enough = SCREEN_SAFETY * more / least[i] if least[i] > SCREEN_SAFETY * more else 0.0
        wanted = max(SCREEN_ROWS, 4 * one, math.ceil(enough * held[i].total))
        few[i] = min(held[i].n, wanted)
        part = held[i].some(few[i], family, rows, rng)
        pairs = family.split_starts(part, state, i, rng)
        if pairs.k:
            parts[i], starts[i] = part, pairs
    if not starts:
        return splits
    half = budget.steps // 2
    own = {i: min(held[i].n, budget.rows, max(few[i], math.ceil(held[i].total))) for i in starts}
    every = {i: held[i].n for i in starts}
    begun = _Splits(np.array(list(starts)), concatenate(list(starts.values())), np.zeros((0, 0)))
    begun = fit(begun, few, SCREEN_STEPS, parts)
    for sizes, steps in ((own, half - SCREEN_STEPS), (every, half)):
        if not len(begun.components):
            break
        best = begun.take(np.arange(len(begun.components)), max(FEWEST_TRIALS, begun.n // 4))
        begun = fit(best, sizes, steps, {})
    return splits


def _most_gain(gain: float, chance: float) -> float:
    """Return the most that a split may gain in the end.

    Parameters
    ----------
    gain : float
        After a few steps.
    chance : float
        What it gains by chance.
    """
    most = most_by_chance(chance) + SCREEN_SAFETY * max(gain - chance, 0.0)
    return min(SCREEN_SAFETY * gain, most)


def most_by_chance(chance: float, unit: float = 1.0) -> float:
    """Return the most that is gained by chance: p ± √p nats for p further parameters.

    Parameters
    ----------
    unit : float
        For how many rows each row stands: all gains are so many times as large.
    """
    return unit * (chance + SCREEN_SAFETY * math.sqrt(chance))


def gain_needed(loss: Floats | float, chance: float, unit: float = 1.0) -> Floats:
    """Return the least predicted gain of a split that may make up for a loss.

    Once EM moves all components, a split may gain :data:`OPTIMISM` times its prediction, but not
    of the part that any component of so many rows gains by chance.

    Parameters
    ----------
    chance, unit : float
        A nat for each further parameter; the other as for :func:`most_by_chance`.
    """
    most, loss = most_by_chance(chance, unit), np.asarray(loss)
    return np.where(loss <= most, loss / OPTIMISM, unit * chance + (loss - most) / OPTIMISM)


def further_parameters(family: Family[R, S, E], state: S) -> int:
    """Count the parameters of a further component, for criteria."""
    return family.n_parameters(_one_more(state)) - family.n_parameters(state)


def fitted_parameters(family: Family[R, S, E], state: S) -> int:
    """Count the parameters that EM fits to a further component, which gains by chance from them.

    Where rows are coordinates on a span of all columns, criteria count more.
    """
    packed = len(family.pack(_one_more(state))) - len(family.pack(state))
    return min(packed, further_parameters(family, state))


def _one_more(state: S) -> S:
    return state.add(state.keep(np.array([0])), 0.5)


def fit_pairs(
    family: Family[R, S, E], parts: Sequence[R], alone: S, pairs: S, rest: Floats, steps: int
) -> tuple[S, Floats]:
    """Run EM of pairs of components, one set of rows after the other.

    As ``fit_pairs`` of :class:`implicitmoments.search.Family`, for any family.
    """
    fitted, gains, size = list[S](), list[Floats](), pairs.k // len(parts)
    for c, part in enumerate(parts):
        own = pairs.take(np.arange(c * size, (c + 1) * size))
        counts, single = family.counts(part), alone.take(np.array([c]))
        for _ in range(steps):
            shares = _pair_shares(family.log_joint(part, own), counts)
            own = family.fit_trials(family.expect(part, shares, own), own, 2, rest[c])
        joint = family.log_joint(part, own)
        xp, one, other = namespace_of(joint), joint[:, 0::2], joint[:, 1::2]
        levels = counts @ (xp.maximum(one, other) + xp.log1p(xp.exp(-xp.abs(one - other))))
        before = weighted_sum(counts, family.log_joint(part, single)[:, 0])
        rise = to_numpy(levels).astype(np.float64) - before
        rise += family.rest_bound(rest[c], own, 2) - family.rest_bound(rest[c], single, 1)
        fitted.append(own)
        gains.append(rise)
    return concatenate(fitted), np.array(gains)


def _pair_shares(joint: Array, counts: Array) -> Array:
    """Return responsibilities within pairs times counts, (n, 2s); the argument is overwritten."""
    xp = namespace_of(joint)
    odds = xp.exp(xp.clip(joint[:, 1::2] - joint[:, 0::2], max=LARGEST_LOG))
    joint[:, 0::2] = first = counts[:, None] / (1 + odds)
    joint[:, 1::2] = counts[:, None] - first
    return joint
