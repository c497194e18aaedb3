"""Rows of the file that a command names, or of standard input."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from implicitmoments.cli.build_model import LABELLED
from implicitmoments.cli.console import naming
from implicitmoments.cli.options import Columns
from implicitmoments.cli.passthrough import KeptColumns, open_kept
from implicitmoments.cli.scale import ModelRows, check_columns, names_kept
from implicitmoments.rows import Block, RowDraws, open_file
from implicitmoments.rows.files import FileSource
from implicitmoments.saving import load

__all__ = ["blocks_of", "columns_for", "load_model", "open_beside", "open_table", "remembered"]

READ_ROWS = 16_384
ARRAYS = (".npy", ".zarr")
GZIP = b"\x1f\x8b"
AS_CSV = (".txt", ".dat", ".data", "")  # ends of names that say nothing of what a file holds
OTHERS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "is a spreadsheet; save it as CSV"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "is JSON; write its rows as CSV"),
    **dict.fromkeys((".zip", ".7z", ".rar"), "is an archive; unpack it"),
    **dict.fromkeys((".pkl", ".pickle"), "is pickled, which is not loaded; write it as CSV"),
    ".npz": "holds several arrays; write one of them as .npy, by numpy.save",
    ".im": "is a model, expected a file of rows",
}


def load_model(path: Path) -> Any:
    """Load a fitted model."""
    if str(path) == "-":
        raise ValueError("- is standard input, where rows can come from; a model has to be a file")
    model = load(path)
    check_columns(model)
    return model


def remembered(columns: Columns, source: FileSource) -> dict[str, Any]:
    """Return what a model keeps of the columns it was fitted to, beside its features' names."""
    kept = {"target": columns.target, "weight": columns.weight}
    if source.feature_names is None and columns.features is not None:
        kept["features"] = ",".join(columns.features)
    return {name: words for name, words in kept.items() if words is not None}


def columns_for(model: Any, path: str, columns: Columns, *, labelled: bool) -> Columns:
    """Choose the columns that a model was fitted to, unless others are named.

    Columns of arrays have no names; without numbers all are features.

    Parameters
    ----------
    model : fitted estimator
    path : str
        Of the rows.
    columns : Columns
        As they were typed.
    labelled : bool
        Whether labels are needed.
    """
    kept, names = names_kept(model), getattr(model, "feature_names_in_", None)
    if _is_array(path):
        names, kept = None, {name: words for name, words in kept.items() if _is_number(words)}
    if columns.features is None and names is not None:
        columns = columns.keep(features=tuple(str(name) for name in names))
    elif columns.features is None and "features" in kept:
        columns = columns.keep(features=tuple(kept["features"].split(",")))
    if labelled and isinstance(model, LABELLED) and columns.target is None:
        if "target" not in kept:
            raise ValueError(f"{type(model).__name__} has labels; name their column by --target")
        columns = columns.keep(target=kept["target"])
    return columns


@contextmanager
def open_table(path: str, columns: Columns) -> Iterator[FileSource]:
    """Open a file of rows; see :func:`open_beside`."""
    with open_beside(path, columns) as (source, _):
        yield source


@contextmanager
def open_beside(path: str, columns: Columns) -> Iterator[tuple[FileSource, KeptColumns | None]]:
    """Open a file of rows, and columns of it that go along with answers.

    ``-`` is CSV from standard input, and a pipe is read likewise. A file whose name says nothing
    of what it holds is read as CSV too.
    """
    place = Path(path)
    piped = path == "-" or place.is_fifo()
    if not piped and place.suffix.lower() in OTHERS and place.is_file():
        raise ValueError(f"{path} {OTHERS[place.suffix.lower()]}")
    if not piped and not (place.suffix.lower() in AS_CSV and place.is_file()):
        with _open(path, columns) as source:
            yield source, _kept(path, columns)
        return
    with tempfile.TemporaryDirectory(prefix="implicitmoments-") as folder:
        copy = _copied(path, Path(folder)) if piped else _linked(place, Path(folder))
        try:
            source, kept = _open(str(copy), columns), _kept(str(copy), columns)
        except (ValueError, TypeError) as reason:
            name = "standard input" if path == "-" else path
            raise type(reason)(str(reason).replace(str(copy), name)) from reason
    with source:  # it was parsed, and its copy is gone
        yield source, kept


def _kept(path: str, columns: Columns) -> KeptColumns | None:
    return open_kept(Path(path), columns.along) if columns.along else None


def _linked(path: Path, folder: Path) -> Path:
    """Give a file another name, by which it is CSV, or CSV compressed."""
    link = folder / ("rows.csv.gz" if _is_compressed(path) else "rows.csv")
    link.symlink_to(path.resolve())
    return link


def _copied(path: str, folder: Path) -> Path:
    """Copy what can be read once; by its name the copy is CSV, or CSV compressed."""
    copy = folder / "rows.csv"
    if path == "-" and sys.stdin is None:
        raise ValueError("standard input is closed; pipe rows into it")
    with (
        naming(f"the temporary folder {tempfile.gettempdir()}"),
        nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream,
        open(copy, "wb") as file,
    ):
        shutil.copyfileobj(stream, file)
    return copy.rename(folder / "rows.csv.gz") if _is_compressed(copy) else copy


def _is_compressed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP


def _open(path: str, columns: Columns) -> FileSource:
    typed = _choice(columns, _is_array(path))
    try:
        return open_file(path, **typed)
    except ValueError as reason:
        by_number = _choice(columns, True)
        if "names column" not in str(reason) or by_number == typed:
            raise _of_model(reason, columns) from None
        # no column has that name: a file without names counts its columns
        try:
            return open_file(path, **by_number)
        except ValueError:
            raise _of_model(reason, columns) from None


def _of_model(reason: ValueError, columns: Columns) -> ValueError:
    """Return an error in words for a column that the model named, and nobody typed."""
    what, names, rest = str(reason).partition(" names column ")
    if not names or what not in columns.kept:
        return reason
    return ValueError(
        f"the model was fitted to column {rest}; name others by {columns.kept[what]}"
    )


def _choice(columns: Columns, numbered: bool) -> dict[str, Any]:
    def one(name: str | None) -> Any:
        return int(name) if numbered and name is not None and _is_number(name) else name

    features = None if columns.features is None else [one(name) for name in columns.features]
    return {
        "columns": features,
        "y": one(columns.target),
        "sample_weight": one(columns.weight),
        "drop_missing": columns.drop_missing,
    }


def _is_array(path: str) -> bool:
    return path.rstrip("/").lower().endswith(ARRAYS)


def _is_number(words: str) -> bool:
    return all(word.isdecimal() for word in words.split(","))


def blocks_of(source: ModelRows) -> Iterator[Block]:
    """Yield the rows in blocks, as a model may be asked about them."""
    for start in range(0, source.n_rows, READ_ROWS):
        rows = range(start, min(start + READ_ROWS, source.n_rows))
        yield source.read(rows, RowDraws(0, rows))
