"""Tables of text: CSV and TSV files, parsed once."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.rows.files.column_choice import Choice, Chosen, choose_columns
from implicitmoments.rows.files.complete_rows import source_of
from implicitmoments.rows.files.matrix import MatrixSource, float_type
from implicitmoments.rows.files.optional_imports import require
from implicitmoments.rows.files.reader_errors import as_damage, brief
from implicitmoments.rows.files.spool import Spool
from implicitmoments.rows.files.table import empty_block, fill, is_number

__all__ = ["CsvFile", "open_csv"]

# what Arrow says; rows are counted from 1 and with the line of names
NO_NUMBER = re.compile(r"In CSV column #(\d+): Row #(\d+): .* invalid value '(.*)'", re.S)
QUOTED = re.compile(rb'"[^"]*"')
NOT_UTF8 = (
    "cannot be read as CSV: it is no text in UTF-8; save it in UTF-8, as iconv -t utf-8 does"
)
NO_ROW = re.compile(r"CSV parse error: Row #(\d+): (Expected \d+ columns, got \d+)")
FRONT_BYTES = 2**20  # Arrow refuses lines of more
MOST_COLUMNS = 2**16  # to guess the type of each Arrow takes 17 kB
ADVICE = "write it again, as text in UTF-8 with names in the first line and a row in each other"


def open_csv(
    path: Path, choice: Choice, dtype: Any = None, *, drop_missing: bool = False
) -> MatrixSource:
    """Parse a file into a temporary file of numbers, block by block, and read from that."""
    file = CsvFile(path)
    chosen = choose_columns(str(path), file.names, file.not_numbers, choice)
    spool = Spool(
        str(path),
        float_type(np.dtype(np.float64), dtype),
        chosen.features if file.has_names else None,
        first_line=1 + file.has_names,
        drop_missing=drop_missing,
    )
    try:
        for batch in file.batches(chosen):
            block = empty_block(chosen, batch.num_rows, spool.dtype)
            fill(block, 0, batch, chosen)
            spool.append(block)
        if not spool.n_rows + spool.n_dropped:
            raise ValueError(f"{path} has no rows, expected at least one below the names")
        return source_of(spool)
    except BaseException:
        spool.close()
        raise


class CsvFile:
    """A file of text whose first lines were looked at."""

    def __init__(self, path: Path) -> None:
        self._csv, self._pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
        self.path, self.has_names = path, True
        self.names: list[str] = []
        with self._told():
            front = self._front()
        if front.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(f"{path} {NOT_UTF8}")
        self._delimiter, self._decimal_point = _layout(front, path)
        width = _first_line(front).count(self._delimiter.encode()) + 1
        if width > MOST_COLUMNS:
            raise ValueError(
                f"{path} has {width} columns, expected at most {MOST_COLUMNS} in a file of text; "
                "write it as .npy or Parquet"
            )
        with self._told():
            self.names = self._open().schema.names
        counted = [str(j) for j in range(len(self.names))]  # what pandas gives as names
        self.has_names = self.names == counted or not _are_numbers(self.names)
        with self._told():
            reader = self._open()
            self.names, self._types = reader.schema.names, reader.schema.types
            first = next(iter(reader), None)
            self.not_numbers = {
                field.name: self._describe(field, None if first is None else first.column(j))
                for j, field in enumerate(reader.schema)
                if not is_number(field.type)
            }

    def batches(self, chosen: Chosen) -> Any:
        """Yield record batches of the chosen columns as numbers."""
        booleans = {
            name
            for name, kind in zip(self.names, self._types, strict=True)
            if self._pa.types.is_boolean(kind)
        }
        types = {
            name: self._pa.bool_() if name in booleans else self._pa.float64()
            for name in chosen.names
        }
        with self._told():
            yield from self._open(include_columns=list(chosen.names), column_types=types)

    def texts(self, names: Sequence[str]) -> Any:
        """Return record batches of some columns as text, from a file that is open at once."""
        types = dict.fromkeys(names, self._pa.string())
        with self._told():
            return self._each(self._open(include_columns=list(names), column_types=types))

    def _each(self, reader: Any) -> Any:
        with self._told():
            yield from reader

    def _front(self) -> bytes:
        """Return the beginning of the file, out of its packing."""
        with self._pa.input_stream(str(self.path)) as stream:
            front: bytes = stream.read(FRONT_BYTES)
        return front

    def _open(self, **convert: Any) -> Any:
        return self._csv.open_csv(
            self.path,
            # in one thread Arrow counts rows, and its messages name them
            read_options=self._csv.ReadOptions(
                use_threads=False, autogenerate_column_names=not self.has_names
            ),
            parse_options=self._csv.ParseOptions(delimiter=self._delimiter),
            convert_options=self._csv.ConvertOptions(decimal_point=self._decimal_point, **convert),
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise one error that names the line, or at the least the file."""
        try:
            yield
        except UnicodeDecodeError as reason:
            raise ValueError(f"{self.path} {NOT_UTF8}") from reason
        except Exception as reason:
            if words := self._explain(str(reason)):
                raise ValueError(words) from reason
            with as_damage(self.path, "cannot be read as CSV", ADVICE):
                raise

    def _explain(self, reason: str) -> str:
        """Say which cell or row is wrong, where Arrow says so."""
        if found := NO_NUMBER.search(reason):
            column, row, text = found.groups()
            name = self.names[int(column)]
            return (
                f"{self.path}, line {row}: column {brief(name)!r} holds {brief(text)!r}, expected "
                "a number"
            )
        if found := NO_ROW.search(reason):
            row, said = found.groups()
            return f"{self.path}, line {row}: {said[0].lower()}{said[1:]}"
        return ""

    def _describe(self, field: Any, column: Any) -> str:
        """Say what a column holds, with the first cell that is no number."""
        if column is not None and self._pa.types.is_timestamp(field.type):
            # as text at once: nanoseconds would become objects of pandas, if it is there
            column = column.cast(self._pa.timestamp(field.type.unit)).cast(self._pa.string())
        texts = [] if column is None else [str(cell) for cell in column.to_pylist()]
        rows = [i for i, t in enumerate(texts) if t != "None" and not _are_numbers([t])]
        if not rows:
            return f"entries of type {field.type}"
        such = f"such as {brief(texts[rows[0]])!r} in line {rows[0] + 1 + self.has_names}"
        if len(rows) == len(texts):
            return f"text, {such}"
        return f"text in {len(rows):,} of the first {len(texts):,} cells, {such}"


def _layout(front: bytes, path: Path) -> tuple[str, str]:
    """Tell what separates columns and decimals, by the beginning of the file.

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


def _are_numbers(texts: Sequence[str]) -> bool:
    """Tell whether all texts are finite numbers."""
    try:
        return bool(np.isfinite([float(text) for text in texts]).all())
    except ValueError:
        return False
