"""Moves of a search: splits and merges of components that the likelihood judges.

A move splits some components and merges as many pairs. Splits of all components are tried in one
batch, each on rows that its component holds; the exact loss of merges takes one pass. Where moves
ranked by these fail, EM of the components around each split and each merge says what they bring
once their neighbours have adapted. All rows decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, Shares, run_em, take_steps
from implicitmoments.mixture.family import TINY, Family, Places, coefficients_of

ROWS_PER_SPLIT = 400  # rows of a component on which its splits are tried
STEPS_PER_SPLIT = 12  # of EM
TAIL = 0.12  # share of the rows beyond a cut in a tail
NEIGHBOURS = 6  # components that adapt to a split or merge among them
LOCAL_STEPS = 11  # of their EM
LOCAL_NUMBERS = 3e7  # features of rows that they hold, of all neighbourhoods
HELD = 0.05  # responsibility from which a component holds a row
SINGLE = 3  # single moves that are tried
CHANCE = 2.5  # the best of all divisions gains about so much more by chance than one
OPTIMISM = 5.0  # times the gain of a split that a move may bring
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


def likelihood_gaps(family: Family, sums: Floats, shared: Floats | None) -> tuple[Floats, Floats]:
    """Return the log-likelihood (k,) of the rows of each component at its coefficients.

    And what they lose at the coefficients of each other component, (k, k).
    """
    coefficients = family.natural(sums, shared)[:, family.linear]
    own = sums[:, family.linear]
    alone = (own * coefficients).sum(1)
    gaps = alone[:, None] - own @ coefficients.T
    return alone, gaps


def near_pairs(sample: Sample, sums: Floats, most: int) -> Merges:
    """Return pairs of components and what a merge loses if rows stay where they are.

    Each component is paired with those at whose coefficients its rows are most likely.
    """
    family, most = sample.family, min(most, len(sums) - 1)
    if most == 0:
        return Merges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    shared = family.pool(sums, sample.rest)
    alone, apart = likelihood_gaps(family, sums, shared)
    apart = np.minimum(apart, apart.T)
    np.fill_diagonal(apart, np.inf)
    partners = np.argpartition(apart, most - 1, axis=1)[:, :most]
    low, high = np.sort([np.repeat(np.arange(len(sums)), most), partners.ravel()], axis=0)
    first, second = np.divmod(np.unique(low * len(sums) + high), len(sums))
    losses = alone[first] + alone[second] - family.emission(sums[first] + sums[second], shared)
    order = np.argsort(losses)
    return Merges(first[order], second[order], losses[order])


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
    order = np.argsort(losses)
    return Merges(first[order], second[order], losses[order])


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


def prospects_of(sample: Sample, sums: Floats, rng: np.random.Generator) -> Prospects:
    """Try all splits and near merges of a mixture (k, s)."""
    found = sample.shares(sums)
    splits = try_splits(sample, found.shares, rng)
    return Prospects(found, splits, merge_losses(sample, found))


def refine(sample: Sample, seen: Prospects, rng: np.random.Generator) -> Prospects:
    """Return what splits gain and merges lose after their neighbours have adapted to them."""
    found, splits, merges = seen
    singles = np.arange(len(found.sums))[:, None]
    pairs = np.stack([merges.first, merges.second], axis=1)
    gains = local_gains(sample, found, singles, splits.parts, rng)
    losses = -local_gains(sample, found, pairs, None, rng)
    return Prospects(found, splits._replace(gains=gains), merges._replace(losses=losses))


def local_gains(
    sample: Sample, found: Shares, centres: Places, parts: Floats | None, rng: np.random.Generator
) -> Floats:
    """Return the gain (g,) of a change in each of g neighbourhoods, after EM with and without.

    A neighbourhood has the components near some centres (g, c), which come first, and the rows
    that they hold. Parts (g, 2, s) take the place of a centre; without them both centres merge.
    """
    size = min(NEIGHBOURS, len(found.sums))
    shared = sample.family.pool(found.sums, sample.rest)
    _, gaps = likelihood_gaps(sample.family, found.sums, shared)
    near = np.minimum(gaps, gaps.T)[centres].min(1)
    np.put_along_axis(near, centres, [[-2.0, -1.0][: centres.shape[1]]], axis=1)
    members = np.argsort(near, axis=1)[:, :size]
    held = np.zeros_like(near, dtype=found.shares.dtype)
    np.put_along_axis(held, members, 1, axis=1)
    affordable = int(LOCAL_NUMBERS / (len(members) * sample.features.shape[1]))
    n_rows = min(ROWS_PER_SPLIT * size, affordable + 1)
    places, weights = held_rows(held @ found.shares, sample.weights, n_rows, rng)
    local = replace(sample, features=sample.features[places], weights=weights)
    sums, n_centres = found.sums[members], centres.shape[1]
    new = sums[:, :n_centres].sum(1, keepdims=True) if parts is None else parts
    changed = np.concatenate([new, sums[:, n_centres:]], axis=1)
    before, after = (
        take_steps(local, each[:, None], LOCAL_STEPS).levels[:, 0] for each in (sums, changed)
    )
    return after - before


def improve(
    sample: Sample,
    sums: Floats,
    rng: np.random.Generator,
    max_moves: int = 40,
    *,
    singles: bool = True,
) -> Improved:
    """Exchange components as long as the likelihood rises.

    Many at once as long as that gains more than chance does; then, with ``singles``, a few. Where
    rows nearby are similar, these are chosen after the neighbours of each have adapted.
    """
    (level,), (sums,) = run_em(sample, sums[None], max_iter=18)[:2]
    seen, k = prospects_of(sample, sums, rng), len(sums)
    for _ in range(max_moves):
        if is_settled(sample, seen):
            break
        many, before = np.argsort(-seen.splits.gains)[: k // 3].tolist(), level
        level, sums, moved = make_move(sample, level, sums, seen, [[many]] if many else [])
        seen = prospects_of(sample, sums, rng) if moved else seen
        if level > before + chance_gain(sample):
            continue
        if not singles:
            break
        seen = refine(sample, seen, rng) if sample.family.similar_if_near else seen
        level, sums, moved = make_move(sample, level, sums, seen, proposals(seen))
        if not moved:
            break
        seen = prospects_of(sample, sums, rng)
    return Improved(float(level), sums, is_settled(sample, seen), seen)


def is_settled(sample: Sample, seen: Prospects) -> bool:
    """Return whether every merge loses clearly more than any split gains, but for chance."""
    chance = chance_gain(sample)
    gain = max(float(seen.splits.gains.max()) - chance, 0.0)
    return len(seen.found.sums) == 1 or bool(seen.merges.losses.min() - chance > DOUBT * gain)


def make_move(
    sample: Sample, level: float, sums: Floats, seen: Prospects, batches: Iterable[list[list[int]]]
) -> tuple[float, Floats, bool]:
    """Return the log-likelihood and sums after the first batch with a move that gains, if any.

    A move is a list of components to split. The present mixture takes part: EM that is not at its
    end yet is no gain of a move.
    """
    for moves in batches:
        batch = np.stack([sums, *(exchange(sample, seen, which) for which in moves)])
        levels, ends = run_em(sample, batch, max_iter=24, above=level)[:2]
        best = int(levels.argmax())
        if levels[best] > levels[0] + max(0.1, 1e-6 * sample.n):
            return float(levels[best]), ends[best], True
        level, sums = float(levels[0]), ends[0]
    return level, sums, False


def proposals(seen: Prospects) -> Iterator[list[list[int]]]:
    """Yield batches of promising moves: many splits at once, fewer, then single ones."""
    gains, least = seen.splits.gains, seen.merges.losses.min()
    plan = [c for c in np.argsort(-gains).tolist() if OPTIMISM * gains[c] > least]
    for many in (len(gains) // 3, len(gains) // 9):
        if min(many, len(plan)) > 1:
            yield [plan[:many]]
    if plan:
        yield [[c] for c in plan[:SINGLE]]


def exchange(sample: Sample, seen: Prospects, which: list[int]) -> Floats:
    """Split some components, run EM, and merge as many pairs as were split."""
    sums = seen.found.sums
    wider = take_steps(sample, split_components(sums, seen.splits.parts, which)[None], 10).sums[0]
    return merge_to(sample, wider, len(sums))
