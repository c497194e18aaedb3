"""Rows of a file, by the end of its name."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, as_real_array, to_numpy
from implicitmoments.rows.files.arrow import ArrowReader
from implicitmoments.rows.files.column_choice import Choice, choose_numbers
from implicitmoments.rows.files.complete_rows import complete_rows
from implicitmoments.rows.files.csv_text import open_csv
from implicitmoments.rows.files.file_source import FileSource, Numbers, close_all
from implicitmoments.rows.files.file_watch import Stamp
from implicitmoments.rows.files.matrix import Matrix, MatrixSource
from implicitmoments.rows.files.npy import open_npy
from implicitmoments.rows.files.parquet import ParquetReader
from implicitmoments.rows.files.table import BatchReader, TableSource
from implicitmoments.rows.files.zarr_chunks import ZarrMatrix
from implicitmoments.rows.files.zarr_folder import zarr_description

__all__ = ["open_file"]

FilePath: TypeAlias = str | os.PathLike[str]

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TABLES: Mapping[str, Callable[[Path], BatchReader]] = {
    ".parquet": ParquetReader,
    ".pq": ParquetReader,
    ".arrow": ArrowReader,
    ".feather": ArrowReader,
    ".ipc": ArrowReader,
}
READ = (".npy", *TABLES, *CSV, ".zarr")


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
    choice = Choice(columns, y, sample_weight)
    if not isinstance(path, str | os.PathLike | list | tuple):
        raise TypeError(
            f"path is a path or a list of paths, got {type(path).__name__}; as_source takes "
            "arrays, and BlockSource blocks of rows"
        )
    if isinstance(path, list | tuple):
        parts, label = [_existing(one) for one in path], f"{len(path)} files"
        source: FileSource = _open_tables(parts, label, choice, dtype)
    else:
        place = _existing(path)
        if place.name.lower().endswith(CSV) and not place.is_dir():
            return open_csv(place, choice, dtype, drop_missing=drop_missing)
        source = _open_one(place, choice, dtype)
    return complete_rows(source) if drop_missing else source


def _open_one(place: Path, choice: Choice, dtype: Any) -> FileSource:
    if place.suffix.lower() == ".zarr" or zarr_description(place) is not None:
        return _open_matrix(place, choice, dtype)
    if place.is_dir():
        parts = sorted(
            part
            for part in place.iterdir()
            if part.suffix.lower() in TABLES and part.name[0] not in "._"
        )
        return _open_tables(parts, str(place), choice, dtype)
    if place.suffix.lower() == ".npy":
        return _open_matrix(place, choice, dtype)
    return _open_tables([place], str(place), choice, dtype)


def _existing(path: FilePath) -> Path:
    if not os.fspath(path):  # the folder here, to pathlib
        raise ValueError("the path is empty; give the path of a file, or '.' for the folder here")
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"there is no file {place}; the folder here is {Path.cwd()}")
    return place


def _open_tables(paths: Sequence[Path], label: str, choice: Choice, dtype: Any) -> TableSource:
    if not paths:
        raise ValueError(f"{label} holds no file that ends in {', '.join(TABLES)}")
    readers: list[BatchReader] = []
    try:
        for path in paths:
            if path.suffix.lower() not in TABLES:
                kinds = READ if len(paths) == 1 else tuple(TABLES)
                raise ValueError(
                    f"{path} ends in {path.suffix or 'no suffix'!r}, expected one of "
                    f"{', '.join(kinds)}; BlockSource takes blocks of rows from anywhere"
                )
            readers.append(TABLES[path.suffix.lower()](path))
        return TableSource(label, readers, choice, dtype)
    except BaseException:
        close_all(readers)
        raise


def _open_matrix(path: Path, choice: Choice, dtype: Any) -> MatrixSource:
    matrix, held = _matrix(path, 2), list[Matrix]()
    try:
        others: dict[str, int | Matrix | Numbers] = {}
        for column, given in (("y", choice.y), ("counts", choice.sample_weight)):
            if given is not None:
                name = "sample_weight" if column == "counts" else column
                others[column] = _column(given, name, path, matrix.shape)
        held = [c for c in others.values() if not isinstance(c, int | np.ndarray)]
        taken = [c for c in others.values() if isinstance(c, int)]
        features = choose_numbers(str(path), matrix.shape[1], choice.columns, taken)
        files = [path, *(Path(g) for g in (choice.y, choice.sample_weight) if _is_path(g))]
        stamps = [Stamp(zarr_description(file) or file) for file in files]
        return MatrixSource(str(path), matrix, features, others, dtype, stamps=stamps)
    except BaseException:
        close_all([matrix, *held])
        raise


def _matrix(path: Path, ndim: int) -> Matrix:
    if zarr_description(path) is not None:
        return ZarrMatrix(path, ndim)
    if path.suffix.lower() == ".npy":
        return open_npy(path, ndim)
    raise ValueError(
        f"{path} is neither a .npy file nor a folder of Zarr with a description that can be "
        "read; write it again"
    )


def _column(given: Any, name: str, path: Path, shape: tuple[int, int]) -> int | Matrix | Numbers:
    """Find labels or weights: a column of the array, a second file, or an array."""
    n_rows, width = shape
    if _is_path(given):
        column: Matrix | Numbers = _matrix(_existing(given), 1)
    elif isinstance(given, Iterable):
        column = to_numpy(as_real_array(given, name, 1))
    else:
        return _number(given, name, path, width)
    if column.shape[0] != n_rows:
        if not isinstance(column, np.ndarray):
            column.close()
        raise ValueError(
            f"{name} has {column.shape[0]} rows and {path} has {n_rows}; expected one value a row"
        )
    return column


def _number(given: Any, name: str, path: Path, width: int) -> int:
    try:
        return range(width)[operator.index(given)]
    except (TypeError, IndexError) as reason:
        raise ValueError(
            f"{name} is {given!r}, expected the number of a column of {path}, which has {width}, "
            "an array, or the path of one"
        ) from reason


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)
