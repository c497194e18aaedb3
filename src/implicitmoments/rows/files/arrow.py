"""Arrow files and streams, also known as Feather and IPC."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from implicitmoments.rows.files.optional_imports import require
from implicitmoments.rows.files.reader_errors import as_damage

__all__ = ["ArrowReader"]

MAGIC = b"ARROW1"
FAULT = "is empty, cut off or no Arrow file"


class ArrowReader:
    """An Arrow file, whose segments are its record batches, or a stream, which is one segment.

    The file is mapped, so that of a batch only what is asked for is read, and its pages are given
    back after every block: they would count as memory of the process.
    """

    def __init__(self, path: Path) -> None:
        self._pa, self._ipc = require("pyarrow", "Arrow"), require("pyarrow.ipc", "Arrow")
        self.path = path
        with as_damage(path, FAULT):
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._buffer = self._pa.py_buffer(self._map)
            self._is_stream = self._map[: len(MAGIC)] != MAGIC
            self.schema = self._open().schema
            self.names: list[str] = self.schema.names

    def segment_rows(self) -> list[int]:
        """Return the rows of each record batch, or of the whole stream."""
        with as_damage(self.path, FAULT):
            reader = self._open()
            if self._is_stream:
                return [sum(self._count(batch) for batch in reader)]
            return [self._count(reader.get_batch(i)) for i in range(reader.num_record_batches)]

    def batches(self, segment: int, names: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        """Yield one record batch of a file, or all of a stream."""
        reader = self._open()
        return map(_valid, reader if self._is_stream else [reader.get_batch(segment)])

    def forget(self) -> None:
        """Give back the pages of the mapped file."""
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Let go of the mapped file; it is closed with the last batch that lies in it."""
        self._buffer = None

    def _count(self, batch: Any) -> int:
        n_rows = int(_valid(batch).num_rows)
        self.forget()  # a compressed batch was read as a whole
        return n_rows

    def _open(self) -> Any:
        # All columns: to ask for some copies the whole batch, where otherwise nothing is copied.
        source = self._pa.BufferReader(self._buffer)
        return (self._ipc.open_stream if self._is_stream else self._ipc.open_file)(source)


def _valid(batch: Any) -> Any:
    """Return a batch whose columns have as much room as they claim rows.

    Arrow takes the lengths from the file, and would read whatever lies behind a buffer.
    """
    batch.validate()
    return batch
