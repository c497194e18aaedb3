"""Rows that come in blocks, from an iterator."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.arrays import as_real_array, to_numpy
from implicitmoments.rows.files.array_file import RawArray, SlicedSource
from implicitmoments.rows.files.errors import refusal
from implicitmoments.rows.files.file_source import (
    ARGUMENTS,
    FileSource,
    Numbers,
    check_block,
    float_type,
)
from implicitmoments.rows.fold import blocks

BLOCK_ROWS = 65_536  # copied at a time: limits memory (starting value)


class Spool:
    """Columns side by side in a temporary file without a name, which cannot outlive the process.

    Messages count lines from ``first_line`` on where it is given, and rows otherwise. With
    ``drop_missing`` rows that lack a number are counted and left out, rather than refused.
    """

    def __init__(
        self,
        file: str,
        dtype: np.dtype[Any],
        feature_names: Sequence[str] | None = None,
        *,
        first_line: int | None = None,
        drop_missing: bool = False,
    ) -> None:
        self.file, self.dtype, self.feature_names = file, dtype, feature_names
        self.n_rows, self.n_dropped = 0, 0
        self._first_line, self._drop_missing = first_line, drop_missing
        self._n_features, self._others = 0, list[str]()
        # closed by `filling`, or by the source that takes it over
        self._numbers = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def append(self, block: Mapping[str, Numbers]) -> None:
        """Check the columns of some rows and write them after those before."""
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            rows = {name: column.astype(self.dtype, copy=False) for name, column in block.items()}
        first, unit = self.n_rows + self.n_dropped, "row"
        if self._first_line is not None:
            first, unit = first + self._first_line, "line"
        columns = list(rows.values())
        table = np.ascontiguousarray(columns[0]) if len(columns) == 1 else np.column_stack(columns)
        if self._drop_missing:
            kept = np.isfinite(table).all(axis=1)
            table, rows = table[kept], {name: column[kept] for name, column in rows.items()}
            self.n_dropped += len(kept) - len(table)
        check_block(rows, self.file, first, self.feature_names, unit)
        self._n_features, self._others = rows["x"].shape[1], [name for name in rows if name != "x"]
        self._write(table)
        self.n_rows += len(table)

    def _write(self, table: Numbers) -> None:
        left = table.reshape(-1).view(np.uint8).data
        try:
            while left:
                left = left[self._numbers.write(left) :]
        except OSError as reason:
            if reason.errno != errno.ENOSPC:
                raise
            raise refusal("no_room", folder=tempfile.gettempdir(), errno=errno.ENOSPC) from reason

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Delete the temporary file if the rows cannot be had."""
        try:
            yield
        except BaseException:
            self._numbers.close()
            raise

    def contents(self) -> dict[str, Any]:
        """Return the rows that were written as arguments of ``SlicedSource``."""
        if not self.n_rows:
            raise refusal("all_rows_incomplete" if self.n_dropped else "no_rows", file=self.file)
        d = self._n_features
        return {
            "file": self.file,
            "points": RawArray(self._numbers, (self.n_rows, d + len(self._others)), self.dtype),
            "features": range(d),
            "others": {name: d + i for i, name in enumerate(self._others)},
            "feature_names": self.feature_names,
            "is_checked": True,
        }

    def source(self, columns: Mapping[str, str] | None = None) -> SlicedSource:
        """Return the rows that were written, with the file that holds them."""
        source = SlicedSource(**self.contents(), columns=columns)
        source.n_dropped = self.n_dropped
        return source


def complete_rows(source: FileSource) -> SlicedSource:
    """Copy the rows that have all numbers to a temporary file, and close the source."""
    with source:
        dtype = source.read_unchecked(range(1))["x"].dtype
        spool = Spool(source.file, dtype, source.feature_names, drop_missing=True)
        with spool.filling():
            for rows in blocks(range(source.n_rows), BLOCK_ROWS):
                spool.append(source.read_unchecked(rows))
            return spool.source(source.columns)


class BlockSource(SlicedSource):
    """Rows of blocks that come one after the other.

    An iterator can be passed over once, and a fit takes several passes: the rows are written to a
    temporary file, which is deleted with the source.

    Parameters
    ----------
    blocks : iterable
        Of points ``(n, n_features)``: arrays, data frames or Arrow tables; of tuples
        ``(X, y)`` or ``(X, y, sample_weight)``; or of dictionaries with the points under
        ``"x"``, labels under ``"y"`` and weights under ``"counts"``. All of one kind.
    dtype : data type, optional
        float32 or float64; that of the first block by default.

    Examples
    --------
    >>> import numpy as np
    >>> halves = (np.full((2, 3), value) for value in (0.0, 1.0))
    >>> with BlockSource(halves) as source:
    ...     print(source.n_rows, source.n_features)
    4 3
    """

    def __init__(self, blocks: Iterable[Any], dtype: Any = None) -> None:
        super().__init__(**_spool(_iterate(blocks), dtype).contents())


class _Block(NamedTuple):
    """A block as numbers, with the names of its features."""

    number: int
    columns: dict[str, Numbers]
    names: tuple[str, ...] | None


def _spool(blocks: Iterator[Any], dtype: Any) -> Spool:
    """Write all blocks to temporary files."""
    made = (_as_block(item, number) for number, item in enumerate(blocks))
    first = next(made, None)
    if first is None:
        raise refusal("no_blocks", n_blocks=0)
    last = first
    spool = Spool("blocks", float_type(first.columns["x"].dtype, dtype), first.names)
    with spool.filling():
        for last in chain([first], made):
            _check_like(first, last, rounds=dtype is not None)
            spool.append(last.columns)
        if not spool.n_rows:
            raise refusal("no_blocks", n_blocks=last.number + 1)
    return spool


def _iterate(blocks: Any) -> Iterator[Any]:
    kind = type(blocks).__name__
    if hasattr(blocks, "shape") or hasattr(blocks, "schema") or isinstance(blocks, Mapping):
        raise refusal("one_block", kind=kind)
    if not isinstance(blocks, Iterable):
        raise refusal("not_blocks", "; call it first" if callable(blocks) else "", kind=kind)
    return iter(blocks)


def _as_block(item: Any, number: int) -> _Block:
    columns = {"x": item}
    if isinstance(item, Mapping):
        columns = dict(item)
    elif isinstance(item, tuple):
        if len(item) not in (2, 3):
            raise refusal("block_tuple", number=number, length=len(item))
        columns = dict(zip(("x", "y", "counts"), item, strict=False))
    if "x" not in columns:
        raise refusal("block_without_points", number=number, columns=sorted(columns))
    points = columns.pop("x")
    numbers = {"x": _as_numbers(points, number, "x", None)}
    for name, column in columns.items():
        if column is not None:
            numbers[name] = _as_numbers(column, number, name, len(numbers["x"]))
    return _Block(number, numbers, _feature_names(points))


def _as_numbers(given: Any, number: int, name: str, n_rows: int | None) -> Numbers:
    ndim = 2 if name == "x" else 1
    label = "X" if name == "x" else ARGUMENTS.get(name, name)
    if _is_arrow(given):
        given = np.column_stack([np.asarray(column) for column in given.columns])
    if getattr(given, "ndim", None) == ndim and given.shape[0] == 0:
        numbers: Numbers = np.empty(given.shape)  # a block may be without rows
    else:
        numbers = to_numpy(as_real_array(given, f"block {number}: {label}", ndim))
    if n_rows is not None and len(numbers) != n_rows:
        lengths = {"n_rows": len(numbers), "expected": n_rows}
        raise refusal("wrong_length", what=label, file=f"block {number}", **lengths)
    return numbers


def _is_arrow(x: Any) -> bool:
    """Return whether x is a table or record batch of Arrow, without importing it."""
    return hasattr(x, "column_names") and hasattr(x, "schema")


def _feature_names(x: Any) -> tuple[str, ...] | None:
    names = x.column_names if _is_arrow(x) else getattr(x, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def _check_like(first: _Block, block: _Block, *, rounds: bool) -> None:
    """Raise unless a block fits the first one."""
    one, other = first.columns["x"], block.columns["x"]
    compared = (
        ("columns", sorted(block.columns), sorted(first.columns)),
        ("features", other.shape[1], one.shape[1]),
        ("names", list(block.names or ()), list(first.names or ())),
    )
    for what, found, expected in compared:
        if found != expected:
            differ = {"found": found, "expected": expected}
            raise refusal(f"block_{what}_differ", number=block.number, **differ)
    if one.dtype == np.float32 != other.dtype and len(other) and not rounds:
        found = str(other.dtype)
        raise refusal("block_precision_differs", number=block.number, found=found)
