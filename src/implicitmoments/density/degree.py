"""Truncation errors of one component, and degrees by a bound or by held-out likelihood."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from implicitmoments.arrays import TINY, Floats, namespace_of
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, Rows, Sums, weights_of

Fit: TypeAlias = Callable[[Rows], Callable[[int], ClippedDensity]]
Last: TypeAlias = dict[int, tuple[ClippedDensity, ...]]

FOLDS = 3  # every fold repeats the fit of all degrees: fewer folds, fewer passes
# Held-out rows that are enough to compare degrees: proportions and mean log-likelihoods of them
# are known to 0.001 or so, and further folds would only add digits.
ENOUGH_HELD = 2**18
STEP = 0.02  # of integrals over the line; halving it changes them by less than 1e-3 of their size
BEYOND = 8.0  # standard deviations: the mass of a Gaussian beyond is below 1e-15


def mixture_tail(norms: Floats, degree: int) -> Floats:
    r"""Return the total variation error of truncating the expansion of components, by their norms.

    For one component of mean :math:`\mu`, :math:`F/G` depends on :math:`u = \langle x, \mu
    \rangle/\|\mu\|` alone, so that :math:`\tfrac12 E_G|F/G - S_n|` is an integral over the line,
    with :math:`S_n = \sum_{t \le n} \|\mu\|^t h_t(u)/\sqrt{t!}` (Lemma 4.17). By the triangle
    inequality a mixture has at most the mean of it over its components.

    Parameters
    ----------
    norms : array of shape (C,)
        Norms of means, in units of the noise.
    degree : int
        The highest order kept, n.

    Returns
    -------
    array of shape (C,)

    Examples
    --------
    >>> mixture_tail(np.array([0.5, 1.0, 2.0]), 4).round(3)
    array([0.001, 0.023, 0.656])
    """
    # beyond its zeros, which are within 2√n, a Hermite function decreases as a Gaussian
    reach = 2 * math.sqrt(degree + 1) + BEYOND
    u = np.arange(-reach, max(reach, float(np.max(norms)) + BEYOND), STEP)
    root = np.exp(-(u**2) / 4) / (2 * math.pi) ** 0.25  # the root of the Gaussian density
    before, function = np.zeros_like(u), root  # h_t(u) times the root, which is bounded
    coefficient = np.ones_like(norms)
    kept = coefficient[:, None] * function
    for t in range(1, degree + 1):
        before, function = function, (u * function - math.sqrt(t - 1) * before) / math.sqrt(t)
        coefficient = coefficient * norms / math.sqrt(t)
        kept += coefficient[:, None] * function
    truth = np.exp(-((u - norms[:, None]) ** 2) / 2) / math.sqrt(2 * math.pi)
    tail: Floats = np.sum(np.abs(truth - kept * root), axis=1) * STEP / 2
    return tail


def least_degree(bound: Callable[[int], float], epsilon: float, most: int) -> int | None:
    """Return the smallest even degree whose bound is at most half of epsilon; none above ``most``.

    The bound decreases with the degree.
    """
    degrees = range(2, most + 1, 2)
    j = int(bisect_left(degrees, True, key=lambda n: bound(n) <= epsilon / 2))
    return degrees[j] if j < len(degrees) else None


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
    def step(self) -> float:
        r"""Bound of the total variation distance of the last two degrees.

        If the density of the higher degree were the truth, a rise by r of the mean log-likelihood
        would be the Kullback-Leibler divergence from it to the lower one, and their total
        variation distance at most :math:`\sqrt{r/2}`, by Pinsker's inequality.
        """
        return math.sqrt(max(self.rise, 0.0) / 2)

    @property
    def rising(self) -> bool:
        """Whether the highest degree is better than the one before by a standard error."""
        return self.rise > self.error


NOT_COMPARED = DegreeScores({}, 0.0, 0.0)  # of a degree given by the user or by epsilon


def make_folds(rows: Rows, fewest: int, enough: int = ENOUGH_HELD) -> list[tuple[Rows, Rows]]:
    """Return rows to learn from and rows held out, for each fold.

    There are three folds, or one where rows are many. They depend on the content of rows, so equal
    rows are held out together.

    Parameters
    ----------
    fewest : int
        Rows to learn from that a fold must have.
    enough : int
        Rows held out that need no further folds.
    """
    folds = list[tuple[Rows, Rows]]()
    for i in range(FOLDS):
        kept, held = rows.split(i, FOLDS, out=True), rows.split(i, FOLDS)
        if held.kept and kept.kept >= fewest:
            folds.append((kept, held))
            if held.kept >= enough:
                break
    return folds


def compare_degrees(
    fit: Fit, rows: Rows, degrees: Sequence[int], *, fewest: int, highest: int = 0
) -> DegreeScores:
    """Compare degrees by held-out likelihood, and higher ones while it increases.

    ``fit(kept)`` learns from the rows of a fold what all degrees share, and returns a function of
    the degree that returns a density. ``degrees``, in ascending order, are compared in any case;
    while the last scores more than the one before by more than a standard error, the next even
    degree is tried, up to ``highest``. Folds are those of :func:`make_folds`; degenerate ones are
    left out.
    """
    folds = make_folds(rows, fewest)
    # the last density of each fold, with which that of the next degree is compared
    last: Last = dict.fromkeys(range(len(folds)), ())
    found, wanted = NOT_COMPARED, list(degrees)
    while wanted:
        found, last = _score(fit, folds, wanted, last, found)
        following = wanted[-1] + 2
        wanted = [following] if found.rising and following <= highest else []
    return found


def _score(
    fit: Fit,
    folds: Sequence[tuple[Rows, Rows]],
    degrees: Sequence[int],
    before: Last,
    found: DegreeScores,
) -> tuple[DegreeScores, Last]:
    """Add degrees to those that were compared, given the last density of each fold."""
    last: Last = {}
    scores, rise, square, total = np.zeros(len(degrees)), 0.0, 0.0, TINY
    for i, known in before.items():
        kept, held = folds[i]
        try:
            densities = fit(kept.hold() if kept.small else kept)  # it is passed over many times
        except InputError:  # degenerate rows
            continue
        compared = known + tuple(densities(degree) for degree in degrees)
        last[i] = compared[-1:]
        sums = held.fold(
            partial(_sum_likelihoods, compared), width=held.n_features, what="held-out likelihood"
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
