"""Rows that can be read once, written to a temporary file and read from there."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from implicitmoments.rows.files.array_file import RawArray, SlicedSource
from implicitmoments.rows.files.errors import refusal
from implicitmoments.rows.files.file_source import FileSource, Numbers, check_block
from implicitmoments.rows.fold import blocks

BLOCK_ROWS = 65_536  # copied at a time


class Spool:
    """Columns side by side in a temporary file without a name, which cannot outlive the process.

    Messages count lines from ``first_line`` on where it is given, and rows otherwise. With
    ``drop_missing`` rows that lack a number are counted and left out, rather than refused.
    """

    def __init__(
        self,
        file: str,
        dtype: np.dtype[Any],
        feature_names: Sequence[str] | None = None,
        *,
        first_line: int | None = None,
        drop_missing: bool = False,
    ) -> None:
        self.file, self.dtype, self.feature_names = file, dtype, feature_names
        self.n_rows, self.n_dropped = 0, 0
        self._first_line, self._drop_missing = first_line, drop_missing
        self._n_features, self._others = 0, list[str]()
        # closed by `filling`, or by the source that takes it over
        self._numbers = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def append(self, block: Mapping[str, Numbers]) -> None:
        """Check the columns of some rows and write them after those before."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            rows = {name: column.astype(self.dtype, copy=False) for name, column in block.items()}
        first, unit = self.n_rows + self.n_dropped, "row"
        if self._first_line is not None:
            first, unit = first + self._first_line, "line"
        columns = list(rows.values())
        table = np.ascontiguousarray(columns[0]) if len(columns) == 1 else np.column_stack(columns)
        if self._drop_missing:
            kept = np.isfinite(table).all(axis=1)
            table, rows = table[kept], {name: column[kept] for name, column in rows.items()}
            self.n_dropped += len(kept) - len(table)
        check_block(rows, self.file, first, self.feature_names, unit)
        self._n_features, self._others = rows["x"].shape[1], [name for name in rows if name != "x"]
        self._write(table)
        self.n_rows += len(table)

    def _write(self, table: Numbers) -> None:
        left = table.reshape(-1).view(np.uint8).data
        try:
            while left:
                left = left[self._numbers.write(left) :]
        except OSError as reason:
            if reason.errno != errno.ENOSPC:
                raise
            raise refusal("no_room", folder=tempfile.gettempdir(), errno=errno.ENOSPC) from reason

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Delete the temporary file if the rows cannot be had."""
        try:
            yield
        except BaseException:
            self._numbers.close()
            raise

    def contents(self) -> dict[str, Any]:
        """Return the rows that were written as arguments of ``SlicedSource``."""
        if not self.n_rows:
            raise refusal("all_rows_incomplete" if self.n_dropped else "no_rows", file=self.file)
        d = self._n_features
        return {
            "file": self.file,
            "points": RawArray(self._numbers, (self.n_rows, d + len(self._others)), self.dtype),
            "features": range(d),
            "others": {name: d + i for i, name in enumerate(self._others)},
            "feature_names": self.feature_names,
            "is_checked": True,
        }

    def source(self, columns: Mapping[str, str] | None = None) -> SlicedSource:
        """Return the rows that were written, with the file that holds them."""
        source = SlicedSource(**self.contents(), columns=columns)
        source.n_dropped = self.n_dropped
        return source


def complete_rows(source: FileSource) -> SlicedSource:
    """Copy the rows that have all numbers to a temporary file, and close the source."""
    with source:
        dtype = source.read_unchecked(range(1))["x"].dtype
        spool = Spool(source.file, dtype, source.feature_names, drop_missing=True)
        with spool.filling():
            for rows in blocks(range(source.n_rows), BLOCK_ROWS):
                spool.append(source.read_unchecked(rows))
            return spool.source(source.columns)
