"""Tables in files, read block by block, and blocks of rows that come once.

Numbers of CSV files, and blocks that come once, are written to a temporary file of numbers, from
which every pass reads.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.arrays import check_finite, to_numpy
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.formats import (
    READERS,
    MissingFileError,
    Numbers,
    Part,
    TextFormat,
    array_part,
    open_arrow,
    open_parquet,
    open_part,
    reading,
)
from implicitmoments.rows.table import (
    ARGUMENTS,
    Block,
    Table,
    checked_block,
    in_blocks_of,
    naming_cells,
)
from implicitmoments.validation import unnamed_columns

FilePath: TypeAlias = str | os.PathLike[str]
Chosen: TypeAlias = Mapping[str, list[str]]  # names of columns by role, the points first


class FileTable(Table, AbstractContextManager["FileTable"]):
    """Rows of files that are read in blocks.

    A row is checked for missing and infinite numbers in the first pass that reads it.

    Attributes
    ----------
    n_dropped : int
        Rows that lack a number and were left out.
    """

    def __init__(
        self, parts: Sequence[Part], chosen: Chosen, checked: bool, dropped: Integers | None = None
    ) -> None:
        self._parts, self._chosen, self._checked = parts, chosen, checked
        single = all(name in part.single for part in parts for name in chosen["x"])
        self._dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
        self._columns = list(chain(*chosen.values()))
        self._dropped = np.zeros(0, dtype=np.int64) if dropped is None else dropped
        self.n_dropped = len(self._dropped)
        self.n_rows = sum(part.n_rows or 0 for part in parts)
        self.n_features = len(chosen["x"])
        self.names = tuple(chosen["x"]) if parts[0].has_names else None

    def blocks(self, size: int) -> Iterator[Block]:
        """Read the rows; the first complete pass checks them."""
        yield from in_blocks_of(size, self._pieces(size))
        self._checked = True

    def _pieces(self, size: int) -> Iterator[Block]:
        """Read the columns that were chosen, by role; the points are contiguous."""
        if not self._parts:
            raise InputError("table_closed", "the file is closed; open it again to read its rows")
        advice = "drop or fill such rows, or leave them out with `drop_missing`"
        d, others = self.n_features, list(self._chosen)[1:]
        for part in self._parts:
            first = 0
            with reading(part.file):
                for given in part.tables(self._columns, size):
                    # to add numbers is faster than to look at each
                    with np.errstate(over="ignore", invalid="ignore"):
                        table = given.astype(self._dtype, copy=False)
                        suspect = not self._checked and not np.isfinite(table.sum())
                    for j, name in enumerate(self._columns if suspect else ()):
                        check_finite(table[:, j], f"{part.file}: column {name!r}", first, advice)
                    first += len(table)
                    columns = {role: table[:, d + i] for i, role in enumerate(others)}
                    yield {"x": np.ascontiguousarray(table[:, :d]), **columns}

    def spooled(self, *, drop: bool) -> FileTable:
        """Return the same rows in a temporary file; ``drop`` leaves out incomplete ones."""
        dropped: list[Integers] = []
        self._checked |= drop

        def complete() -> Iterator[Numbers]:
            first = 0
            for block in self._pieces(65_536):
                table = np.column_stack(list(block.values()))
                whole = np.isfinite(table).all(axis=1) | (not drop)
                dropped.append(first + np.flatnonzero(~whole))
                first += len(table)
                yield table[whole]

        first = self._parts[0]
        part = spool(complete(), first.file, self._columns, self._dtype, first.has_names)
        return FileTable([part], self._chosen, True, np.concatenate(dropped))

    def given_numbers(self, numbers: Integers) -> Integers:
        """Return the numbers of rows in the files, which count incomplete ones too."""
        kept_before = self._dropped - np.arange(len(self._dropped))
        return numbers + np.searchsorted(kept_before, numbers, side="right")

    def close(self) -> None:
        """Close the files."""
        self._parts = ()

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
    found = FileTable(parts, chosen, keep_missing)
    if drop_missing or not all(part.n_rows for part in parts):
        found = found.spooled(drop=drop_missing)
    roles = {"y": "target", "counts": "weight"}  # as a fitted estimator remembers columns
    found.columns = {roles[role]: names[0] for role, names in chosen.items() if role != "x"}
    if columns is not None and not first.has_names:
        found.columns["features"] = ",".join(chosen["x"])
    return found


def _files_of(given: FilePath) -> list[Path]:
    """Return a file, or the tables of a folder in the order of their names."""
    path = Path(given)
    if not os.fspath(given) or not path.exists():
        template = "there is no file {file}; the current folder is {folder}"
        raise MissingFileError("no_such_file", template, file=str(given), folder=str(Path.cwd()))
    if not path.is_dir() or path.suffix == ".zarr":
        return [path]
    tables = [suffix for suffix, reader in READERS.items() if reader in (open_parquet, open_arrow)]
    return sorted(p for p in path.iterdir() if p.suffix in tables and p.name[0] not in "._")


def _choose(
    part: Part, columns: Sequence[str | int] | None, wanted: Mapping[str, str | int]
) -> Chosen:
    """Return the names of columns by role, the points first."""
    others = {role: [_find(part, given, ARGUMENTS[role])] for role, given in wanted.items()}
    taken = [names[0] for names in others.values()]
    if columns is None:
        chosen = [name for name in part.names if name not in taken]
    else:
        chosen = [_find(part, name, "columns") for name in columns]
    counts = Counter(part.names)
    unclear = {name or "(no name)" for name in [*taken, *chosen] if counts[name] > 1 or not name}
    if unclear:
        template = "{file} has columns without a name, or several of one name: {columns}; select "
        template += "others with `columns`"
        raise InputError("column_without_name", template, file=part.file, columns=[*unclear])
    if not chosen or len({*taken, *chosen}) < len(chosen) + len(set(taken)):
        template = "{file}: a column has one role, not features {columns} and others {others}"
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


def _check_columns(part: Part, first: Part, chosen: Chosen, *, every: bool) -> None:
    """Raise for a file whose columns are not those of the first, by name."""
    alone = set(part.names) ^ set(first.names) if every else set()
    alone |= set(chain(*chosen.values())) - set(part.names)
    if alone or part.has_names != first.has_names:
        template = "{file} and {other_file} differ in columns {columns}; expected the same in all"
        values = {"file": part.file, "other_file": first.file, "columns": sorted(alone)}
        raise InputError("columns_differ", template, **values)


def spool(
    tables: Iterable[Numbers], name: str, columns: list[str], dtype: Any, has_names: bool
) -> Part:
    """Write tables to a temporary file without a name, which cannot outlive the process."""
    n = 0
    with tempfile.TemporaryFile() as file:
        for table in tables:
            file.write(np.ascontiguousarray(table, dtype=dtype).data)
            n += len(table)
        if not n:
            raise InputError("no_rows", "{file} has no complete row, expected one", file=name)
        file.flush()
        mapped = np.memmap(file, dtype, "r", shape=(n, len(columns)))
    return array_part(name, mapped, columns, has_names=has_names)


def spool_blocks(given: Iterator[Any]) -> FileTable:
    """Write blocks of rows that come once to a temporary file.

    Blocks are points ``(n, n_features)``: arrays, data frames or Arrow tables; tuples ``(X, y)``
    or ``(X, y, sample_weight)``; or dictionaries with the points under ``"x"``, labels under
    ``"y"`` and weights under ``"counts"``. All are of one kind.
    """
    made = _blocks_of(given)
    first = next(made, None)
    if first is None:
        raise InputError("no_rows", "the iterator yielded no rows; was it already consumed?")
    _, block, names = first
    points = names or unnamed_columns(block["x"].shape[1])
    chosen = {"x": points, **{role: [role] for role in block if role != "x"}}

    def tables() -> Iterator[Numbers]:
        for number, other, other_names in chain([first], made):
            kinds = [[*b, str(b["x"].dtype), b["x"].shape[1]] for b in (other, block)]
            if kinds[0] != kinds[1] or other_names != names:
                template = "block {number} has {found}, block 0 {expected}; they need to be alike"
                values = {"found": [*kinds[0], other_names], "expected": [*kinds[1], names]}
                raise InputError("blocks_differ", template, number=number, **values)
            yield np.column_stack(list(other.values()))

    columns, dtype = list(chain(*chosen.values())), block["x"].dtype
    part = spool(tables(), "blocks", columns, dtype, names is not None)
    return FileTable([part], chosen, True)


def _blocks_of(given: Iterator[Any]) -> Iterator[tuple[int, Any, list[str] | None]]:
    """Yield the numbers of blocks that have rows, their columns, and the names of features."""
    first_row = 0
    for number, item in enumerate(given):
        listed = item if isinstance(item, tuple) else (item,)
        pairs = zip(ARGUMENTS, listed, strict=False)
        columns: Mapping[str, Any] = item if isinstance(item, Mapping) else dict(pairs)
        x: Any = columns.get("x")
        if hasattr(x, "__len__") and not len(x):
            continue
        with naming_cells({ARGUMENTS.get(role, role): one for role, one in columns.items()}):
            block = checked_block(columns, first_row)
        named = list(getattr(x, "column_names", getattr(x, "columns", ())))
        names = named if named and all(isinstance(name, str) for name in named) else None
        yield number, {role: to_numpy(column) for role, column in block.items()}, names
        first_row += int(block["x"].shape[0])
