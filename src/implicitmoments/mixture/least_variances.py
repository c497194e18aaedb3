"""Least variances of components: of equal values, of the precision of rows, of sums."""

from __future__ import annotations

import math

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.arrays.kernels import COLUMN_FACTOR
from implicitmoments.mixture.gaussians import indefinite
from implicitmoments.rows.constants import DOUBLE, resolution

# A column is rounded if it has fewer distinct values than this share of the rows; values that
# differ by less, in median deviations of its values, are equal but for rounding.
TIED, ROUNDING = 0.5, 1e-6
# Rows with one value of a column: so many determine a mean and a variance, and a component of
# them would have none.
REPEATED = 4
# A variance that is a difference of larger numbers has lost half of its digits if it is less than
# this part of them: of the square of a mean, where rows were summed about another point, or of
# the variances of the columns, where they are correlated.
LOST = math.sqrt(DOUBLE)


def step_variances(steps: Floats) -> Floats:
    """Return the variances with which components have the density 1/h at one value of steps h.

    With less, they would gain likelihood by equal values alone.
    """
    return np.asarray(steps**2 / (2 * math.pi))


def lost_variances(steps: Floats) -> Floats:
    """Return variances without digits, of sums about points ``steps`` away from the means."""
    return np.asarray(LOST * steps**2)


def raise_covariances(covariances: Floats, least: Floats, epsilon: float = DOUBLE) -> Floats:
    """Return the most likely covariances that are at least diag(least).

    Full ones also have correlations without eigenvalues of 0, to the precision ``epsilon``.

    Parameters
    ----------
    covariances : array of shape (m, d) or (m, d, d)
    least : array of shape (m, d), or one that becomes that
    """
    if covariances.ndim == 2:
        return np.maximum(covariances, least)
    own = np.diagonal(covariances, axis1=1, axis2=2)
    # rounding of d correlations moves an eigenvalue by as much as their resolution
    least = np.maximum(least, max(LOST, float(resolution(own.shape[1], epsilon))) * own)
    low = np.any(own < least, axis=1)
    low[~low] = indefinite(covariances[~low] - least[~low, :, None] * np.eye(own.shape[1]))
    if low.any():
        roots = np.sqrt(least[low])
        roots = roots[:, :, None] * roots[:, None, :]
        values, vectors = np.linalg.eigh(covariances[low] / roots)
        raised = vectors * np.maximum(values, 1.0)[:, None, :]
        covariances = covariances.copy()
        covariances[low] = raised @ vectors.transpose(0, 2, 1) * roots
    return covariances


def any_thrice(values: Floats) -> bool:
    """Whether a number is there three times.

    Equal numbers are in one bucket of a table with four for each of them (Fibonacci hashing): only
    buckets of three or more, a few percent, are sorted.
    """
    width = max(1, 4 * len(values)).bit_length()
    bits = (values + 0.0).view(np.int64)  # −0 becomes 0
    buckets = (bits * COLUMN_FACTOR >> (64 - width)) & (2**width - 1)
    some = np.sort(values[np.bincount(buckets)[buckets] > 2])
    return bool(np.any(some[2:] == some[:-2]))


def rounding_steps(x: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return the step between the values of each column, (d,), and which columns are rounded.

    The step is 0 where hardly any values are equal.

    Returns
    -------
    steps : array of shape (d,)
        Of a rounded column the 10 % quantile of the distances of its values; the median distance
        where few of them are repeated, as in a column that is 0 in some rows.
    rounded : array of bool of shape (d,)
        Columns of few values.
    """
    found, rounded = np.zeros(x.shape[1]), np.zeros(x.shape[1], dtype=bool)
    total, alike = float(counts.sum()), bool(np.all(counts == 1))
    for j, column in enumerate(x.T):
        if alike and not any_thrice(column):
            continue
        values, order = np.sort(column), np.argsort(column)  # take several times as long
        (first,) = np.nonzero(np.append(True, np.diff(values) > 0))
        sizes, gaps = np.add.reduceat(counts[order], first), np.diff(values[first])
        spread = np.abs(values[first] - np.median(values[first]))  # one value may be far away
        gaps = gaps[gaps > ROUNDING * np.median(spread)]
        rounded[j] = 1 < len(first) < TIED * total
        if len(gaps) and (rounded[j] or sizes.max() >= REPEATED):
            found[j] = np.quantile(gaps, 0.1 if rounded[j] else 0.5)
    return found, rounded
