"""Rows (1, x, y) of a regression, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from implicitmoments.backends import Floats, to_numpy
from implicitmoments.fitting.rows import LabelledRows

__all__ = ["FeatureBlock", "FeatureRows"]

BLOCK_ROWS = 1_024  # (1, x, y) of a block and the responsibilities fit in the cache
HELD_NUMBERS = 2**27  # of features that are kept in memory: 1 GB of float64


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Some rows, one a column.

    Attributes
    ----------
    u : array of shape (q + 1, n)
        The features z = (1, x), and y below them.
    counts : array of shape (n,)
        How often each row counts.
    """

    u: Floats
    counts: Floats

    @property
    def z(self) -> Floats:
        """Features (q, n)."""
        return self.u[:-1]

    @property
    def y(self) -> Floats:
        """Labels (n,)."""
        return np.asarray(self.u[-1])


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """All rows in standard coordinates, from memory where they fit.

    Attributes
    ----------
    rows : LabelledRows
    stored : tuple of FeatureBlock, or None
        None where they are made anew in every pass.
    n_rows : int
    mass : float
        Rows, with their multiplicity.
    """

    rows: LabelledRows
    stored: tuple[FeatureBlock, ...] | None
    n_rows: int
    mass: float

    @classmethod
    def of(cls, rows: LabelledRows) -> FeatureRows:
        """Lay the rows out, and keep them if there are not too many."""
        q = rows.problem.n_features + 1
        fits = rows.n_rows * (q + 1) <= HELD_NUMBERS
        stored = tuple(_made(rows)) if fits else None
        return cls(rows, stored, rows.n_rows, rows.mass)

    @property
    def n_features(self) -> int:
        """Features q, the constant among them."""
        return self.rows.problem.n_features + 1

    def blocks(self) -> Iterator[FeatureBlock]:
        """Yield the rows."""
        yield from _made(self.rows) if self.stored is None else self.stored

    def about(self, n: int) -> FeatureRows:
        """Return about n of the rows, evenly spread, in memory; all if there are few more."""
        if self.n_rows < 2 * n:
            return self
        return FeatureRows.of(self.rows.about(n))


def _made(rows: LabelledRows) -> Iterator[FeatureBlock]:
    for block in rows.blocks(1):
        x = np.asarray(to_numpy(block.x), dtype=np.float64)
        y = np.asarray(to_numpy(block.y), dtype=np.float64)
        counts = np.asarray(to_numpy(block.counts), dtype=np.float64)
        for start in range(0, len(y), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            u = np.empty((x.shape[1] + 2, len(y[part])))
            u[0], u[1:-1], u[-1] = 1.0, x[part].T, y[part]
            yield FeatureBlock(u, counts[part])
