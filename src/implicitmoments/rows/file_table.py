"""Tables in files, read block by block, and blocks of rows that come once.

Numbers of CSV files, and blocks that come once, are written to a temporary file of numbers, from
which every pass reads.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from implicitmoments.arrays import as_real_array, to_numpy
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.formats import (
    TABLES,
    MissingFileError,
    Numbers,
    Part,
    RawRows,
    TextFormat,
    description_of,
    open_part,
    reading,
)
from implicitmoments.rows.passes import Block
from implicitmoments.rows.table import Table, check_cells, in_blocks_of
from implicitmoments.validation import unnamed_columns

FilePath: TypeAlias = str | os.PathLike[str]

SPOOLED_ROWS = 65_536  # rows that are written to a temporary file at a time
ROLES = {"y": "target", "counts": "weight"}  # as a fitted estimator remembers columns
ARGUMENTS = {"y": "y", "counts": "sample_weight"}


class FileTable(Table):
    """Rows of files that are read in blocks.

    A row is checked for missing and infinite numbers in the first pass that reads it.

    Attributes
    ----------
    n_dropped : int
        Rows that lack a number and were left out.
    other_columns : tuple of str
        Columns of the files that are not read.
    """

    n_rows: int

    def __init__(
        self,
        parts: Sequence[Part],
        chosen: Mapping[str, list[str]],
        dtype: np.dtype[Any],
        *,
        beside: Block | None = None,
        checked: bool = False,
        keep_missing: bool = False,
    ) -> None:
        self._parts, self._chosen, self._dtype = parts, chosen, dtype
        self._beside, self._checked, self._keep = dict(beside or {}), checked, keep_missing
        self._dropped: Integers = np.zeros(0, dtype=np.int64)
        self.n_features = len(chosen["x"])
        self.names = tuple(chosen["x"]) if parts[0].has_names else None
        self.other_columns: tuple[str, ...] = ()
        self.n_dropped = 0
        lengths = [part.n_rows for part in parts]
        known = [n for n in lengths if n is not None]
        self.n_rows = sum(known) if len(known) == len(lengths) else 0

    def blocks(self, size: int) -> Iterator[Block]:
        """Read the rows; the first complete pass checks them."""
        start = 0
        for block in in_blocks_of(size, self._pieces(size)):
            n = int(block["x"].shape[0])
            yield {**block, **{k: v[start : start + n] for k, v in self._beside.items()}}
            start += n
        self._checked = True

    def _pieces(self, size: int) -> Iterator[Block]:
        if not self._parts:
            raise InputError("table_closed", "the file is closed; open it again to read its rows")
        columns = list(chain(*self._chosen.values()))
        for part in self._parts:
            first = 0
            for table in part.tables(columns, size):
                with np.errstate(over="ignore", invalid="ignore"):  # the check finds infinity
                    numbers = table.astype(self._dtype, copy=False)
                block = self._named(numbers)
                if not self._checked:
                    check_numbers(block, part.file, first, columns, missing=self._keep)
                first += len(table)
                yield block

    def _named(self, table: Numbers) -> dict[str, Numbers]:
        """Return the columns of a table by role; the points are contiguous."""
        d = self.n_features
        block = {"x": np.ascontiguousarray(table[:, :d]) if table.shape[1] > d else table}
        others = [role for role in self._chosen if role != "x"]
        return block | {role: table[:, d + i] for i, role in enumerate(others)}

    def spooled(self, *, drop: bool) -> FileTable:
        """Return the same rows in a temporary file; ``drop`` leaves out incomplete ones."""
        dropped, n, columns = [], 0, list(chain(*self._chosen.values()))

        def tables() -> Iterator[Numbers]:
            nonlocal n
            for part in self._parts:
                first = 0
                for given in part.tables(columns, SPOOLED_ROWS):
                    with np.errstate(over="ignore", invalid="ignore"):
                        table = np.ascontiguousarray(given, dtype=self._dtype)
                    if drop:
                        whole = np.isfinite(table).all(axis=1)
                        dropped.append(n + np.flatnonzero(~whole))
                        table = table[whole]
                    n += len(given)
                    where = part.file, first, columns
                    check_numbers(self._named(table), *where, missing=self._keep)
                    first += len(given)
                    yield table

        raw = spool(tables(), len(columns), self._dtype)
        left_out = np.concatenate(dropped) if dropped else self._dropped
        if not raw.shape[0]:
            raise InputError(
                "no_rows",
                "{file} has no complete row, expected at least one",
                file=self._parts[0].file,
                n_dropped=len(left_out),
            )
        part = raw_part(self._parts[0].file, raw, columns, has_names=self._parts[0].has_names)
        table = FileTable([part], self._chosen, self._dtype, checked=True, keep_missing=self._keep)
        table._dropped, table.n_dropped = left_out, len(left_out)
        return table

    def given_numbers(self, numbers: Integers) -> Integers:
        """Return the numbers of rows in the files, which count incomplete ones too."""
        kept_before = self._dropped - np.arange(len(self._dropped))
        return numbers + np.searchsorted(kept_before, numbers, side="right")

    def close(self) -> None:
        """Close the files; a table that is closed cannot be read."""
        self._parts = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_file(  # noqa: PLR0913 (keyword-only, each documented)
    path: FilePath | Sequence[FilePath],
    *,
    columns: Sequence[str | int] | None = None,
    y: Any = None,
    sample_weight: Any = None,
    drop_missing: bool = False,
    keep_missing: bool = False,
    sep: str | None = None,
    decimal: str | None = None,
    na_values: Sequence[str] = (),
) -> FileTable:
    """Open the rows of a file, or of several one after the other, to be read in blocks.

    Parameters
    ----------
    path : path or list of paths
        Of .csv, .csv.gz, .tsv, .parquet, .arrow, .feather, .npy or .zarr files. The rows of a
        list come in its order, and those of a folder of Parquet or Arrow files in the order of
        their names. Files must have the same columns, by name, in any order.
    columns : list of str or int, optional
        The features, by name or number; by default every column that is neither labels nor
        weights. Columns without names are called ``"x0"``, ``"x1"``, ….
    y : str or int, optional
        The column of the labels. With .npy and .zarr files also an array ``(n_samples,)``, or
        the path of a .npy file with one.
    sample_weight : str or int, optional
        The column that says how often each row counts, likewise.
    drop_missing : bool
        Leave out rows that lack a number, or hold one that is infinite: the others are written
        to a temporary file. By default such rows are refused.
    keep_missing : bool
        Keep such rows, with NaN where a number is missing. Estimators refuse them.
    sep : str, optional
        The character between the columns of a CSV file. By default the one of comma, semicolon,
        tab and bar that cuts most of the first lines into the same number of cells.
    decimal : str, optional
        The decimal separator of a CSV file; by default a point, or a comma if more of the first
        cells have that.
    na_values : sequence of str
        Cells of a CSV file that stand for missing numbers, beside the usual ones, such as an
        empty cell, ``NA``, ``N/A``, ``NaN`` and ``null``.

    Returns
    -------
    FileTable
        With ``names`` where the file has names. Close it, or use ``with``.

    See Also
    --------
    Table : What estimators read.
    GeneratedTable : Rows drawn by a function.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/rows.npy", np.arange(12.0).reshape(4, 3))
    >>> with open_file(f"{folder.name}/rows.npy", y=2) as table:
    ...     print(table.n_rows, table.n_features)
    4 2
    >>> folder.cleanup()
    """
    text = TextFormat(sep, decimal, tuple(na_values))
    listed: Sequence[Any] = path if isinstance(path, list | tuple) else [path]
    files = list(chain.from_iterable(map(_files_of, listed)))
    if not files:
        raise InputError("no_rows", "{file} holds no files of tables", file=str(path))
    parts = [open_part(file, text) for file in files]
    first, wanted = parts[0], {"y": y, "counts": sample_weight}
    beside = {role: given for role, given in wanted.items() if _is_apart(first, given)}
    chosen = _choose(first, columns, {r: w for r, w in wanted.items() if r not in beside})
    every = list(chain(*chosen.values()))
    for part in parts:
        alone = set(part.names) ^ set(first.names) if columns is None else set()
        alone |= set(every) - set(part.names)
        if alone or part.has_names != first.has_names:
            raise InputError(
                "columns_differ",
                "{file} and {other_file} have different columns, expected the same in every "
                "file; they differ in {columns}",
                file=part.file,
                other_file=first.file,
                columns=sorted(alone),
            )
    single = all(name in part.single for part in parts for name in chosen["x"])
    dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
    how: dict[str, Any] = {"keep_missing": keep_missing}
    arrays = {role: _labels_beside(role, given, dtype) for role, given in beside.items()}
    found = FileTable(parts, chosen, dtype, beside=arrays, **how)
    if drop_missing or any(part.n_rows is None for part in parts):
        found = found.spooled(drop=drop_missing)
    _check_lengths(found, arrays)
    by_number = not first.has_names and columns is not None
    features = {"features": ",".join(chosen["x"])} if by_number else {}
    found.columns = {ROLES[r]: names[0] for r, names in chosen.items() if r != "x"} | features
    in_all = set[str].intersection(*(set(part.names) for part in parts))
    found.other_columns = tuple(name for name in first.names if name in in_all - set(every))
    return found


def _files_of(given: FilePath) -> list[Path]:
    """Return a file, or the tables of a folder in the order of their names."""
    path = Path(given)
    if not os.fspath(given) or not path.exists():
        raise MissingFileError(
            "no_such_file",
            "there is no file {file}; the current folder is {folder}",
            file=str(given),
            folder=str(Path.cwd()),
        )
    if not path.is_dir() or description_of(path) is not None:
        return [path]
    return sorted(p for p in path.iterdir() if p.suffix in TABLES and p.name[0] not in "._")


# columns


def _choose(
    part: Part, columns: Sequence[str | int] | None, wanted: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the names of columns by role, the points first."""
    twice = [name for name, n in Counter(part.names).items() if n > 1 or not name]
    if twice:
        raise InputError(
            "column_without_name",
            "{file} has a column without a name, or several of one name: {columns}; write it with "
            "different names, and without row labels",
            file=part.file,
            columns=twice,
        )
    others = {
        role: [_find(part, given, role)] for role, given in wanted.items() if given is not None
    }
    taken = set(chain(*others.values()))
    if columns is None:
        chosen = [name for name in part.names if name not in taken]
    else:
        chosen = [_find(part, name, "columns") for name in columns]
    if not chosen or taken.intersection(chosen) or len(set(chosen)) < len(chosen):
        raise InputError(
            "columns_overlap",
            "the features of {file} would be {columns}, and labels or weights {others}; expected "
            "at least one feature, and every column in one role",
            file=part.file,
            columns=chosen,
            others=sorted(taken),
        )
    return {"x": chosen, **others}


def _find(part: Part, wanted: Any, role: str) -> str:
    """Return the name of a column that is given by name or number."""
    if isinstance(wanted, str) and wanted in part.names:
        return wanted
    try:
        return str(part.names[wanted])
    except (TypeError, IndexError):
        raise InputError(
            "no_such_column",
            "`{what}` asks for column {wanted!r}, which {file} does not have; it has {names}",
            file=part.file,
            what=ARGUMENTS.get(role, role),
            wanted=wanted,
            names=part.names,
        ) from None


def _is_apart(part: Part, given: Any) -> bool:
    """Return whether labels are an array or a path, rather than a column by name or number."""
    if given is None or part.has_names or (isinstance(given, str) and given in part.names):
        return False
    return (
        hasattr(given, "__array__")
        or isinstance(given, list | os.PathLike)
        or (isinstance(given, str) and given.endswith(".npy"))
    )


def _labels_beside(role: str, given: Any, dtype: np.dtype[Any]) -> Numbers:
    """Return labels that are an array, or in a file of their own."""
    if isinstance(given, str | os.PathLike):
        with reading(given):
            given = np.load(given, allow_pickle=False)
    labels = to_numpy(as_real_array(given, ARGUMENTS[role], 1)).astype(dtype, copy=False)
    check_numbers({role: labels}, ARGUMENTS[role], 0, [])
    return labels


def _check_lengths(table: FileTable, arrays: Mapping[str, Numbers]) -> None:
    if not table.n_rows:
        raise InputError(
            "no_rows", "{file} has no rows, expected at least one", file=table._parts[0].file
        )
    for role, labels in arrays.items():
        if len(labels) != table.n_rows:
            raise InputError(
                "wrong_length",
                "`{name}` has {n_rows} rows and X has {expected}; expected one value per row",
                name=ARGUMENTS[role],
                n_rows=len(labels),
                expected=table.n_rows,
            )


def check_numbers(
    block: Mapping[str, Numbers],
    file: str,
    first_row: int,
    names: Sequence[str],
    *,
    missing: bool = False,
) -> None:
    """Raise for numbers that are missing or infinite, unless they may be, and negative weights."""
    for role, numbers in block.items() if not missing else ():
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            row, *column = np.argwhere(wrong)[0].tolist()
            raise InputError(
                "not_finite",
                "{file}: {name} contains {kind} in row {first}; drop or fill such rows, or leave "
                "them out by `drop_missing=True`",
                file=file,
                name=f"column {names[column[0]]!r}" if column else ARGUMENTS.get(role, role),
                kind="NaN" if np.isnan(numbers[row]).any() else "infinity",
                first=first_row + row,
            )
    counts = block.get("counts")
    if counts is not None and (counts < 0).any():
        raise InputError(
            "weights_invalid",
            "{file}: `sample_weight` is negative in row {first}, expected at least 0",
            file=file,
            first=first_row + int(np.argmax(counts < 0)),
        )


# blocks that come once


def spool(tables: Iterable[Numbers], width: int, dtype: np.dtype[Any]) -> RawRows:
    """Write tables to a temporary file without a name, which cannot outlive the process."""
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (the rows close it)
    rows, n = RawRows(file, (0, width), dtype), 0
    for table in tables:
        left = np.ascontiguousarray(table, dtype=dtype).reshape(-1).view(np.uint8).data
        while left:
            left = left[file.write(left) :]
        n += len(table)
    rows.shape = (n, width)
    return rows


def raw_part(file: str, raw: RawRows, columns: list[str], *, has_names: bool) -> Part:
    """Return rows of a temporary file as a part; they have these columns."""
    return Part(file, columns, has_names, lambda _, size: raw.tables(size), raw.shape[0])


def spool_blocks(given: Iterator[Any]) -> FileTable:
    """Write blocks of rows that come once to a temporary file.

    Parameters
    ----------
    given : iterator
        Of points ``(n, n_features)``: arrays, data frames or Arrow tables; of tuples
        ``(X, y)`` or ``(X, y, sample_weight)``; or of dictionaries with the points under
        ``"x"``, labels under ``"y"`` and weights under ``"counts"``. All of one kind.
    """
    made = (_block_of(item) for item in given)
    first = next(made, None)
    if first is None:
        raise InputError(
            "no_rows", "the iterator yielded no rows; was it already consumed?", file="blocks"
        )
    block, names = first
    dtype, width = block["x"].dtype, block["x"].shape[1]
    n = 0

    def tables() -> Iterator[Numbers]:
        nonlocal n
        for number, (other, other_names) in enumerate(chain([first], made)):
            kinds = [(list(b), b["x"].dtype, b["x"].shape[1]) for b in (other, block)]
            if kinds[0] != kinds[1] or other_names != names:
                raise InputError(
                    "blocks_differ",
                    "block {number} has {found} and block 0 has {expected} (columns, type, number "
                    "and names of features); expected the same in every block",
                    number=number,
                    found=[*kinds[0], other_names],
                    expected=[*kinds[1], names],
                )
            check_numbers(other, "blocks", n, names or unnamed_columns(width))
            n += len(other["x"])
            yield np.column_stack(list(other.values()))

    raw = spool(tables(), width + len(block) - 1, dtype)
    if not raw.shape[0]:
        raise InputError(
            "no_rows", "the blocks have no rows, expected at least one", file="blocks"
        )
    points = list(names or unnamed_columns(width))
    chosen = {"x": points, **{role: [role] for role in block if role != "x"}}
    part = raw_part("blocks", raw, list(chain(*chosen.values())), has_names=names is not None)
    return FileTable([part], chosen, dtype, checked=True)


def _block_of(item: Any) -> tuple[dict[str, Numbers], tuple[str, ...] | None]:
    """Return the columns of a block as numbers, and the names of its features."""
    columns: dict[str, Any] = {"x": item}
    if isinstance(item, Mapping):
        columns = {"x": item.get("x"), **item}
    elif isinstance(item, tuple):
        columns = dict(zip(("x", "y", "counts"), item, strict=False))
    x = columns["x"]
    named = getattr(x, "column_names", getattr(x, "columns", ()))
    names = tuple(named) if all(isinstance(name, str) for name in named) and len(named) else None
    block = {}
    for role, given in columns.items():
        if given is None and role != "x":
            continue
        check_cells(role, given)
        if not np.shape(given)[:1][0]:  # a block may be without rows
            block[role] = np.zeros(np.shape(given))
            continue
        block[role] = to_numpy(as_real_array(given, ARGUMENTS.get(role, "X"), 1 + (role == "x")))
    return block, names
