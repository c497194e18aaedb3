"""Which rows of a file were kept, where those that lack a number are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicitmoments.rows.draws import Integers


class KeptRows:
    """Which rows of a file were kept: one bit per row, in blocks.

    Examples
    --------
    >>> kept = KeptRows()
    >>> kept.add(np.array([True, False, True]))
    >>> kept.n, kept.n_given, kept.file_rows(np.array([0, 1])).tolist()
    (2, 3, [0, 2])
    """

    def __init__(self) -> None:
        self.n, self.n_given = 0, 0
        # per block: its first row among those kept, its first row in the file, and its bits
        self._blocks: list[tuple[int, int, Any]] = []

    @property
    def n_dropped(self) -> int:
        """Rows that were left out."""
        return self.n_given - self.n

    def add(self, kept: Any) -> None:
        """Append a block: whether each of its rows was kept."""
        self._blocks.append((self.n, self.n_given, np.packbits(kept)))
        self.n, self.n_given = self.n + int(kept.sum()), self.n_given + len(kept)

    def file_rows(self, rows: Integers) -> Integers:
        """Return the numbers in the file of rows that are counted among those kept."""
        found = np.array(rows, dtype=np.int64)
        if not self.n_dropped:
            return found
        at = np.searchsorted([first for first, _, _ in self._blocks], rows, "right") - 1
        for i in np.unique(at):
            first, start, bits = self._blocks[i]
            found[at == i] = start + np.flatnonzero(np.unpackbits(bits))[rows[at == i] - first]
        return found
