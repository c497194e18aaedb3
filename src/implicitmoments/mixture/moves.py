"""Moves of a search: splits and merges of components that the likelihood judges.

A move splits some components and merges as many pairs. Splits of all components are tried in one
batch, each on rows that its component holds; the exact loss of merges takes one pass. All rows
decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, Shares, run_em, take_steps
from implicitmoments.mixture.family import TINY, Places, coefficients_of

ROWS_PER_SPLIT = 400  # rows of a component on which its splits are tried
STEPS_PER_SPLIT = 12  # of EM
TAIL = 0.12  # share of the rows beyond a cut in a tail
HELD = 0.05  # responsibility from which a component holds a row
SINGLE = 8  # single moves that are tried
CHANCE = 2.5  # the best of all divisions gains about so much more by chance than one
LEAST_GAIN = 0.1  # nats by which a likelihood or criterion has to rise
DOUBT = 4.0  # times the gain of a split that a merge has to lose where no move is tried


class Splits(NamedTuple):
    """The best division of each component."""

    gains: Floats  # (k,) of the log-likelihood
    parts: Floats  # (k, 2, s)


class Merges(NamedTuple):
    """Pairs of near components, and the log-likelihood that a merge loses.

    The cheapest come first if nothing else changes; losses may be less where neighbours adapt.
    """

    first: Places
    second: Places
    losses: Floats

    @classmethod
    def of(cls, first: Places, second: Places, losses: Floats) -> Merges:
        """Return pairs in the order of their losses."""
        order = np.argsort(losses)
        return cls(first[order], second[order], losses[order])


class Prospects(NamedTuple):
    """What a mixture would gain and lose by splits and merges."""

    found: Shares
    splits: Splits
    merges: Merges


class Improved(NamedTuple):
    """The end of a search."""

    level: float
    sums: Floats  # (k, s)
    settled: bool  # whether no other mixture nearby comes close
    prospects: Prospects | None  # None without a search


Move: TypeAlias = Places  # components to split
Plan: TypeAlias = Callable[[Prospects], list[Move]]


def penalty(sample: Sample, k: int) -> float:
    """Return half of what BIC charges for the parameters of k components."""
    return 0.5 * sample.family.n_parameters(k) * float(np.log(sample.n))


def chance_gain(sample: Sample) -> float:
    """Return the gain of the log-likelihood that a further component brings by chance."""
    family = sample.family
    return 0.5 * (family.n_parameters(2) - family.n_parameters(1))


def held_rows(
    shares: Floats, weights: Floats, most: int, rng: np.random.Generator
) -> tuple[Places, Floats]:
    """Return some rows that each component holds, and their weights, (k, m) both."""
    k = len(shares)
    component, row = np.nonzero(shares > HELD)
    order = np.lexsort((rng.random(len(component)), component))
    component, row = component[order], row[order]
    count = np.bincount(component, minlength=k)
    rank = np.arange(len(component)) - (np.cumsum(count) - count)[component]
    m = min(most, max(1, int(count.max())))
    component, row, rank = component[rank < m], row[rank < m], rank[rank < m]
    places, found = np.zeros((k, m), dtype=np.int64), np.zeros((k, m))
    places[component, rank] = row
    found[component, rank] = shares[component, row] * weights[row]
    sizes = shares @ weights.astype(shares.dtype, copy=False)
    return places, found * (sizes / np.maximum(found.sum(1), TINY))[:, None]


def divisions(scores: Floats, weights: Floats) -> Floats:
    """Return divisions (k, a, m) of the rows of components by scores (k, m, b).

    Each score divides in halves and cuts off either tail.
    """
    scores = scores.copy()
    scores[weights == 0] = np.inf
    ranks = scores.argsort(1).argsort(1) + 0.5
    quantiles = ranks / np.maximum((weights > 0).sum(1), 1)[:, None, None]
    cuts = [quantiles < 0.5, quantiles < TAIL, quantiles > 1 - TAIL]
    return np.concatenate(cuts, axis=-1).swapaxes(1, 2).astype(np.float64)


def try_splits(
    sample: Sample, shares: Floats, rng: np.random.Generator, n_rows: int = ROWS_PER_SPLIT
) -> Splits:
    """Divide each component in two by EM on rows that it holds; return the best divisions.

    The parts have shared parameters of their own: those of all components are wrong while a
    component is missing.
    """
    family = sample.family
    places, weights = held_rows(shares, sample.weights, n_rows, rng)
    local = replace(sample, features=sample.features[places], weights=weights)
    whole = local.total[:, None, None, : family.n_own]
    single = take_steps(local, whole, STEPS_PER_SPLIT).levels[:, 0]
    coefficients = coefficients_of(family, whole, local.rest)[0][:, 0]
    density = family.logits(coefficients, local.own)[:, 0, :, None]
    scores = family.split_scores(local.own, weights)
    first = divisions(np.concatenate([scores, density], axis=-1), weights)
    halves = np.stack([first, 1 - first], axis=2) * weights[:, None, None]
    flat = halves.reshape(len(halves), -1, weights.shape[1]).astype(local.features.dtype)
    sums = (flat @ local.own).reshape(*halves.shape[:3], -1).astype(np.float64)
    early, sums = take_steps(local, sums, STEPS_PER_SPLIT // 3)[:2]
    kept = np.argsort(-early, axis=1)[:, :3]
    sums = np.take_along_axis(sums, kept[..., None, None], axis=1)
    late, sums = take_steps(local, sums, STEPS_PER_SPLIT - STEPS_PER_SPLIT // 3)[:2]
    best = late.argmax(1)
    gains = np.take_along_axis(late, best[:, None], axis=1)[:, 0] - single
    # weights of some rows for all multiply the gain by chance
    factors = weights.sum(1) / np.maximum((weights > 0).sum(1), 1)
    gains -= np.maximum(factors - 1, 0) * CHANCE * chance_gain(sample)
    return Splits(gains, np.take_along_axis(sums, best[:, None, None, None], axis=1)[:, 0])


def near_pairs(sample: Sample, sums: Floats, most: int) -> Merges:
    """Return pairs of components and what a merge loses if rows stay where they are.

    Each component is paired with those at whose coefficients its rows are most likely.
    """
    family, most = sample.family, min(most, len(sums) - 1)
    shared = family.pool(sums, sample.rest)
    coefficients, own = family.natural(sums, shared)[:, family.linear], sums[:, family.linear]
    alone = (own * coefficients).sum(1)  # log-likelihood of the rows of each component
    apart = alone[:, None] - own @ coefficients.T
    apart = np.minimum(apart, apart.T)
    np.fill_diagonal(apart, np.inf)
    partners = np.argpartition(apart, most - 1, axis=1)[:, :most]
    low, high = np.sort([np.repeat(np.arange(len(sums)), most), partners.ravel()], axis=0)
    first, second = np.divmod(np.unique(low * len(sums) + high), len(sums))
    losses = alone[first] + alone[second] - family.emission(sums[first] + sums[second], shared)
    return Merges.of(first, second, losses)


def merge_losses(sample: Sample, found: Shares) -> Merges:
    """Return near pairs and the exact loss if each becomes one and nothing else changes."""
    sums, family = found.sums, sample.family
    near = near_pairs(sample, sums, 4)
    first, second = near.first[: max(6, len(sums))], near.second[: max(6, len(sums))]
    both = sums[first] + sums[second]
    merged = family.natural(both, family.pool(sums, sample.rest))
    merged[:, 0] += np.log(np.maximum(both[:, 0], TINY) / sums[:, 0].sum())
    losses = np.zeros(len(first))
    for rows, features, weights in sample.blocks(max(1, len(first))):
        logits = family.logits(merged.astype(features.dtype, copy=False), features)
        ratios = np.exp(np.minimum(logits - found.log_density[rows], 50))
        others = 1 - found.shares[first, rows] - found.shares[second, rows]
        losses -= np.log(np.maximum(others, 0) + ratios + 1e-30) @ weights
    return Merges.of(first, second, losses)


def merge_pairs(sums: Floats, pairs: Merges, most: int) -> Floats:
    """Merge disjoint pairs in their order, at most so many."""
    sums, used, gone = sums.copy(), set[int](), list[int]()
    for i, j in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
        if len(gone) == most:
            break
        if not {i, j} & used:
            sums[i] += sums[j]
            used |= {i, j}
            gone.append(j)
    return np.delete(sums, gone, axis=0)


def merge_to(sample: Sample, sums: Floats, k: int) -> Floats:
    """Make the cheapest merges, disjoint ones together, until k components are left."""
    while len(sums) > k:
        found = sample.shares(sums)
        sums = merge_pairs(found.sums, merge_losses(sample, found), len(sums) - k)
    return sums


def split_components(sums: Floats, parts: Floats, which: Any) -> Floats:
    """Replace some components by their parts, which come last."""
    others = np.delete(sums, which, axis=0)
    return np.concatenate([others, parts[which].reshape(-1, sums.shape[1])])


def assess(sample: Sample, sums: Floats, rng: np.random.Generator) -> Improved:
    """Run some EM from a mixture (k, s), and try all splits and near merges."""
    (level,), (sums,) = run_em(sample, sums[None], max_iter=18)[:2]
    found = sample.shares(sums)
    splits, merges = try_splits(sample, found.shares, rng), merge_losses(sample, found)
    # settled if every merge loses clearly more than any split gains, but for chance
    chance, least = chance_gain(sample), merges.losses.min(initial=np.inf)
    settled = bool(least - chance > DOUBT * max(splits.gains.max() - chance, 0.0))
    return Improved(float(level), sums, settled, Prospects(found, splits, merges))


def improve(
    sample: Sample, end: Improved, rng: np.random.Generator, plan: Plan, max_moves: int = 40
) -> Improved:
    """Make the best move of a plan as long as the likelihood rises.

    The present mixture takes part: EM that is not at its end yet is no gain of a move.
    """
    for _ in range(max_moves):
        seen = end.prospects
        if end.settled or seen is None:
            break
        batch = np.stack([end.sums, *(exchange(sample, seen, which) for which in plan(seen))])
        levels, ends = run_em(sample, batch, max_iter=24, above=end.level)[:2]
        best = int(levels.argmax())
        if levels[best] <= levels[0] + max(LEAST_GAIN, 1e-6 * sample.n):
            break
        end = assess(sample, ends[best], rng)
    return end


def many_splits(seen: Prospects) -> list[Move]:
    """Return one move, the best splits of a third of the components."""
    many = len(seen.splits.gains) // 3
    return [np.argsort(-seen.splits.gains)[:many]] if many else []


def single_splits(seen: Prospects) -> list[Move]:
    """Return the most promising moves that split one component."""
    return list(np.argsort(-seen.splits.gains)[:SINGLE, None])


def exchange(sample: Sample, seen: Prospects, which: Move) -> Floats:
    """Split some components, run EM, and merge as many pairs as were split."""
    sums = seen.found.sums
    wider = take_steps(sample, split_components(sums, seen.splits.parts, which)[None], 10).sums[0]
    return merge_to(sample, wider, len(sums))
