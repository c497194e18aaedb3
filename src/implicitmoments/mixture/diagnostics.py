"""Notes on a fitted mixture, from quantities that the search computes anyway.

No check fits another model: merges and splits are those of the search, and richer types of
covariance or noise are judged by one M-step with the responsibilities of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.choose_k import penalty
from implicitmoments.mixture.em import Sample, Shares, normalise
from implicitmoments.mixture.family import (
    TINY,
    Family,
    Parameters,
    all_coefficients,
    classified_level,
)
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.moves import Prospects, chance_gain, try_splits
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


class Evidence(NamedTuple):
    """What notes are made from."""

    sample: Sample
    found: Shares  # of the fitted mixture
    parameters: Parameters
    prospects: Prospects | None  # of the search, if there was one
    sure: bool  # whether the search leaves no doubt
    rng: np.random.Generator
    share: float = 1.0  # rows that one row of the sample stands for

    def thinned(self, most: int) -> Evidence:
        """Return the evidence of at most so many rows, evenly spaced."""
        few, found = self.sample.thinned(most), self.found
        rows = slice(None, None, -(-found.shares.shape[1] // max(most, 1)))
        shares = found.shares[:, rows]
        sums = np.asarray((shares * few.weights) @ few.own, dtype=np.float64)
        thin = Shares(sums, shares, found.log_density[rows])
        share = self.share * self.sample.n / few.n
        return self._replace(sample=few, found=thin, share=share)


def fit_notes(evidence: Evidence) -> list[Note]:
    """Return notes on the number and shape of components, the strongest of one cause."""
    n, k = evidence.sample.n, len(evidence.found.sums)
    if n < ROWS_PER_COMPONENT * k:
        return [Note("few_rows", {"n": round(n), "k": k})]
    few = evidence.thinned(min(MOST_NUMBERS // k, max(FEW_ROWS, FEW_PER_COMPONENT * k)))
    notes = [*number_notes(evidence), *shape_notes(few)]
    most = max((note.values.get("gain", 0.0) for note in notes), default=0.0)
    # a component that is not round looks like two, and has heavy tails
    return [note for note in notes if note.values.get("gain", most) >= SMALL_PART * most]


def number_notes(evidence: Evidence) -> Iterator[Note]:
    """Yield notes on the number of components, from the splits and merges of the search."""
    if evidence.prospects is None:
        return
    sample, found = evidence.sample, evidence.found
    k, chance = len(found.sums), chance_gain(sample)
    step = penalty(sample, 2) - penalty(sample, 1)
    _, splits, merges = evidence.prospects
    if k > 1:
        loss, pair = float(merges.losses[0]), [int(merges.first[0]), int(merges.second[0])]
        enough = found.sums[pair, 0].sum() > ENOUGH * 2 * chance
        if enough and loss < min(ONE * chance, step):
            values = {"which": pair, "loss": max(loss, 0.0), "penalty": step, "fewer": k - 1}
            yield Note("components_are_one", values)
            return
    which = np.flatnonzero(splits.gains > step)
    if len(which):  # on more of their rows
        splits = try_splits(sample, found.shares[which], evidence.rng, n_rows=ROWS_PER_SPLIT)
        which = which[splits.gains > MISSING * step]
    if len(which):
        gain = 2 * (float(splits.gains.max()) - step)
        yield Note("component_missing", {"gain": gain, "more": k + 1, "which": which.tolist()})
    elif not evidence.sure:
        yield Note("search_doubtful")


def shape_notes(evidence: Evidence) -> Iterator[Note]:
    """Yield notes on components at their floor, of a richer shape, or with heavy tails."""
    family, sums = evidence.sample.family, evidence.found.sums
    low = family.at_floor(sums, family.pool(sums, evidence.sample.rest))
    if len(low):
        yield Note("at_floor", {"which": low.tolist()})
        return
    gains = {richer.name: richer_gain(evidence, richer) for richer in family.richer()}
    best = max(gains, key=gains.__getitem__, default="")
    if gains and gains[best] > 0:
        values = {"option": family.option, "kind": best, "gain": gains[best]}
        yield Note("not_round", values)
    yield from tail_notes(evidence)


def richer_gain(evidence: Evidence, richer: Family) -> float:
    """Return by how much BIC falls with a richer family, after one M-step."""
    sample, found = evidence.sample, evidence.found
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
    return (2 * gain - parameters * float(np.log(sample.n))) * evidence.share


def tail_notes(evidence: Evidence) -> Iterator[Note]:
    """Yield a note if Student's t describes the distances from the centres better.

    Degrees of freedom from a short list, at the centres and shapes of the fit.
    """
    sample, found = evidence.sample, evidence.found
    if not isinstance(sample.family, Gaussians | Lines):
        return
    students, features = Students.of(sample.family), sample.features
    features = np.hstack([features[:, :1], features, features[:, :1]])
    logs = np.log(np.maximum(found.sums[:, 0] / found.sums[:, 0].sum(), TINY))
    levels = []
    for freedom in FREEDOMS:
        rival = evidence.parameters | {"freedom": np.full((1, 1), freedom)}
        coefficients = all_coefficients(students, rival).astype(features.dtype, copy=False)
        coefficients[:, 0] += logs
        log_density = normalise(students.logits(coefficients, features))[0]
        levels.append(float(np.asarray(log_density) @ sample.weights))
    gaussian = float(found.log_density @ sample.weights)
    shared = sample.family.coefficients(evidence.parameters)[1]
    gaussian += 0.0 if shared is None else float(shared[0] @ sample.rest)
    gain = 2 * (max(levels) - gaussian) - float(np.log(sample.n))
    if gain > 0:
        freedom = FREEDOMS[int(np.argmax(levels))]
        yield Note("heavy_tails", {"freedom": freedom, "gain": gain * evidence.share})


def misclassification_rate(found: Shares, weights: Floats) -> float:
    """Return the expected share of rows that are not of their most probable component."""
    return float((1 - found.shares.max(0)) @ weights / weights.sum())
