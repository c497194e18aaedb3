"""Notes on a fitted mixture, from quantities that the search computes anyway.

No check fits another model: merges and splits are those of the search, and richer types of
covariance or noise are judged by one M-step with the responsibilities of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, Shares, normalise
from implicitmoments.mixture.family import TINY, Family, Parameters, classified_level
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.moves import Improved, chance_gain, penalty, try_splits
from implicitmoments.mixture.students import Students
from implicitmoments.notes import Note
from implicitmoments.validation import ROWS_PER_COMPONENT

ONE = 3.0  # times the gain by chance: pairs that lose less by a merge are likely to be one
ENOUGH = 10  # rows per parameter that two components need to be told from one
SMALL_PART = 0.25  # of the largest gain in BIC: what gains less has the same cause
MISSING = 2.0  # times what BIC charges for a component that a split has to gain
FEW_ROWS, FEW_PER_COMPONENT = 4_000, 50  # rows on which shapes and tails are judged
ROWS_PER_SPLIT = 4_096  # of a component, on which a promising split is judged
MOST_NUMBERS = 4_000_000  # responsibilities that the checks look at
FREEDOMS = (3.0, 5.0, 10.0, 20.0)  # degrees of freedom with which tails are compared


def fit_notes(
    sample: Sample, sums: Floats, rest: Floats, end: Improved, rng: np.random.Generator
) -> list[Note]:
    """Return notes on the number and shape of components, the strongest of one cause.

    Of a mixture with some sums in the sample, and the end of its search.
    """
    n, k = sample.n, len(sums)
    if n < ROWS_PER_COMPONENT * k:
        return [Note("few_rows", {"n": round(n), "k": k})]
    few = sample.thinned(min(MOST_NUMBERS // k, max(FEW_ROWS, FEW_PER_COMPONENT * k)))
    part = few.n / n
    found = few.shares(part * sums, part * rest)
    parameters = sample.family.estimate(sums, sample.family.pool(sums, rest))
    notes = [*number_notes(sample, sums, rest, end, rng), *shape_notes(few, found, parameters, n)]
    most = max((note.values.get("gain", 0.0) for note in notes), default=0.0)
    # a component that is not round looks like two, and has heavy tails
    return [note for note in notes if note.values.get("gain", most) >= SMALL_PART * most]


def number_notes(
    sample: Sample, sums: Floats, rest: Floats, end: Improved, rng: np.random.Generator
) -> Iterator[Note]:
    """Yield notes on the number of components, from the splits and merges of the search."""
    if end.prospects is None:
        return
    k, chance = len(sums), chance_gain(sample)
    step = penalty(sample, 2) - penalty(sample, 1)
    _, splits, merges = end.prospects
    if k > 1:
        loss, pair = float(merges.losses[0]), [int(merges.first[0]), int(merges.second[0])]
        enough = sums[pair, 0].sum() > ENOUGH * 2 * chance
        if enough and loss < min(ONE * chance, step):
            values = {"which": pair, "loss": max(loss, 0.0), "penalty": step, "fewer": k - 1}
            yield Note("components_are_one", values)
            return
    which = np.flatnonzero(splits.gains > step)
    if len(which):  # on more of their rows
        shares = sample.shares(sums, rest).shares[which]
        splits = try_splits(sample, shares, rng, ROWS_PER_SPLIT)
        which = which[splits.gains > MISSING * step]
    if len(which):
        gain = 2 * (float(splits.gains.max()) - step)
        yield Note("component_missing", {"gain": gain, "more": k + 1, "which": which.tolist()})
    elif not end.settled:
        yield Note("search_doubtful")


def shape_notes(sample: Sample, found: Shares, parameters: Parameters, n: float) -> Iterator[Note]:
    """Yield notes on components at their floor, of a richer shape, or with heavy tails.

    Gains are those of n rows.
    """
    family = sample.family
    low = family.at_floor(found.sums, family.pool(found.sums, sample.rest))
    if len(low):
        yield Note("at_floor", {"which": low.tolist()})
        return
    best, gain = "", 0.0
    for richer in family.richer():
        new = richer_gain(sample, found, richer) * n / sample.n
        best, gain = (richer.name, new) if new > gain else (best, gain)
    if best:
        yield Note("not_round", {"option": family.option, "kind": best, "gain": gain})
    if isinstance(family, Gaussians | Lines):
        freedom, gain = tail_gain(sample, found, parameters)
        if gain > 0:
            yield Note("heavy_tails", {"freedom": freedom, "gain": gain * n / sample.n})


def richer_gain(sample: Sample, found: Shares, richer: Family) -> float:
    """Return by how much BIC falls with a richer family, after one M-step."""
    k = len(found.sums)
    parameters = richer.n_parameters(k) - sample.family.n_parameters(k)
    if parameters > sample.n:  # more than the rows can pay for
        return -np.inf
    features = sample.family.convert(sample.features, richer)
    sums = np.asarray((found.shares * sample.weights) @ features, dtype=np.float64)
    own, total = sums[:, : richer.n_own], sums.sum(0)
    gain = classified_level(richer, own, total[richer.n_own :])
    gain -= classified_level(sample.family, found.sums, sample.rest)
    gain += sample.n * (richer.log_jacobian - sample.family.log_jacobian)
    return 2 * gain - parameters * float(np.log(sample.n))


def tail_gain(sample: Sample, found: Shares, parameters: Parameters) -> tuple[float, float]:
    """Return by how much BIC falls with Student's t at the centres and shapes of a fit.

    Degrees of freedom come from a short list, and are returned before the gain.
    """
    family: Any = sample.family
    ones = sample.features[:, :1]
    students = Students.of(family)
    features = np.hstack([ones, sample.features, ones])
    log_weights = np.log(np.maximum(found.sums[:, 0] / found.sums[:, 0].sum(), TINY))
    levels = []
    for freedom in FREEDOMS:
        rival = parameters | {"freedom": np.full((1, 1), freedom)}
        coefficients = students.coefficients(rival)[0]
        coefficients[:, 0] += log_weights
        logits = students.logits(coefficients.astype(features.dtype, copy=False), features)
        levels.append(float(np.asarray(normalise(logits)[0]) @ sample.weights))
    gaussian = float(found.log_density @ sample.weights)
    shared = family.coefficients(parameters)[1]
    gaussian += 0.0 if shared is None else float(shared[0] @ sample.rest)
    best = int(np.argmax(levels))
    return FREEDOMS[best], 2 * (levels[best] - gaussian) - float(np.log(sample.n))


def misclassification_rate(found: Shares, weights: Floats) -> float:
    """Return the expected share of rows that are not of their most probable component."""
    return float((1 - found.shares.max(0)) @ weights / weights.sum())
