"""Notes on a fitted mixture, from quantities that the search computes anyway.

No check fits another model: merges and splits are those of the search, and richer types of
covariance or noise are judged by one M-step with the responsibilities of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.em import Sample, Shares, normalise
from implicitmoments.mixture.family import (
    TINY,
    Family,
    Parameters,
    Places,
    classified_level,
    heavy_tails,
    log_constant,
)
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.moves import Improved, chance_gain, penalty, try_splits
from implicitmoments.notes import Note
from implicitmoments.validation import ROWS_PER_COMPONENT


def fit_notes(
    sample: Sample, sums: Floats, rest: Floats, end: Improved, rank: Places
) -> list[Note]:
    """Return notes on the number and shape of components, the strongest of one cause.

    Of a mixture with some sums in the sample, and the end of its search; ``rank`` are the
    numbers under which the components are reported. At most 4,000,000
    responsibilities are looked at, and 4,000 rows or 50 per component.
    """
    n, k = sample.n, len(sums)
    if n < ROWS_PER_COMPONENT * k:
        return [Note("few_rows", {"n": round(n), "k": k})]
    few = sample.thinned(min(4_000_000 // k, max(4_000, 50 * k)))
    part = few.n / n
    found = few.shares(part * sums, part * rest)
    parameters = sample.family.estimate(sums, sample.family.pool(sums, rest))
    shapes = shape_notes(few, found, parameters, n, rank)
    notes = [*number_notes(sample, sums, rest, end, rank), *shapes]
    gains = [note.values.get("gain", 0.0) for note in notes]
    # a component that is not round looks like two, and has heavy tails
    least = 0.25 * max(gains, default=0.0)
    return [note for note in notes if note.values.get("gain", least) >= least]


def number_notes(
    sample: Sample, sums: Floats, rest: Floats, end: Improved, rank: Places
) -> Iterator[Note]:
    """Yield notes on the number of components, from the splits and merges of the search."""
    if end.prospects is None:
        return
    k, chance = len(sums), chance_gain(sample)
    step = penalty(sample, 2) - penalty(sample, 1)
    _, splits, merges = end.prospects
    sizes = sums[merges.first, 0] + sums[merges.second, 0]
    enough = sizes > 10 * 2 * chance  # rows per parameter, to tell two from one
    cheap = np.flatnonzero(enough & (merges.losses < min(3 * chance, step)))
    if len(cheap):
        pair = rank[[merges.first[cheap[0]], merges.second[cheap[0]]]]
        loss = max(float(merges.losses[cheap[0]]), 0.0)
        values = {"which": sorted(pair.tolist()), "fewer": k - 1, "loss": loss, "penalty": step}
        yield Note("components_are_one", values)
        return
    which = np.flatnonzero(splits.gains > step)
    if len(which):  # on up to 4,096 rows of each, and twice what BIC charges
        shares = sample.shares(sums, rest).shares[which]
        splits = try_splits(sample, shares, np.random.default_rng(0), 4_096)
        which = which[splits.gains > 2 * step]
    if len(which):
        gain = 2 * (float(splits.gains.max()) - step)
        values = {"which": sorted(rank[which].tolist()), "more": k + 1, "gain": gain}
        yield Note("component_missing", values)
    elif not end.settled:
        yield Note("search_doubtful")


def shape_notes(
    sample: Sample, found: Shares, parameters: Parameters, n: float, rank: Places
) -> Iterator[Note]:
    """Yield notes on components at their floor, of a richer shape, or with heavy tails.

    Gains are those of n rows.
    """
    family, more = sample.family, n / sample.n
    low = family.at_floor(found.sums, family.pool(found.sums, sample.rest))
    if len(low):
        yield Note("at_floor", {"which": sorted(rank[low].tolist())})
        return
    gains = {richer.name: richer_gain(sample, found, richer) for richer in family.richer()}
    best = max(gains, key=gains.__getitem__, default="")
    if best and gains[best] > 0:
        values = dict(zip(("model", "option"), family.option, strict=True))
        yield Note("not_round", {**values, "kind": best, "gain": more * gains[best]})
    if isinstance(family, Gaussians | Lines):
        freedom, gain = tail_gain(sample, family, found, parameters)
        if gain > 0:
            yield Note("heavy_tails", {"freedom": freedom, "gain": more * gain})


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


def tail_gain(
    sample: Sample, family: Gaussians | Lines, found: Shares, parameters: Parameters
) -> tuple[float, float]:
    """Return by how much BIC falls with Student's t at the centres and shapes of a fit.

    Degrees of freedom come from a short list, and are returned before the gain.
    """
    levels, sizes = {}, np.maximum(found.sums[:, :1], TINY)
    peaks, p = family.peaks(parameters), family.d
    coefficients = family.unshared().coefficients(parameters)[0].astype(sample.features.dtype)
    gaussian = np.asarray(family.logits(coefficients, sample.features))
    many = 1e8  # as good as infinitely many
    for freedom in (many, 3.0, 5.0, 10.0, 20.0):
        logits = heavy_tails(gaussian, peaks, freedom, p) + log_constant(freedom, p)
        log_density = normalise(logits + np.log(sizes / sizes.sum()))[0]
        levels[freedom] = float(np.asarray(log_density) @ sample.weights)
    level = levels.pop(many)
    best = max(levels, key=levels.__getitem__)
    return best, 2 * (levels[best] - level) - float(np.log(sample.n))
