"""Output of commands: tables of rows in files."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from implicitmoments.cli.console import bad_input, name_full_device, print_line, show_progress
from implicitmoments.cli.description import as_json_text, print_document
from implicitmoments.description import counted
from implicitmoments.notes import printable
from implicitmoments.rows import require
from implicitmoments.saving import replace_file

if TYPE_CHECKING:
    from implicitmoments.cli.progress import PassProgress

# suffixes of the files that commands can write
TABLE_KINDS = (".csv", ".tsv", ".json", ".npy", ".parquet", ".arrow")
PAGE_KINDS = (".html", ".htm")
Piece: TypeAlias = Mapping[str, np.ndarray[Any, Any]]  # columns of some rows


def is_standard_output(path: Path | None) -> bool:
    """Say whether output goes to standard output: no path, or ``-``."""
    return path is None or str(path) == "-"


def check_output(
    path: Path, *read: str | Path, kinds: tuple[str, ...] = (), option: str = "-o"
) -> None:
    """Raise before any work if a file cannot be written, or is one of those that are read.

    It must have a suffix of ``kinds``, if there are any. The path was given by ``option``.
    """
    if is_standard_output(path) and kinds:  # of text: a model is a file
        return
    device = path.absolute().is_relative_to("/dev")  # /dev/stdout may be a file by another name
    strange = path.exists() and not path.is_file() and not path.is_dir()
    if is_standard_output(path) or device or strange:
        instead = f"give {option} {'-' if kinds else 'a file'}"
        raise bad_input("output_not_a_file", path=path, instead=instead)
    target = Path(os.path.realpath(path))
    if kinds and target.suffix.lower() not in kinds:
        raise bad_input("output_kind", path=path, suffix=target.suffix, kinds=", ".join(kinds))
    if target.is_dir():
        raise bad_input("output_is_folder", path=path)
    if not target.parent.is_dir():
        raise bad_input("output_without_folder", path=path, folder=target.parent)
    places = (target.parent, *([target] if target.exists() else []))
    if not all(os.access(place, os.W_OK) for place in places):
        raise bad_input("output_not_permitted", path=path)
    if any(str(each) != "-" and Path(os.path.realpath(each)) == target for each in read):
        raise bad_input("output_is_input", path=path, option=option)


def write_table(
    path: Path | None,
    pieces: Iterable[Piece],
    n_rows: int,
    *,
    what: str,
    as_json: bool,
    quiet: bool,
    counts: Mapping[str, int] | None = None,
) -> None:
    """Write a table incrementally, in the format of its suffix; to stdout without a path.

    Standard output gets CSV, or JSON if asked for; with a path, JSON is the number of rows,
    ``counts`` as they are after the last piece, and the path. ``what`` names the progress. On
    standard output control characters in names of columns are escaped; a file has the names as
    they are.
    """
    if path is None or is_standard_output(path):
        with name_full_device("standard output"):
            if not as_json:  # whose escapes are those of JSON
                pieces = ({printable(n): v for n, v in piece.items()} for piece in pieces)
            _write_text(pieces, sys.stdout, ".json" if as_json else ".csv")
        return
    kind = path.suffix.lower()
    with (
        show_progress(quiet) as progress,
        name_full_device(str(path)),
        replace_file(path) as file,
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
        print_document({"rows": n_rows, **(counts or {}), "output": str(path)}, indent=None)
    elif not quiet:
        print_line(f"wrote {path}, {counted(n_rows, 'row')}")


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
                file.write(before + as_json_text(dict(zip(piece, row, strict=True))))
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
    """Return Python numbers, None for masked ones; float32 in its shortest decimal form."""
    if column.dtype == np.float32:
        return [number if number is None else float(str(number)) for number in _singles(column)]
    listed: list[Any] = column.tolist()
    return listed


def _singles(column: np.ndarray[Any, Any]) -> list[Any]:
    """Return numbers in single precision, None for masked ones."""
    masked = np.ma.getmaskarray(column)
    return [None if m else n for n, m in zip(np.ma.getdata(column), masked, strict=True)]
