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
)
from implicitmoments.rows.passes import Block
from implicitmoments.rows.table import Table, check_cells, in_blocks_of
from implicitmoments.validation import unnamed_columns

FilePath: TypeAlias = str | os.PathLike[str]

SPOOLED_ROWS = 65_536  # rows that are written to a temporary file at a time
ROLES = {"y": "target", "counts": "weight"}  # as a fitted estimator remembers columns
ARGUMENTS = {"y": "y", "counts": "sample_weight"}
ROLE_NAMES = ("x", "y", "counts")


class FileTable(Table):
    """Rows of files that are read in blocks.

    A row is checked for missing and infinite numbers in the first pass that reads it.

    Attributes
    ----------
    n_dropped : int
        Rows that lack a number and were left out.
    """

    n_dropped: int = 0

    def __init__(
        self,
        parts: Sequence[Part],
        chosen: Mapping[str, list[str]],
        dtype: np.dtype[Any],
        *,
        checked: bool = False,
        keep_missing: bool = False,
    ) -> None:
        self._parts, self._chosen, self._dtype = parts, chosen, dtype
        self._checked, self._keep = checked, keep_missing
        self._dropped: Integers = np.zeros(0, dtype=np.int64)
        self.n_rows = sum(part.n_rows or 0 for part in parts)
        self.n_features = len(chosen["x"])
        self.names = tuple(chosen["x"]) if parts[0].has_names else None

    def blocks(self, size: int) -> Iterator[Block]:
        """Read the rows; the first complete pass checks them."""
        yield from in_blocks_of(size, map(self._named, self._numbers(size)))
        self._checked = True

    def _numbers(self, size: int, dropped: list[Integers] | None = None) -> Iterator[Numbers]:
        """Read the rows as tables of the columns that were chosen.

        Incomplete rows are left out if there is a list for their numbers.
        """
        if not self._parts:
            raise InputError("table_closed", "the file is closed; open it again to read its rows")
        columns, start = list(chain(*self._chosen.values())), 0
        for part in self._parts:
            first = 0
            for given in part.tables(columns, size):
                with np.errstate(over="ignore", invalid="ignore"):  # the check finds infinity
                    table = given.astype(self._dtype, copy=False)
                if dropped is not None:
                    whole = np.isfinite(table).all(axis=1)
                    dropped.append(start + first + np.flatnonzero(~whole))
                    table = table[whole]
                if not self._checked:
                    block, names = self._named(table), self._chosen["x"]
                    check_numbers(block, part.file, first, names, missing=self._keep)
                first += len(given)
                yield table
            start += first

    def _named(self, table: Numbers) -> dict[str, Numbers]:
        """Return the columns of a table by role; the points are contiguous."""
        d = self.n_features
        block = {"x": np.ascontiguousarray(table[:, :d]) if table.shape[1] > d else table}
        others = [role for role in self._chosen if role != "x"]
        return block | {role: table[:, d + i] for i, role in enumerate(others)}

    def spooled(self, *, drop: bool) -> FileTable:
        """Return the same rows in a temporary file; ``drop`` leaves out incomplete ones."""
        dropped: list[Integers] | None = [] if drop else None
        columns, file = list(chain(*self._chosen.values())), self._parts[0].file
        raw = spool(self._numbers(SPOOLED_ROWS, dropped), len(columns), self._dtype)
        part = raw_part(file, raw, columns, has_names=self._parts[0].has_names)
        table = FileTable([part], self._chosen, self._dtype, checked=True, keep_missing=self._keep)
        table._dropped = np.concatenate([self._dropped, *(dropped or [])])
        table.n_dropped = len(table._dropped)
        return table

    def given_numbers(self, numbers: Integers) -> Integers:
        """Return the numbers of rows in the files, which count incomplete ones too."""
        kept_before = self._dropped - np.arange(len(self._dropped))
        return numbers + np.searchsorted(kept_before, numbers, side="right")

    def close(self) -> None:
        """Close the files."""
        self._parts = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_file(  # noqa: PLR0913 (keyword-only, each documented)
    path: FilePath | Sequence[FilePath],
    *,
    columns: Sequence[str | int] | None = None,
    y: str | int | None = None,
    sample_weight: str | int | None = None,
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
    y, sample_weight : str or int, optional
        The columns of the labels, and of how often each row counts.
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
    parts = [open_part(file, text) for file in chain.from_iterable(map(_files_of, listed))]
    if not parts:
        raise InputError("no_rows", "{file} holds no files of tables", file=str(path))
    first, wanted = parts[0], {"y": y, "counts": sample_weight}
    chosen = _choose(first, columns, {r: one for r, one in wanted.items() if one is not None})
    for part in parts[1:]:
        _check_columns(part, first, chosen, every=columns is None)
    single = all(name in part.single for part in parts for name in chosen["x"])
    dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
    found = FileTable(parts, chosen, dtype, keep_missing=keep_missing)
    if drop_missing or any(part.n_rows is None for part in parts):
        found = found.spooled(drop=drop_missing)
    if not found.n_rows:
        template = "{file} has no complete row, expected at least one"
        raise InputError("no_rows", template, file=first.file, n_dropped=found.n_dropped)
    by_number = columns is not None and not first.has_names
    features = {"features": ",".join(chosen["x"])} if by_number else {}
    found.columns = {ROLES[r]: names[0] for r, names in chosen.items() if r != "x"} | features
    return found


def _files_of(given: FilePath) -> list[Path]:
    """Return a file, or the tables of a folder in the order of their names."""
    path = Path(given)
    if not os.fspath(given) or not path.exists():
        template = "there is no file {file}; the current folder is {folder}"
        raise MissingFileError("no_such_file", template, file=str(given), folder=str(Path.cwd()))
    if not path.is_dir() or description_of(path) is not None:
        return [path]
    return sorted(p for p in path.iterdir() if p.suffix in TABLES and p.name[0] not in "._")


def _choose(
    part: Part, columns: Sequence[str | int] | None, wanted: Mapping[str, str | int]
) -> dict[str, list[str]]:
    """Return the names of columns by role, the points first."""
    twice = [name for name, n in Counter(part.names).items() if n > 1 or not name]
    if twice:
        template = "{file} has a column without a name, or several of one name: {columns}; write "
        template += "it with different names, and without row labels"
        raise InputError("column_without_name", template, file=part.file, columns=twice)
    others = {role: [_find(part, given, ARGUMENTS[role])] for role, given in wanted.items()}
    taken = set(chain(*others.values()))
    chosen = [name for name in part.names if name not in taken]
    if columns is not None:
        chosen = [_find(part, name, "columns") for name in columns]
    if not chosen or taken.intersection(chosen) or len(set(chosen)) < len(chosen):
        template = "the features of {file} would be {columns}, and labels or weights {others}; "
        template += "expected at least one feature, and every column in one role"
        values = {"file": part.file, "columns": chosen, "others": sorted(taken)}
        raise InputError("columns_overlap", template, **values)
    return {"x": chosen, **others}


def _find(part: Part, wanted: str | int, what: str) -> str:
    """Return the name of a column that is given by name or number."""
    if wanted in part.names:
        return str(wanted)
    if not isinstance(wanted, str) and -len(part.names) <= wanted < len(part.names):
        return part.names[wanted]
    template = "`{what}` asks for column {wanted!r}, which {file} does not have; it has {names}"
    values = {"file": part.file, "what": what, "wanted": wanted, "names": part.names}
    raise InputError("no_such_column", template, **values)


def _check_columns(
    part: Part, first: Part, chosen: Mapping[str, list[str]], *, every: bool
) -> None:
    """Raise for a file whose columns are not those of the first, by name."""
    alone = set(part.names) ^ set(first.names) if every else set()
    alone |= set(chain(*chosen.values())) - set(part.names)
    if alone or part.has_names != first.has_names:
        template = "{file} and {other_file} have different columns, expected the same in every "
        template += "file; they differ in {columns}"
        values = {"file": part.file, "other_file": first.file, "columns": sorted(alone)}
        raise InputError("columns_differ", template, **values)


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
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(numbers.sum()):  # faster than to look at every number
                continue
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            row, *column = np.argwhere(wrong)[0].tolist()
            name = f"column {names[column[0]]!r}" if column else ARGUMENTS.get(role, role)
            kind = "NaN" if np.isnan(numbers[row]).any() else "infinity"
            template = "{file}: {name} contains {kind} in row {first} (the first row is row 0); "
            template += "drop or fill such rows, or leave them out with `drop_missing=True`"
            values = {"file": file, "name": name, "kind": kind, "first": first_row + row}
            raise InputError("not_finite", template, **values)
    if "counts" in block and (block["counts"] < 0).any():
        template = "{file}: `sample_weight` is negative in row {first}, expected at least 0"
        first = first_row + int(np.argmax(block["counts"] < 0))
        raise InputError("weights_invalid", template, file=file, first=first)


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

    Blocks are points ``(n, n_features)``: arrays, data frames or Arrow tables; tuples ``(X, y)``
    or ``(X, y, sample_weight)``; or dictionaries with the points under ``"x"``, labels under
    ``"y"`` and weights under ``"counts"``. All are of one kind.
    """
    made = map(_block_of, given)
    first = next(made, None)
    if first is None:
        template = "the iterator yielded no rows; was it already consumed?"
        raise InputError("no_rows", template, file="blocks")
    block, names = first
    points = list(names or unnamed_columns(block["x"].shape[1]))

    def tables() -> Iterator[Numbers]:
        n = 0
        for number, (other, other_names) in enumerate(chain([first], made)):
            kinds = [[*b, str(b["x"].dtype), b["x"].shape[1]] for b in (other, block)]
            if kinds[0] != kinds[1] or other_names != names:
                template = "block {number} has {found} and block 0 has {expected} (columns, type, "
                template += "number and names of features); expected the same in every block"
                values = {"found": [*kinds[0], other_names], "expected": [*kinds[1], names]}
                raise InputError("blocks_differ", template, number=number, **values)
            check_numbers(other, "blocks", n, points)
            n += len(other["x"])
            yield np.column_stack(list(other.values()))

    raw = spool(tables(), len(points) + len(block) - 1, block["x"].dtype)
    if not raw.shape[0]:
        raise InputError("no_rows", "the blocks have no rows, expected one", file="blocks")
    chosen = {"x": points, **{role: [role] for role in block if role != "x"}}
    part = raw_part("blocks", raw, list(chain(*chosen.values())), has_names=names is not None)
    return FileTable([part], chosen, raw.dtype, checked=True)


def _block_of(item: Any) -> tuple[dict[str, Numbers], tuple[str, ...] | None]:
    """Return the columns of a block as numbers, and the names of its features."""
    given: Any = item if isinstance(item, Mapping | tuple) else (item,)
    given = given if isinstance(given, Mapping) else dict(zip(ROLE_NAMES, given, strict=False))
    x = given.get("x")
    named = getattr(x, "column_names", getattr(x, "columns", ()))
    names = tuple(named) if len(named) and all(isinstance(name, str) for name in named) else None
    block = {}
    for role, column in given.items():
        label, ndim = ARGUMENTS.get(role, "X"), 1 + (role == "x")
        check_cells(label, column)
        empty = len(np.shape(column)) == ndim and not np.shape(column)[0]  # a block may be
        block[role] = (
            np.zeros(np.shape(column)) if empty else to_numpy(as_real_array(column, label, ndim))
        )
    return block, names
