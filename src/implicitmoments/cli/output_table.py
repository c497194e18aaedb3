"""Tables written to standard output, or to a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import numpy as np

from implicitmoments.cli.console import naming
from implicitmoments.cli.summary import as_json_values
from implicitmoments.rows.files import require
from implicitmoments.saving.atomic_file import whole_file

__all__ = ["Piece", "Sink", "open_output"]

Piece: TypeAlias = Mapping[str, np.ndarray[Any, Any]]


class Sink(Protocol):
    """Receives a table, some rows at a time."""

    def write(self, piece: Piece) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write the end of the table."""


@contextlib.contextmanager
def open_output(path: Path | None, n_rows: int, *, as_json: bool = False) -> Iterator[Sink]:
    """Open what a table is written to, by its suffix.

    Parameters
    ----------
    path : path, optional
        Standard output by default, as CSV or JSON.
    n_rows : int
        The number of rows that will be written.
    as_json : bool
    """
    if path is None:
        text = JsonSink(sys.stdout) if as_json else CsvSink(sys.stdout, ",")
        with naming("standard output"):
            yield text
            text.close()
        return
    with (
        naming(str(path)),
        whole_file(path) as file,
        # an unfinished file is closed as well, and deleted
        contextlib.closing(_sink_of(path, file, n_rows)) as sink,
    ):
        yield sink


def _sink_of(path: Path, file: IO[bytes], n_rows: int) -> Sink:
    kind = path.suffix.lower()
    if kind == ".npy":
        return NpySink(file, n_rows)
    if kind in (".parquet", ".arrow"):
        return ArrowSink(file, kind)
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    return JsonSink(text) if kind == ".json" else CsvSink(text, "\t" if kind == ".tsv" else ",")


class CsvSink:
    """A line of names, then a line per row; numbers in the digits that restore them."""

    def __init__(self, file: IO[str], delimiter: str) -> None:
        self._file = file
        self._csv = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        self._begun = False

    def write(self, piece: Piece) -> None:
        """Append rows."""
        if not self._begun:
            self._csv.writerow(piece)
            self._begun = True
        self._csv.writerows(zip(*(_listed(column) for column in piece.values()), strict=True))

    def close(self) -> None:
        """Flush the file."""
        self._file.flush()


class JsonSink:
    """A list with one object per row."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._before = file, "[\n"

    def write(self, piece: Piece) -> None:
        """Append rows."""
        for row in zip(*(_listed(column) for column in piece.values()), strict=True):
            record = json.dumps(
                as_json_values(dict(zip(piece, row, strict=True))), ensure_ascii=False
            )
            self._file.write(f"{self._before}{record}")
            self._before = ",\n"

    def close(self) -> None:
        """End the list."""
        self._file.write("\n]\n" if self._before != "[\n" else "[]\n")
        self._file.flush()


class NpySink:
    """An array, with one axis if there is one column."""

    def __init__(self, file: IO[bytes], n_rows: int) -> None:
        self._file, self._n_rows, self._begun = file, n_rows, False

    def write(self, piece: Piece) -> None:
        """Append rows."""
        only = len(piece) == 1
        rows = next(iter(piece.values())) if only else np.column_stack([*piece.values()])
        rows = np.ascontiguousarray(rows)
        if not self._begun:
            self._begun = True
            header = {
                "descr": np.lib.format.dtype_to_descr(rows.dtype),
                "fortran_order": False,
                "shape": (self._n_rows, *rows.shape[1:]),
            }
            np.lib.format.write_array_header_1_0(self._file, header)
        self._file.write(rows.tobytes())

    def close(self) -> None:
        """Do nothing: all rows are written."""


class ArrowSink:
    """A Parquet or Arrow file, one batch per block of rows."""

    def __init__(self, file: IO[bytes], kind: str) -> None:
        self._file, self._kind = file, kind
        self._arrow: Any = require("pyarrow", kind[1:].capitalize())
        self._writer: Any = None

    def write(self, piece: Piece) -> None:
        """Append rows."""
        table = self._arrow.table(dict(piece))
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write the footer of the file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, schema: Any) -> Any:
        if self._kind == ".parquet":
            return require("pyarrow.parquet", "Parquet").ParquetWriter(self._file, schema)
        return require("pyarrow.ipc", "Arrow").new_file(self._file, schema)


def _listed(column: np.ndarray[Any, Any]) -> list[Any]:
    """Return numbers of Python; float32 in its own few digits."""
    if column.dtype == np.float32:
        return [float(str(number)) for number in column]
    listed: list[Any] = column.tolist()
    return listed
