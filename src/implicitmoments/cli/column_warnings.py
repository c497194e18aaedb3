"""Columns that were hardly meant to be features, told before the work."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from implicitmoments.rows import RowDraws
from implicitmoments.rows.files import FileSource
from implicitmoments.rows.files.file_source import Numbers

__all__ = ["doubtful_columns"]

LOOKED_AT = 1_024  # rows
FEWEST = 20  # rows that count, for it to be no chance
MOST_NAMED = 12


def doubtful_columns(source: FileSource) -> list[str]:
    """Return notes on columns that number the rows, or hold what ``predict`` has written."""
    if source.n_features < 2 or source.n_rows < FEWEST:
        return []
    names = source.feature_names or tuple(str(j) for j in range(source.n_features))
    x = _rows(source, range(min(source.n_rows, LOOKED_AT)))
    last = _rows(source, range(source.n_rows - 1, source.n_rows))[0]
    told = {}
    for name, column, end in zip(names, x.T, last, strict=True):
        if end - column[0] == source.n_rows - 1 and _counts(column):
            told[name] = (
                f"{name} counts {column[0]:.0f} … {end:.0f} in steps of 1 and looks like a number "
                "of the row"
            )
        elif name == "component" and np.all((column >= 0) & (column == np.floor(column))):
            told[name] = f"{name} looks like what predict and sample write beside the features"
    others = [name for name in names if name not in told]
    return [f"{words}; leave it out with {_choice(others)}" for words in told.values()]


def _rows(source: FileSource, rows: range) -> Numbers:
    x: Numbers = source.read(rows, RowDraws(0, rows))["x"]
    return x


def _counts(column: Numbers) -> bool:
    return bool(column[0] == np.floor(column[0]) and np.all(np.diff(column) == 1))


def _choice(names: Sequence[str]) -> str:
    """Return the option that names columns; a name with a comma stands between quotes."""
    if not 0 < len(names) <= MOST_NAMED:
        return "--columns"
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return f"--columns {line.getvalue()}"
