"""Open a file of rows, in the format given by its suffix."""

from __future__ import annotations

import difflib
import operator
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import Array, as_real_array, to_numpy
from implicitmoments.rows.files.array_files import ZarrArray, open_npy, zarr_description
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.file_source import (
    ARGUMENTS,
    FileSource,
    SlicedRows,
    float_type,
    spool_rows,
)
from implicitmoments.rows.files.tables import (
    CSV,
    TABLES,
    ColumnNames,
    CsvFile,
    TableFile,
    TableRows,
    is_number,
)
from implicitmoments.rows.fold import blocks

FilePath: TypeAlias = str | os.PathLike[str]

KINDS = (".npy", *TABLES, *CSV, ".zarr")
COPIED_ROWS = 65_536  # at a time, where incomplete rows are left out: limits memory
INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the labels of rows
ROLES = {"y": "target", "counts": "weight"}  # as a fitted estimator remembers columns
MOST_COMPARED = 1_000  # names that a mistyped one is compared with
MOST_LISTED = 12  # names in a suggestion


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
    wanted = {"x": columns, "y": y, "counts": sample_weight}
    if not isinstance(path, str | os.PathLike | list | tuple):
        raise refusal("not_a_path", given=type(path).__name__)
    if isinstance(path, list | tuple):
        parts = [_existing(one) for one in path]
        source = _open_tables(parts, f"{len(parts)} files", wanted, dtype)
    else:
        place = _existing(path)
        if place.name.lower().endswith(CSV) and not place.is_dir():
            return _open_csv(place, wanted, dtype, drop_missing)
        source = _open_one(place, wanted, dtype)
    if not drop_missing:
        return source
    with source:
        kind = source.read_unchecked(range(1))["x"].dtype
        pieces = map(source.read_unchecked, blocks(range(source.n_rows), COPIED_ROWS))
        kept = spool_rows(source.file, pieces, kind, source.feature_names, drop_missing=True)
        return FileSource(**kept, columns=source.columns)


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


def _open_one(place: Path, wanted: Mapping[str, Any], dtype: Any) -> FileSource:
    suffix = place.suffix.lower()
    if suffix in (".npy", ".zarr") or zarr_description(place) is not None:
        return _open_array(place, wanted, dtype)
    parts = [place]
    if place.is_dir():
        found = (part for part in place.iterdir() if part.name[0] not in "._")
        parts = sorted(part for part in found if part.suffix.lower() in TABLES)
    return _open_tables(parts, str(place), wanted, dtype)


def _open_csv(path: Path, wanted: Mapping[str, Any], dtype: Any, drop_missing: bool) -> FileSource:
    """Parse a file into a temporary file of numbers, and read from that."""
    text, kind = CsvFile(path), float_type(np.dtype(np.float64), dtype)
    chosen = _choose_columns(str(path), text.names, wanted, text.not_numbers)
    names = chosen["x"] if text.has_names else None
    how: dict[str, Any] = {"first_line": 1 + text.has_names, "drop_missing": drop_missing}
    parsed = spool_rows(str(path), text.blocks(chosen, kind), kind, names, **how)
    by_number = names is None and wanted["x"] is not None
    return FileSource(**parsed, columns=_remembered(chosen, by_number))


def _open_tables(
    paths: Sequence[Path], file: str, wanted: Mapping[str, Any], dtype: Any
) -> FileSource:
    if not paths:
        raise refusal("no_tables", file=file, kinds=", ".join(TABLES))
    tables: list[TableFile] = []
    with ExitStack() as stack:
        for path in paths:
            if path.suffix.lower() not in TABLES:
                kinds = ", ".join(KINDS if len(paths) == 1 else TABLES)
                raise refusal("unknown_kind", file=str(path), suffix=path.suffix, kinds=kinds)
            tables.append(TABLES[path.suffix.lower()](path))
            stack.callback(tables[-1].close)
        every = [_choose_of_table(table, wanted) for table in tables]
        chosen, types = every[0], set()
        for table, other in zip(tables, every, strict=True):
            if other != chosen:
                found, expected = ([brief(n) for n in chain(*c.values())] for c in (other, chosen))
                about = {"other_file": str(paths[0]), "other_columns": expected}
                raise refusal("columns_differ", file=str(table.path), columns=found, **about)
            kinds_of = dict(zip(table.names, table.types, strict=True))
            types |= {kinds_of[name].to_pandas_dtype() for name in chosen["x"]}
        # float32 if every feature is, and float64 otherwise
        single = np.dtype(types.pop() if len(types) == 1 else np.float64)
        reader = TableRows(tables, chosen, float_type(single, dtype))
        if not reader.n_rows:
            raise refusal("no_rows", file=file)
        columns = _remembered(chosen, by_number=False)
        source = FileSource(file, reader, chosen["x"], columns=columns, watched=paths)
        stack.pop_all()
    return source


def _choose_of_table(table: TableFile, wanted: Mapping[str, Any]) -> ColumnNames:
    others = {
        name: {"found": f"entries of type {brief(kind)}"}
        for name, kind in zip(table.names, table.types, strict=True)
        if not is_number(kind)
    }
    return _choose_columns(str(table.path), table.names, wanted, others)


def _open_array(path: Path, wanted: Mapping[str, Any], dtype: Any) -> FileSource:
    """Open an array; labels and weights are columns by number, arrays, or in other files."""
    others = {role: wanted[role] for role in ARGUMENTS}
    apart = {r: g for r, g in others.items() if isinstance(g, str | os.PathLike | Iterable)}
    files = [path, *(Path(a) for a in apart.values() if isinstance(a, str | os.PathLike))]
    with ExitStack() as stack:
        points = _array(path, 2, stack)
        numbers = [str(j) for j in range(points.shape[1])]
        chosen = _choose_columns(str(path), numbers, {**wanted, **dict.fromkeys(apart)})
        columns: dict[str, Any] = {r: int(names[0]) for r, names in chosen.items() if r != "x"}
        for role, given in apart.items():
            what = ARGUMENTS[role]
            if isinstance(given, str | os.PathLike):
                columns[role] = _array(_existing(given), 1, stack)
            else:
                columns[role] = to_numpy(as_real_array(given, what, 1))
            if columns[role].shape[0] != points.shape[0]:
                lengths = {"n_rows": columns[role].shape[0], "expected": points.shape[0]}
                raise refusal("wrong_length", what=what, file=str(path), **lengths)
        reader = SlicedRows(points, [int(j) for j in chosen["x"]], columns, dtype)
        about = _remembered(chosen, by_number=wanted["x"] is not None)
        watched = [zarr_description(file) or file for file in files]
        source = FileSource(str(path), reader, columns=about, watched=watched)
        stack.pop_all()
    return source


def _array(path: Path, ndim: int, stack: ExitStack) -> Any:
    if zarr_description(path) is None and path.suffix.lower() != ".npy":
        raise refusal("not_an_array", file=str(path))
    array = open_npy(path, ndim) if zarr_description(path) is None else ZarrArray(path, ndim)
    stack.callback(array.close)
    return array


def _remembered(chosen: ColumnNames, by_number: bool) -> dict[str, str]:
    """Return the columns by role; features where they were chosen by number."""
    roles = {ROLES[column]: names[0] for column, names in chosen.items() if column != "x"}
    return {**roles, "features": ",".join(chosen["x"])} if by_number else roles


def _choose_columns(
    file: str,
    names: Sequence[str],
    wanted: Mapping[str, Any],
    not_numbers: Mapping[str, Mapping[str, Any]] | None = None,
) -> ColumnNames:
    """Find the columns that were asked for among the names of all columns.

    Columns without names are named by numbers. ``not_numbers`` has values for an error about each
    column that does not hold numbers: ``"found"`` says what, ``"cell"`` and ``"line"`` belong to
    the first text.
    """
    others = {
        column: find_column(file, names, wanted[column], what)
        for column, what in ARGUMENTS.items()
        if wanted[column] is not None
    }
    listed = wanted["x"]
    if listed is None:
        features = [n for n in names if n not in others.values() and not INDEX.fullmatch(n)]
        if "" in features:
            raise refusal("column_without_name", file=file, column=list(names).index(""))
    elif isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise refusal("columns_not_a_list", file=file, given=listed)
    else:
        features = [find_column(file, names, one, "columns") for one in listed]
    if not features:
        raise refusal("no_features", file=file, names=[brief(name) for name in names])
    for column, name in others.items():
        if name in features:
            about = {"column": brief(name), "what": ARGUMENTS[column]}
            raise refusal("column_in_two_roles", file=file, **about)
    asked, there = Counter([*features, *others.values()]), Counter(names)
    for name in asked:
        if asked[name] > 1 or there[name] > 1:
            raise refusal("column_twice", file=file, column=brief(name))
        if not_numbers and name in not_numbers:
            good = [brief(n) for n in names if n not in not_numbers and n not in others.values()]
            found = {"column": brief(name), "numeric": good[:MOST_LISTED], **not_numbers[name]}
            raise refusal("column_not_numeric", file=file, **found)
    return {"x": tuple(features), **{column: (name,) for column, name in others.items()}}


def find_column(file: str, names: Sequence[str], wanted: Any, what: str) -> str:
    """Return the name of a column that the argument ``what`` gives by name or number."""
    if isinstance(wanted, str):
        if wanted in names:
            return wanted
        by_letters = {name.lower(): name for name in names[:MOST_COMPARED]}
        found = difflib.get_close_matches(wanted.lower(), by_letters, 1)
        raise refusal(
            "no_such_column",
            "; did you mean {near}?" if found else "",
            file=file,
            what=what,
            wanted=wanted,
            names=[brief(name) for name in names],
            near=[brief(by_letters[name]) for name in found],
        )
    try:
        return names[operator.index(wanted)]
    except TypeError as reason:
        raise refusal("not_a_column", file=file, what=what, given=brief(repr(wanted))) from reason
    except IndexError as reason:
        n = len(names)
        raise refusal(
            "no_such_column_number", file=file, what=what, wanted=wanted, n_columns=n
        ) from reason
