"""Normality tests, which name the columns that are not Gaussian."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from implicitmoments.arrays import Floats, move_like, namespace_of, to_numpy
from implicitmoments.rows import Block, Rows, Source, Sums, Whitening, weights_of

SIGNIFICANCE = 1e-6  # false alarms are rare even over many fits
# Beyond these a deviation is reported; with many rows, smaller ones are significant too.
CLEAR_SKEW, CLEAR_KURTOSIS, CLEAR_EXCESS = 0.3, 0.6, 0.1


@dataclass(frozen=True, eq=False)
class Gaussianity:
    """Third and fourth moments of standardised points."""

    n: float  # rows, with their multiplicity
    skewness: Floats  # (d,), of each column; both are 0 for a Gaussian
    kurtosis: Floats  # (d,)
    excess: float  # mardia's kurtosis: the mean of |z|⁴ over d (d + 2), less 1

    @property
    def column_p_values(self) -> Floats:
        """P-values of the Jarque-Bera test of each column, times the number of columns."""
        statistic = self.n / 6 * (self.skewness**2 + self.kurtosis**2 / 4)
        return np.asarray(chi2.sf(statistic, 2) * len(statistic))

    @property
    def joint_p_value(self) -> float:
        """The p-value of Mardia's test of kurtosis, of all columns together."""
        d = len(self.skewness)
        z = self.excess * math.sqrt(self.n * d * (d + 2) / 8)
        return float(2 * norm.sf(abs(z)))

    @property
    def odd_columns(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Columns that the Jarque-Bera test rejects and that deviate clearly."""
        clear = (np.abs(self.skewness) > CLEAR_SKEW) | (np.abs(self.kurtosis) > CLEAR_KURTOSIS)
        return np.flatnonzero((self.column_p_values < SIGNIFICANCE) & clear)

    @property
    def jointly_odd(self) -> bool:
        """Whether Mardia's test rejects the points together, and they deviate clearly."""
        return self.joint_p_value < SIGNIFICANCE and abs(self.excess) > CLEAR_EXCESS

    def deviations(self, names: Sequence[str] | None = None) -> dict[str, Any] | None:
        """Return what is not Gaussian, as values of a note, or None.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the columns; their numbers by default.

        Returns
        -------
        dict or None
            ``columns`` that are rejected one by one, none of them where only all together are;
            ``skewness`` and ``kurtosis``, the largest of any column; ``fourth_moment_ratio``, the
            mean of |z|⁴ over that of a Gaussian; ``p_value``, the smallest of all tests.
        """
        columns = self.odd_columns
        if not len(columns) and not self.jointly_odd:
            return None
        p_value = min(float(self.column_p_values.min()), self.joint_p_value, 1.0)
        return {
            "columns": [str(names[j]) if names is not None else int(j) for j in columns],
            "skewness": _largest(self.skewness),
            "kurtosis": _largest(self.kurtosis),
            "fourth_moment_ratio": 1 + self.excess,
            "p_value": p_value,
        }


def _largest(values: Floats) -> float:
    return float(values[np.argmax(np.abs(values))])


def measure_gaussianity(
    rows: Rows | Source, whitening: Whitening, counts: Floats | None = None
) -> Gaussianity:
    """Measure third and fourth moments in one pass.

    Parameters
    ----------
    rows : Rows or Source
        Points as they were given.
    whitening : Whitening
        Their mean and covariance.
    counts : array of shape (n_rows,), optional
        Multiplies the weights of the rows.
    """
    spread = np.sqrt(np.diag(whitening.root @ whitening.root))
    varying = spread > 0
    scale = np.where(varying, spread, 1.0)

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

    rows = Rows.of(rows)
    if counts is not None:
        rows = rows.weighted(counts)
    width = 4 * rows.n_features
    sums = rows.fold(measure, width=width, what="shape of the inputs")
    n, p = float(sums["total"]), whitening.n_features
    cubes, fourths = to_numpy(sums["cubes"]) / n, to_numpy(sums["fourths"]) / n
    kurtosis = np.where(varying, fourths - 3, 0.0)
    return Gaussianity(n, cubes, kurtosis, float(sums["joint"]) / n / (p * (p + 2)) - 1)


def looks_standard(whitening: Whitening, n: float) -> bool:
    """Say whether mean 0 and covariance I are consistent with n rows.

    Under N(0, I) both n |mean|² and n/2 |covariance − I|² are nearly χ².
    """
    d = len(whitening.mean)
    if whitening.n_features < d:
        return False
    off = whitening.root @ whitening.root - np.eye(d)
    mean = n * float(whitening.mean @ whitening.mean)
    covariance = n / 2 * float(np.sum(off**2))
    return bool(
        chi2.sf(mean, d) > SIGNIFICANCE and chi2.sf(covariance, d * (d + 1) / 2) > SIGNIFICANCE
    )
