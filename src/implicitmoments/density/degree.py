"""How many orders of a Hermite expansion to keep: by a tail bound, or by rows left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.special import gammainc

from implicitmoments.arrays import Array, Floats, namespace_of, share_rows
from implicitmoments.density.clipped_density import (
    BLOCK_ROWS,
    ClippedDensity,
    R,
    choose_clip,
    evaluate_rows,
    probe_gaussian,
)
from implicitmoments.density.hermite_expansion import Expansion, expand
from implicitmoments.mixture.mean_span import find_span
from implicitmoments.rows import Block, Source, Sums, as_source
from implicitmoments.rows.sampling import counted, counts_of, part_of

__all__ = [
    "NOT_COMPARED",
    "Compared",
    "Scorer",
    "clipped_on",
    "cross_validated_scores",
    "degree_for",
    "describe_climb",
    "held_out_scores",
    "least_degree",
    "truncation_error",
]

# ``scorer(degree)`` returns a density, to be tried on rows left out
Scorer: TypeAlias = Callable[[int], ClippedDensity[Any]]

FOLDS = 3
LARGEST_EXPONENT = 700.0  # of a float
TINY = float(np.finfo(np.float64).tiny)
# ratios below this count as this: one row where a polynomial dips below 0 decides nothing
LEAST_RATIO = 0.01
FAR_OFF = 0.05  # total variation of a last step that is worth words


def truncation_error(squared_radius: float, degree: int) -> float:
    r"""Bound the total variation distance that the orders above a degree make.

    Proof of Theorem 4.16: :math:`\|T_t\|^2 \le R^{2t}/t!`, so that in L2(G) the tail is at most
    :math:`(\sum_{t>n} R^{2t}/t!)^{1/2}`, a tail of the Poisson law; the total variation distance
    is at most half of it.
    """
    if squared_radius > LARGEST_EXPONENT:
        return math.inf
    tail = math.exp(squared_radius) * float(gammainc(degree + 1, squared_radius))
    return math.sqrt(tail) / 2


def least_degree(bound: Callable[[int], float], epsilon: float, most: int) -> int:
    """Return the least even degree whose bound is at most half of epsilon, or ``most``."""
    for degree in range(2, most + 1, 2):
        if bound(degree) <= epsilon / 2:
            return degree
    return most


def degree_for(squared_radius: float, epsilon: float, most: int) -> int:
    """Return the least even degree that leaves at most half of epsilon, or ``most``."""
    return least_degree(lambda degree: truncation_error(squared_radius, degree), epsilon, most)


@dataclass(frozen=True)
class Compared:
    """Degrees, by what rows left out say of them.

    Attributes
    ----------
    scores : dict of int to float
        The mean log-likelihood of rows left out, by degree.
    rise, error : float
        By how much the highest degree scores more than the one before, and the standard error of
        the difference, row by row.
    """

    scores: dict[int, float]
    rise: float
    error: float

    @property
    def best(self) -> int:
        """The degree of the largest score, the lowest of equals."""
        return max(self.scores, key=lambda degree: self.scores[degree])

    @property
    def rising(self) -> bool:
        """Whether the highest degree is clearly better than the one before."""
        return self.rise > self.error


def describe_climb(stats: dict[str, Any], max_degree: int) -> list[str]:
    r"""Say that degrees ended at the highest allowed while rows left out clearly liked more.

    Were the density of the higher degree the truth, a rise by r would be the divergence of
    Kullback and Leibler from it to the lower one, and their total variation distance at most
    :math:`\sqrt{r/2}`, by Pinsker's inequality: so much two more degrees may change.
    """
    highest = max(stats["scores"], default=0)
    step = math.sqrt(max(stats["last_rise"], 0.0) / 2)
    if not stats["still_rising"] or highest + 2 <= max_degree or step <= FAR_OFF:
        return []
    return [
        f"degree {highest} is the highest that max_degree={max_degree} allows, and rows left out "
        f"are still clearly likelier at it than at {highest - 2}: the step between them may be "
        f"{step:.2f} in total variation, and the density is not yet that of the rows; use a "
        "larger max_degree and more rows, or fit the components themselves"
    ]


NOT_COMPARED = Compared({}, 0.0, 0.0)


def held_out_scores(
    fit: Callable[[Source], Scorer],
    source: Source,
    degrees: Sequence[int],
    *,
    fewest: int,
    highest: int = 0,
) -> Compared:
    """Compare degrees by the likelihood of rows left out, and higher ones while that rises.

    Rows are left out by what they hold, so that equal rows are left out together.

    Parameters
    ----------
    fit : callable
        ``fit(kept)`` learns from some rows what all degrees share, and returns a function of the
        degree that gives a density.
    source : Source
    degrees : sequence of int
        Compared in any case, in ascending order.
    fewest : int
        Folds with fewer rows to learn from are passed over, and those whose rows are too much
        alike.
    highest : int
        While the last degree scores more than the one before by more than a standard error, one
        that is higher by two is tried, up to this.
    """
    n = source.n_rows or 0
    sums = source.fold(_count_shares, range(n), BLOCK_ROWS, what="rows left out")
    there = np.asarray(sums["there"])
    shares = [i for i in range(FOLDS) if there[i] and np.sum(there) - there[i] >= fewest]
    # the last density of each fold, which that of the next degree is compared with
    last: dict[int, tuple[ClippedDensity[Any], ...]] = dict.fromkeys(shares, ())
    found = NOT_COMPARED
    wanted = list(degrees)
    while wanted:
        found, last = _compare(fit, source, wanted, last, found)
        following = wanted[-1] + 2
        wanted = [following] if found.rising and following <= highest else []
    return found


def _compare(
    fit: Callable[[Source], Scorer],
    source: Source,
    degrees: Sequence[int],
    before: dict[int, tuple[ClippedDensity[Any], ...]],
    found: Compared,
) -> tuple[Compared, dict[int, tuple[ClippedDensity[Any], ...]]]:
    """Add degrees to those that were compared, given the last density of each fold."""
    last: dict[int, tuple[ClippedDensity[Any], ...]] = {}
    scores, rise, square, total = np.zeros(len(degrees)), 0.0, 0.0, 0.0
    for i, known in before.items():
        try:
            scorer = fit(part_of(source, i, FOLDS, out=True))
        except ValueError:  # where it holds of all rows it is said before
            continue
        densities = known + tuple(scorer(degree) for degree in degrees)
        last[i] = densities[-1:]
        left = part_of(source, i, FOLDS)
        rows = range(left.n_rows or 0)
        what = "likelihood of rows left out"
        sums = left.fold(_Likelihood(densities), rows, BLOCK_ROWS, what=what)
        scores += np.asarray(sums["scores"])[len(known) :]
        rise += float(sums["rise"])
        square += float(sums["square"])
        total += float(sums["mass"])
    by_degree = dict(zip(degrees, (scores / max(total, TINY)).tolist(), strict=True))
    rise /= max(total, TINY)
    variance = max(square / max(total, TINY) - rise**2, 0.0)
    error = math.sqrt(variance / max(total, 1.0))
    return Compared(found.scores | by_degree, rise, error), last


def _count_shares(block: Block, rows: range) -> Sums:  # noqa: ARG001
    shares = share_rows(block.get("origin", block["x"]), FOLDS)
    counts, xp = counts_of(block), namespace_of(shares)
    inside = (xp.logical_and(shares == i, counts > 0) for i in range(FOLDS))
    return {"there": np.array([int(xp.count_nonzero(some)) for some in inside])}


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Sums log-likelihoods of rows, and by how much the last density raises them."""

    densities: tuple[ClippedDensity[Any], ...]

    def __call__(self, block: Block, rows: range) -> Sums:  # noqa: ARG002
        block = counted(block)
        counts = counts_of(block)
        xp = namespace_of(counts)
        scores = np.zeros(len(self.densities))
        if counts.shape[0] == 0:
            return {"scores": scores, "rise": 0.0, "square": 0.0, "mass": 0.0}
        total = partial(xp.sum, dtype=xp.float64)
        rise = logs = xp.zeros_like(counts)
        for j, density in enumerate(self.densities):
            before, logs = logs, density.log_density(density.span.points(block))
            rise = logs - before if j else rise
            scores[j] = float(total(counts * logs))
        return {
            "scores": scores,
            "rise": float(total(counts * rise)),
            "square": float(total(counts * rise**2)),
            "mass": float(total(counts)),
        }


def clipped_on(
    expansion: Expansion,
    reference: R,
    spectrum: Floats,
    rows: Source,
    *,
    loss: float,
    seed: int,
) -> ClippedDensity[R]:
    """Clip and normalise an expansion on some rows, roughly, for the likelihood of others.

    Parameters
    ----------
    expansion : Expansion
    reference : Reference
    spectrum : array of shape (p,)
        Variances of the rows along the coordinates.
    rows : Source
    loss : float
        What clipping may cost, as in :func:`choose_clip`.
    seed : int
    """
    clip = choose_clip(evaluate_rows(expansion, reference, rows, seed), loss)
    probe = probe_gaussian(expansion, spectrum, seed=seed, n_points=2**11)
    mass, _ = probe.mass(LEAST_RATIO, clip)
    return ClippedDensity(reference, expansion, LEAST_RATIO, clip, mass)


def cross_validated_scores(
    rows: Array | Source,
    k: int,
    variance: float | None,
    degrees: Sequence[int],
    *,
    loss: float,
    seed: int,
    highest: int = 0,
) -> Compared:
    """Compare degrees of the density of a spherical mixture, as :func:`held_out_scores` does.

    Parameters
    ----------
    rows : array of shape (n, d), or Source
    k : int
    variance : float or None
    degrees : sequence of int
    loss : float
        What clipping may cost, as in :func:`choose_clip`.
    seed : int
        Of the points at which densities are normalised.
    highest : int
        Up to which degrees are tried while the likelihood rises.
    """

    def fit(kept: Source) -> Scorer:
        span = find_span(kept, k, variance)
        spectrum = span.spectrum[: span.p]

        def scorer(degree: int) -> ClippedDensity[Any]:
            expansion = expand(kept, span, k, degree)
            return clipped_on(expansion, span, spectrum, kept, loss=loss, seed=seed)

        return scorer

    return held_out_scores(fit, as_source(rows), degrees, fewest=k + 1, highest=highest)
