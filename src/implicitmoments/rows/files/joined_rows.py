"""Rows of several files, one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from implicitmoments.rows.draws import Integers
from implicitmoments.rows.files.file_source import Numbers


class JoinedRows:
    """Rows of several readers in their order, in the precision that holds them all.

    A reader lets go of what it holds in memory when rows of another one are read. ``sizes`` has
    the name of each file and its number of rows.
    """

    def __init__(self, files: Sequence[str], readers: Sequence[Any]) -> None:
        self.sizes = [(f, int(r.n_rows)) for f, r in zip(files, readers, strict=True)]
        self._readers = readers
        self._starts = list(accumulate((n for _, n in self.sizes), initial=0))
        self.n_rows, self.n_features = self._starts[-1], readers[0].n_features
        self.dtype: np.dtype[Any] = np.result_type(*(reader.dtype for reader in readers))
        self.by_rows = all(getattr(reader, "by_rows", False) for reader in readers)
        self._current = readers[0]

    def read(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of some consecutive rows."""
        if not rows:
            return self._joined([self._readers[0].read(range(0))])
        return self._joined([reader.read(part) for reader, part in self._parts(rows)])

    def take(self, rows: Integers) -> dict[str, Numbers]:
        """Read some rows one by one; their numbers ascend."""
        cuts = np.searchsorted(rows, self._starts)
        spans = zip(self._readers, self._starts, cuts[:-1], cuts[1:], strict=False)
        parts = [(reader, rows[low:high] - start) for reader, start, low, high in spans]
        return self._joined([reader.take(part) for reader, part in parts if len(part)])

    def _parts(self, rows: range) -> Iterator[tuple[Any, range]]:
        """Yield readers with the rows that they are asked for, by their own numbers."""
        at, i = rows.start, bisect_right(self._starts, rows.start) - 1
        while at < rows.stop:
            start, stop = self._starts[i], min(self._starts[i + 1], rows.stop)
            if at < stop:
                if self._current is not self._readers[i]:
                    self._current.release()
                    self._current = self._readers[i]
                yield self._current, range(at - start, stop - start)
            at, i = stop, i + 1

    def _joined(self, blocks: Sequence[dict[str, Numbers]]) -> dict[str, Numbers]:
        return {
            name: np.concatenate([block[name] for block in blocks]).astype(self.dtype, copy=False)
            for name in blocks[0]
        }

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()
