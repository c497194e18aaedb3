"""Before the fit: equal rows counted, the centre and the unit of length."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from implicitmoments.arrays import LARGEST, move_like, refuse_large, to_numpy
from implicitmoments.mixture.held_rows import Sample, merge_equal
from implicitmoments.mixture.standard_rows import MOST_PICKED, Rows
from implicitmoments.rows import ArraySource, Source
from implicitmoments.search import SEARCH

__all__ = ["count_rows", "in_memory", "place_rows"]

PROBED = 10_000  # rows from which the centre and the unit of length are taken
RESOLUTION = 1e-9  # of lengths, relative to the centre: below it points are one point


def count_rows(source: Source) -> Source:
    """Count equal rows once where all rows may be searched."""
    n = source.n_rows or 0
    if n > SEARCH.rows:
        return source
    block = source.pick(np.arange(n), what="all rows")
    merged = merge_equal(Sample(block["x"], block.get("counts")))
    columns = {} if merged.sample_weight is None else {"counts": merged.sample_weight}
    return ArraySource(merged.X, **columns)


def in_memory(rows: Rows) -> Rows:
    """Hold the rows that are there in memory, as the source gives them."""
    unread = replace(rows, center=None, scale=1.0, near=None, wide=False, known=None)
    block = unread.picked(np.arange(rows.n))
    return Rows(ArraySource(block.pop("x"), **block), block_rows=rows.block_rows)


def place_rows(rows: Rows) -> Rows:
    """Centre and scale rows by medians, which a few wild rows do not move.

    The unit is the root of the median squared distance from the centre over the number of
    features; the standard deviation where half the rows are one point. Medians are those of
    10,000 to 20,000 rows, evenly spread.
    """
    there = rows.census.there if rows.rules else rows.n
    stride = max(1, there // PROBED, rows.n // MOST_PICKED)
    probe = to_numpy(rows.picked(np.arange(0, rows.n, stride))["x"]).astype(np.float64)
    if len(probe) == 0:
        return rows
    largest = float(np.abs(probe).max())
    refuse_large("X", found=largest > LARGEST)
    # a centre that the precision of the rows can hold
    center = to_numpy(move_like(np.median(probe, axis=0), rows.like)).astype(np.float64)
    size = float(np.abs(center).max())
    spread = probe - center
    unit = float(np.abs(spread).max())
    if unit <= max(RESOLUTION * size, np.finfo(np.float64).tiny):
        return replace(rows, center=center, scale=max(size, 1.0))
    squares = np.mean((spread / unit) ** 2, axis=1)  # no overflow, whatever the unit
    typical = float(np.median(squares)) or float(np.mean(squares))
    return replace(rows, center=center, scale=unit * float(np.sqrt(typical)))
