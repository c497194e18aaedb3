"""Open one file of rows: its columns, and a reader of those that are chosen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from implicitmoments.arrays import as_real_array, to_numpy
from implicitmoments.column_names import unnamed_columns
from implicitmoments.rows.files.array_files import ZarrArray, open_npy, zarr_description
from implicitmoments.rows.files.columns import ColumnNames, FileColumns, choose_columns
from implicitmoments.rows.files.csv_files import CSV, CsvFile, TextFormat
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.file_source import ARGUMENTS, float_type
from implicitmoments.rows.files.kept_rows import KeptRows
from implicitmoments.rows.files.raw_rows import SlicedRows, open_spool, spool_rows
from implicitmoments.rows.files.tables import TABLES, TableFile, TableRows, table_columns
from implicitmoments.rows.fold import blocks

FilePath: TypeAlias = str | os.PathLike[str]

KINDS = (".npy", *TABLES, *CSV, ".zarr")
COPIED_ROWS = 65_536  # at a time, where incomplete rows are left out: limits memory


class Reading(NamedTuple):
    """How files are read."""

    text: TextFormat
    dtype: Any
    drop_missing: bool
    keep_missing: bool


class FilePart(NamedTuple):
    """An open file: its columns, and how to read some of them."""

    columns: FileColumns
    chosen: ColumnNames
    # returns a reader of the columns, which rows were kept (None for all), and whether rows were
    # checked
    read: Callable[[ColumnNames], tuple[Any, KeptRows | None, bool]]
    watched: Sequence[Path] = ()


def existing(path: FilePath) -> Path:
    """Return a path, or raise if there is no such file."""
    if not os.fspath(path):  # pathlib takes it for the current folder
        raise refusal("empty_path")
    place = Path(path)
    if not place.exists():
        raise refusal("no_such_file", file=str(place), folder=str(Path.cwd()))
    return place


def is_text(place: Path) -> bool:
    """Return whether a file is read as CSV."""
    return place.name.lower().endswith(CSV) and not place.is_dir()


def is_array(place: Path) -> bool:
    """Return whether a file is an array, whose columns have no names."""
    return place.suffix.lower() in (".npy", ".zarr") or zarr_description(place) is not None


class Spool:
    """A temporary file that is opened when it is first asked for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._file: IO[bytes] | None = None

    def __call__(self) -> IO[bytes]:
        """Return the file."""
        if self._file is None:
            self._file = open_spool()
            self._stack.callback(self._file.close)
        return self._file


def open_part(
    path: Path,
    wanted: Mapping[str, Any],
    how: Reading,
    spool: Spool,
    stack: ExitStack,
    *,
    alone: bool,
) -> FilePart:
    """Open a file by its suffix; ``alone`` if its rows are not joined to those of others."""
    if path.name.lower().endswith(KINDS) and path.is_file() and not path.stat().st_size:
        raise refusal("empty_file", file=str(path))
    if is_text(path):
        return _open_csv(path, wanted, how, spool)
    if is_array(path):
        part = _open_array(path, wanted, how.dtype, stack, alone)
    elif path.suffix.lower() in TABLES:
        part = _open_table(path, wanted, how.dtype, stack)
    else:
        kinds = ", ".join(KINDS)
        raise refusal("unknown_kind", file=str(path), suffix=path.suffix, kinds=kinds)
    return part._replace(read=partial(_whole_rows, part, spool)) if how.drop_missing else part


def _whole_rows(
    part: FilePart, spool: Spool, chosen: ColumnNames
) -> tuple[SlicedRows, KeptRows, bool]:
    """Copy the rows of a file that lack nothing."""
    reader, _, _ = part.read(chosen)
    # no rows first: they have the columns of a table without rows
    pieces = map(reader.read, chain([range(0)], blocks(range(reader.n_rows), COPIED_ROWS)))
    given = (part.columns.file, pieces, reader.dtype, chosen["x"])
    rows, kept = spool_rows(*given, drop_missing=True, spool=spool())
    reader.close()
    return rows, kept, True


def _open_csv(path: Path, wanted: Mapping[str, Any], how: Reading, spool: Spool) -> FilePart:
    """Parse a file into a temporary file of numbers, and read from that."""
    text, kind = CsvFile(path, how.text), float_type(np.dtype(np.float64), how.dtype)
    about = (text.not_numbers, text.remedies, text.row_numbers)
    columns = FileColumns(str(path), text.names, text.has_names, *about)

    def read(chosen: ColumnNames) -> tuple[SlicedRows, KeptRows, bool]:
        rows, kept = spool_rows(
            str(path),
            text.blocks(chosen, kind),
            kind,
            chosen["x"],
            first_line=1 + text.has_names,
            drop_missing=how.drop_missing,
            keep_missing=how.keep_missing,
            spool=spool(),
        )
        return rows, kept, True

    return FilePart(columns, choose_columns(columns, wanted), read)


def _open_table(path: Path, wanted: Mapping[str, Any], dtype: Any, stack: ExitStack) -> FilePart:
    table: TableFile = TABLES[path.suffix.lower()](path)
    stack.callback(table.close)
    columns = table_columns(table)

    def read(chosen: ColumnNames) -> tuple[TableRows, None, bool]:
        kinds = dict(zip(table.names, table.types, strict=True))
        single = all(str(kinds[name]) == "float" for name in chosen["x"])  # Arrow's float32
        kind = np.dtype(np.float32 if single else np.float64)
        return TableRows(table, chosen, float_type(kind, dtype)), None, False

    return FilePart(columns, choose_columns(columns, wanted), read, [path])


def _open_array(
    path: Path, wanted: Mapping[str, Any], dtype: Any, stack: ExitStack, alone: bool
) -> FilePart:
    """Open an array; labels and weights are columns, arrays, or in other files."""
    points = _array(path, 2, stack)
    names = unnamed_columns(points.shape[1])
    given = {role: wanted[role] for role in ARGUMENTS}
    apart = {role: one for role, one in given.items() if _is_apart(one, names)}
    files = [path, *(Path(a) for a in apart.values() if isinstance(a, str | os.PathLike))]
    columns = FileColumns(str(path), names, has_names=False)
    for role, one in apart.items() if not alone else ():
        raise refusal("not_a_column", file=str(path), what=ARGUMENTS[role], given=brief(repr(one)))
    chosen = choose_columns(columns, {**wanted, **dict.fromkeys(apart)})
    arrays: dict[str, Any] = {}
    for role, one in apart.items():
        what = ARGUMENTS[role]
        if isinstance(one, str | os.PathLike):
            arrays[role] = _array(existing(one), 1, stack)
        else:
            arrays[role] = to_numpy(as_real_array(one, what, 1))
        if arrays[role].shape[0] != points.shape[0]:
            lengths = {"n_rows": arrays[role].shape[0], "expected": points.shape[0]}
            raise refusal("wrong_length", what=what, file=str(path), **lengths)

    def read(chosen: ColumnNames) -> tuple[SlicedRows, None, bool]:
        at = {name: i for i, name in enumerate(names)}
        place = {role: [at[one] for one in called] for role, called in chosen.items()}
        others = {role: place[role][0] for role in place if role != "x"}
        return SlicedRows(points, place["x"], {**others, **arrays}, dtype), None, False

    return FilePart(columns, chosen, read, [zarr_description(file) or file for file in files])


def _is_apart(given: Any, names: Sequence[str]) -> bool:
    """Return whether labels are an array or a path, rather than a column by name or number."""
    if isinstance(given, str) and given in names:
        return False
    return isinstance(given, str | os.PathLike | Iterable)


def _array(path: Path, ndim: int, stack: ExitStack) -> Any:
    if zarr_description(path) is None and path.suffix.lower() != ".npy":
        raise refusal("not_an_array", file=str(path))
    array = open_npy(path, ndim) if zarr_description(path) is None else ZarrArray(path, ndim)
    stack.callback(array.close)
    return array
