"""CSV and TSV files, parsed once into a temporary file of numbers."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from implicitmoments.rows.files.array_file import SlicedSource
from implicitmoments.rows.files.block_source import Spool
from implicitmoments.rows.files.errors import as_unreadable, brief, refusal, require
from implicitmoments.rows.files.file_source import (
    ChosenColumns,
    ColumnChoice,
    choose_columns,
    float_type,
)
from implicitmoments.rows.files.tables import empty_block, fill_block, is_number

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
NOT_BLANK = re.compile(rb"[^\r\n]")  # text of blank lines only is skipped
QUOTED = re.compile(rb'"[^"]*"')  # separators within quotes do not count
PIECE_BYTES = 2**20  # of text that is parsed at a time; a line may not be longer
MOST_COLUMNS = 2**16  # Arrow takes 17 kB to guess the type of each


def open_csv(
    path: Path, choice: ColumnChoice, dtype: Any = None, *, drop_missing: bool = False
) -> SlicedSource:
    """Parse a file into a temporary file of numbers, and read from that."""
    file = CsvFile(path)
    chosen = choose_columns(str(path), file.names, choice, file.not_numbers)
    names = chosen.features if file.has_names else None
    spool = Spool(
        str(path),
        float_type(np.dtype(np.float64), dtype),
        names,
        first_line=1 + file.has_names,
        drop_missing=drop_missing,
    )
    with spool.filling():
        for table in file.numbers(chosen):
            block = empty_block(chosen, table.num_rows, spool.dtype)
            fill_block(block, 0, table, chosen)
            spool.append(block)
        by_number = names is None and choice.columns is not None
        return spool.source(chosen.remembered(by_number=by_number))


class CsvFile:
    """A text file; separator, column names and types are inferred from the first megabyte.

    ``has_names`` says whether the first line holds names, or the first row; then columns are named
    by numbers. ``not_numbers`` describes columns that do not hold numbers for ``choose_columns``.
    """

    def __init__(self, path: Path) -> None:
        self._csv, self._pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
        self.path, self.has_names, self.names = path, True, list[str]()
        self._missing = {*self._csv.ConvertOptions().null_values, ""}
        front = next(self._pieces(), b"")
        if front.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._refuse_encoding()
        self._delimiter, self._decimal_point = _separators(front, path)
        n_columns = _first_line(front).count(self._delimiter.encode()) + 1
        if n_columns > MOST_COLUMNS:
            about = {"n_columns": n_columns, "most": MOST_COLUMNS}
            raise refusal("too_many_columns", file=str(path), **about)
        with self._errors(front, 1):
            table = self._parse(front, 1)
            names = table.schema.names
            counted = [str(j) for j in range(len(names))]  # which pandas writes as names
            self.has_names = names == counted or not _are_numbers(names)
            self.names = names if self.has_names else counted
            if not self.has_names:
                table = self._parse(front, 1)
            types = dict(zip(self.names, table.schema.types, strict=True))
        self._booleans = {name for name in types if self._pa.types.is_boolean(types[name])}
        self.not_numbers = self._describe(front, types)

    def numbers(self, chosen: ChosenColumns) -> Iterator[Any]:
        """Yield tables of the chosen columns as numbers."""
        number, flag = self._pa.float64(), self._pa.bool_()
        types = {name: flag if name in self._booleans else number for name in chosen.names}
        return self._tables(self._pieces(), types)

    def texts(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield tables of some columns as text, from a file that is open at once."""
        return self._tables(self._pieces(), dict.fromkeys(names, self._pa.string()))

    def _tables(self, pieces: Iterator[bytes], types: dict[str, Any]) -> Iterator[Any]:
        line = 1
        for text in pieces:
            with self._errors(text, line, list(types)):
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
                    got = stream.read(PIECE_BYTES)
                text = left + got
                end = (text.rfind(b"\n") + 1 or text.rfind(b"\r") + 1) if got else len(text)
                piece, left = text[:end], text[end:]
                if NOT_BLANK.search(piece):
                    yield piece
                if len(left) > PIECE_BYTES:
                    raise refusal("line_too_long", file=str(self.path), most=PIECE_BYTES)

    def _parse(self, text: bytes, line: int, types: dict[str, Any] | None = None) -> Any:
        """Return a table of all columns, or of those whose types are given."""
        return self._csv.read_csv(
            self._pa.BufferReader(text),
            read_options=self._csv.ReadOptions(
                use_threads=False,  # and nothing is read ahead
                block_size=len(text) + 1,
                column_names=None if self.has_names and line == 1 else self.names,
            ),
            parse_options=self._csv.ParseOptions(delimiter=self._delimiter),
            convert_options=self._csv.ConvertOptions(
                decimal_point=self._decimal_point,
                column_types=types,
                include_columns=None if types is None else list(types),
            ),
        )

    @contextmanager
    def _errors(self, text: bytes, line: int, names: Sequence[str] = ()) -> Iterator[None]:
        """Raise one error that names the line, or at least the file."""
        try:
            yield
        except UnicodeDecodeError:
            self._refuse_encoding()
        except Exception as reason:
            width, about = len(self.names), {"file": str(self.path)}
            for at, cells in self._rows(text, line):
                width, n = width or len(cells), len(cells)
                if n != width:
                    sizes = {"line": at, "expected": width, "found": n}
                    raise refusal("wrong_number_of_cells", **about, **sizes) from reason
                for name, cell in self._texts(at, cells, names):
                    found = {"column": brief(name), "cell": brief(cell)}
                    raise refusal("cell_not_a_number", **about, **found, line=at) from reason
            with as_unreadable(self.path, "CSV"):
                raise

    def _refuse_encoding(self) -> NoReturn:
        raise refusal("not_utf8", file=str(self.path)) from None

    def _rows(self, text: bytes, line: int) -> Iterator[tuple[int, list[str]]]:
        """Yield lines and their cells by Python's parser: slow, and only for messages."""
        rows = (row.decode("utf-8", "replace") for row in re.split(rb"[\r\n]+", text) if row)
        with suppress(csv.Error):
            for at, row in enumerate(rows, line):
                yield at, next(csv.reader([row], delimiter=self._delimiter))

    def _texts(
        self, line: int, cells: Sequence[str], names: Collection[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the cells of a row that are not numbers, of the columns that are named."""
        if self.has_names and line == 1:
            return
        for name, cell in zip(self.names, cells, strict=False):
            is_text = cell not in self._missing and not _are_numbers([cell], self._decimal_point)
            if name in names and is_text:
                yield name, cell

    def _describe(self, front: bytes, types: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Describe the columns that do not hold numbers, each with its first text."""
        kinds = {name: kind for name, kind in types.items() if not is_number(kind)}
        described: dict[str, dict[str, Any]] = {}
        for line, cells in self._rows(front, 1):
            if len(described) == len(kinds):
                return described
            for name, cell in self._texts(line, cells, kinds.keys() - described):
                found = f"text, such as {brief(cell)!r} in line {line}"
                described[name] = {"found": found, "cell": brief(cell), "line": line}
        plain = {name: {"found": f"entries of type {kind}"} for name, kind in kinds.items()}
        return {**plain, **described}


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


def _are_numbers(texts: Sequence[str], decimal_point: str = ".") -> bool:
    """Return whether all texts are finite numbers."""
    try:
        return bool(np.isfinite([float(t.replace(decimal_point, ".")) for t in texts]).all())
    except ValueError:
        return False
