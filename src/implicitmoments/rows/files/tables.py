"""Tables that pyarrow reads batch by batch: Parquet, and Arrow files and streams."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.rows.files.arrow_messages import expanded_sizes
from implicitmoments.rows.files.columns import ColumnNames, FileColumns, row_numbers
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.expansion import MOST_DECODED
from implicitmoments.rows.files.file_source import Numbers, as_unreadable, require

ARROW_MAGIC = b"ARROW1"  # first bytes of an Arrow file; a stream has none
BATCH_BYTES = 2**22  # of numbers that are decoded at a time from Parquet
PAGE_BYTES = 2**16  # read at a time from each column of Parquet


class TableFile(NamedTuple):
    """A file of record batches in segments, at whose first rows reading may start."""

    path: Path
    names: list[str]
    types: list[Any]
    segment_rows: list[int]
    batches: Callable[[int, Sequence[str]], Iterator[Any]]  # of a segment, with those columns
    close: Callable[[], None]
    release: Callable[[], None] = lambda: None  # memory that holds what was read


def open_parquet(path: Path) -> TableFile:
    """Open a Parquet file; segments are its row groups.

    Without a buffer, Arrow reads all of a column of a row group before its first row, and with
    ``pre_buffer`` all columns: a file of one row group would be read as a whole.
    """
    parquet = require("pyarrow.parquet", "Parquet")
    with as_unreadable(path, "Parquet"):
        file = parquet.ParquetFile(path, buffer_size=PAGE_BYTES, pre_buffer=False)
        schema, groups = file.schema_arrow, range(file.metadata.num_row_groups)
        n_rows = [file.metadata.row_group(i).num_rows for i in groups]
        names, types = schema.names, schema.types

    def batches(segment: int, names: Sequence[str]) -> Iterator[Any]:
        size = max(1_024, BATCH_BYTES // (8 * len(names)))
        found: Iterator[Any] = file.iter_batches(
            size, row_groups=[segment], columns=list(names), use_threads=False
        )
        return found

    return TableFile(path, names, types, n_rows, batches, file.close)


def open_arrow(path: Path) -> TableFile:
    """Open an Arrow file, whose segments are its record batches, or a stream, which is one.

    The file is mapped, so that only the parts of a batch that are used are read, and its pages are
    released after every block: they would count as memory of the process. It is closed with the
    last batch that lies in it.
    """
    pa, ipc = require("pyarrow", "Arrow"), require("pyarrow.ipc", "Arrow")
    with as_unreadable(path, "Arrow"), path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    is_stream = mapped[: len(ARROW_MAGIC)] != ARROW_MAGIC

    def release() -> None:
        if hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def open_reader() -> Any:
        # All columns: selecting some copies the whole batch, where otherwise nothing is copied.
        return (ipc.open_stream if is_stream else ipc.open_file)(pa.BufferReader(mapped))

    def batches(segment: int, names: Sequence[str]) -> Iterator[Any]:  # noqa: ARG001
        reader = open_reader()
        for batch in reader if is_stream else [reader.get_batch(segment)]:
            batch.validate()  # lengths come from the file: Arrow would read beyond a buffer
            yield batch

    with as_unreadable(path, "Arrow"):
        largest = max(expanded_sizes(mapped, is_stream=is_stream), default=0)
    if largest > MOST_DECODED:
        raise refusal("expands_too_far", file=str(path), part="batch", most=MOST_DECODED)
    with as_unreadable(path, "Arrow"):
        reader = open_reader()
        names, types = reader.schema.names, reader.schema.types
        n_rows = [0] * (1 if is_stream else reader.num_record_batches)
        for i in range(len(n_rows)):
            for batch in batches(i, names):
                n_rows[i] += batch.num_rows
                release()  # a compressed batch was read as a whole
    return TableFile(path, names, types, n_rows, batches, lambda: None, release)


TABLES: Mapping[str, Callable[[Path], TableFile]] = {
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
    ".ipc": open_arrow,
}


class TableRows:
    """Rows of a table, read on from a place.

    ::

        segments  |────────|────────|──────|
        batches   |──|──|──|──|──|──|──|───|
                            ↑ the current batch; earlier rows of its segment are read again
    """

    def __init__(self, table: TableFile, columns: ColumnNames, dtype: np.dtype[Any]) -> None:
        self.n_features, self.dtype = len(columns["x"]), dtype
        self._table, self._columns = table, columns
        self._names = list(chain(*columns.values()))
        if min(table.segment_rows, default=0) < 0:
            shape = f"({min(table.segment_rows)}, ...)"
            raise refusal("impossible_shape", file=str(table.path), shape=shape)
        self._starts = list(accumulate(table.segment_rows, initial=0))
        self.n_rows = self._starts[-1]
        self._segment, self._rows = -1, range(0)
        self._batch: Any = None
        self._ahead: Iterator[Any] = iter(())

    def read(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of some consecutive rows."""
        block = empty_block(self._columns, len(rows), self.dtype)
        at, segment = rows.start, bisect_right(self._starts, rows.start) - 1
        if rows and (segment != self._segment or at < self._rows.start):
            self._enter(segment)
        while at < rows.stop:
            if at >= self._rows.stop:
                self._advance()
                continue
            n = min(rows.stop, self._rows.stop) - at
            with as_unreadable(self._table.path, "numbers"):
                batch = self._batch.slice(at - self._rows.start, n)
                fill_block(block, at - rows.start, batch, self._columns)
            at += n
        self._table.release()
        return block

    def _enter(self, segment: int) -> None:
        start = self._starts[segment]
        self._segment, self._rows, self._batch = segment, range(start, start), None
        with as_unreadable(self._table.path, "a table"):
            self._ahead = iter(self._table.batches(segment, self._names))

    def _advance(self) -> None:
        with as_unreadable(self._table.path, "a table"):
            batch = next(self._ahead, None)
        if batch is not None:
            self._rows = range(self._rows.stop, self._rows.stop + batch.num_rows)
            self._batch = batch
            return
        if self._rows.stop != self._starts[self._segment + 1]:
            raise refusal("ends_early", file=str(self._table.path))
        self._table.release()
        self._enter(self._segment + 1)

    def release(self) -> None:
        """Let go of the current batch, where other rows are read next."""
        self._segment, self._rows = -1, range(0)
        self._batch, self._ahead = None, iter(())

    def close(self) -> None:
        """Close the file; a mapped one is closed with the last batch that lies in it."""
        self.release()
        self._table.close()


def is_number(kind: Any) -> bool:
    """Return whether a type of Arrow holds real numbers; an empty column may."""
    types = require("pyarrow", "table").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in (*tests, types.is_null))


def table_columns(table: TableFile) -> FileColumns:
    """Return the columns of a table."""
    others = {
        name: {"found": f"entries of type {brief(kind)}"}
        for name, kind in zip(table.names, table.types, strict=True)
        if not is_number(kind)
    }

    def numbering(names: Sequence[str]) -> set[str]:
        for segment, n in enumerate(table.segment_rows if names else ()):
            if n:
                with as_unreadable(table.path, "a table"):
                    batch = next(iter(table.batches(segment, names)))
                return row_numbers({name: batch.column(name) for name in names})
        return set()

    return FileColumns(str(table.path), table.names, True, others, row_numbers=numbering)


def empty_block(columns: ColumnNames, n_rows: int, dtype: np.dtype[Any]) -> dict[str, Numbers]:
    """Return room for the columns of some rows."""
    others = {role: np.empty(n_rows, dtype=dtype) for role in columns if role != "x"}
    return {"x": np.empty((n_rows, len(columns["x"])), dtype=dtype), **others}


def fill_block(block: Mapping[str, Numbers], at: int, batch: Any, columns: ColumnNames) -> None:
    """Write the rows of a record batch into a block, from row ``at`` on."""
    pa, rows = require("pyarrow", "table"), slice(at, at + batch.num_rows)
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
        for role, names in columns.items():
            for j, name in enumerate(names):
                column = batch.column(name)
                if not pa.types.is_floating(column.type):
                    column = column.cast(pa.float64(), safe=False)
                numbers = column.to_numpy(zero_copy_only=False)  # NaN where a cell is empty
                block[role][(rows, j) if role == "x" else rows] = numbers
