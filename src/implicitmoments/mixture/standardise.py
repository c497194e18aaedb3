"""Before the fit: equal rows counted once, centre and unit of length, outliers left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import (
    LARGEST,
    Floats,
    check_squares,
    move_like,
    namespace_of,
    quiet_overflow,
    refuse_large,
    to_numpy,
)
from implicitmoments.mixture.sample import hold_rows, merge_equal
from implicitmoments.rows import ArraySource, Block, Census, Rows, Sums
from implicitmoments.rows.fold import LARGEST as LARGEST_OF
from implicitmoments.rows.outliers import leave_out_outliers
from implicitmoments.search import SEARCH

PROBED = 20_000  # rows from which the centre and the unit of length are estimated
RESOLUTION = 1e-9  # of lengths, relative to the centre: below it points are one point
FAR_OUT = 100.0  # units: a square is then 1e4, which float32 resolves to 1e-3


def merge_small(rows: Rows) -> Rows:
    """Count equal rows once where all rows are searched."""
    if rows.n > SEARCH.rows:
        return rows
    merged = merge_equal(hold_rows(rows))
    columns = {} if merged.sample_weight is None else {"counts": merged.sample_weight}
    return replace(
        rows, source=ArraySource(merged.X, **columns), keep=(), weights=None, known=None
    )


def standardise(rows: Rows) -> Rows:
    """Centre and scale rows by medians, which a few outliers do not move.

    The unit is the root of the median squared distance from the centre over the number of
    features; the standard deviation where half the rows are one point.
    """
    probe = rows.as_given().sample(PROBED, 0).points.astype(np.float64)
    refuse_large("X", found=float(np.median(np.abs(probe).max(axis=1))) > LARGEST)
    # a centre that the precision of the rows can represent
    center = to_numpy(move_like(np.median(probe, axis=0), rows.like)).astype(np.float64)
    size, spread = float(np.abs(center).max()), probe - center
    lengths = np.abs(spread).max(axis=1)
    unit = float(np.median(lengths)) or float(lengths.max())
    scale = max(size, 1.0)
    if unit > max(RESOLUTION * size, np.finfo(np.float64).tiny):
        with np.errstate(over="ignore"):  # outliers do not move the median
            squares = np.mean((spread / unit) ** 2, axis=1)
        scale = unit * float(np.sqrt(float(np.median(squares)) or float(np.mean(squares))))
    return rows.as_given().mapped(center, 1 / scale)


def center_of(rows: Rows) -> Floats:
    """Return the centre of standardised rows, in the user's units."""
    return np.zeros(rows.n_features) if rows.center is None else rows.center


def scale_of(rows: Rows) -> float:
    """Return the unit of standardised rows, in the user's units."""
    return 1.0 if rows.linear is None else 1 / float(rows.linear)


def without_outliers(rows: Rows, k: int, *, drop: bool) -> tuple[Rows, int]:
    """Leave out outliers, if asked for, and count rows; return how many were left out.

    Rows that lie too far out for single precision are read in double precision.
    """
    n_out = 0
    if drop:
        rows, n_out, _ = leave_out_outliers(rows, k)
    else:
        found = rows.fold(_Counted(), width=3, what="counting rows", lifted=True)
        longest = float(found.get(f"{LARGEST_OF}square", 0.0))
        kept = int(found.get("kept", 0))
        rows = replace(rows, known=Census(kept, found["total"], found["squares"], longest))
    check_squares("X", rows.census.squares or 0.0)
    return replace(rows, wide=(rows.census.longest or 0.0) > FAR_OUT**2), n_out


@dataclass(frozen=True)
class _Counted:
    """Counts lifted rows, and sums their squares."""

    @quiet_overflow
    def __call__(self, block: Block) -> Sums:
        lifted = block["x"]
        xp, squares = namespace_of(lifted), lifted[:, -2]
        counts = block.get("counts", lifted[:, -1])
        return {
            "kept": int(lifted.shape[0]),
            "total": float(xp.sum(counts, dtype=xp.float64)),
            "squares": float(xp.sum(counts * squares, dtype=xp.float64)),
            f"{LARGEST_OF}square": float(xp.max(squares)),
        }
