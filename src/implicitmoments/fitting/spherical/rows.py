"""Rows as the fit sees them: centred, scaled, weighted, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.samples import blocks

__all__ = ["Rows", "count_rows", "place_rows"]

COUNTED = 8_000  # rows up to which equal ones are counted
PROBED = 10_000  # rows from which the centre and the unit of length are taken
BLOCK_NUMBERS = 2**17  # of log densities in one block: what is made of it stays in the cache
FEWEST_ROWS = 256
FAR_OUT = 100.0  # units: a row's square is then up to 1e4, and float32 knows it to 1e-3
RESOLUTION = 1e-9  # of lengths, relative to the centre: below it points are one point


@dataclass(frozen=True, eq=False)
class Rows:
    r"""Rows x of data, read as :math:`(x - c) / s` in the precision asked for.

    Attributes
    ----------
    X : array of shape (n, d)
    sample_weight : array of shape (n,) or None
        How often each row counts.
    center : array of shape (d,) or None
        None where X holds what is to be read.
    scale : float
    block_rows : int or None
        Rows read at a time; by default fewer the more components there are.
    dtype : type
        float64, or float32 where only a search depends on it.
    """

    X: np.ndarray[Any, Any]
    sample_weight: Floats | None
    center: Floats | None
    scale: float
    block_rows: int | None = None
    dtype: type = np.float64

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @cached_property
    def total(self) -> float:
        """Rows counted with their weight."""
        return float(self.n if self.sample_weight is None else self.sample_weight.sum())

    def blocks(self, width: int = 32) -> Iterator[tuple[Floats, Floats | None]]:
        """Yield ``(points, weights)``; ``width`` numbers are made of each row."""
        size = self.block_rows or max(FEWEST_ROWS, BLOCK_NUMBERS // max(width, self.d))
        for rows in blocks(range(self.n), size):
            yield self._read(self.X[rows.start : rows.stop]), self._counts(rows)

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """Return n rows without replacement, in order; rows that do not count are left out.

        All rows where there are no more than n of them. They are held as they are read, in
        float32 unless some row lies so far out that its square would drown the others.
        """
        counts = self.sample_weight
        there = np.arange(self.n) if counts is None else np.flatnonzero(counts > 0)
        if len(there) > n:
            there = np.sort(rng.choice(there, n, replace=False))
        return self.take(there)

    def take(self, chosen: np.ndarray[Any, Any]) -> Rows:
        """Return the chosen rows, held as they are read."""
        counts = None if self.sample_weight is None else self.sample_weight[chosen]
        points = self._read(self.X[chosen])
        dtype = np.float64 if np.abs(points).max() > FAR_OUT else np.float32
        points = points.astype(dtype, copy=False)
        return Rows(points, counts, None, 1.0, self.block_rows, dtype)

    def _counts(self, rows: range) -> Floats | None:
        if self.sample_weight is None:
            return None
        counts: Floats = self.sample_weight[rows.start : rows.stop].astype(self.dtype)
        return counts

    def _read(self, x: np.ndarray[Any, Any]) -> Floats:
        moved = x if self.center is None else (x - self.center) / self.scale
        read: Floats = moved.astype(self.dtype, copy=False)
        return read


def count_rows(
    X: np.ndarray[Any, Any], sample_weight: Floats | None
) -> tuple[np.ndarray[Any, Any], Floats | None]:
    """Count equal rows once with their weights added, where there are not too many.

    Weights and repeated rows then give the same fit, whatever their order. Weights with a mean
    below 1 are no counts; they are scaled to a mean of 1.
    """
    counts = sample_weight
    if counts is not None:
        X, counts = X[counts > 0], counts[counts > 0]
        counts = counts / min(float(counts.mean()), 1.0)
    if len(X) > COUNTED:
        return X, counts
    distinct, place = np.unique(X, axis=0, return_inverse=True)
    if counts is None and len(distinct) == len(X):
        return distinct, None
    added = np.bincount(place.ravel(), weights=counts, minlength=len(distinct)).astype(float)
    return distinct, None if np.all(added == 1.0) else added


def place_rows(
    X: np.ndarray[Any, Any], sample_weight: Floats | None, block_rows: int | None = None
) -> Rows:
    """Centre and scale rows by medians, which a few wild rows do not move.

    The unit is the root of the median squared distance from the centre over the number of
    features; the standard deviation where half the rows are one point.
    """
    there = X if sample_weight is None else X[sample_weight > 0]
    probe = there[:: max(1, len(there) // PROBED)].astype(np.float64)
    center = np.median(probe, axis=0)
    size = float(np.abs(center).max())
    spread = probe - center
    unit = float(np.abs(spread).max())
    if unit <= max(RESOLUTION * size, np.finfo(np.float64).tiny):
        return Rows(X, sample_weight, center, max(size, 1.0), block_rows)
    squares = np.mean((spread / unit) ** 2, axis=1)  # no overflow, whatever the unit
    typical = float(np.median(squares)) or float(np.mean(squares))
    return Rows(X, sample_weight, center, unit * float(np.sqrt(typical)), block_rows)
