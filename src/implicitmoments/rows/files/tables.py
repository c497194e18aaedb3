"""Tables that pyarrow reads batch by batch: CSV and TSV, Parquet, and Arrow files and streams."""

from __future__ import annotations

import codecs
import math
import mmap
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.rows.files.errors import as_unreadable, brief, refusal, require
from implicitmoments.rows.files.file_source import Numbers

# names of columns by the column of a block that they fill: features of "x", and one of others
ColumnNames: TypeAlias = Mapping[str, Sequence[str]]

ARROW_MAGIC = b"ARROW1"  # first bytes of an Arrow file; a stream has none
BATCH_BYTES = 2**22  # of numbers that are decoded at a time from Parquet
PAGE_BYTES = 2**16  # read at a time from each column of Parquet
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TEXT_BYTES = 2**20  # of text that is parsed at a time; a line may not be longer
MOST_COLUMNS = 2**16  # of text: Arrow takes 17 kB to guess the type of each
QUOTED = re.compile(rb'"[^"]*"')  # separators within quotes do not count


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


class TableRows:
    """Rows of one table, or of several one after the other, read on from a place.

    ::

        segments  |────────|────────|──────|
        batches   |──|──|──|──|──|──|──|───|
                            ↑ the current batch; earlier rows of its segment are read again
    """

    def __init__(
        self, tables: Sequence[TableFile], columns: ColumnNames, dtype: np.dtype[Any]
    ) -> None:
        self.n_features, self._columns, self._dtype = len(columns["x"]), columns, dtype
        self._names = list(chain(*columns.values()))
        self._tables = tables
        self._segments = [(t, i, n) for t in tables for i, n in enumerate(t.segment_rows)]
        self._starts = list(accumulate((n for *_, n in self._segments), initial=0))
        self.n_rows = self._starts.pop()
        for table, _, n in self._segments:
            if n < 0:
                raise refusal("impossible_shape", file=str(table.path), shape=f"({n}, ...)")
        self._segment, self._rows = -1, range(0)
        self._batch: Any = None
        self._ahead: Iterator[Any] = iter(())

    def read(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of some consecutive rows."""
        block = _empty_block(self._columns, len(rows), self._dtype)
        at, segment = rows.start, bisect_right(self._starts, rows.start) - 1
        if rows and (segment != self._segment or at < self._rows.start):
            self._enter(segment)
        while at < rows.stop:
            if at >= self._rows.stop:
                self._advance()
                continue
            n, table = min(rows.stop, self._rows.stop) - at, self._segments[self._segment][0]
            with as_unreadable(table.path, "numbers"):
                batch = self._batch.slice(at - self._rows.start, n)
                _fill_block(block, at - rows.start, batch, self._columns)
            at += n
        if rows:
            self._segments[self._segment][0].release()
        return block

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

    def close(self) -> None:
        """Close the files; a mapped one is closed with the last batch that lies in it."""
        self._batch, self._ahead = None, iter(())
        for table in self._tables:
            table.close()


def is_number(kind: Any) -> bool:
    """Return whether a type of Arrow holds real numbers; an empty column may."""
    types = require("pyarrow", "table").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in (*tests, types.is_null))


def _empty_block(columns: ColumnNames, n_rows: int, dtype: np.dtype[Any]) -> dict[str, Numbers]:
    others = {role: np.empty(n_rows, dtype=dtype) for role in columns if role != "x"}
    return {"x": np.empty((n_rows, len(columns["x"])), dtype=dtype), **others}


def _fill_block(block: Mapping[str, Numbers], at: int, batch: Any, columns: ColumnNames) -> None:
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


class CsvFile:
    """A text file; separator, column names and types are inferred from the first megabyte.

    ``has_names`` says whether the first line holds names, or the first row; then columns are named
    by numbers. ``not_numbers`` has values of an error about each column that holds no numbers.
    """

    def __init__(self, path: Path) -> None:
        self._csv, self._pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
        self.path, self.has_names, self.names = path, True, list[str]()
        self._bad_row: Any = None
        with as_unreadable(path, "CSV"), self._pa.input_stream(str(path)) as stream:
            front = stream.read(TEXT_BYTES)  # out of its compression
        if front.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise refusal("not_utf8", file=str(path))
        self._delimiter, self._decimal_point = _separators(front, path)
        n_columns = _first_line(front).count(self._delimiter.encode()) + 1
        if n_columns > MOST_COLUMNS:
            about = {"n_columns": n_columns, "most": MOST_COLUMNS}
            raise refusal("too_many_columns", file=str(path), **about)
        plain, described = dict[str, dict[str, Any]](), dict[str, dict[str, Any]]()
        with self._errors():
            names = self._open().schema.names
            counted = [str(j) for j in range(len(names))]  # which pandas writes as names
            self.has_names = names == counted or not all(map(_is_number_text, names))
            self.names = names if self.has_names else counted
            types = dict(zip(self.names, self._open().schema.types, strict=True))
            for name, kind in types.items():
                if not is_number(kind):
                    plain[name] = {"found": f"entries of type {kind}"}
            for line, name, cell in self._texts(list(plain), 1):  # each with its first text
                found = f"text, such as {brief(cell)!r} in line {line}"
                described.setdefault(name, {"found": found, "cell": brief(cell), "line": line})
        self._booleans = {name for name in types if self._pa.types.is_boolean(types[name])}
        self.not_numbers = {**plain, **described}

    def blocks(self, columns: ColumnNames, dtype: np.dtype[Any]) -> Iterator[dict[str, Numbers]]:
        """Yield blocks of the chosen columns."""
        number, flag = self._pa.float64(), self._pa.bool_()
        names = chain(*columns.values())
        types = {name: flag if name in self._booleans else number for name in names}
        numbers = [name for name in types if name not in self._booleans]
        for batch in self._batches(types, numbers):
            block = _empty_block(columns, batch.num_rows, dtype)
            _fill_block(block, 0, batch, columns)
            yield block

    def texts(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of some columns as text, from a file that is open at once."""
        return self._batches(dict.fromkeys(names, self._pa.string()))

    def _open(self, types: dict[str, Any] | None = None) -> Any:
        """Return a reader of all columns, or of those whose types are given."""
        return self._csv.open_csv(
            self._pa.input_stream(str(self.path)),
            read_options=self._csv.ReadOptions(
                use_threads=False,
                block_size=TEXT_BYTES,
                column_names=None if self.has_names else self.names,
            ),
            parse_options=self._csv.ParseOptions(
                delimiter=self._delimiter, invalid_row_handler=self._note_bad_row
            ),
            convert_options=self._csv.ConvertOptions(
                decimal_point=self._decimal_point,
                column_types=types,
                include_columns=None if types is None else list(types),
            ),
        )

    def _batches(self, types: dict[str, Any], numbers: Sequence[str] = ()) -> Iterator[Any]:
        with self._errors(numbers):
            reader = self._open(types)

        def batches() -> Iterator[Any]:
            batch = None
            with reader:
                while True:
                    with self._errors(numbers):
                        batch = next(reader, None)
                    if batch is None:
                        return
                    yield batch

        return batches()

    def _note_bad_row(self, row: Any) -> str:
        self._bad_row = row
        return "error"

    @contextmanager
    def _errors(self, numbers: Sequence[str] = ()) -> Iterator[None]:
        """Raise one error that names the line, or at least the file."""
        try:
            yield
        except UnicodeDecodeError:
            raise refusal("not_utf8", file=str(self.path)) from None
        except Exception as reason:
            file, row = str(self.path), self._bad_row
            if row is not None:
                sizes = {"expected": row.expected_columns, "found": row.actual_columns}
                raise refusal(
                    "wrong_number_of_cells", file=file, line=row.number, **sizes
                ) from reason
            with suppress(self._pa.ArrowException, OSError):
                if self._has_long_line():
                    raise refusal("line_too_long", file=file, most=TEXT_BYTES) from reason
                for line, name, cell in self._texts(numbers):
                    found = {"line": line, "column": brief(name), "cell": brief(cell)}
                    raise refusal("cell_not_a_number", file=file, **found) from reason
            with as_unreadable(self.path, "CSV"):
                raise

    def _has_long_line(self) -> bool:
        with self._pa.input_stream(str(self.path)) as stream:
            pieces = iter(lambda: stream.read(TEXT_BYTES), b"")
            return any(len(p) == TEXT_BYTES and not re.search(rb"[\r\n]", p) for p in pieces)

    def _texts(
        self, names: Sequence[str], most: int | None = None
    ) -> Iterator[tuple[int, str, str]]:
        """Yield lines, columns and texts of cells that are not numbers: slow, for messages."""
        if not names:
            return
        line = 1 + self.has_names
        missing = {*self._csv.ConvertOptions().null_values, ""}
        for batch in islice(self._open(dict.fromkeys(names, self._pa.binary())), most):
            columns = [batch.column(name).to_pylist() for name in batch.schema.names]
            for at, cells in enumerate(zip(*columns, strict=True), line):
                for name, cell in zip(batch.schema.names, cells, strict=True):
                    text = cell.decode("utf-8", "replace")
                    number = text.replace(self._decimal_point, ".")
                    if text not in missing and not _is_number_text(number):
                        yield at, name, text
            line += batch.num_rows


def _separators(front: bytes, path: Path) -> tuple[str, str]:
    """Return what separates columns and decimals, by the beginning of the file.

    Where commas are decimal points, spreadsheets separate columns by semicolons.
    """
    if ".tsv" in "".join(path.suffixes[-2:]).lower():
        return "\t", "."
    unquoted = QUOTED.sub(b"", front)
    names = _first_line(unquoted)
    if b"," in names:
        return ",", "."
    if b";" in names:
        return ";", "," if b"," in unquoted else "."
    return "\t" if b"\t" in names else ",", "."


def _first_line(text: bytes) -> bytes:
    return re.split(rb"[\r\n]", text.lstrip(b"\r\n"), maxsplit=1)[0]


def _is_number_text(text: str) -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
