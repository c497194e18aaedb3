"""Text files of rows: CSV and TSV, parsed piece by piece."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.column_names import unnamed_columns
from implicitmoments.rows.files.columns import (
    DECIMAL_HINT,
    MARKER_HINT,
    SEP_HINT,
    ColumnNames,
    Remedy,
    row_numbers,
)
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.file_source import Numbers, as_unreadable, require
from implicitmoments.rows.files.separators import (
    better_separator,
    find_decimal,
    find_separator,
    is_number_text,
)
from implicitmoments.rows.files.tables import empty_block, fill_block, is_number

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TEXT_BYTES = 2**20  # of text that is parsed at a time; a line may not be longer
MOST_COLUMNS = 2**16  # of text: Arrow takes 17 kB to guess the type of each
YEAR = re.compile("[12][0-9]{3}")
# Cells that stand for a missing number, beside those that Arrow takes for missing: together they
# are those of pandas.
MISSING = ("<NA>", "None")
LONGEST_MARKER = 20  # characters
MOST_MARKERS = 3  # different texts among numbers that may all stand for missing ones


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written; None stands for what its first lines show."""

    sep: str | None = None  # between columns
    decimal: str | None = None
    na_values: tuple[str, ...] = ()  # cells that stand for a missing number, beside the usual ones

    def __post_init__(self) -> None:
        for name, given in (("sep", self.sep), ("decimal", self.decimal)):
            text = isinstance(given, str) and len(given) == 1 and given.isascii()
            if given is not None and not (text and given not in '\r\n"\0' and not given.isalnum()):
                raise refusal("not_one_character", name=name, given=given)
        if self.sep is not None and self.sep == self.decimal:
            raise refusal("separators_equal", given=self.sep)

    @property
    def markers(self) -> set[str]:
        """The cells that were given; a number also as other programs write it."""
        numbers = [float(text) for text in self.na_values if is_number_text(text)]
        written = (spelling for n in numbers for spelling in (repr(n), f"{n:g}"))
        return {*self.na_values, *written}


class CsvFile:
    """A text file; separator, column names and types are inferred from the first megabyte.

    ``has_names`` says whether the first line holds names, or the first row. ``not_numbers`` has
    values of an error about each column that holds no numbers.
    """

    def __init__(self, path: Path, how: TextFormat | None = None) -> None:
        self._csv, self._pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
        self.path, self.has_names, self.names = path, True, list[str]()
        front = next(self._pieces(), b"")
        if not front:
            raise refusal("empty_file", file=str(path))
        if front.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise refusal("not_utf8", file=str(path))
        how, text = how or TextFormat(), front.decode("utf-8-sig", "replace")
        tabs = ".tsv" in "".join(path.suffixes[-2:]).lower()
        self._delimiter = how.sep or ("\t" if tabs else find_separator(text, how.decimal))
        self._decimal_point = how.decimal or find_decimal(text, self._delimiter)
        usual = self._csv.ConvertOptions().null_values
        self._missing = sorted({*usual, *MISSING, *how.markers})
        n_columns = _first_line(front).count(self._delimiter.encode()) + 1
        if n_columns > MOST_COLUMNS:
            sizes = {"n_columns": n_columns, "most": MOST_COLUMNS}
            raise refusal("too_many_columns", file=str(path), **sizes)
        table = self._parse(front, 1)
        names = table.schema.names
        counted = [str(j) for j in range(len(names))]  # which pandas writes as names
        numbers = all(is_number_text(name, self._decimal_point) for name in names)
        self.has_names = not numbers or names == counted or self._are_years(table)
        self.names = names if self.has_names else unnamed_columns(len(names))
        types = dict(zip(self.names, self._parse(front, 1).schema.types, strict=True))
        self._booleans = {name for name in types if self._pa.types.is_boolean(types[name])}
        kinds = {name: kind for name, kind in types.items() if not is_number(kind)}
        self.not_numbers = {n: {"found": f"entries of type {kind}"} for n, kind in kinds.items()}
        # each column with its first text; a search of all lines where there is none would be slow
        for code, about in self._faults(front, 1, kinds) if kinds else ():
            if code == "cell_not_a_number" and kinds.pop(about["column"], None) is not None:
                line, cell = about["line"], brief(about["cell"])
                found = f"text, such as {cell!r} in line {line}"
                self.not_numbers[about["column"]] = {"found": found, "cell": cell, "line": line}
                if not kinds:
                    break

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
            block = empty_block(columns, table.num_rows, dtype)
            fill_block(block, 0, table, columns)
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
                    null_values=self._missing,
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
                hint, more = self._hint(about, text)
                raise refusal(code, hint, file=str(self.path), **about | texts | more) from reason
            with as_unreadable(self.path, "CSV"):
                raise
        return table

    def _hint(self, about: dict[str, Any], text: bytes) -> tuple[str, dict[str, Any]]:
        """Return what to try where a line or a cell is wrong, and values of that."""
        if "cell" not in about:
            sep = better_separator(text.decode("utf-8", "replace"), self._delimiter)
            return (SEP_HINT if sep else ""), {"sep": sep}
        cell, decimal = about["cell"], self._other_decimal
        if decimal and is_number_text(cell, decimal):
            return DECIMAL_HINT, {"decimal": decimal}
        return (MARKER_HINT if _may_be_marker(cell) else ""), {"markers": [brief(cell)]}

    @property
    def _other_decimal(self) -> str | None:
        """The decimal separator that numbers do not have; None if it is between columns."""
        other = "," if self._decimal_point == "." else "."
        return None if other == self._delimiter else other

    def _faults(
        self, text: bytes, line: int, numbers: Collection[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield lines of other lengths, and cells that are not numbers, as codes and values.

        By Python's parser: slow, and only for messages.
        """
        width = len(self.names)
        with suppress(csv.Error):
            for at, cells in self._lines(text, line):
                width = width or len(cells)
                if len(cells) != width:
                    sizes = {"expected": width, "found": len(cells)}
                    yield "wrong_number_of_cells", {"line": at, **sizes}
                if self.has_names and at == 1:
                    continue
                for name, cell in zip(self.names, cells, strict=False):
                    if name in numbers and not self._is_missing_or_number(cell):
                        yield "cell_not_a_number", {"line": at, "column": name, "cell": cell}

    def _lines(self, text: bytes, line: int) -> Iterator[tuple[int, list[str]]]:
        rows = (row.decode("utf-8", "replace") for row in re.split(rb"[\r\n]+", text) if row)
        for at, row in enumerate(rows, line):
            yield at, next(csv.reader([row], delimiter=self._delimiter))

    def _is_missing_or_number(self, cell: str) -> bool:
        return cell in self._missing or is_number_text(cell, self._decimal_point)

    def remedies(self, names: Sequence[str]) -> dict[str, Remedy]:
        """Return the options by which columns would hold numbers, where there are such."""
        front = next(self._pieces(), b"")
        sep = better_separator(front.decode("utf-8-sig", "replace"), self._delimiter)
        if sep is not None:
            return {name: {"sep": sep} for name in names}
        everywhere = {name: place for place, name in enumerate(self.names)}
        places = {name: everywhere[name] for name in names}
        cells: dict[str, set[str]] = {name: set() for name in names}
        with suppress(csv.Error, IndexError):
            for at, line in self._lines(front, 1):
                for name, place in places.items() if at > 1 or not self.has_names else ():
                    cells[name].add(line[place])
        found = {name: self._remedy(cells[name]) for name in names}
        return {name: remedy for name, remedy in found.items() if remedy is not None}

    def _remedy(self, cells: set[str]) -> Remedy | None:
        """Return the options by which cells would be numbers; None if they are texts."""
        texts = sorted(cell for cell in cells if not self._is_missing_or_number(cell))
        decimal, remedy = self._other_decimal, dict[str, Any]()
        if decimal and any(is_number_text(cell, decimal) for cell in texts):
            texts = [cell for cell in texts if not is_number_text(cell, decimal)]
            remedy["decimal"] = decimal
        if texts:
            remedy["na_values"] = texts
        few = len(texts) <= MOST_MARKERS and all(map(_may_be_marker, texts))
        numbers = len(cells) > len(texts) + len(cells.intersection(self._missing))
        return remedy if few and numbers else None

    def row_numbers(self, names: Sequence[str]) -> set[str]:
        """Return those of some columns that number the rows."""
        types = {name: self._pa.float64() for name in names if name not in self._booleans}
        table = self._parse(next(self._pieces(), b""), 1, types) if types else None
        return set() if table is None else row_numbers({n: table.column(n) for n in types})


def _may_be_marker(cell: str) -> bool:
    return len(cell) <= LONGEST_MARKER and cell.isprintable()


def _first_line(text: bytes) -> bytes:
    return re.split(rb"[\r\n]", text.lstrip(b"\r\n"), maxsplit=1)[0]
