"""Tables that pyarrow reads batch by batch: Parquet files, and Arrow files and streams."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.rows.files.errors import as_unreadable, brief, refusal, require
from implicitmoments.rows.files.file_source import (
    ChosenColumns,
    ColumnChoice,
    FileSource,
    Numbers,
    choose_columns,
    float_type,
)

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
        return map(_validated, reader if is_stream else [reader.get_batch(segment)])

    def count(found: Iterator[Any]) -> Iterator[int]:
        for batch in found:
            yield int(batch.num_rows)
            release()  # a compressed batch was read as a whole

    with as_unreadable(path, "Arrow"):
        reader = open_reader()
        names, types = reader.schema.names, reader.schema.types
        segments = range(1 if is_stream else reader.num_record_batches)
        n_rows = [sum(count(batches(i, names))) for i in segments]
    return TableFile(path, names, types, n_rows, batches, lambda: None, release)


def _validated(batch: Any) -> Any:
    """Return a batch whose columns are as long as they claim.

    Arrow takes lengths from the file, and would read whatever lies beyond a buffer.
    """
    batch.validate()
    return batch


TABLES: Mapping[str, Callable[[Path], TableFile]] = {
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
    ".ipc": open_arrow,
}


class TableSource(FileSource):
    """Rows of one table, or of several one after the other.

    Numbers are float32 if every feature is, and float64 otherwise, unless ``dtype`` is given.
    """

    def __init__(
        self, file: str, tables: Sequence[TableFile], choice: ColumnChoice, dtype: Any = None
    ) -> None:
        self._chosen, *others = [_choose(table, choice) for table in tables]
        for table, other in zip(tables[1:], others, strict=True):
            if other != self._chosen:
                raise refusal(
                    "columns_differ",
                    file=str(table.path),
                    columns=[brief(name) for name in other.names],
                    other_file=str(tables[0].path),
                    other_columns=[brief(name) for name in self._chosen.names],
                )
        self._cursor = _Cursor(tables, self._chosen.names)
        if not self._cursor.n_rows:
            raise refusal("no_rows", file=file)
        features = self._chosen.features
        types = {
            table.types[table.names.index(name)].to_pandas_dtype()
            for table in tables
            for name in features
        }
        self._dtype = float_type(np.dtype(types.pop() if len(types) == 1 else np.float64), dtype)
        super().__init__(
            file,
            self._cursor.n_rows,
            len(features),
            features,
            columns=self._chosen.remembered(by_number=False),
            watched=[table.path for table in tables],
            held=tables,
        )

    def _fetch(self, rows: range) -> dict[str, Numbers]:
        block = empty_block(self._chosen, len(rows), self._dtype)
        for first, batch in self._cursor.slices(rows):
            with as_unreadable(self.file, "numbers"):
                fill_block(block, first - rows.start, batch, self._chosen)
        return block

    def close(self) -> None:
        """Close files; closing twice does no harm."""
        self._cursor = _Cursor((), ())
        super().close()


class _Cursor:
    """A place in the rows of several files, from which reading continues.

    ::

        segments  |────────|────────|──────|
        batches   |──|──|──|──|──|──|──|───|
                            ↑ the current batch; earlier rows of its segment are read again
    """

    def __init__(self, tables: Sequence[TableFile], names: Sequence[str]) -> None:
        self._names = names
        self._segments = [(t, i, n) for t in tables for i, n in enumerate(t.segment_rows)]
        self._starts = list(accumulate((n for *_, n in self._segments), initial=0))
        self.n_rows = self._starts.pop()
        for table, _, n in self._segments:
            if n < 0:
                raise refusal("impossible_shape", file=str(table.path), shape=f"({n}, ...)")
        self._segment, self._rows = -1, range(0)
        self._batch: Any = None
        self._ahead: Iterator[Any] = iter(())

    def slices(self, rows: range) -> Iterator[tuple[int, Any]]:
        """Yield record batches that together hold ``rows``, with the first row of each."""
        if not rows:
            return
        at = rows.start
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
        self._segments[self._segment][0].release()

    def _enter(self, segment: int) -> None:
        table, number, _ = self._segments[segment]
        start = self._starts[segment]
        self._segment, self._rows, self._batch = segment, range(start, start), None
        with as_unreadable(table.path, "a table"):
            self._ahead = iter(table.batches(number, self._names))

    def _advance(self) -> None:
        table, _, n = self._segments[self._segment]
        with as_unreadable(table.path, "a table"):
            batch = next(self._ahead, None)
        if batch is not None:
            self._rows = range(self._rows.stop, self._rows.stop + batch.num_rows)
            self._batch = batch
            return
        if self._rows.stop != self._starts[self._segment] + n:
            raise refusal("ends_early", file=str(table.path))
        table.release()
        self._enter(self._segment + 1)


def is_number(kind: Any) -> bool:
    """Return whether a type of Arrow holds real numbers; an empty column may."""
    types = require("pyarrow", "table").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in (*tests, types.is_null))


def empty_block(chosen: ChosenColumns, n_rows: int, dtype: np.dtype[Any]) -> dict[str, Numbers]:
    """Allocate arrays for the columns of some rows."""
    x = np.empty((n_rows, len(chosen.features)), dtype=dtype)
    return {"x": x, **{name: np.empty(n_rows, dtype=dtype) for name in chosen.others}}


def fill_block(block: Mapping[str, Numbers], at: int, batch: Any, chosen: ChosenColumns) -> None:
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


def _choose(table: TableFile, choice: ColumnChoice) -> ChosenColumns:
    others = {
        name: {"found": f"entries of type {brief(kind)}"}
        for name, kind in zip(table.names, table.types, strict=True)
        if not is_number(kind)
    }
    return choose_columns(str(table.path), table.names, choice, others)
