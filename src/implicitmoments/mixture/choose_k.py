"""The number of components by the Bayesian information criterion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, run_em, take_steps
from implicitmoments.mixture.family import classified_level
from implicitmoments.mixture.moves import (
    improve,
    merge_losses,
    merge_pairs,
    merge_to,
    split_components,
    try_splits,
)
from implicitmoments.mixture.starts import merge_groups, micro_components

MOST_GROUPS = 256  # micro-components from which merging starts
LEAST_GAIN = 0.1  # nats by which a criterion has to rise


class Choice(NamedTuple):
    """A mixture whose number of components was chosen."""

    sums: Floats  # (k, s)
    criterion: float  # log-likelihood less half the penalty of BIC
    bic: dict[int, float]  # the least BIC that was seen for each number


def penalty(sample: Sample, k: int) -> float:
    """Return half of what BIC charges for the parameters of k components."""
    return 0.5 * sample.family.n_parameters(k) * float(np.log(sample.n))


def choose_k(sample: Sample, rng: np.random.Generator, most: int) -> Choice:
    """Choose the number of components, at most so many.

    From merged groups of neighbours at their best criterion, components are split while that
    pays, merged while it does not, and exchanged.
    """
    seen: dict[int, float] = {}
    step = penalty(sample, 2) - penalty(sample, 1)

    def judge(level: float, k: int) -> float:
        level += sample.n * sample.family.log_jacobian
        seen[k] = min(seen.get(k, np.inf), -2 * (level - penalty(sample, k)))
        return level - penalty(sample, k)

    sums = first_guess(sample, rng, most)
    (level,), (sums,) = run_em(sample, sums[None], max_iter=18)[:2]
    best, better = judge(float(level), len(sums)), True
    while better:
        better = False
        for trial in neighbours(sample, sums, step, most, rng):
            wider = run_em(sample, trial[None], max_iter=24).sums[0]
            pruned = merge_while_cheap(sample, wider, step)
            end = improve(sample, pruned, rng)
            value = judge(end.level, len(end.sums))
            if value > best + LEAST_GAIN:
                best, sums, better = value, end.sums, True
                break
    return Choice(sums, best, dict(sorted(seen.items())))


def first_guess(sample: Sample, rng: np.random.Generator, most: int) -> Floats:
    """Return one component, or merged groups of neighbours at their best criterion."""
    whole = sample.total[None, : sample.family.n_own]
    if not sample.family.similar_if_near:
        return whole
    n_groups = min(MOST_GROUPS, len(sample.weights) // 8 + 1)
    groups = micro_components(sample, n_groups, rng)

    def criterion(sums: Floats) -> float:
        return classified_level(sample.family, sums, sample.rest) - penalty(sample, len(sums))

    path = [sums for sums in merge_groups(sample, groups, 1) if len(sums) <= most]
    return max(path, key=criterion)


def neighbours(
    sample: Sample, sums: Floats, step: float, most: int, rng: np.random.Generator
) -> list[Floats]:
    """Return mixtures with more components, where splits may pay, and with one fewer."""
    found = sample.shares(sums)
    splits = try_splits(sample, found.shares, rng)
    order, room = np.argsort(-splits.gains), most - len(sums)
    paying = min(int(np.sum(splits.gains > step)), room)
    counts = [paying] if paying > 1 else []
    if room > 0 and 2 * splits.gains.max() > step:
        counts.append(1)
    trials = [split_components(found.sums, splits.parts, order[:count]) for count in counts]
    return trials + ([merge_to(sample, sums, len(sums) - 1)] if len(sums) > 1 else [])


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
