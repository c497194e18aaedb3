"""Tables out: to standard output, or to a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import numpy as np
from rich.console import Console

from implicitmoments.cli.console import naming, say
from implicitmoments.rows.files import require
from implicitmoments.saving.atomic_file import whole_file

__all__ = ["KINDS", "Piece", "Sink", "check_output", "open_output", "plain", "show"]

Piece: TypeAlias = Mapping[str, np.ndarray[Any, Any]]

KINDS = (".csv", ".tsv", ".json", ".npy", ".parquet", ".arrow")


class Sink(Protocol):
    """Takes columns of some rows after those before."""

    def write(self, piece: Piece) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what comes last."""


def check_output(
    path: Path, *read: str | Path, kinds: tuple[str, ...] = (), option: str = "-o"
) -> None:
    """Say before any work that a file cannot be written.

    Parameters
    ----------
    path : path
    *read : str or path
        Files that are read.
    kinds : tuple of str
        Endings of which it must have one; any will do by default.
    option : str
        That gave the path.
    """
    device = path.absolute().is_relative_to("/dev")  # /dev/stdout may be a file by another name
    if str(path) == "-" or device or (path.exists() and not path.is_file() and not path.is_dir()):
        instead = "leave -o out for standard output" if kinds == KINDS else f"give {option} a file"
        raise ValueError(f"{path} is no plain file; {instead}")
    target = Path(os.path.realpath(path))
    if kinds and target.suffix.lower() not in kinds:
        raise ValueError(
            f"{path} ends in {target.suffix or 'no suffix'!r}, expected one of {', '.join(kinds)}"
        )
    if target.is_dir():
        raise ValueError(f"{path} is a folder, expected a file to write to")
    if not target.parent.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {target.parent}")
    if not os.access(target if target.exists() else target.parent, os.W_OK) or not os.access(
        target.parent, os.W_OK
    ):
        raise ValueError(f"{path} cannot be written: it is not permitted")
    if any(str(each) != "-" and Path(os.path.realpath(each)) == target for each in read):
        raise ValueError(f"{path} is the file that is read; give {option} another name")


@contextlib.contextmanager
def open_output(path: Path | None, n_rows: int, *, as_json: bool = False) -> Iterator[Sink]:
    """Open what a table is written to, by the end of its name.

    Parameters
    ----------
    path : path, optional
        Standard output by default, as CSV or JSON.
    n_rows : int
        That will be written.
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
        # what was left unfinished is closed as well, and deleted
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
    """A line of names, then a line for each row; numbers in the digits that give them back."""

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
        """Hand on what is held."""
        self._file.flush()


class JsonSink:
    """A list with an object for each row."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._before = file, "[\n"

    def write(self, piece: Piece) -> None:
        """Append rows."""
        for row in zip(*(_listed(column) for column in piece.values()), strict=True):
            record = json.dumps(plain(dict(zip(piece, row, strict=True))), ensure_ascii=False)
            self._file.write(f"{self._before}{record}")
            self._before = ",\n"

    def close(self) -> None:
        """End the list."""
        self._file.write("\n]\n" if self._before != "[\n" else "[]\n")
        self._file.flush()


class NpySink:
    """An array, of one axis for one column; written as rows come."""

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
        """There is nothing left to write."""


class ArrowSink:
    """A Parquet or Arrow file, a batch for each block of rows."""

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
        """Write the end of the file, which says where its parts are."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, schema: Any) -> Any:
        if self._kind == ".parquet":
            return require("pyarrow.parquet", "Parquet").ParquetWriter(self._file, schema)
        return require("pyarrow.ipc", "Arrow").new_file(self._file, schema)


def _listed(column: np.ndarray[Any, Any]) -> list[Any]:
    """Return Python's numbers; float32 in its own few digits."""
    if column.dtype == np.float32:
        return [float(str(number)) for number in column]
    listed: list[Any] = column.tolist()
    return listed


def plain(value: Any) -> Any:
    """Return what JSON has words for: lists of numbers, and null for what is no number.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"weights": np.array([0.5, np.nan]), "k": np.int64(2)})
    {'weights': [0.5, None], 'k': 2}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def show(*shown: Any) -> None:
    """Print tables and text; a reader that is gone raises BrokenPipeError, as elsewhere."""
    console = Console()
    with naming("standard output"), console.capture() as captured:
        for one in shown:
            console.print(one, soft_wrap=isinstance(one, str), highlight=False, markup=False)
    say(captured.get().removesuffix("\n"))
