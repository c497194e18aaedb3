"""Notes on a fitted mixture, from quantities that the search computes anyway.

No check fits another model: merges and splits are those of the search, and richer types of
covariance or noise are judged by one M-step with the responsibilities of the fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.choose_k import penalty
from implicitmoments.mixture.em import Sample, Shares, normalise
from implicitmoments.mixture.family import TINY, Family, classified_level, coefficients_of
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.moves import chance_gain, merge_losses, try_splits
from implicitmoments.mixture.students import Students
from implicitmoments.notes import Note
from implicitmoments.validation import ROWS_PER_COMPONENT

ONE = 4.0  # times the gain by chance: pairs that lose less by a merge are likely to be one
ENOUGH = 10  # rows per parameter that two components need to be told from one
SMALL_PART = 0.25  # of the largest gain in BIC: what gains less has the same cause
MISSING = 2.0  # times what BIC charges for a component that a split has to gain
FEW_ROWS, FEW_PER_COMPONENT = 10_000, 200  # rows on which splits and tails are judged
ROWS_PER_SPLIT = 4_096  # of a component, on which its split is judged
FREEDOMS = (3.0, 5.0, 10.0, 20.0)  # degrees of freedom with which tails are compared


class Evidence(NamedTuple):
    """What notes are made from."""

    sample: Sample
    found: Shares  # of the fitted mixture
    sure: bool  # whether the search leaves no doubt
    rng: np.random.Generator
    share: float = 1.0  # rows that one row of the sample stands for

    def thinned(self, most: int) -> Evidence:
        """Return the evidence of at most so many rows, evenly spaced."""
        sample, found = self.sample, self.found
        rows = slice(None, None, -(-len(sample.weights) // max(most, 1)))
        few = Sample(sample.family, sample.features[rows], sample.weights[rows])
        shares = found.shares[:, rows]
        sums = np.asarray((shares * few.weights) @ few.own, dtype=np.float64)
        thin = Shares(sums, shares, found.log_density[rows])
        return self._replace(sample=few, found=thin, share=self.share * sample.n / few.n)


def component_notes(evidence: Evidence) -> Iterator[Note]:
    """Yield notes on the number of components."""
    sample, found = evidence.sample, evidence.found
    k = len(found.sums)
    if sample.n < ROWS_PER_COMPONENT * k:
        yield Note("few_rows_per_component", {"n": round(sample.n), "k": k})
        return
    step = penalty(sample, 2) - penalty(sample, 1)
    if k > 1:
        merges = merge_losses(sample, found)
        loss, chance = float(merges.losses[0]), chance_gain(sample)
        pair = [int(merges.first[0]), int(merges.second[0])]
        enough = found.sums[pair, 0].sum() > ENOUGH * 2 * chance
        if enough and loss < min(ONE * chance, step):
            yield Note(
                "components_are_one",
                {"which": pair, "loss": max(loss, 0.0), "penalty": step, "fewer": k - 1},
            )
            return
    few = evidence.thinned(max(FEW_ROWS, FEW_PER_COMPONENT * k))
    splits = try_splits(few.sample, few.found.shares, evidence.rng, n_rows=ROWS_PER_SPLIT)
    step = penalty(few.sample, 2) - penalty(few.sample, 1)
    gain = float(splits.gains.max())
    if gain > MISSING * step:
        which = np.flatnonzero(splits.gains > MISSING * step).tolist()
        values = {"gain": 2 * (gain - step) * few.share, "more": k + 1, "which": which}
        yield Note("component_missing", values)
    elif not evidence.sure:
        yield Note("search_doubtful")


def richer_gain(evidence: Evidence, richer: Family, features: Floats) -> float:
    """Return by how much BIC falls with a richer family, after one M-step.

    ``features`` are those of the richer family for the rows of the sample.
    """
    sample, found = evidence.sample, evidence.found
    weighted = found.shares * sample.weights
    sums = np.asarray(weighted @ features, dtype=np.float64)
    own, total = sums[:, : richer.n_own], sums.sum(0)
    gain = classified_level(richer, own, total[richer.n_own :])
    gain -= classified_level(sample.family, found.sums, sample.rest)
    gain += sample.n * (richer.log_jacobian - sample.family.log_jacobian)
    k = len(found.sums)
    parameters = richer.n_parameters(k) - sample.family.n_parameters(k)
    return (2 * gain - parameters * float(np.log(sample.n))) * evidence.share


def strongest(notes: list[Note]) -> list[Note]:
    """Return notes without those that name a small part of the largest gain in BIC.

    They may have one cause: a component that is not round looks like two, and has heavy tails.
    """
    most = max((note.values.get("gain", 0.0) for note in notes), default=0.0)
    return [note for note in notes if note.values.get("gain", most) >= SMALL_PART * most]


def tail_notes(evidence: Evidence) -> list[Note]:
    """Return a note if Student's t describes the distances from the centres better.

    Degrees of freedom from a short list, at the centres and shapes of the fit.
    """
    evidence = evidence.thinned(FEW_ROWS)
    sample, found = evidence.sample, evidence.found
    if not isinstance(sample.family, Gaussians | Lines):
        return []
    students = Students.of(sample.family)
    parameters = sample.family.parameters(found.sums, sample.rest)
    own, shared = students.base.vectors(parameters)
    rivals = [students.coefficients_at(own, np.append(shared, nu)) for nu in FREEDOMS]
    coefficients = np.stack(rivals)
    coefficients[..., 0] += np.log(np.maximum(parameters.weights, TINY))
    features = np.hstack([sample.features[:, :1], sample.features, sample.features[:, :1]])
    flat = coefficients.reshape(-1, coefficients.shape[-1]).astype(features.dtype, copy=False)
    logits = students.logits(flat, features)
    log_density, _ = normalise(np.asarray(logits).reshape(len(FREEDOMS), -1, len(features)))
    levels = np.asarray(log_density) @ sample.weights
    gaussian = float(found.log_density @ sample.weights)
    gaussian += float(coefficients_of(sample.family, found.sums, sample.rest)[1])
    gain = 2 * (float(levels.max()) - gaussian) - float(np.log(sample.n))
    values = {"freedom": FREEDOMS[int(levels.argmax())], "gain": gain * evidence.share}
    return [Note("heavy_tails", values)] if gain > 0 else []


def misclassification_rate(found: Shares, weights: Floats) -> float:
    """Return the expected share of rows that are not of their most probable component."""
    return float((1 - found.shares.max(0)) @ weights / weights.sum())


def floor_notes(which: Any) -> Iterator[Note]:
    """Yield a note on components whose variance is at its floor."""
    if len(which):
        yield Note("at_floor", {"which": [int(i) for i in which]})
