"""Parquet files, row group by row group and page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from implicitmoments.rows.files.optional_imports import require
from implicitmoments.rows.files.reader_errors import as_damage

__all__ = ["ParquetReader"]

FAULT = "is cut off or no Parquet file"
BATCH_BYTES = 2**22
PAGE_BYTES = 2**16  # read at a time from each column


class ParquetReader:
    """A Parquet file; segments are its row groups.

    Without a buffer, Arrow reads the whole of a column of a row group before its first row, and
    with ``pre_buffer`` that of every column: a file with one row group would be read as a whole.
    """

    def __init__(self, path: Path) -> None:
        parquet = require("pyarrow.parquet", "Parquet")
        with as_damage(path, FAULT):
            self._file = parquet.ParquetFile(path, buffer_size=PAGE_BYTES, pre_buffer=False)
            self.path, self.schema = path, self._file.schema_arrow
            self.names: list[str] = self.schema.names

    def segment_rows(self) -> list[int]:
        """Return the rows of each row group."""
        with as_damage(self.path, FAULT):
            about = self._file.metadata
            return [about.row_group(i).num_rows for i in range(about.num_row_groups)]

    def batches(self, segment: int, names: Sequence[str]) -> Iterator[Any]:
        """Yield batches of a few megabytes."""
        n_rows = max(1_024, BATCH_BYTES // (8 * len(names)))
        batches: Iterator[Any] = self._file.iter_batches(
            n_rows, row_groups=[segment], columns=list(names), use_threads=False
        )
        return batches

    def forget(self) -> None:
        """Do nothing: pages are let go when they are decoded."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()
