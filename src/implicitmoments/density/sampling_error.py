r"""A bound on the sampling error of a density, from densities of groups of the rows.

In the range where errors are linear in means over rows, the density of a group of n rows out of N
differs from that of all rows by a random function with the distribution of the error of the
latter, times :math:`\sqrt{(N - n)/n}`. Groups without common rows are independent copies of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.stats import f

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.density.clipped_density import LEAST_RATIO, RATED, ClippedDensity
from implicitmoments.notes import InputError
from implicitmoments.rows import Rows, weights_of

# Copies of the error. More have fewer rows each, where errors are less linear in means.
GROUPS = 8
# Rows at which densities are compared: a distance is then known to a few per cent of its size.
COMPARED = 2**13
ROUNDING = 1e-6  # of the relative variance of equal squares
RISK = 1e-3  # probability of a larger error


def bound_sampling_error(
    fit: Callable[[Rows], ClippedDensity],
    density: ClippedDensity,
    rows: Rows,
    *,
    fewest: int,
    seed: int,
) -> float:
    """Bound the total variation distance of a density from that of infinitely many rows.

    ``fit`` learns a density from some of the rows, which need not be normalised. 1 where groups
    have fewer than ``fewest`` rows, or degenerate ones.
    """
    held, squares = rows.sample(RATED, seed), []
    points = held.sample(COMPARED, seed)
    logs, counts = _log_densities(density, points)
    for i in range(GROUPS):
        group = held.split(i, GROUPS)
        if group.kept < fewest:
            return 1.0
        try:
            others, _ = _log_densities(fit(group.hold()), points)
        except InputError:
            return 1.0
        # The rows are nearly from the density: the mean of the ratio of two densities is 1, and
        # that of (1 − ratio)_+ their distance.
        ratios = np.exp(others - logs)
        ratios /= np.average(ratios, weights=counts)
        distance = float(np.average(np.maximum(1 - ratios, 0.0), weights=counts))
        squares.append(distance**2 * group.kept / (rows.kept - group.kept))
    return min(1.0, math.sqrt(bound_square(np.array(squares))))


def _log_densities(density: ClippedDensity, rows: Rows) -> tuple[Floats, Floats]:
    """Return log densities of rows, clipped from below as for a comparison, and their weights."""
    clipped, logs, counts = replace(density, floor=LEAST_RATIO), [], []
    for block in rows.blocks(density.span.p):
        logs.append(to_numpy(clipped.log_density(density.span.points(block))))
        counts.append(to_numpy(weights_of(block)))
    return np.concatenate(logs).astype(np.float64), np.concatenate(counts).astype(np.float64)


def bound_square(squares: Floats) -> float:
    """Bound a square of the same distribution, from squares (m,) with m − 1 degrees of freedom.

    The squared length of a Gaussian vector is nearly a multiple of a chi-square variable, whose
    degrees of freedom are those that mean and variance have (Satterthwaite).

    Examples
    --------
    >>> round(bound_square(np.array([0.9, 1.0, 1.1])), 1)
    1.4
    """
    mean = float(np.mean(squares))
    if mean == 0:
        return 0.0
    spread = float(np.var(squares, ddof=1)) / (2 * mean**2)
    freedom = max(1.0, 1 / max(spread, ROUNDING))  # a vector has at least one dimension
    return mean * float(f.isf(RISK, freedom, (len(squares) - 1) * freedom))
