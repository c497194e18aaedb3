"""Input rows of a command, from a file or standard input, and which columns of it."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.cli.console import OPTIONS, bad_input, name_full_device
from implicitmoments.notes import CodedError, InputError
from implicitmoments.rows import open_file
from implicitmoments.rows.files import FileSource, read_columns

ARRAYS = (".npy", ".zarr")  # have no column names
GZIP = b"\x1f\x8b"  # first bytes of a gzip file (RFC 1952)
AS_CSV = (".txt", ".dat", ".data", "")  # suffixes that do not say what a file holds
OTHERS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "is a spreadsheet; save it as CSV"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "is JSON; write its rows as CSV"),
    **dict.fromkeys((".zip", ".7z", ".rar"), "is an archive; unpack it"),
    **dict.fromkeys((".pkl", ".pickle"), "is pickled, which is not loaded; write it as CSV"),
    ".npz": "holds several arrays; write one of them as .npy, by numpy.save",
    ".im": "is a model, expected a file of rows",
}


@dataclass(frozen=True)
class Columns:
    """Which columns are features, labels and weights."""

    features: tuple[str, ...] | None = None  # all other columns by default
    target: str | None = None
    weight: str | None = None
    # whether rows that lack a number are left out; they are refused otherwise
    drop_missing: bool = False
    carried: tuple[str, ...] = ()  # columns that are written beside the answers
    # which of ``"columns"`` and ``"y"`` are those of the model, and were not typed
    from_model: frozenset[str] = frozenset()

    @classmethod
    def typed(
        cls,
        columns: str | None,
        target: str | None,
        weight: str | None = None,
        *,
        drop_missing: bool = False,
        carried: str | None = None,
    ) -> Columns:
        """Split names at commas, except between quotes, as in CSV."""
        features = None if columns is None else _names(columns, "--columns")
        beside = () if carried is None else _names(carried, "--keep")
        return cls(features, target, weight, drop_missing, beside)


def _names(text: str, option: str) -> tuple[str, ...]:
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names:
        raise bad_input("no_names", option=option, text=text)
    return tuple(names)


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
    """Say whether a comma-separated list contains only column indices."""
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
    """Copy a stream that can be read only once to a file named as CSV or compressed CSV."""
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
    """Open a file; columns may be given by index if the file has no matching names."""
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
