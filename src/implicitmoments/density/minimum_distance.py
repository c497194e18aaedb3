r"""Choice among densities by their distances from the rows.

Devroye and Lugosi's minimum distance: densities :math:`H_i` and :math:`H_j` differ most on the
set :math:`A_{ij} = \{H_i > H_j\}`, so the one that gives all such sets the proportion that the
rows have there is near the truth. With the rows of an independent sample its total variation
distance is at most three times that of the best, plus chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.density.clipped_density import (
    ROUGHLY_PROBED,
    ClippedDensity,
    evaluate_rows,
    probe_gaussian,
)
from implicitmoments.density.degree import DegreeScores, Fit, make_folds
from implicitmoments.notes import InputError
from implicitmoments.rows import Rows

# Of the standard error of a proportion of the rows: densities that differ by less in total
# variation cannot be told apart by them.
NEGLIGIBLE = 0.1


@dataclass(frozen=True)
class DistanceScores(DegreeScores):
    """Degrees scored by minus the distance of their densities from the rows."""

    @property
    def best(self) -> int:
        """The highest degree that is no farther than the nearest one, up to chance."""
        nearest = max(self.scores.values())
        return max(n for n, score in self.scores.items() if score >= nearest - self.error)

    @property
    def step(self) -> float:
        """By how much the highest degree is nearer to the rows than the one before."""
        return max(self.rise, 0.0)


def candidate_densities(
    density: Callable[[int], ClippedDensity], most: int, *, n_rows: float, seed: int
) -> dict[int, ClippedDensity]:
    """Return densities of even degrees, until one changes nothing that rows could show."""
    found: dict[int, ClippedDensity] = {}
    for degree in range(2, most + 1, 2):
        found[degree] = density(degree)
        gained = _masses(list(found.values())[-2:], seed)
        # H_i(A) − H_j(A) on the set A where H_i is larger
        if len(gained) > 1 and gained[0, 1] + gained[1, 0] - 1 <= NEGLIGIBLE * chance(n_rows):
            break
    return found


def chance(n_rows: float) -> float:
    """Return the largest standard error of a proportion of the rows."""
    return 0.5 / math.sqrt(max(n_rows, 1.0))


def measure_excess(densities: Sequence[ClippedDensity], rows: Rows, seed: int) -> Floats:
    """Return by how much :math:`H_i` gives :math:`A_{ij}` more than the rows do, (m, m)."""
    values = [_at_rows(density, rows, seed) for density in densities]
    shares = [
        [float(np.average(first > second, weights=counts)) for second, _ in values]
        for first, counts in values
    ]
    excess: Floats = _masses(densities, seed) - np.array(shares)
    return excess


def compare_distances(
    densities: dict[int, ClippedDensity], rows: Rows, seed: int, held_out: Floats | None = None
) -> DistanceScores:
    """Score degrees by their distance from all rows, or by its mean with that from rows held out.

    ``held_out`` is what :func:`held_out_excess` returns: it shows to what extent a degree adapts
    to chance. The distance from all rows is that of the very density in question.
    """
    excess = [measure_excess(list(densities.values()), rows, seed)]
    excess += [] if held_out is None else [held_out]
    distances = np.mean(np.max(np.abs(excess), axis=2), axis=0)
    rise = float(distances[-2] - distances[-1]) if len(distances) > 1 else 0.0
    scores = dict(zip(densities, (-distances).tolist(), strict=True))
    return DistanceScores(scores, rise, chance(rows.total))


def held_out_excess(
    fit: Fit, rows: Rows, degrees: Sequence[int], *, fewest: int, seed: int
) -> Floats | None:
    """Average the excess at the rows of each fold, of densities learned from the others.

    Folds are those of :func:`make_folds`; degenerate ones are left out. None if all are.
    """
    total, found = 0.0, np.zeros((len(degrees), len(degrees)))
    for kept, held in make_folds(rows, fewest):
        try:
            density = fit(kept.hold() if kept.small else kept)
        except InputError:  # degenerate rows
            continue
        found += held.total * measure_excess([density(n) for n in degrees], held, seed)
        total += held.total
    return found / total if total else None


def _at_rows(density: ClippedDensity, rows: Rows, seed: int) -> tuple[Floats, Floats]:
    """Return the ratio to G at rows, and their weights."""
    ratios, counts = evaluate_rows(density.ratio, density.span, rows, seed)
    return ratios / density.mass, counts


def _masses(densities: Sequence[ClippedDensity], seed: int) -> Floats:
    r"""Return :math:`H_i(A_{ij})`, (m, m), at quasi-random points."""
    ratios, masses = [], []
    for density in densities:
        variances = density.span.variances
        probe = probe_gaussian(density.ratio, variances, seed=seed, n_points=ROUGHLY_PROBED)
        ratios.append(np.ravel(probe.ratios) / density.mass)
        mass = np.ravel(probe.ratios * probe.weights)
        masses.append(mass / np.sum(mass))
    pairs = zip(ratios, masses, strict=True)
    return np.array([[np.sum(mass[h > other]) for other in ratios] for h, mass in pairs])
