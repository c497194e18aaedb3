"""Tables that pyarrow reads batch by batch: CSV and TSV, Parquet, and Arrow files and streams."""

from __future__ import annotations

import codecs
import csv
import math
import mmap
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.rows.files.arrow_messages import expanded_sizes
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.expansion import MOST_DECODED
from implicitmoments.rows.files.file_source import Numbers, as_unreadable, require

# names of columns by the column of a block that they fill: features of "x", and one of others
ColumnNames: TypeAlias = Mapping[str, Sequence[str]]

ARROW_MAGIC = b"ARROW1"  # first bytes of an Arrow file; a stream has none
BATCH_BYTES = 2**22  # of numbers that are decoded at a time from Parquet
PAGE_BYTES = 2**16  # read at a time from each column of Parquet
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TEXT_BYTES = 2**20  # of text that is parsed at a time; a line may not be longer
MOST_COLUMNS = 2**16  # of text: Arrow takes 17 kB to guess the type of each
YEAR = re.compile("[12][0-9]{3}")
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
        front = next(self._pieces(), b"")
        if front.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise refusal("not_utf8", file=str(path))
        self._delimiter, self._decimal_point = _separators(front, path)
        n_columns = _first_line(front).count(self._delimiter.encode()) + 1
        if n_columns > MOST_COLUMNS:
            sizes = {"n_columns": n_columns, "most": MOST_COLUMNS}
            raise refusal("too_many_columns", file=str(path), **sizes)
        table = self._parse(front, 1)
        names = table.schema.names
        counted = [str(j) for j in range(len(names))]  # which pandas writes as names
        numbers = names != counted and all(map(_is_number_text, names))
        self.has_names = not numbers or self._are_years(table)
        self.names = names if self.has_names else counted
        types = dict(zip(self.names, self._parse(front, 1).schema.types, strict=True))
        self._booleans = {name for name in types if self._pa.types.is_boolean(types[name])}
        kinds = {name: kind for name, kind in types.items() if not is_number(kind)}
        self.not_numbers = {n: {"found": f"entries of type {kind}"} for n, kind in kinds.items()}
        for code, about in self._faults(front, 1, kinds):  # each column with its first text
            if not kinds:
                break
            if code == "cell_not_a_number" and kinds.pop(about["column"], None) is not None:
                line, cell = about["line"], brief(about["cell"])
                found = f"text, such as {cell!r} in line {line}"
                self.not_numbers[about["column"]] = {"found": found, "cell": cell, "line": line}

    def _are_years(self, table: Any) -> bool:
        """Say whether the first line is a header of years, unlike the rows beneath it.

        They follow one another in equal steps, and none lies among the numbers of its column.
        """
        years = [int(name) for name in table.schema.names if YEAR.fullmatch(name)]
        steps = set(np.diff(years).tolist())
        in_turn = len(steps) == 1 and 0 not in steps and (len(years) > 2 or steps <= {1, -1})
        if len(years) < table.num_columns or not in_turn or not table.num_rows:
            return False
        for year, column in zip(years, table.columns, strict=True):
            if is_number(column.type):
                cells = column.cast(self._pa.float64(), safe=False).to_numpy()
                if np.nanmin(cells, initial=np.inf) <= year <= np.nanmax(cells, initial=-np.inf):
                    return False
        return True

    def blocks(self, columns: ColumnNames, dtype: np.dtype[Any]) -> Iterator[dict[str, Numbers]]:
        """Yield blocks of the chosen columns."""
        number, flag = self._pa.float64(), self._pa.bool_()
        names = chain(*columns.values())
        types = {name: flag if name in self._booleans else number for name in names}
        for table in self._tables(self._pieces(), types):
            block = _empty_block(columns, table.num_rows, dtype)
            _fill_block(block, 0, table, columns)
            yield block

    def texts(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield tables of some columns as text, from a file that is open at once."""
        return self._tables(self._pieces(), dict.fromkeys(names, self._pa.string()))

    def _tables(self, pieces: Iterator[bytes], types: dict[str, Any]) -> Iterator[Any]:
        line = 1
        for text in pieces:
            table = self._parse(text, line, types)
            yield table
            line += table.num_rows + (self.has_names and line == 1)

    def _pieces(self) -> Iterator[bytes]:
        """Open the file, and return its text in pieces that end with a line."""
        with as_unreadable(self.path, "CSV"):
            stream = self._pa.input_stream(str(self.path))  # out of its compression
        return self._cut(stream)

    def _cut(self, stream: Any) -> Iterator[bytes]:
        with stream:
            left, got = b"", b"-"
            while got:
                with as_unreadable(self.path, "CSV"):
                    got = stream.read(TEXT_BYTES)
                text = left + got
                end = (text.rfind(b"\n") + 1 or text.rfind(b"\r") + 1) if got else len(text)
                piece, left = text[:end], text[end:]
                if piece.strip(b"\r\n"):
                    yield piece
                if len(left) > TEXT_BYTES:
                    raise refusal("line_too_long", file=str(self.path), most=TEXT_BYTES)

    def _parse(self, text: bytes, line: int, types: dict[str, Any] | None = None) -> Any:
        """Return a table of all columns, or of those whose types are given.

        Arrow's reader of streams would read 32 pieces ahead.
        """
        read, convert = self._csv.ReadOptions, self._csv.ConvertOptions
        named = self.has_names and line == 1
        try:
            table = self._csv.read_csv(
                self._pa.BufferReader(text),
                read_options=read(
                    use_threads=False,
                    block_size=len(text) + 1,
                    column_names=None if named else self.names,
                ),
                parse_options=self._csv.ParseOptions(delimiter=self._delimiter),
                convert_options=convert(
                    decimal_point=self._decimal_point,
                    column_types=types,
                    include_columns=None if types is None else list(types),
                ),
            )
            _ = table.schema.names  # decodes them
        except UnicodeDecodeError:
            raise refusal("not_utf8", file=str(self.path)) from None
        except Exception as reason:
            numbers = [n for n, kind in (types or {}).items() if kind == self._pa.float64()]
            for code, about in self._faults(text, line, numbers):
                texts = {name: brief(about[name]) for name in about if name in ("column", "cell")}
                raise refusal(code, file=str(self.path), **{**about, **texts}) from reason
            with as_unreadable(self.path, "CSV"):
                raise
        return table

    def _faults(
        self, text: bytes, line: int, numbers: Collection[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield lines of other lengths, and cells that are not numbers, as codes and values.

        By Python's parser: slow, and only for messages.
        """
        width, missing = len(self.names), {*self._csv.ConvertOptions().null_values, ""}
        rows = (row.decode("utf-8", "replace") for row in re.split(rb"[\r\n]+", text) if row)
        with suppress(csv.Error):
            for at, row in enumerate(rows, line):
                cells = next(csv.reader([row], delimiter=self._delimiter))
                width = width or len(cells)
                if len(cells) != width:
                    sizes = {"expected": width, "found": len(cells)}
                    yield "wrong_number_of_cells", {"line": at, **sizes}
                if self.has_names and at == 1:
                    continue
                for name, cell in zip(self.names, cells, strict=False):
                    number = cell.replace(self._decimal_point, ".")
                    if name in numbers and cell not in missing and not _is_number_text(number):
                        yield "cell_not_a_number", {"line": at, "column": name, "cell": cell}


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
