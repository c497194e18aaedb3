"""Starts of a search: merged groups of neighbours, growth by splits, small sets of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, run_em, take_steps
from implicitmoments.mixture.family import Places
from implicitmoments.mixture.moves import (
    improve,
    merge_pairs,
    merge_to,
    near_pairs,
    split_components,
    try_splits,
)
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.hermite_problem import all_rows
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.rows import Rows

GROUPS = 6  # micro-components per component
LLOYD_STEPS = 3
GROWTH_STEPS = 25  # of EM after each round of splits
AGREE = 0.1  # nats within which two searches have one optimum


def micro_components(sample: Sample, n_groups: int, rng: np.random.Generator) -> Floats:
    """Return the sums (g, s) of small groups of rows: k-means++ on some, then Lloyd on all."""
    points = sample.family.points(sample.features)
    n = len(points)
    some = points[rng.permutation(n)[: 10 * n_groups]]
    centres = points_apart(some, min(n_groups, len(some)), rng)
    labels = nearest(points, centres)
    for _ in range(LLOYD_STEPS - 1):
        order, cuts = groups_of(labels)
        sizes = np.diff(np.append(cuts, n))[:, None].astype(points.dtype)
        labels = nearest(points, np.add.reduceat(points[order], cuts) / sizes)
    order, cuts = groups_of(labels)
    weighted = sample.own * sample.weights[:, None].astype(sample.features.dtype)
    return np.add.reduceat(weighted[order], cuts).astype(np.float64)


def nearest(points: Floats, centres: Floats) -> Places:
    """Return the nearest centre of each point, (n,)."""
    half = 0.5 * (centres**2).sum(1)[:, None]
    parts = range(0, len(points), 4096)
    found = [(half - centres @ points[i : i + 4096].T).argmin(0) for i in parts]
    return np.concatenate(found)


def groups_of(labels: Places) -> tuple[Places, Places]:
    """Return an order in which groups are contiguous, and where each begins."""
    order = np.argsort(labels, kind="stable")
    return order, np.unique(labels[order], return_index=True)[1]


def points_apart(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return k of some points by k-means++ (Arthur and Vassilvitskii 2007)."""
    lengths, distances = (points**2).sum(1), np.full(len(points), np.inf)
    chosen = [int(rng.integers(len(points)))]
    while len(chosen) < k:
        last = chosen[-1]
        new = np.maximum(lengths - 2 * (points @ points[last]) + lengths[last], 0)
        distances = np.minimum(distances, new)
        cumulated = np.cumsum(distances)
        place = np.searchsorted(cumulated, rng.random() * cumulated[-1])
        chosen.append(min(int(place), len(points) - 1))
    return points[chosen]


def merge_groups(sample: Sample, sums: Floats, k: int) -> Iterator[Floats]:
    """Merge near groups until k are left, a third of what is left to do at a time.

    Yields the sums on the way.
    """
    while len(sums) > k:
        yield sums
        pairs = near_pairs(sample, sums, 8)
        sums = merge_pairs(sums, pairs, max(1, (len(sums) - k) // 3))
    yield sums


def merged_start(sample: Sample, k: int, rng: np.random.Generator) -> Floats:
    """Return k components (k, s) merged from small groups."""
    groups = micro_components(sample, GROUPS * k, rng)
    return list(merge_groups(sample, groups, k))[-1]


def grown_start(sample: Sample, k: int, rng: np.random.Generator) -> Floats:
    """Return k components (k, s) grown from one by the splits that gain most."""
    sums = sample.total[None, : sample.family.n_own]
    while len(sums) < k:
        found = sample.shares(sums)
        splits = try_splits(sample, found.shares, rng)
        many = min(len(sums) // 2 + 1, k - len(sums))
        best = np.argsort(-splits.gains)[:many]
        new = split_components(found.sums, splits.parts, best)
        sums = take_steps(sample, new[None], GROWTH_STEPS).sums[0]
    return sums


def scattered_starts(sample: Sample, k: int, n: int, rng: np.random.Generator) -> Floats:
    """Return n starts (n, k, s), each component from a small random set of rows."""
    family = sample.family
    size = 2 * (family.n_parameters(2) - family.n_parameters(1))
    rows = rng.integers(len(sample.features), size=(n, k, size))
    weighted = sample.own[rows] * sample.weights[rows][..., None]
    sums = weighted.mean(2).astype(np.float64) * (sample.n / k)
    return take_steps(sample, sums, 5).sums


def make_starts(
    sample: Sample, k: int, n: int, rng: np.random.Generator, *, first: bool
) -> Floats:
    """Return n starts (n, k, s).

    Merged groups where neighbours are similar. Otherwise random sets of rows, and in the first
    chain also merged groups and two ways of growth.
    """
    if sample.family.similar_if_near:
        return np.stack([merged_start(sample, k, rng) for _ in range(n)])
    starts = scattered_starts(sample, k, n, rng)
    if first:
        starts[0] = merged_start(sample, k, rng)
        starts[1] = grown_start(sample, k, rng)
        starts[2] = merge_to(sample, grown_start(sample, 2 * k, rng), k)
        starts[3] = leading_start(sample, k, rng, starts[3])
    return starts


def leading_start(sample: Sample, k: int, rng: np.random.Generator, otherwise: Floats) -> Floats:
    """Return components (k, s) found on the few directions in which they differ."""
    found = sample.family.leading(sample.features, sample.weights, k)
    if found is None:
        return otherwise
    small = Sample(found[0], found[1], sample.weights)
    sums = find_optimum(small, k, rng, n_chains=1).sums
    shares = small.shares(sums).shares * sample.weights
    return np.asarray(shares @ sample.own, dtype=np.float64)


def cross(sample: Sample, sums: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Cross a mixture (k, s) with others (B, k, s): EM of 2k components, merges, EM."""
    both = np.concatenate([np.broadcast_to(sums / 2, others.shape), others / 2], axis=1)
    both = take_steps(sample, both, 5).sums
    merged = np.stack([merge_to(sample, one, len(sums)) for one in both])
    return run_em(sample, merged, max_iter=30, behind=0.05)[:2]


def run_chain(
    sample: Sample, k: int, n: int, rng: np.random.Generator, max_moves: int, *, first: bool
) -> tuple[float, Floats, bool]:
    """Return the best of n starts after moves and crossings, and whether that leaves no doubt."""
    near = sample.family.similar_if_near
    starts = make_starts(sample, k, n, rng, first=first)
    sample = sample.in_single(starts[0])
    tol, steps = (1e-4, 12) if near else (1e-5, 30)
    levels, ends = run_em(sample, starts, tol=tol, max_iter=steps, behind=0.05)[:2]
    agree = int((levels > levels.max() - AGREE).sum()) > 2
    others = ends[np.argsort(-levels)[1:]]
    best = improve(sample, ends[levels.argmax()], rng, max_moves)
    while not agree and not (near and best.settled) and len(others):
        levels, crossed = cross(sample, best.sums, others)
        if levels.max() < best.level + AGREE:
            break
        others = crossed[levels < levels.max() - AGREE]
        best = improve(sample, crossed[levels.argmax()], rng, max_moves)
    return best.level, best.sums, agree or (near and best.settled)


class Optimum(NamedTuple):
    """The best mixture that a search found."""

    sums: Floats  # (k, s)
    sure: bool  # whether independent chains agree, or the last brought nothing new


def find_optimum(
    sample: Sample,
    k: int,
    rng: np.random.Generator,
    max_moves: int = 40,
    n_chains: int = 3,
    start: Floats | None = None,
) -> Optimum:
    """Search for the most likely mixture of k components.

    One chain if it leaves no doubt; otherwise chains that know nothing of each other until two
    agree, crossed with each other.
    """
    near = sample.family.similar_if_near
    many = min(2 if near else 8, int(1e6 / (len(sample.weights) * k)))
    if start is None:
        n = 1 if near else max(4, many)
        level, sums, sure = run_chain(sample, k, n, rng, max_moves, first=True)
    else:
        start = start * (sample.n / start[:, 0].sum())
        level, sums, sure = improve(sample.in_single(start), start, rng, max_moves)
    rising = False
    while not sure and many > 1 and n_chains > 1:
        n_chains -= 1
        other, other_sums, _ = run_chain(sample, k, many, rng, max_moves, first=False)
        sure = abs(other - level) < AGREE
        ends = [(level, sums), (other, other_sums)]
        if not sure:
            levels, crossed = cross(sample, sums, other_sums[None])
            ends.append((float(levels[0]), crossed[0]))
        best = max(ends, key=lambda end: end[0])
        rising = best[0] > level + AGREE
        level, sums = best
    return Optimum(sums, sure or not rising)


def decoded_start(
    sample: Sample, sums: Floats, order: int | None, rng: np.random.Generator
) -> tuple[Floats, Components] | None:
    """Return spherical components (k, s) decoded from moments of orders 2r and 3r.

    The variance that is taken out of the moments is that of a mixture (k, s).
    """
    family, k = sample.family, len(sums)
    points = np.asarray(family.points(sample.features), dtype=np.float64)
    pooled = family.pool(sums, sample.rest)
    rows = Rows.of(points, counts=sample.weights)
    problem = SphericalMixtureProblem(rows, variance=float(np.asarray(pooled).ravel()[0]))
    try:
        # degenerate rows divide by zero; what follows is checked to be finite
        with np.errstate(all="ignore"):
            found = find_components(all_rows(problem), k, order, int(rng.integers(2**31)))
    except (ValueError, np.linalg.LinAlgError):
        return None
    if not np.isfinite(found.guesses).all():
        return None
    means = np.asarray(found.guesses, dtype=np.float64)
    shares = np.eye(k)[nearest(points, means)].T * sample.weights
    return (shares + 1e-3 * sample.weights / k) @ sample.own, found
