"""Columns of a file that go along with answers as they are, text or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.cli.write_table import Piece
from implicitmoments.rows.files import read_columns

__all__ = ["KeptColumns", "open_kept"]


class KeptColumns:
    """Some columns of a file, taken along row by row.

    Parameters
    ----------
    names : sequence of str
    batches : iterable of record batches of Arrow
        With those columns, one after the other.
    """

    def __init__(self, names: Sequence[str], batches: Iterable[Any]) -> None:
        self.names = tuple(names)
        self._rows = self._listed(batches)

    def take(self, n_rows: int) -> Piece:
        """Return the columns of the next rows."""
        rows = list(islice(self._rows, n_rows))
        if len(rows) != n_rows:
            raise ValueError("the file ends before its last row; it was changed while it was read")
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for name, cells in zip(self.names, zip(*rows, strict=True), strict=True):
            columns[name] = np.empty(n_rows, dtype=object)
            columns[name][:] = cells
        return columns

    def _listed(self, batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        for batch in batches:
            yield from zip(*(batch.column(name).to_pylist() for name in self.names), strict=True)


def open_kept(path: Path, wanted: Sequence[str]) -> KeptColumns:
    """Begin to read columns of CSV as text, or of a table as what they hold.

    The file is open from then on, and may be deleted.
    """
    return KeptColumns(*read_columns(path, wanted, "--keep"))
