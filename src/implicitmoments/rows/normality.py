"""Tests whether points are normally distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from implicitmoments.arrays import move_like, namespace_of, to_numpy
from implicitmoments.column_names import unnamed_columns
from implicitmoments.rows.fold import Block, Sums, weights_of
from implicitmoments.rows.view import Rows
from implicitmoments.rows.whitening import Whitening

KOLMOGOROV_CHANCE = 2.0  # a Kolmogorov distance exceeds this / √n by chance once in 1,500
SIGNIFICANCE = 1e-6  # of tests of normality: false alarms are rare even over many fits
# Beyond these a deviation is reported; with many rows, smaller ones are significant too.
CLEAR_SKEW, CLEAR_KURTOSIS, CLEAR_EXCESS = 0.3, 0.6, 0.1


def find_deviations(
    rows: Rows, whitening: Whitening, names: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Return how points deviate from a Gaussian, as values of a note, or None; one pass.

    Columns are tested one by one by Jarque and Bera's test, all together by Mardia's test of
    kurtosis: the mean of |z|⁴ of standardised points is d (d + 2).

    Parameters
    ----------
    rows : Rows
        Points as they were given.
    whitening : Whitening
        Their mean and covariance.
    names : sequence of str, optional
        Names of the columns; x0, x1, … by default.

    Returns
    -------
    dict or None
        ``columns`` that are rejected one by one, none of them where only all together are;
        ``skewness`` and ``kurtosis``, the largest of any column; ``fourth_moment_ratio``, the
        mean of |z|⁴ over that of a Gaussian; ``p_value``, the smallest of all tests.
    """
    spread = whitening.deviations
    called = unnamed_columns(len(spread)) if names is None else names
    scale = np.where(spread > 0, spread, 1.0)

    def measure(block: Block) -> Sums:
        x = block["x"]
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64)
        w = xp.astype(weights_of(block), x.dtype)
        z = (x - move_like(whitening.mean, x)[None, :]) / move_like(scale, x)[None, :]
        square = z * z
        lengths = xp.sum(whitening.apply({"x": x})["x"] ** 2, axis=1)
        return {
            "total": float(xp.sum(w)),
            "cubes": w @ (square * z),
            "fourths": w @ (square * square),
            "joint": float(w @ lengths**2),
        }

    sums = rows.fold(measure, width=4 * rows.n_features, what="shape of the inputs")
    n, p, d = float(sums["total"]), whitening.n_features, len(scale)
    skewness = to_numpy(sums["cubes"]) / n
    kurtosis = np.where(spread > 0, to_numpy(sums["fourths"]) / n - 3, 0.0)
    excess = float(sums["joint"]) / n / (p * (p + 2)) - 1
    column_p = chi2.sf(n / 6 * (skewness**2 + kurtosis**2 / 4), 2) * d  # by Bonferroni
    joint_p = float(2 * norm.sf(abs(excess) * math.sqrt(n * d * (d + 2) / 8)))
    clear = (np.abs(skewness) > CLEAR_SKEW) | (np.abs(kurtosis) > CLEAR_KURTOSIS)
    columns = np.flatnonzero((column_p < SIGNIFICANCE) & clear)
    if not len(columns) and not (joint_p < SIGNIFICANCE and abs(excess) > CLEAR_EXCESS):
        return None
    return {
        "columns": [str(called[j]) for j in columns.tolist()],
        "skewness": float(skewness[np.argmax(np.abs(skewness))]),
        "kurtosis": float(kurtosis[np.argmax(np.abs(kurtosis))]),
        "fourth_moment_ratio": 1 + excess,
        "p_value": min(float(column_p.min()), joint_p, 1.0),
    }


def looks_standard(whitening: Whitening, n: float) -> bool:
    """Say whether mean 0 and covariance I are consistent with n rows.

    Under N(0, I) both n |mean|² and n/2 |covariance − I|² are nearly χ².
    """
    d = len(whitening.mean)
    if whitening.n_features < d:
        return False
    off = whitening.root.T @ whitening.root - np.eye(d)
    mean = n * float(whitening.mean @ whitening.mean)
    covariance = n / 2 * float(np.sum(off**2))
    return bool(
        chi2.sf(mean, d) > SIGNIFICANCE and chi2.sf(covariance, d * (d + 1) / 2) > SIGNIFICANCE
    )
