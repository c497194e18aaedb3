"""Choose the number of components: spectra say where to begin, BIC where to end."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from implicitmoments.arrays import to_numpy
from implicitmoments.mixture.candidates import best_insertions, merge_losses, merged
from implicitmoments.mixture.common_variance import guess_variance
from implicitmoments.mixture.em import VarianceModel, polish
from implicitmoments.mixture.fit import Fit, Search, finish, fit_sample
from implicitmoments.mixture.initialisation import Start
from implicitmoments.mixture.likelihood import Mixture, gather, responsibilities
from implicitmoments.mixture.moment_start import read_moments, trim
from implicitmoments.mixture.standard_rows import Rows, Sample
from implicitmoments.moments import implicit_moments
from implicitmoments.problems import SphericalMixtureProblem

__all__ = ["bic", "fit_auto", "grow", "shrink", "spectral_rank"]

ABOVE = 1.25  # floors that make an eigenvalue a component
ROWS_A_COMPONENT, FEWEST_ROWS = 200, 20_000  # in the sample on which numbers are compared
SETTLING, SETTLED = 30, 1e-5
MISSES = 2  # insertions in a row that do not pay before the search stops
READ = ("moment_rows", "first_variance", "first_variance_from", "resolved", "gap", "r", "far_rows")
PROMISING = 4  # candidates that are tried for one insertion


def bic(sample: Sample, mixture: Mixture, model: VarianceModel) -> float:
    """Return the Bayesian information criterion of a mixture on rows."""
    likelihood = gather(sample, mixture).log_likelihood
    n_parameters = mixture.k * (mixture.d + 1) - 1 + model.parameters(mixture.k)
    return -2 * likelihood + n_parameters * math.log(sample.total)


def spectral_rank(sample: Sample, most: int, model: VarianceModel) -> int:
    """Count the eigenvalues of the centred moment of order 4 that stand above its noise."""
    kept, _ = trim(sample)
    room = kept.d * (kept.d + 1) // 2
    most = min(most, kept.n // 2, room // 2)  # what is left over shows the noise
    if most < 2:
        return 1
    variance = max(model.known or guess_variance(kept, most)[0], model.floor)
    center = np.average(kept.points, axis=0, weights=kept.counts)
    problem = SphericalMixtureProblem(
        kept.X, variance=variance, center=center, sample_weight=kept.sample_weight
    )
    try:
        report = implicit_moments(problem, n_components=most, order=4).steps[-1]
    except (ValueError, np.linalg.LinAlgError):
        return 1
    above = int(np.sum(to_numpy(report.spectrum)[:most] > ABOVE * report.floor))
    return min(max(above, 1), most)


def fit_auto(
    rows: Rows, most: int, model: VarianceModel, search: Search, rng: np.random.Generator
) -> Fit:
    """Fit as many components as the spectra show, then add and merge while BIC falls.

    Numbers are compared on a sample of the rows; the last polish is on all.

    Parameters
    ----------
    rows : Rows
    most : int
        The largest number of components that is tried.
    model : VarianceModel
    search : Search
    rng : Generator
    """
    sample = rows.sample(max(FEWEST_ROWS, ROWS_A_COMPONENT * most), rng, most)
    most = min(most, len(np.unique(sample.points, axis=0)))
    spectral = spectral_rank(sample, most, model)
    mixture, start, stats = fit_sample(rows, sample, spectral, model, search, rng)
    best, rung = bic(sample, mixture, model), spectral
    bics = {spectral: best}
    while rung < most:  # growth by one stops at the first bend, so look beyond it
        rung = min(2 * rung, most)
        other, beginning, measured = fit_sample(rows, sample, rung, model, search, rng)
        bics[rung] = bic(sample, other, model)
        if bics[rung] < best:
            mixture, start, stats, best = other, beginning, measured, bics[rung]
        elif spectral > 1:
            break
    for step in (shrink, grow):
        misses, current = 0, mixture
        while misses < MISSES:
            changed = step(sample, current, model, rng)
            if changed is None or changed.k > most:
                break
            value = bic(sample, changed, model)
            bics[changed.k] = min(value, bics.get(changed.k, math.inf))
            current = changed
            if value < best:
                mixture, best, misses = changed, value, 0
            else:
                misses += 1
    stats |= {"spectral_components": spectral, "sample_bic": dict(sorted(bics.items()))}
    if mixture.k != start.mixture.k:  # the moments were read for another number of components
        start, stats = _read_again(rows, mixture.k, model, search, start, stats, rng)
    return finish(rows, mixture, model, search, start, stats)


def _read_again(
    rows: Rows,
    k: int,
    model: VarianceModel,
    search: Search,
    start: Start,
    stats: dict[str, Any],
    rng: np.random.Generator,
) -> tuple[Start, dict[str, Any]]:
    """Say what the moments tell of the number of components that was chosen."""
    left = {name: value for name, value in stats.items() if name not in READ}
    if k == 1:
        return replace(start, components=None, words=()), left
    reading = read_moments(rows, k, model, search.order, rng)
    told = replace(start, components=reading.components, words=reading.words)
    return told, left | reading.numbers


def shrink(
    sample: Sample,
    mixture: Mixture,
    model: VarianceModel,
    rng: np.random.Generator,  # noqa: ARG001 (the signature of grow)
) -> Mixture | None:
    """Merge the two components that lose least."""
    if mixture.k == 1:
        return None
    shares, densities = responsibilities(sample, mixture)
    losses, partners = merge_losses(sample, mixture, shares, densities)
    i = int(losses.argmin())
    return polish(sample, merged(mixture, i, int(partners[i])), model, SETTLING, SETTLED).mixture


def grow(
    sample: Sample, mixture: Mixture, model: VarianceModel, rng: np.random.Generator
) -> Mixture | None:
    """Add the component that gains most after EM, of a few that promise most."""
    shares, densities = responsibilities(sample, mixture)
    found = best_insertions(sample, mixture, shares, densities, rng)
    order = np.argsort(-np.maximum(found.gains, found.small_gains), kind="stable")
    grown = []
    for i in order[:PROMISING]:
        larger = mixture.with_also(found.means[[i]], 0.5 / mixture.k, mixture.pooled)
        grown.append(polish(sample, larger, model, SETTLING, SETTLED).mixture)
    levels = [gather(sample, m).log_likelihood for m in grown]
    return grown[int(np.argmax(levels))]
