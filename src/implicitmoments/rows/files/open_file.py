"""Open files of rows, each in the format given by its suffix."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from implicitmoments.arrays import Array
from implicitmoments.column_names import as_unnamed
from implicitmoments.rows.files.columns import ColumnNames, find_column
from implicitmoments.rows.files.csv_files import CsvFile, TextFormat
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.files.file_parts import (
    FilePart,
    FilePath,
    Reading,
    Spool,
    existing,
    is_array,
    is_text,
    open_part,
)
from implicitmoments.rows.files.file_source import FileSource
from implicitmoments.rows.files.joined_rows import JoinedRows
from implicitmoments.rows.files.kept_rows import KeptRows
from implicitmoments.rows.files.tables import TABLES

ROLES = {"y": "target", "counts": "weight"}  # as a fitted estimator remembers columns


def open_file(  # noqa: PLR0913 (keyword-only, each documented)
    path: FilePath | Sequence[FilePath],
    *,
    columns: Sequence[str | int] | None = None,
    y: str | int | FilePath | Array | None = None,
    sample_weight: str | int | FilePath | Array | None = None,
    dtype: Any = None,
    drop_missing: bool = False,
    keep_missing: bool = False,
    sep: str | None = None,
    decimal: str | None = None,
    na_values: Sequence[str] = (),
) -> FileSource:
    """Open the rows of a file, or of several one after the other, to be read in blocks.

    Parameters
    ----------
    path : path or list of paths
        Of a .npy, .parquet, .arrow, .feather, .csv, .csv.gz, .tsv or .zarr file. The rows of a
        list come in its order, and those of a folder of Parquet or Arrow files in the order of
        their names. Files must have the same columns, by name, in any order.
    columns : list of str or int, optional
        The features, by name or number; by default every column that is neither labels nor
        weights. Columns without names are called ``"x0"``, ``"x1"``, ….
    y : str or int, optional
        The column of the labels. With one .npy or .zarr file also an array ``(n_samples,)``, or
        the path of one in a second file.
    sample_weight : str or int, optional
        The column that says how often each row counts, likewise.
    dtype : data type, optional
        float32 or float64; by default float32 for features that are, and float64 for others.
    drop_missing : bool
        Leave out rows that lack a number, or hold one that is infinite: the others are written
        to a temporary file. By default such rows are refused.
    keep_missing : bool
        Keep such rows, with NaN where a number is missing. Estimators refuse them.
    sep : str, optional
        The character between the columns of a CSV file. By default the one of comma, semicolon,
        tab and bar that cuts most of the first lines into the same number of cells.
    decimal : str, optional
        The decimal separator of a CSV file. By default a point, or a comma if more cells of the
        first megabyte have that, where columns are not separated by commas.
    na_values : sequence of str
        Cells of a CSV file that stand for missing numbers, beside those that pandas takes for
        missing by default, such as an empty cell, ``NA``, ``N/A``, ``NaN`` and ``null``.

    Returns
    -------
    FileSource
        With ``feature_names`` where the file has names, and ``n_dropped``, how many rows were
        left out. Close it, or use ``with``.

    See Also
    --------
    BlockSource : Rows of an iterator of blocks.
    Rows : A view of the rows of a source.

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
    if not isinstance(path, str | os.PathLike | list | tuple):
        raise refusal("not_a_path", given=type(path).__name__)
    if drop_missing and keep_missing:
        raise refusal("kept_and_dropped")
    if isinstance(na_values, str) or not all(isinstance(one, str) for one in na_values):
        raise refusal("markers_not_a_list", given=na_values)
    text = TextFormat(sep, decimal, tuple(na_values))
    how = Reading(text, dtype, drop_missing, keep_missing)
    listed = path if isinstance(path, list | tuple) else [path]
    if not listed:
        raise refusal("no_tables", file="an empty list", kinds=", ".join(TABLES))
    files = list(chain.from_iterable(_files_of(existing(one)) for one in listed))
    _check_text_options(text, files)
    name = str(path) if isinstance(path, str | os.PathLike) else f"{len(files)} files"
    wanted = {"x": columns, "y": y, "counts": sample_weight}
    return _open_all(files, name, wanted, how)


def read_columns(
    paths: Sequence[FilePath],
    wanted: Sequence[str | int],
    what: str = "columns",
    text: TextFormat | None = None,
) -> tuple[list[str], Iterator[Any]]:
    """Begin to read columns of tables as they are, those of CSV files as text.

    Files are opened one after the other.

    Parameters
    ----------
    paths : sequence of paths
        Of CSV, Parquet or Arrow files.
    wanted : sequence of str or int
        Names of columns, or their numbers.
    what : str, default "columns"
        The argument that asks for them, for messages.
    text : TextFormat, optional
        How CSV files are written.
    """
    found = [_read_columns(existing(one), wanted, what, text) for one in paths]
    return found[0][0], chain.from_iterable(read() for _, read in found)


def _read_columns(
    place: Path, wanted: Sequence[str | int], what: str, text: TextFormat | None
) -> tuple[list[str], Callable[[], Iterator[Any]]]:
    """Find columns of a file, and return their names and a function that reads them."""
    if is_text(place):
        file = CsvFile(place, text)
        if not file.has_names:
            wanted = [as_unnamed(str(name)) or name for name in wanted]
        names = [find_column(str(place), file.names, name, what) for name in wanted]
        return names, partial(file.texts, names)
    if place.suffix.lower() not in TABLES or not place.is_file():
        raise refusal("keeps_tables_only", what=what, file=str(place))
    table = TABLES[place.suffix.lower()](place)
    names = [find_column(str(place), table.names, name, what) for name in wanted]
    segments = range(len(table.segment_rows))
    return names, lambda: (batch for i in segments for batch in table.batches(i, names))


def _files_of(place: Path) -> list[Path]:
    """Return a file, or the tables of a folder in the order of their names."""
    if not place.is_dir() or is_array(place):
        return [place]
    found = (part for part in place.iterdir() if part.name[0] not in "._")
    parts = sorted(part for part in found if part.suffix.lower() in TABLES)
    if not parts:
        raise refusal("no_tables", file=str(place), kinds=", ".join(TABLES))
    return parts


def _check_text_options(text: TextFormat, files: Sequence[Path]) -> None:
    """Raise for options of text files where no file is one."""
    if any(map(is_text, files)):
        return
    for name in ("sep", "decimal", "na_values"):
        if getattr(text, name):
            raise refusal("not_a_text_file", name=name, file=str(files[0]))


def _open_all(
    files: Sequence[Path], name: FilePath, wanted: Mapping[str, Any], how: Reading
) -> FileSource:
    """Open files and join their rows; columns are those of the first file."""
    parts, found = list[FilePart](), list[tuple[Any, KeptRows | None, bool]]()
    with ExitStack() as stack:
        spool = Spool(stack)
        for file in files:
            parts.append(open_part(file, wanted, how, spool, stack, alone=len(files) == 1))
            _check_agreement(parts[0], parts[-1], wanted)
            found.append(parts[-1].read(parts[0].chosen))
            stack.callback(found[-1][0].close)
        readers = [reader for reader, _, _ in found]
        kept = [rows for _, rows, _ in found if rows is not None] if how.drop_missing else []
        reader = readers[0]
        if len(readers) > 1:
            reader = JoinedRows([part.columns.file for part in parts], readers)
        if not reader.n_rows:
            raise refusal(
                "all_rows_incomplete" if any(rows.n_dropped for rows in kept) else "no_rows",
                file=str(name),
            )
        chosen, named = parts[0].chosen, parts[0].columns.has_names
        source = FileSource(
            str(name),
            reader,
            chosen["x"] if named else None,
            columns=_remembered(chosen, by_number=not named and wanted["x"] is not None),
            watched=[path for part in parts for path in part.watched],
            is_checked=all(checked for _, _, checked in found),
            kept=kept,
            other_columns=_unread(parts),
            keep_missing=how.keep_missing,
        )
        stack.pop_all()
    return source


def _check_agreement(first: FilePart, other: FilePart, wanted: Mapping[str, Any]) -> None:
    """Raise for a file whose columns are not those of the first, by name."""
    files = {"file": other.columns.file, "other_file": first.columns.file}
    named = [part.columns.has_names for part in (other, first)]
    if named[0] != named[1]:
        words = {True: "names of columns", False: "no names of columns"}
        raise refusal("names_differ", **files, found=words[named[0]], expected=words[named[1]])
    found, expected = (list(chain(*part.chosen.values())) for part in (other, first))
    alone = {*found} ^ {*expected}
    by_number = wanted["x"] is not None and found != expected
    if not alone and not by_number:
        return
    name = next((n for n in (*expected, *found) if n in alone), None)
    if name is None:  # the same columns, whose numbers differ
        name = next(b for a, b in zip(expected, found, strict=True) if a != b)
    raise refusal(
        "columns_differ",
        **files,
        column=brief(name),
        columns=[brief(n) for n in found],
        other_columns=[brief(n) for n in expected],
    )


def _unread(parts: Sequence[FilePart]) -> list[str]:
    """Return the columns of all files that are not read, those that hold no numbers first."""
    columns, read = parts[0].columns, {*chain(*parts[0].chosen.values()), ""}
    there = set[str].intersection(*(set(part.columns.names) for part in parts)) - read
    others = [name for name in columns.names if name in there] if columns.has_names else []
    return sorted(others, key=lambda name: name not in columns.not_numbers)


def _remembered(chosen: ColumnNames, by_number: bool) -> dict[str, str]:
    """Return the columns by role; features where they have no names and were chosen."""
    roles = {ROLES[column]: names[0] for column, names in chosen.items() if column != "x"}
    return {**roles, "features": ",".join(chosen["x"])} if by_number else roles
