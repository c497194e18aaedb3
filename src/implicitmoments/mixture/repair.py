"""Repair: put a component where one is missing, join two that are one; likelihood decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of
from implicitmoments.mixture.candidates import (
    Insertion,
    best_insertions,
    merge_losses,
    merged,
)
from implicitmoments.mixture.em import VarianceModel, polish
from implicitmoments.mixture.likelihood import Mixture, responsibilities
from implicitmoments.mixture.standard_rows import Sample

__all__ = ["Repaired", "prune", "repair"]

ENOUGH = 2.0  # rise of the log-likelihood of all rows that a repair must bring
AFTER_INSERTION, AFTER_MERGE, BEFORE_VERDICT = 10, 5, 20  # iterations of EM
TOLERANCE = 1e-7
# after a failure, which of the candidates are inserted at once: the best, the next, three
TRIES = ((0, 1), (1, 2), (0, 3))


@dataclass(frozen=True, eq=False)
class Repaired:
    """A mixture after repairs.

    Attributes
    ----------
    mixture : Mixture
    accepted, tried : int
        Repairs that raised the likelihood, and repairs in all.
    gain : float
        Rise of the log-likelihood of the rows, in all.
    missing : float
        The most that one further component would still bring.
    """

    mixture: Mixture
    accepted: int
    tried: int
    gain: float
    missing: float


def repair(
    rows: Sample, mixture: Mixture, model: VarianceModel, n_repairs: int, rng: np.random.Generator
) -> Repaired:
    """Insert, merge and judge until nothing promises a rise, at most ``n_repairs`` times.

    Parameters
    ----------
    rows : Sample
    mixture : Mixture
        A rest point of EM on these rows.
    model : VarianceModel
    n_repairs : int
    rng : Generator
    """
    shares, densities = responsibilities(rows, mixture)
    level = first = _likelihood(rows, densities)
    accepted = tried = failures = 0
    missing = 0.0
    found: Insertion | None = None
    while tried < n_repairs and failures < len(TRIES):
        if found is None:
            found = best_insertions(rows, mixture, shares, densities, rng)
            missing = float(max(found.gains[0], found.small_gains.max()))
        chosen = _promising(found, failures, rows.d)
        if len(chosen) == 0:
            break
        tried += 1
        changed = _swap(rows, mixture, chosen, model)
        new_shares, new_densities = responsibilities(rows, changed)
        reached = _likelihood(rows, new_densities)
        if reached - level < ENOUGH:
            failures += 1
            continue
        mixture, shares, densities, level = changed, new_shares, new_densities, reached
        found, failures, accepted = None, 0, accepted + 1
    return Repaired(mixture, accepted, tried, level - first, missing)


def prune(rows: Sample, mixture: Mixture, k: int, model: VarianceModel) -> Mixture:
    """Merge the components that cost least until k are left."""
    while mixture.k > k:
        shares, densities = responsibilities(rows, mixture)
        losses, partners = merge_losses(rows, mixture, shares, densities)
        i = int(losses.argmin())
        mixture = merged(mixture, i, int(partners[i]))
        mixture = polish(rows, mixture, model, AFTER_MERGE, TOLERANCE).mixture
    return mixture


def _promising(found: Insertion, failures: int, d: int) -> Floats:
    """Return the candidates of this try that are worth the EM that follows.

    A component of weight 1/2k that is not missing lowers the likelihood. A smaller one always
    finds rows to raise it by, about half for each of its d + 1 parameters.
    """
    first, last = TRIES[failures]
    means, gains, small = found.means, found.gains, found.small_gains
    order = np.argsort(-np.maximum(gains, small - (d + 1)), kind="stable")
    worth = [i for i in order if gains[i] > 0 or small[i] > d + 1]
    chosen: Floats = means[worth[first:last]]
    return chosen if last - first == 1 or len(chosen) > 1 else chosen[:0]


def _swap(rows: Sample, mixture: Mixture, means: Floats, model: VarianceModel) -> Mixture:
    """Insert components, let EM settle them, and merge back to as many as there were."""
    larger = mixture.with_also(means, 0.5 / mixture.k, mixture.pooled)
    larger = polish(rows, larger, model, AFTER_INSERTION, TOLERANCE).mixture
    smaller = prune(rows, larger, mixture.k, model)
    return polish(rows, smaller, model, BEFORE_VERDICT, TOLERANCE).mixture


def _likelihood(rows: Sample, densities: Array) -> float:
    xp, counts = namespace_of(densities), rows.sample_weight
    return float(xp.sum(densities if counts is None else densities * counts))
