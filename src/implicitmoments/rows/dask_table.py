"""Rows of Dask arrays and DataFrames: passes take place on the workers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial, reduce
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np

from implicitmoments.arrays import Array, Floats, as_real_array, threads_for_folds
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.formats import require
from implicitmoments.rows.table import (
    After,
    ArrayTable,
    Block,
    Measure,
    Sums,
    Table,
    add_sums,
    checked_block,
    in_blocks_of,
    naming_cells,
    take_places,
)

DaskArray: TypeAlias = Any  # Dask ships no types
Columns: TypeAlias = Sequence[Hashable] | None


def dask(name: str = "") -> Any:
    """Import Dask or a module of it, when it is needed and not before."""
    return require(f"dask.{name}" if name else "dask", "Dask", "dask")


class DaskTable(Table):
    """Rows of a Dask array or DataFrame; each partition is processed on the worker that holds it.

    A pass is one task per partition and a tree of sums, on the workers of the active
    ``distributed.Client``, or by Dask's scheduler as it is configured. Only the sums come back.
    Values are checked on the workers, in passes up to the first that reads all rows. BLAS uses one
    thread per task.

    Parameters
    ----------
    x : dask.array of shape (n_samples, n_features), or dask DataFrame
        Partitions of unknown length are counted, once, when ``n_rows`` is first asked for.
    y, counts : column name, or dask.array or Series of shape (n_samples,), optional
        Labels, and how often each row counts; of a DataFrame also the name of a column.
    columns : list of column names, optional
        The features of a DataFrame; by default all columns but the labels and weights.

    Examples
    --------
    >>> import dask.array as da
    >>> table = DaskTable(da.ones((1_000, 3), chunks=(300, 2)))
    >>> print(table.fold(lambda block: {"x": block["x"].sum(axis=0)}, 128)["x"])
    [1000. 1000. 1000.]
    """

    def __init__(
        self, x: Any, *, y: Any = None, counts: Any = None, columns: Columns = None
    ) -> None:
        given = [(role, one) for role, one in (("y", y), ("counts", counts)) if one is not None]
        others = dict(sorted(given, key=lambda pair: hasattr(pair[1], "shape")))  # names first
        array, self.names = rows_of(x, columns, *others.values())
        self.n_features = int(array.shape[1]) - len(others)
        roles = {"y": "target", "counts": "weight"}
        self.columns = {roles[r]: name for r, name in others.items() if isinstance(name, str)}
        make = dask().delayed(partial(_named, self.n_features, list(others)), pure=False)
        self._parts = [make(part) for part in array.to_delayed().ravel()]
        self._lengths, self._checked = array.chunks[0], False

    @cached_property
    def _edges(self) -> list[int]:
        """The first row of each partition, and the number of rows."""
        if np.isnan(self._lengths).any():
            count = dask().delayed(lambda block: int(block["x"].shape[0]))
            self._lengths = _compute([count(part) for part in self._parts])
        return [0, *np.cumsum(self._lengths).astype(int).tolist()]

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]  # not known before it is asked for
        """The number of rows; to count partitions of unknown length takes a pass."""
        if not self._edges[-1]:
            raise InputError("no_rows", "{file} has no rows, expected at least one", file="X")
        return self._edges[-1]

    def blocks(self, size: int) -> Iterator[Block]:
        """Return the rows to this process, partition by partition."""
        return in_blocks_of(size, (_compute([part])[0] for part, _, _ in self._spans()))

    def fold(self, measure: Measure, size: int, after: After | None = None) -> Sums:
        """Sum over rows on the workers: partitions first, then a tree of their sums."""
        delayed = dask().delayed
        # one entry of the graph, on which every task depends
        carried = delayed(measure, name=f"measure-{uuid4().hex}", traverse=False)
        sum_up = delayed(_fold_partition, pure=False)
        level = [sum_up(part, carried, i, size, self._checked) for part, i, _ in self._spans()]
        add = delayed(partial(reduce, add_sums), pure=False)
        while len(level) > 1:  # eight neighbours are added at a time, in the order of the rows
            level = [add(level[i : i + 8]) for i in range(0, len(level), 8)]
        sums: Sums = _compute(level)[0]
        self._checked = True
        if after is not None:
            after(self.n_rows)
        return sums

    def select(self, numbers: Integers) -> Iterator[tuple[Integers, Block]]:
        """Return some rows, by numbers in ascending order; workers send no others."""
        pick, tasks, some = dask().delayed(take_places, pure=False), [], []
        for part, start, stop in self._spans():
            low, high = np.searchsorted(numbers, (start, stop))
            if high > low:
                some.append(numbers[low:high])
                tasks.append(pick(part, some[-1] - start))
        yield from zip(some, _compute(tasks), strict=True)

    def _spans(self) -> Iterator[tuple[Any, int, int]]:
        """Yield partitions with rows, each with its first row and the first one after it."""
        spans = zip(self._parts, self._edges[:-1], self._edges[1:], strict=True)
        return (span for span in spans if span[2] > span[1])


def _compute(tasks: Sequence[Any]) -> list[Any]:
    """Compute by the active client or scheduler; BLAS has one thread per task."""
    with threads_for_folds(1):
        return list(dask().compute(*tasks))


def _named(d: int, others: list[str], table: Array) -> Block:
    """Return the columns of a partition as real numbers.

    An array that came over the network may not be aligned in memory. Its products are then slow,
    and round differently: it is copied.
    """
    table = as_real_array(table, "X", 2) if table.shape[0] else table
    block = {"x": table[:, :d], **{role: table[:, d + i] for i, role in enumerate(others)}}
    if isinstance(table, np.ndarray):
        return {name: np.require(column, None, ["C", "A"]) for name, column in block.items()}
    return block


def _fold_partition(block: Block, measure: Measure, start: int, size: int, checked: bool) -> Sums:
    """Sum a measure over the blocks of a partition, on a worker."""
    table = ArrayTable.of(block if checked else checked_block(block, start))
    with threads_for_folds(1):
        return table.fold(measure, size)


def rows_of(x: Any, columns: Columns, *others: Any) -> tuple[DaskArray, tuple[str, ...] | None]:
    """Return points with other columns behind them, in one chunk of columns, and their names.

    The others are names of columns of a DataFrame, then arrays or series. They are one array,
    since Dask may join partitions of a file when few columns are read.
    """
    names = None
    if hasattr(x, "columns"):
        beside = [other for other in others if not hasattr(other, "shape")]
        chosen = [c for c in x.columns if c not in beside] if columns is None else list(columns)
        absent = [name for name in (*chosen, *beside) if name not in x.columns]
        if absent or not chosen:
            template = "the DataFrame has no column {wanted!r}; its columns are {names}"
            values = {"wanted": absent[:1] or None, "names": list(x.columns)}
            raise InputError("no_such_column", template, **values)
        if all(isinstance(name, str) for name in chosen):
            names = tuple(str(name) for name in chosen)
        x = _numbers_of(x[[*chosen, *beside]], x.dtypes[chosen])
    as_real_array(np.zeros((1,) * x.ndim, x.dtype), "X", 2)  # raises for other axes and types
    apart = [_aligned(other, x)[:, None] for other in others if hasattr(other, "shape")]
    if apart:
        x = dask("array").concatenate([x, *apart], axis=1, allow_unknown_chunksizes=True)
    return x.rechunk({1: -1}), names


def _numbers_of(frame: Any, kinds: Any) -> DaskArray:
    """Return a DataFrame as an array, with NaN where a number is missing; float32 if kinds are."""
    single = all(getattr(kind, "numpy_dtype", kind) == np.float32 for kind in kinds)
    dtype = np.dtype(np.float32 if single else np.float64)
    meta = frame._meta.astype(dtype)
    return frame.map_partitions(_as_numbers, dtype, meta=meta).to_dask_array()


def _as_numbers(part: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a DataFrame of pandas to numbers; rows of an error are those of the partition."""
    with naming_cells({"X": part}):
        return part.astype(dtype)


def _aligned(column: Any, x: DaskArray) -> DaskArray:
    """Return a column in the row chunks and the precision of the points."""
    column = column.to_dask_array() if hasattr(column, "to_dask_array") else column
    column = dask("array").asarray(column).astype(x.dtype)
    as_real_array(np.zeros((1,) * column.ndim, column.dtype), "y", 1)
    known = not np.isnan(column.chunks[0] + x.chunks[0]).any()
    ours, theirs = (c.shape[0] if known else len(c.chunks[0]) for c in (column, x))
    if ours != theirs:
        template = "a column has {n_rows} rows or partitions and X has {expected}"
        raise InputError("wrong_length", template, n_rows=ours, expected=theirs)
    return column.rechunk({0: x.chunks[0]}) if known else column


def map_rows(x: DaskArray, function: Callable[[Array], Array], example: Floats) -> DaskArray:
    """Apply a function to the rows of a Dask array (n_samples, n_features) lazily.

    ``function(rows)`` answers rows ``(n, n_features)`` with an array of n rows, of the type and
    width of the example. It travels to the workers, and is called once per chunk that has rows.

    Examples
    --------
    >>> import dask.array as da
    >>> x = da.ones((6, 2), chunks=(3, 2))
    >>> map_rows(x, lambda rows: rows.sum(axis=1), np.zeros(1)).compute().tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    how: dict[str, Any] = {"function": function, "none": example[:0], "meta": example[:0]}
    if example.ndim == 1:
        return x.map_blocks(_answer_chunk, drop_axis=1, dtype=example.dtype, **how)
    chunks = (x.chunks[0], example.shape[1:])
    return x.map_blocks(_answer_chunk, chunks=chunks, dtype=example.dtype, **how)


def _answer_chunk(x: Array, *, function: Callable[[Array], Array], none: Floats) -> Floats:
    """Apply a function to one chunk of rows, which may be empty."""
    if not x.shape[0]:
        return none
    with threads_for_folds(1):
        return np.asarray(function(x)).astype(none.dtype, copy=False)
