"""Choice of the degree of a Hermite expansion, by a tail bound or by held-out likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy.special import gammainc

from implicitmoments.arrays import TINY, namespace_of
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, Rows, Sums, weights_of

Fit: TypeAlias = Callable[[Rows], Callable[[int], ClippedDensity]]
Last: TypeAlias = dict[int, tuple[ClippedDensity, ...]]

FOLDS = 3  # every fold repeats the fit of all degrees: fewer folds, fewer passes
LARGEST_EXPONENT = 700.0  # exp of more than 709 overflows a double


def mixture_tail(squared_radius: float, degree: int) -> float:
    r"""Bound the total variation error of truncating the expansion of a mixture.

    Proof of Theorem 4.16: :math:`\|T_t\|^2 \le R^{2t}/t!`, so in L2(G) the tail is at most
    :math:`(\sum_{t>n} R^{2t}/t!)^{1/2}`, a tail of the Poisson distribution; the total variation
    distance is at most half of it. R² is the mean squared length of the means, in units of the
    noise.
    """
    if squared_radius > LARGEST_EXPONENT:
        return math.inf
    tail = math.exp(squared_radius) * float(gammainc(degree + 1, squared_radius))
    return math.sqrt(tail) / 2


def least_degree(bound: Callable[[int], float], epsilon: float, most: int) -> int:
    """Return the smallest even degree whose bound is at most half of epsilon, or ``most``."""
    for degree in range(2, most + 1, 2):
        if bound(degree) <= epsilon / 2:
            return degree
    return most


@dataclass(frozen=True)
class DegreeScores:
    """Held-out likelihoods of degrees."""

    scores: dict[int, float]  # the mean held-out log-likelihood per row, by degree
    # by how much the highest degree scores more than the one before, and the standard error of
    # this difference, which is taken row by row
    rise: float
    error: float

    @property
    def best(self) -> int:
        """The degree of the highest score; the lowest such degree."""
        return max(self.scores, key=lambda degree: self.scores[degree])

    @property
    def rising(self) -> bool:
        """Whether the highest degree is better than the one before by a standard error."""
        return self.rise > self.error


NOT_COMPARED = DegreeScores({}, 0.0, 0.0)  # of a degree given by the user or by epsilon


def compare_degrees(
    fit: Fit, rows: Rows, degrees: Sequence[int], *, fewest: int, highest: int = 0
) -> DegreeScores:
    """Compare degrees by held-out likelihood, and higher ones while it increases.

    ``fit(kept)`` learns from the rows of a fold what all degrees share, and returns a function of
    the degree that returns a density. ``degrees``, in ascending order, are compared in any case;
    while the last scores more than the one before by more than a standard error, the next even
    degree is tried, up to ``highest``. Folds depend on the content of rows, so equal rows are held
    out together; those with fewer than ``fewest`` rows to learn from, and those with degenerate
    rows, are left out.
    """
    # the last density of each fold, with which that of the next degree is compared
    last: Last = {
        i: ()
        for i in range(FOLDS)
        if rows.split(i, FOLDS).kept and rows.split(i, FOLDS, out=True).kept >= fewest
    }
    found, wanted = NOT_COMPARED, list(degrees)
    while wanted:
        found, last = _score(fit, rows, wanted, last, found)
        following = wanted[-1] + 2
        wanted = [following] if found.rising and following <= highest else []
    return found


def _score(
    fit: Fit, rows: Rows, degrees: Sequence[int], before: Last, found: DegreeScores
) -> tuple[DegreeScores, Last]:
    """Add degrees to those that were compared, given the last density of each fold."""
    last: Last = {}
    scores, rise, square, total = np.zeros(len(degrees)), 0.0, 0.0, TINY
    for i, known in before.items():
        kept = rows.split(i, FOLDS, out=True)
        try:
            densities = fit(kept.hold() if kept.small else kept)  # it is passed over many times
        except InputError:  # degenerate rows
            continue
        compared = known + tuple(densities(degree) for degree in degrees)
        last[i] = compared[-1:]
        sums = rows.split(i, FOLDS).fold(
            partial(_sum_likelihoods, compared), width=rows.n_features, what="held-out likelihood"
        )
        scores += np.asarray(sums["scores"])[len(known) :]
        rise += float(sums["rise"])
        square += float(sums["square"])
        total += float(sums["total"])
    by_degree = dict(zip(degrees, (scores / total).tolist(), strict=True))
    variance = max(square / total - (rise / total) ** 2, 0.0)
    error = math.sqrt(variance / max(total, 1.0))
    return DegreeScores(found.scores | by_degree, rise / total, error), last


def _sum_likelihoods(densities: tuple[ClippedDensity, ...], block: Block) -> Sums:
    """Sum log-likelihoods of rows, and by how much the last density raises them."""
    counts = weights_of(block)
    xp = namespace_of(counts)
    logs = [density.log_density(density.span.points(block)) for density in densities]
    rise = logs[-1] - logs[-2] if len(logs) > 1 else 0.0 * counts
    terms = (*logs, rise, rise**2, xp.ones_like(counts))
    *scores, up, square, total = (float(xp.sum(counts * t, dtype=xp.float64)) for t in terms)
    return {"scores": np.array(scores), "rise": up, "square": square, "total": total}
