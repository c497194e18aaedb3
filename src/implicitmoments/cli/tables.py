"""Rows of the file that a command names, or of standard input."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from implicitmoments.cli.console import bad_input, name_full_device, show_progress
from implicitmoments.cli.options import Columns
from implicitmoments.cli.summary import as_json_values, print_document
from implicitmoments.cli.vocabulary import OPTIONS
from implicitmoments.notes import CodedError, InputError
from implicitmoments.rows import open_file
from implicitmoments.rows.files import FileSource, read_columns, require
from implicitmoments.saving.files import whole_file

if TYPE_CHECKING:
    from implicitmoments.cli.progress import PassProgress

ARRAYS = (".npy", ".zarr")
GZIP = b"\x1f\x8b"
AS_CSV = (".txt", ".dat", ".data", "")  # suffixes that do not say what a file holds
OTHERS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "is a spreadsheet; save it as CSV"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "is JSON; write its rows as CSV"),
    **dict.fromkeys((".zip", ".7z", ".rar"), "is an archive; unpack it"),
    **dict.fromkeys((".pkl", ".pickle"), "is pickled, which is not loaded; write it as CSV"),
    ".npz": "holds several arrays; write one of them as .npy, by numpy.save",
    ".im": "is a model, expected a file of rows",
}


@contextmanager
def open_table(path: str, columns: Columns) -> Iterator[tuple[FileSource, CarriedColumns | None]]:
    """Open a file of rows, and the columns of it that are copied beside the answers.

    ``-`` is CSV from standard input, and a named pipe is read likewise. A file whose name does
    not say what it holds is read as CSV too.
    """
    place = Path(path)
    suffix, piped = place.suffix.lower(), path == "-" or place.is_fifo()
    if not piped and suffix in OTHERS and place.is_file():
        raise bad_input("not_rows", file=path, suffix=suffix, advice=OTHERS[suffix])
    if not piped and not (suffix in AS_CSV and place.is_file()):
        with _open(path, columns) as source:
            yield source, _carried(path, columns)
        return
    with tempfile.TemporaryDirectory(prefix="implicitmoments-") as folder:
        copy = _copy(path, Path(folder)) if piped else _link(place, Path(folder))
        try:
            source, carried = _open(str(copy), columns), _carried(str(copy), columns)
        except CodedError as error:
            name = "standard input" if path == "-" else path
            raise type(error)(
                error.code, error.template, **{**error.values, "file": name}
            ) from error
    with source:  # it was parsed, and its copy is deleted
        yield source, carried


class CarriedColumns:
    """Columns of a file, text or numbers, that are copied beside the answers.

    They come in record batches of Arrow, in the order of the rows.
    """

    def __init__(self, names: Sequence[str], batches: Iterable[Any]) -> None:
        self.names = tuple(names)
        self._rows = (
            row
            for batch in batches
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        )

    def take(self, n_rows: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return the columns of the next rows."""
        rows = list(islice(self._rows, n_rows))
        if len(rows) != n_rows:
            raise bad_input("rows_missing")
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for name, cells in zip(self.names, zip(*rows, strict=True), strict=True):
            columns[name] = np.empty(n_rows, dtype=object)
            columns[name][:] = cells
        return columns


def is_array(path: str) -> bool:
    """Say whether the columns of a file have no names."""
    return path.rstrip("/").lower().endswith(ARRAYS)


def is_number(words: str) -> bool:
    """Say whether all of some words, separated by commas, are numbers of columns."""
    return all(word.isdecimal() for word in words.split(","))


def _carried(path: str, columns: Columns) -> CarriedColumns | None:
    """Begin to read columns; the file is open from then on, and may be deleted."""
    if not columns.carried:
        return None
    return CarriedColumns(*read_columns(Path(path), columns.carried, what="--keep"))


def _link(path: Path, folder: Path) -> Path:
    """Give a file another name, by which it is CSV, or CSV compressed."""
    link = folder / ("rows.csv.gz" if _is_compressed(path) else "rows.csv")
    link.symlink_to(path.resolve())
    return link


def _copy(path: str, folder: Path) -> Path:
    """Copy what can be read once; by its name the copy is CSV, or CSV compressed."""
    copy = folder / "rows.csv"
    if path == "-" and sys.stdin is None:
        raise bad_input("standard_input_closed")
    with (
        name_full_device(f"the temporary folder {tempfile.gettempdir()}"),
        nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream,
        open(copy, "wb") as file,
    ):
        shutil.copyfileobj(stream, file)
    return copy.rename(folder / "rows.csv.gz") if _is_compressed(copy) else copy


def _is_compressed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP


def _open(path: str, columns: Columns) -> FileSource:
    """Open a file; numbers stand for columns if it has no names, or none of that name."""
    typed, by_number = (_arguments(columns, numbers) for numbers in (is_array(path), True))
    try:
        try:
            return open_file(path, **typed)
        except InputError as error:
            if error.code != "no_such_column" or by_number == typed:
                raise
            try:
                return open_file(path, **by_number)
            except InputError:
                raise error from None
    except InputError as error:
        what = error.values.get("what")
        if error.code != "no_such_column" or what not in columns.from_model:
            raise
        raise bad_input(
            "model_column_missing", **error.values, option=OPTIONS[str(what)]
        ) from error


def _arguments(columns: Columns, numbers: bool) -> dict[str, Any]:
    def one(name: str | None) -> Any:
        return int(name) if numbers and name is not None and is_number(name) else name

    features = None if columns.features is None else [one(name) for name in columns.features]
    return {
        "columns": features,
        "y": one(columns.target),
        "sample_weight": one(columns.weight),
        "drop_missing": columns.drop_missing,
    }


Piece: TypeAlias = Mapping[str, np.ndarray[Any, Any]]  # columns of some rows


def write_table(
    path: Path | None,
    pieces: Iterable[Piece],
    n_rows: int,
    *,
    what: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a table as its rows come, by its suffix; without a path to standard output.

    Standard output gets CSV, or JSON if asked for; with a path, JSON is the number of rows and
    the path. ``what`` names the progress.
    """
    if path is None:
        with name_full_device("standard output"):
            _write_text(pieces, sys.stdout, ".json" if as_json else ".csv")
        return
    kind = path.suffix.lower()
    with (
        show_progress(quiet) as progress,
        name_full_device(str(path)),
        whole_file(path) as file,
    ):
        pieces = _watch(pieces, progress, what, n_rows)
        if kind == ".npy":
            _write_npy(pieces, file, n_rows)
        elif kind in (".parquet", ".arrow"):
            _write_arrow(pieces, file, kind)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            _write_text(pieces, text, kind)
            text.detach()
    if as_json:
        print_document({"rows": n_rows, "output": str(path)}, indent=None)


def _watch(
    pieces: Iterable[Piece], progress: PassProgress | None, what: str, n_rows: int
) -> Iterator[Piece]:
    """Show the progress of pieces as they are written."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(next(iter(piece.values())))
        if progress is not None:
            progress(what, done, n_rows)


def _write_text(pieces: Iterable[Piece], file: IO[str], kind: str) -> None:
    """Write CSV, TSV, or a JSON list with one object per row."""
    if kind == ".json":
        before = "[\n"
        for piece in pieces:
            for row in _rows(piece):
                record = as_json_values(dict(zip(piece, row, strict=True)))
                file.write(before + json.dumps(record, ensure_ascii=False))
                before = ",\n"
        file.write("[]\n" if before == "[\n" else "\n]\n")
    else:
        out = csv.writer(file, delimiter="\t" if kind == ".tsv" else ",", lineterminator="\n")
        for i, piece in enumerate(pieces):
            if i == 0:
                out.writerow(piece)
            out.writerows(_rows(piece))
    file.flush()


def _write_npy(pieces: Iterable[Piece], file: IO[bytes], n_rows: int) -> None:
    """Write an array, with one axis if there is one column."""
    for i, piece in enumerate(pieces):
        columns = [*piece.values()]
        rows = np.ascontiguousarray(columns[0] if len(columns) == 1 else np.column_stack(columns))
        if i == 0:
            shape, descr = (n_rows, *rows.shape[1:]), np.lib.format.dtype_to_descr(rows.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(rows.tobytes())


def _write_arrow(pieces: Iterable[Piece], file: IO[bytes], kind: str) -> None:
    """Write a Parquet or Arrow file, one batch per piece."""
    name = kind[1:].capitalize()
    arrow, writer = require("pyarrow", name), None
    try:
        for piece in pieces:
            table = arrow.table(dict(piece))
            if writer is None and kind == ".parquet":
                writer = require("pyarrow.parquet", name).ParquetWriter(file, table.schema)
            elif writer is None:
                writer = require("pyarrow.ipc", name).new_file(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _rows(piece: Piece) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_numbers, piece.values()), strict=True)


def _numbers(column: np.ndarray[Any, Any]) -> list[Any]:
    """Return numbers of Python; float32 in its own few digits."""
    if column.dtype == np.float32:
        return [float(str(number)) for number in column]
    listed: list[Any] = column.tolist()
    return listed
