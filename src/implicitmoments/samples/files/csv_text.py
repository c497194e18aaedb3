"""Tables of text: CSV and TSV files, parsed once."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.samples.files.choice import Choice, Chosen, choose_columns
from implicitmoments.samples.files.matrix import MatrixSource, float_type
from implicitmoments.samples.files.optional import require
from implicitmoments.samples.files.spool import Spool
from implicitmoments.samples.files.table import empty_block, fill, is_number

__all__ = ["open_csv"]

# what Arrow says; rows are counted from 1 and with the line of names
NO_NUMBER = re.compile(r"In CSV column #(\d+): Row #(\d+): .* invalid value '(.*)'", re.S)
QUOTED = re.compile(rb'"[^"]*"')
NOT_UTF8 = "it is no text in UTF-8; save it in UTF-8, as iconv -t utf-8 does"
LOOKED_AT = 65_536  # bytes in which columns are told apart
NO_ROW = re.compile(r"CSV parse error: Row #(\d+): (Expected \d+ columns, got \d+)")


def open_csv(path: Path, choice: Choice, dtype: Any = None) -> MatrixSource:
    """Parse a file into a temporary file of numbers, block by block, and read from that."""
    file = _CsvFile(path)
    chosen = choose_columns(str(path), file.names, file.not_numbers, choice)
    spool = Spool(
        str(path),
        float_type(np.dtype(np.float64), dtype),
        chosen.features if file.has_names else None,
    )
    try:
        for batch in file.batches(chosen):
            block = empty_block(chosen, batch.num_rows, spool.dtype)
            fill(block, 0, batch, chosen)
            spool.append(block)
        if not spool.n_rows:
            raise ValueError(f"{path} has no rows, expected at least one below the names")
        points, others = spool.matrices()
        return MatrixSource(
            str(path),
            points,
            columns=others,
            dtype=spool.dtype,
            feature_names=spool.feature_names,
            is_checked=True,
        )
    except BaseException:
        spool.close()
        raise


class _CsvFile:
    """A file of text whose first lines were looked at."""

    def __init__(self, path: Path) -> None:
        self._csv, self._pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
        self.path, self.has_names = path, True
        self._delimiter, self._decimal_point = self._layout()
        try:
            self.names: list[str] = self._open().schema.names
        except UnicodeDecodeError as reason:
            raise ValueError(self._explain(NOT_UTF8)) from reason
        counted = [str(j) for j in range(len(self.names))]  # what pandas gives as names
        self.has_names = self.names == counted or not _are_numbers(self.names)
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
        try:
            yield from self._open(include_columns=list(chosen.names), column_types=types)
        except self._pa.ArrowInvalid as reason:
            raise ValueError(self._explain(str(reason))) from reason

    def _open(self, **convert: Any) -> Any:
        try:
            return self._csv.open_csv(
                self.path,
                # in one thread Arrow counts rows, and its messages name them
                read_options=self._csv.ReadOptions(
                    use_threads=False, autogenerate_column_names=not self.has_names
                ),
                parse_options=self._csv.ParseOptions(delimiter=self._delimiter),
                convert_options=self._csv.ConvertOptions(
                    decimal_point=self._decimal_point, **convert
                ),
            )
        except (self._pa.ArrowInvalid, OSError) as reason:
            raise ValueError(self._explain(str(reason))) from reason

    def _layout(self) -> tuple[str, str]:
        """Tell what separates columns and decimals, by the beginning of the file.

        Where commas are decimal points, spreadsheets separate columns by semicolons.
        """
        if ".tsv" in "".join(self.path.suffixes[-2:]).lower():
            return "\t", "."
        try:
            with self._pa.input_stream(str(self.path)) as stream:
                begin = stream.read(LOOKED_AT)
        except OSError as reason:
            raise ValueError(self._explain(str(reason))) from reason
        if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(self._explain(NOT_UTF8))
        begin = QUOTED.sub(b"", begin)
        names = next(iter(begin.splitlines()), b"")
        if b"," in names:
            return ",", "."
        if b";" in names:
            return ";", "," if b"," in begin else "."
        return "\t" if b"\t" in names else ",", "."

    def _explain(self, reason: str) -> str:
        if found := NO_NUMBER.search(reason):
            column, row, text = found.groups()
            name = self.names[int(column)]
            return f"{self.path}, line {row}: column {name!r} holds {text!r}, expected a number"
        if found := NO_ROW.search(reason):
            row, said = found.groups()
            return f"{self.path}, line {row}: {said[0].lower()}{said[1:]}"
        return f"{self.path} cannot be read as CSV: {reason}"

    def _describe(self, field: Any, column: Any) -> str:
        """Say what a column holds, with the first cell that is no number."""
        texts = [] if column is None else [str(cell) for cell in column.to_pylist()]
        for row, text in enumerate(texts):
            if not _are_numbers([text]) and text != "None":
                return f"text, such as {text!r} in line {row + 1 + self.has_names}"
        return f"entries of type {field.type}"


def _are_numbers(texts: Sequence[str]) -> bool:
    """Tell whether all texts are finite numbers."""
    try:
        return bool(np.isfinite([float(text) for text in texts]).all())
    except ValueError:
        return False
