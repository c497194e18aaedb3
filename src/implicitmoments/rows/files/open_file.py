"""Open a file of rows, in the format given by its suffix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from implicitmoments.arrays import Array, as_real_array, to_numpy
from implicitmoments.rows.files.array_file import Sliceable, SlicedSource, open_npy
from implicitmoments.rows.files.block_source import complete_rows
from implicitmoments.rows.files.csv_text import CSV, CsvFile, open_csv
from implicitmoments.rows.files.errors import refusal
from implicitmoments.rows.files.file_source import (
    ARGUMENTS,
    ColumnChoice,
    FileSource,
    choose_columns,
    close_all,
    find_column,
)
from implicitmoments.rows.files.tables import TABLES, TableFile, TableSource
from implicitmoments.rows.files.zarr_array import ZarrArray, zarr_description

FilePath: TypeAlias = str | os.PathLike[str]

KINDS = (".npy", *TABLES, *CSV, ".zarr")


def open_file(
    path: FilePath | Sequence[FilePath],
    *,
    columns: Sequence[str | int] | None = None,
    y: str | int | FilePath | Array | None = None,
    sample_weight: str | int | FilePath | Array | None = None,
    dtype: Any = None,
    drop_missing: bool = False,
) -> FileSource:
    """Open the rows of a file, to be read in blocks.

    Parameters
    ----------
    path : path or list of paths
        Of a .npy, .parquet, .arrow, .feather, .csv, .csv.gz, .tsv or .zarr file; a folder or a
        list of Parquet or Arrow files gives their rows one after the other, in the order of
        the names or of the list.
    columns : list of str or int, optional
        The features, by name or number; by default every column that is neither labels nor
        weights.
    y : str or int, optional
        The column of the labels. With .npy and .zarr also an array ``(n_samples,)``, or the
        path of one in a second file.
    sample_weight : str or int, optional
        The column that says how often each row counts, likewise.
    dtype : data type, optional
        float32 or float64; by default float32 for features that are, and float64 for others.
    drop_missing : bool
        Leave out rows that lack a number, or hold one that is infinite: the others are written
        to a temporary file. By default such rows are refused.

    Returns
    -------
    FileSource
        With ``feature_names`` where the file has names, and ``n_dropped``, how many rows were
        left out. Close it, or use ``with``.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/rows.npy", np.arange(12.0).reshape(4, 3))
    >>> with open_file(f"{folder.name}/rows.npy", y=2) as source:
    ...     print(source.n_rows, source.n_features)
    4 2
    >>> folder.cleanup()
    """
    choice = ColumnChoice(columns, y, sample_weight)
    if not isinstance(path, str | os.PathLike | list | tuple):
        raise refusal("not_a_path", given=type(path).__name__)
    if isinstance(path, list | tuple):
        parts = [_existing(one) for one in path]
        source: FileSource = _open_tables(parts, f"{len(parts)} files", choice, dtype)
    else:
        place = _existing(path)
        if place.name.lower().endswith(CSV) and not place.is_dir():
            return open_csv(place, choice, dtype, drop_missing=drop_missing)
        source = _open_one(place, choice, dtype)
    return complete_rows(source) if drop_missing else source


def read_columns(
    path: FilePath, wanted: Sequence[str | int], what: str = "columns"
) -> tuple[list[str], Iterator[Any]]:
    """Begin to read columns of a table as they are, those of CSV files as text.

    The file is open from then on, and may be deleted.

    Parameters
    ----------
    path : path
        Of a CSV, Parquet or Arrow file.
    wanted : sequence of str or int
        Names of columns, or their numbers.
    what : str, default "columns"
        The argument that asks for them, for messages.
    """
    place = _existing(path)
    if place.name.lower().endswith(CSV):
        file = CsvFile(place)
        names = [find_column(str(place), file.names, name, what) for name in wanted]
        return names, file.texts(names)
    if place.suffix.lower() not in TABLES or not place.is_file():
        raise refusal("keeps_tables_only", what=what, file=str(place))
    table = TABLES[place.suffix.lower()](place)
    names = [find_column(str(place), table.names, name, what) for name in wanted]
    segments = range(len(table.segment_rows))
    return names, (batch for i in segments for batch in table.batches(i, names))


def _existing(path: FilePath) -> Path:
    if not os.fspath(path):  # pathlib takes it for the current folder
        raise refusal("empty_path")
    place = Path(path)
    if not place.exists():
        raise refusal("no_such_file", file=str(place), folder=str(Path.cwd()))
    return place


def _open_one(place: Path, choice: ColumnChoice, dtype: Any) -> FileSource:
    suffix = place.suffix.lower()
    if suffix in (".npy", ".zarr") or zarr_description(place) is not None:
        return _open_array(place, choice, dtype)
    if place.is_dir():
        parts = sorted(
            part
            for part in place.iterdir()
            if part.suffix.lower() in TABLES and part.name[0] not in "._"
        )
        return _open_tables(parts, str(place), choice, dtype)
    return _open_tables([place], str(place), choice, dtype)


def _open_tables(
    paths: Sequence[Path], file: str, choice: ColumnChoice, dtype: Any
) -> TableSource:
    if not paths:
        raise refusal("no_tables", file=file, kinds=", ".join(TABLES))
    tables: list[TableFile] = []
    try:
        for path in paths:
            if path.suffix.lower() not in TABLES:
                kinds = ", ".join(KINDS if len(paths) == 1 else TABLES)
                raise refusal("unknown_kind", file=str(path), suffix=path.suffix, kinds=kinds)
            tables.append(TABLES[path.suffix.lower()](path))
        return TableSource(file, tables, choice, dtype)
    except BaseException:
        close_all(tables)
        raise


def _open_array(path: Path, choice: ColumnChoice, dtype: Any) -> SlicedSource:
    """Open an array; labels and weights are columns by number, arrays, or in other files."""
    given = {"y": choice.y, "counts": choice.sample_weight}
    apart = {r: g for r, g in given.items() if _is_path(g) or isinstance(g, Iterable)}
    files = [path, *(Path(array) for array in apart.values() if _is_path(array))]
    opened: list[Any] = []
    try:
        opened.append(_array(path, 2))
        points: Sliceable = opened[0]
        within = ColumnChoice(
            choice.columns, *(None if r in apart else g for r, g in given.items())
        )
        numbers = [str(j) for j in range(points.shape[1])]
        chosen = choose_columns(str(path), numbers, within)
        others: dict[str, Any] = {role: int(j) for role, j in chosen.others.items()}
        for role, array in apart.items():
            what = ARGUMENTS[role]
            opened.append(_labels(array, what))
            others[role] = opened[-1]
            if opened[-1].shape[0] != points.shape[0]:
                lengths = {"n_rows": opened[-1].shape[0], "expected": points.shape[0]}
                raise refusal("wrong_length", what=what, file=str(path), **lengths)
        return SlicedSource(
            str(path),
            points,
            [int(j) for j in chosen.features],
            others,
            dtype,
            columns=chosen.remembered(by_number=choice.columns is not None),
            watched=[zarr_description(file) or file for file in files],
        )
    except BaseException:
        close_all([array for array in opened if hasattr(array, "close")])
        raise


def _labels(given: Any, what: str) -> Any:
    if _is_path(given):
        return _array(_existing(given), 1)
    return to_numpy(as_real_array(given, what, 1))


def _array(path: Path, ndim: int) -> Any:
    if zarr_description(path) is not None:
        return ZarrArray(path, ndim)
    if path.suffix.lower() == ".npy":
        return open_npy(path, ndim)
    raise refusal("not_an_array", file=str(path))


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)
