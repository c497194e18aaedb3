"""Values that stand for a missing number: one value in many rows, far from all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.notes import Note
from implicitmoments.rows.view import Rows

LOOKED_AT = 10_000  # rows: one value in a thousand of them occurs about ten times
FEWEST = 3  # equal numbers, and others
# Distance from the others in units of their range. That of normal numbers is six to eight
# deviations, so that a gap of ten ranges is no tail.
GAP = 10.0


def sentinel_notes(rows: Rows, names: Sequence[str] | None = None) -> list[Note]:
    """Return a note for each column in which one value looks like a code for a missing number.

    Parameters
    ----------
    rows : Rows
        Points as they were given.
    names : sequence of str, optional
        Names of the columns; their numbers by default.
    """
    points, notes = rows.sample(LOOKED_AT).points, list[Note]()
    for j, column in enumerate(points.T):
        value = find_sentinel(column)
        if value is not None:
            share = float(np.mean(column == value))
            found = {"column": j if names is None else str(names[j]), "value": value}
            notes.append(Note("value_stands_apart", {**found, "share": share}))
    return notes


def find_sentinel(column: Floats) -> float | None:
    """Return the smallest or the largest value of a column if it repeats far from all others.

    Examples
    --------
    >>> find_sentinel(np.array([0.3, -1.2, -999.0, 0.7, -999.0, 1.4, -999.0]))
    -999.0
    >>> find_sentinel(np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])) is None
    True
    """
    values, counts = np.unique(column, return_counts=True)
    if len(values) < FEWEST + 1:
        return None
    for own, near, far in ((0, 1, -1), (-1, -2, 0)):
        others = abs(float(values[far] - values[near]))
        if counts[own] >= FEWEST and abs(float(values[own] - values[near])) > GAP * others:
            return float(values[own])
    return None
