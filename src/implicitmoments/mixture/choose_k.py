"""The number of components by the Bayesian information criterion."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, run_em, take_steps
from implicitmoments.mixture.family import classified_level
from implicitmoments.mixture.moves import (
    LEAST_GAIN,
    Improved,
    assess,
    improve,
    many_splits,
    merge_losses,
    merge_pairs,
    merge_to,
    penalty,
    single_splits,
    split_components,
)
from implicitmoments.mixture.starts import merge_groups, micro_components

MOST_GROUPS = 256  # micro-components from which merging starts


def choose_k(
    sample: Sample, rng: np.random.Generator, most: int
) -> tuple[Improved, dict[int, float]]:
    """Return a mixture of at most so many components, and the least BIC seen for each number.

    From merged groups of neighbours at their best criterion, components are split while that
    pays, merged while it does not, and exchanged.
    """
    seen: dict[int, float] = {}
    step = penalty(sample, 2) - penalty(sample, 1)

    def judge(end: Improved) -> float:
        k, level = len(end.sums), end.level + sample.n * sample.family.log_jacobian
        seen[k] = min(seen.get(k, np.inf), -2 * (level - penalty(sample, k)))
        return level - penalty(sample, k)

    best = assess(sample, first_guess(sample, rng, most), rng)
    value, better = judge(best), True
    while better:
        better = False
        for trial in neighbours(sample, best, step, most):
            wider = run_em(sample, trial[None], max_iter=24).sums[0]
            end = assess(sample, merge_while_cheap(sample, wider, step), rng)
            for plan in (many_splits, single_splits):
                end = improve(sample, end, rng, plan)
            new = judge(end)
            if new > value + LEAST_GAIN:
                value, best, better = new, end, True
                break
    return best._replace(settled=True), dict(sorted(seen.items()))


def first_guess(sample: Sample, rng: np.random.Generator, most: int) -> Floats:
    """Return one component, or merged groups of neighbours at their best criterion."""
    if not sample.family.similar_if_near:
        return sample.total[None, : sample.family.n_own]
    n_groups = min(MOST_GROUPS, len(sample.weights) // 8 + 1)
    groups = micro_components(sample, n_groups, rng)
    path = [sums for sums in merge_groups(sample, groups, 1) if len(sums) <= most]
    levels = [classified_level(sample.family, sums, sample.rest) for sums in path]
    charges = [penalty(sample, len(sums)) for sums in path]
    return path[int(np.subtract(levels, charges).argmax())]


def neighbours(sample: Sample, end: Improved, step: float, most: int) -> list[Floats]:
    """Return mixtures with more components, where splits may pay, and with one fewer."""
    if end.prospects is None:
        raise ValueError("the end of a search has prospects")
    found, splits, _ = end.prospects
    k, order = len(end.sums), np.argsort(-splits.gains)
    paying = min(int(np.sum(splits.gains > step)), most - k)
    counts = [paying] if paying > 1 else []
    if most > k and 2 * splits.gains.max() > step:
        counts.append(1)
    trials = [split_components(found.sums, splits.parts, order[:count]) for count in counts]
    return trials + ([merge_to(sample, end.sums, k - 1)] if k > 1 else [])


def merge_while_cheap(sample: Sample, sums: Floats, most_loss: float) -> Floats:
    """Merge pairs whose merge loses less than a bound, with EM in between."""
    while len(sums) > 1:
        found = sample.shares(sums)
        pairs = merge_losses(sample, found)
        cheap = pairs.losses < most_loss
        if not cheap.any():
            break
        pairs = pairs._replace(first=pairs.first[cheap], second=pairs.second[cheap])
        sums = take_steps(sample, merge_pairs(found.sums, pairs, len(sums) - 1)[None], 3).sums[0]
    return sums
