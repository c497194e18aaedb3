"""Starts of a search, and the search: merged groups of neighbours, sets of rows, crossings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, run_em, take_steps
from implicitmoments.mixture.family import TINY, Parameters, Places
from implicitmoments.mixture.moves import (
    LEAST_GAIN,
    Improved,
    assess,
    improve,
    many_splits,
    merge_pairs,
    merge_to,
    near_pairs,
    single_splits,
)
from implicitmoments.moments.components import Components, find_components
from implicitmoments.moments.problems import SphericalMixtureProblem
from implicitmoments.rows import Rows

GROUPS = 6  # micro-components per component
ROWS_PER_GROUP = 10  # on which their centres are found
LLOYD_STEPS = 2
GROWTH_STEPS = 25  # of EM after each round of splits
PATIENCE = 2  # crossings in a row that bring nothing
MOST_CROSSINGS = 8  # in all: where rows are few, they may bring a little without end
CROSSED_NUMBERS = 2e7  # rows times components times features of starts that are crossed at once


def micro_components(sample: Sample, n_groups: int, rng: np.random.Generator) -> Floats:
    """Return the sums (g, s) of small groups of rows: k-means of some rows, then of all."""
    points = np.ascontiguousarray(sample.family.points(sample.features))
    some = points[rng.permutation(len(points))[: ROWS_PER_GROUP * n_groups]]
    centres = spread_rows(some, min(n_groups, len(some)), rng)
    for _ in range(LLOYD_STEPS):
        centres = group_sums(some, pairwise_distances_argmin(some, centres))
        centres = centres[:, 1:] / centres[:, :1]
    labels = pairwise_distances_argmin(points, centres)
    weighted = sample.own * sample.weights[:, None].astype(sample.features.dtype)
    return group_sums(weighted, labels)[:, 1:].astype(np.float64)


def spread_rows(points: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return n of the points, each drawn by its squared distance from those before (k-means++)."""
    squares = np.einsum("nd,nd->n", points, points)
    places, nearest = np.zeros(n, dtype=np.int64), np.ones(len(points))
    for i in range(n):
        ahead = nearest.cumsum()
        places[i] = ahead.searchsorted(rng.random() * ahead[-1])
        apart = squares - 2 * (points @ points[places[i]]) + squares[places[i]]
        nearest = np.minimum(nearest if i else np.inf, np.maximum(apart, 0.0))
    return points[places]


def group_sums(rows: Floats, labels: Places) -> Floats:
    """Return the number of rows (n, p) and their sum for each label that occurs, (g, 1 + p)."""
    order = np.argsort(labels, kind="stable")
    cuts = np.unique(labels[order], return_index=True)[1]
    sizes = np.diff(np.append(cuts, len(rows)))[:, None].astype(rows.dtype)
    return np.hstack([sizes, np.add.reduceat(rows[order], cuts)])


def merge_groups(sample: Sample, sums: Floats, k: int) -> Iterator[Floats]:
    """Merge near groups until k are left, half of what is left to do at a time.

    Yields the sums on the way.
    """
    while len(sums) > k:
        yield sums
        pairs = near_pairs(sample, sums, 8)
        sums = merge_pairs(sums, pairs, max(1, (len(sums) - k) // 2))
    yield sums


def at_least_k(groups: Floats, k: int) -> Floats:
    """Return groups (g, s), some of them divided in equal parts where there are fewer than k."""
    places = np.arange(max(k, len(groups))) % len(groups)
    return np.asarray(groups[places] / np.bincount(places)[places, None])


def scattered_starts(sample: Sample, k: int, n: int, rng: np.random.Generator) -> Floats:
    """Return n starts (n, k, s), each component from a small random set of rows."""
    family = sample.family
    size = 2 * (family.n_parameters(2) - family.n_parameters(1))
    rows = rng.integers(len(sample.features), size=(n, k, size))
    weighted = sample.own[rows] * sample.weights[rows][..., None]
    sums = weighted.mean(2).astype(np.float64) * (sample.n / k)
    return take_steps(sample, sums, 5).sums


def find_leading(
    sample: Sample, k: int, rng: np.random.Generator, max_moves: int, patience: int
) -> Improved | None:
    """Search for components on the few directions in which they differ, if there are such.

    The sums of the result are those of all features.
    """
    found = sample.family.leading(sample.features, sample.weights, k)
    if found is None:
        return None
    small = Sample(found[0], found[1], sample.weights)
    end = find_optimum(small, k, rng, max_moves, patience)
    shares = small.shares(end.sums).shares * sample.weights
    return end._replace(sums=np.asarray(shares @ sample.own, dtype=np.float64))


def some_starts(sample: Sample, k: int, n: int, rng: np.random.Generator) -> Floats:
    """Return starts (n, k, s): merged groups where neighbours are similar, or sets of rows."""
    if sample.family.similar_if_near:
        groups = (at_least_k(micro_components(sample, GROUPS * k, rng), k) for _ in range(n))
        return np.stack([list(merge_groups(sample, each, k))[-1] for each in groups])
    return scattered_starts(sample, k, n, rng)


def cross(sample: Sample, sums: Floats, others: Floats) -> tuple[Floats, Floats]:
    """Cross a mixture (k, s) with others (B, k, s): EM of 2k components, merges, EM."""
    both = np.concatenate([np.broadcast_to(sums / 2, others.shape), others / 2], axis=1)
    both = take_steps(sample, both, 5).sums
    merged = np.stack([merge_to(sample, one, len(sums)) for one in both])
    return run_em(sample, merged, max_iter=30)[:2]


def find_optimum(
    sample: Sample,
    k: int,
    rng: np.random.Generator,
    max_moves: int = 40,
    patience: int = PATIENCE,
    starts: Floats | None = None,
) -> Improved:
    """Search for the most likely mixture of k components, from starts (B, k, s) if there are any.

    Moves improve the best of the starts. Where they leave doubt, the mixture is crossed with
    other starts until so many batches in a row bring nothing. The result is settled if there is
    no doubt, or if the last crossing brought nothing.
    """
    near = sample.family.similar_if_near
    affordable = int(CROSSED_NUMBERS / (sample.features.size * k))
    n_starts = 2 if near else min(max(affordable, 2), 5)
    if starts is None:
        leading = find_leading(sample, k, rng, max_moves, patience)
        if leading is not None:
            return assess(sample, leading.sums, rng)._replace(settled=leading.settled)
        starts = some_starts(sample, k, 1 if near else n_starts, rng)
    sample = sample.in_single(starts[0])
    brief: Any = {"tol": 1e-4, "max_iter": 12 if near else 30}
    levels, ends = run_em(sample, starts, **brief)[:2]
    best = assess(sample, ends[levels.argmax()], rng)
    best = improve(sample, best, rng, many_splits, max_moves)
    others, failed = ends[np.argsort(-levels)[1:]], 0
    for _ in range(MOST_CROSSINGS):
        if failed >= (patience if near else 2 * patience) or (near and best.settled):
            break
        if not len(others):
            others = run_em(sample, some_starts(sample, k, n_starts, rng), **brief).sums
        levels, crossed = cross(sample, best.sums, others)
        others, failed = others[:0], failed + 1
        if levels.max() > best.level + LEAST_GAIN:
            start, failed = assess(sample, crossed[levels.argmax()], rng), 0
            best = improve(sample, start, rng, many_splits, max_moves)
    if near and not best.settled:
        best = improve(sample, best, rng, single_splits, max_moves)
    return best._replace(settled=best.settled or failed > 0)


def given_start(sample: Sample, k: int, given: Parameters, rng: np.random.Generator) -> Floats:
    """Return sums (k, s) with the parameters that the user gave, ``weights`` among them.

    What is missing comes from the rows nearest to each mean, or from k-means groups.
    """
    family = sample.family
    if "means" in given:
        near = np.asarray(family.features({"x": given["means"]}))
        sums = sums_around(sample, family.points(near))
    else:
        sums = at_least_k(micro_components(sample, k, rng), k)
    found = family.to_user(family.estimate(sums, family.pool(sums, sample.rest))) | given
    sizes = np.maximum(given.get("weights", sums[:, 0]), TINY)
    return family.sums_of(found, sizes * (sample.n / sizes.sum()))


def sums_around(sample: Sample, means: Floats) -> Floats:
    """Return the sums (k, s) of the rows nearest to each mean; a small part of all for none."""
    points = np.ascontiguousarray(sample.family.points(sample.features))
    labels = pairwise_distances_argmin(points, means.astype(points.dtype))
    weighted = sample.own * sample.weights[:, None].astype(sample.features.dtype)
    part = 1e-3 / len(means) * sample.total[: sample.family.n_own]
    sums = np.tile(part, (len(means), 1))
    sums[np.unique(labels)] = group_sums(weighted, labels)[:, 1:]
    return sums


def decoded_start(
    sample: Sample, sums: Floats, rng: np.random.Generator
) -> tuple[Floats, Components] | None:
    """Return spherical components (k, s) decoded from moments of orders 4 and 6.

    The variance that is taken out of the moments is that of a mixture (k, s).
    """
    family, k = sample.family, len(sums)
    rows = Rows.of(np.asarray(family.points(sample.features), np.float64), counts=sample.weights)
    pooled = np.asarray(family.pool(sums, sample.rest), dtype=np.float64)
    problem = SphericalMixtureProblem(rows, variance=float(pooled[0, 0]))
    try:
        # degenerate rows divide by zero; what follows is checked to be finite
        with np.errstate(all="ignore"):
            found = find_components(problem, k, int(rng.integers(2**31)))
    except (ValueError, np.linalg.LinAlgError):
        return None
    if not np.isfinite(found.guesses).all():
        return None
    return sums_around(sample, np.asarray(found.guesses, dtype=np.float64)), found
