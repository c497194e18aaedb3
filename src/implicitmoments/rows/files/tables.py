"""Tables that pyarrow reads batch by batch: Parquet files, and Arrow files and streams."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.rows.files.column_choice import Choice, Chosen, choose_columns
from implicitmoments.rows.files.errors import as_unreadable, brief, refusal, require
from implicitmoments.rows.files.file_source import FileSource, Numbers, float_type

__all__ = ["READERS", "TableReader", "TableSource", "empty_block", "fill_block", "is_number"]

ARROW_MAGIC = b"ARROW1"
BATCH_BYTES = 2**22  # of numbers that are decoded at a time from Parquet
PAGE_BYTES = 2**16  # read at a time from each column of Parquet


class ParquetReader:
    """A Parquet file; segments are its row groups.

    Without a buffer, Arrow reads all of a column of a row group before its first row, and with
    ``pre_buffer`` all columns: a file of one row group would be read as a whole.
    """

    def __init__(self, path: Path) -> None:
        parquet = require("pyarrow.parquet", "Parquet")
        with as_unreadable(path, "Parquet"):
            self._file = parquet.ParquetFile(path, buffer_size=PAGE_BYTES, pre_buffer=False)
            self.path, self.schema = path, self._file.schema_arrow
            self.names: list[str] = self.schema.names  # which may not be text

    def segment_rows(self) -> list[int]:
        """Return the rows of each row group."""
        with as_unreadable(self.path, "Parquet"):
            about = self._file.metadata
            return [about.row_group(i).num_rows for i in range(about.num_row_groups)]

    def batches(self, segment: int, names: Sequence[str]) -> Iterator[Any]:
        """Yield batches of a few megabytes."""
        n_rows = max(1_024, BATCH_BYTES // (8 * len(names)))
        batches: Iterator[Any] = self._file.iter_batches(
            n_rows, row_groups=[segment], columns=list(names), use_threads=False
        )
        return batches

    def release(self) -> None:
        """Do nothing: pages are released when they are decoded."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ArrowReader:
    """An Arrow file, whose segments are its record batches, or a stream, which is one segment.

    The file is mapped, so that only the parts of a batch that are used are read, and its pages are
    released after every block: they would count as memory of the process.
    """

    def __init__(self, path: Path) -> None:
        self._pa, self._ipc = require("pyarrow", "Arrow"), require("pyarrow.ipc", "Arrow")
        self.path = path
        with as_unreadable(path, "Arrow"):
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._buffer = self._pa.py_buffer(self._map)
            self._is_stream = self._map[: len(ARROW_MAGIC)] != ARROW_MAGIC
            self.schema = self._open().schema
            self.names: list[str] = self.schema.names

    def segment_rows(self) -> list[int]:
        """Return the rows of each record batch, or of the whole stream."""
        with as_unreadable(self.path, "Arrow"):
            reader = self._open()
            if self._is_stream:
                return [sum(self._count(batch) for batch in reader)]
            return [self._count(reader.get_batch(i)) for i in range(reader.num_record_batches)]

    def batches(self, segment: int, names: Sequence[str]) -> Iterator[Any]:  # noqa: ARG002
        """Yield one record batch of a file, or all of a stream."""
        reader = self._open()
        return map(_validated, reader if self._is_stream else [reader.get_batch(segment)])

    def release(self) -> None:
        """Release the pages of the mapped file."""
        if hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Release the mapped file; it is closed with the last batch that lies in it."""
        self._buffer = None

    def _count(self, batch: Any) -> int:
        n_rows = int(_validated(batch).num_rows)
        self.release()  # a compressed batch was read as a whole
        return n_rows

    def _open(self) -> Any:
        # All columns: selecting some copies the whole batch, where otherwise nothing is copied.
        source = self._pa.BufferReader(self._buffer)
        return (self._ipc.open_stream if self._is_stream else self._ipc.open_file)(source)


def _validated(batch: Any) -> Any:
    """Return a batch whose columns are as long as they claim.

    Arrow takes lengths from the file, and would read whatever lies beyond a buffer.
    """
    batch.validate()
    return batch


# A reader has a path, a schema, names, and segments of record batches, at whose first rows
# reading may start: segment_rows(), batches(segment, names), release() and close().
TableReader: TypeAlias = ParquetReader | ArrowReader
READERS: Mapping[str, type[ParquetReader] | type[ArrowReader]] = {
    ".parquet": ParquetReader,
    ".pq": ParquetReader,
    ".arrow": ArrowReader,
    ".feather": ArrowReader,
    ".ipc": ArrowReader,
}


class TableSource(FileSource):
    """Rows of one table, or of several one after the other.

    Parameters
    ----------
    file : str
    readers : sequence of TableReader
    choice : Choice
        Which columns are features, labels and weights.
    dtype : data type, optional
        Of what is read; float32 if every feature is, and float64 otherwise, by default.
    """

    def __init__(
        self, file: str, readers: Sequence[TableReader], choice: Choice, dtype: Any = None
    ) -> None:
        self._chosen, *others = [_choose(reader, choice) for reader in readers]
        for reader, other in zip(readers[1:], others, strict=True):
            if other != self._chosen:
                raise refusal(
                    "columns_differ",
                    file=str(reader.path),
                    columns=[brief(name) for name in other.names],
                    other_file=str(readers[0].path),
                    other_columns=[brief(name) for name in self._chosen.names],
                )
        self._cursor = _Cursor(readers, self._chosen.names)
        if not self._cursor.n_rows:
            raise refusal("no_rows", file=file)
        types = {
            reader.schema.field(name).type.to_pandas_dtype()
            for reader in readers
            for name in self._chosen.features
        }
        self._dtype = float_type(np.dtype(types.pop() if len(types) == 1 else np.float64), dtype)
        super().__init__(
            file,
            self._cursor.n_rows,
            len(self._chosen.features),
            self._chosen.features,
            columns=self._chosen.remembered(by_number=False),
            watched=[reader.path for reader in readers],
            held=readers,
        )

    def _fetch(self, rows: range) -> dict[str, Numbers]:
        block = empty_block(self._chosen, len(rows), self._dtype)
        for first, batch in self._cursor.slices(rows):
            with as_unreadable(self.file, "numbers"):
                fill_block(block, first - rows.start, batch, self._chosen)
        return block

    def close(self) -> None:
        """Close files; closing twice does no harm."""
        self._cursor.leave()
        super().close()


class _Cursor:
    """A place in the rows of several files, from which reading continues.

    ::

        segments  |────────|────────|──────|
        batches   |──|──|──|──|──|──|──|───|
                            ↑ the current batch; earlier rows of its segment are read again
    """

    def __init__(self, readers: Sequence[TableReader], names: Sequence[str]) -> None:
        self._names = names
        self._segments = [
            (reader, number, n)
            for reader in readers
            for number, n in enumerate(reader.segment_rows())
        ]
        self._starts = list(accumulate((n for *_, n in self._segments), initial=0))
        self.n_rows = self._starts.pop()
        for reader, _, n in self._segments:
            if n < 0:
                raise refusal("impossible_shape", file=str(reader.path), shape=(n,))
        self.leave()

    def slices(self, rows: range) -> Iterator[tuple[int, Any]]:
        """Yield record batches that together hold ``rows``, with the first row of each."""
        at = rows.start
        if rows:
            segment = bisect_right(self._starts, at) - 1
            if segment != self._segment or at < self._rows.start:
                self._enter(segment)
        while at < rows.stop:
            if at >= self._rows.stop:
                self._advance()
                continue
            n = min(rows.stop, self._rows.stop) - at
            yield at, self._batch.slice(at - self._rows.start, n)
            at += n
        if rows:
            self._segments[self._segment][0].release()

    def leave(self) -> None:
        """Hold no batch."""
        self._segment, self._rows = -1, range(0)
        self._batch: Any = None
        self._ahead: Iterator[Any] = iter(())

    def _enter(self, segment: int) -> None:
        reader, number, _ = self._segments[segment]
        self.leave()
        self._segment = segment
        self._rows = range(self._starts[segment], self._starts[segment])
        with as_unreadable(reader.path, "a table"):
            self._ahead = iter(reader.batches(number, self._names))

    def _advance(self) -> None:
        reader, _, n = self._segments[self._segment]
        with as_unreadable(reader.path, "a table"):
            batch = next(self._ahead, None)
        if batch is not None:
            self._rows = range(self._rows.stop, self._rows.stop + batch.num_rows)
            self._batch = batch
            return
        if self._rows.stop != self._starts[self._segment] + n:
            raise refusal("ends_early", file=str(reader.path))
        reader.release()
        self._enter(self._segment + 1)


def is_number(kind: Any) -> bool:
    """Return whether a type of Arrow holds real numbers; an empty column may."""
    types = require("pyarrow", "table").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in (*tests, types.is_null))


def empty_block(chosen: Chosen, n_rows: int, dtype: np.dtype[Any]) -> dict[str, Numbers]:
    """Return room for the columns of some rows."""
    x = np.empty((n_rows, len(chosen.features)), dtype=dtype)
    return {"x": x, **{name: np.empty(n_rows, dtype=dtype) for name in chosen.others}}


def fill_block(block: Mapping[str, Numbers], at: int, batch: Any, chosen: Chosen) -> None:
    """Write the rows of a record batch or table into a block, from row ``at`` on."""
    rows = slice(at, at + batch.num_rows)
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
        for j, name in enumerate(chosen.features):
            block["x"][rows, j] = _numbers(batch.column(name))
        for column, name in chosen.others.items():
            block[column][rows] = _numbers(batch.column(name))


def _numbers(column: Any) -> Numbers:
    pa = require("pyarrow", "table")
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    numbers: Numbers = column.to_numpy(zero_copy_only=False)  # NaN where a cell is empty
    return numbers


def _choose(reader: TableReader, choice: Choice) -> Chosen:
    others = {
        name: {"found": f"entries of type {brief(kind)}"}
        for name, kind in zip(reader.names, reader.schema.types, strict=True)
        if not is_number(kind)
    }
    return choose_columns(str(reader.path), reader.names, choice, others)
