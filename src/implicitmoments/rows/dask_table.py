"""Rows of Dask arrays and DataFrames: passes take place on the workers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial, reduce
from importlib import import_module
from typing import Any, TypeAlias
from uuid import uuid4

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, namespace_of
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.formats import require
from implicitmoments.rows.passes import After, Block, Measure, Sums, add_sums, threads_for_folds
from implicitmoments.rows.table import ArrayTable, Table, check_cells, in_blocks_of, take_places

DaskArray: TypeAlias = Any  # Dask ships no types

FAN_IN = 8  # sums added per task of the tree: few levels, and no worker holds many sums


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array or DataFrame; Dask need not be installed.

    Examples
    --------
    >>> is_dask([[1.0, 2.0]])
    False
    """
    return bool(array_api_compat.is_dask_array(value)) or hasattr(value, "to_dask_array")


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
        self,
        x: Any,
        *,
        y: Any = None,
        counts: Any = None,
        columns: Sequence[Hashable] | None = None,
    ) -> None:
        others = {
            role: given for role, given in (("y", y), ("counts", counts)) if given is not None
        }
        self._array, self.names = rows_of(x, columns, *others.values())
        self.n_features = int(self._array.shape[1]) - len(others)
        roles = {"y": "target", "counts": "weight"}
        self.columns = {roles[r]: name for r, name in others.items() if isinstance(name, str)}
        make = dask().delayed(partial(_named, self.n_features, list(others)), pure=False)
        self._parts = [make(part) for part in self._array.to_delayed().ravel()]
        self._checked = False

    @cached_property
    def _edges(self) -> list[int]:
        """The first row of each partition, and the number of rows."""
        lengths: Sequence[float] = self._array.chunks[0]
        if np.isnan(lengths).any():
            lengths = _compute([dask().delayed(_length)(part) for part in self._parts])
        return [0, *(int(edge) for edge in np.cumsum(lengths))]

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]  # not known before it is asked for
        """The number of rows; to count partitions of unknown length takes a pass."""
        if not self._edges[-1]:
            raise InputError("no_rows", "{file} has no rows, expected at least one", file="X")
        return self._edges[-1]

    def blocks(self, size: int) -> Iterator[Block]:
        """Return the rows to this process, partition by partition."""
        return in_blocks_of(size, (_compute([part])[0] for part, _, _ in self._spans()))

    def first(self) -> Block:
        """Return the first row, which is computed once."""
        return self._first

    @cached_property
    def _first(self) -> Block:
        part, _, _ = next(self._spans())
        row: Block = _compute([dask().delayed(take_places)(part, np.arange(1))])[0]
        return row

    def fold(self, measure: Measure, size: int, after: After | None = None) -> Sums:
        """Sum over rows on the workers: partitions first, then a tree of their sums."""
        delayed = dask().delayed
        # one entry of the graph, on which every task depends
        carried = delayed(measure, name=f"measure-{uuid4().hex}", traverse=False)
        sum_up = delayed(_fold_partition, pure=False)
        level = [sum_up(part, carried, i, size, self._checked) for part, i, _ in self._spans()]
        add = delayed(partial(reduce, add_sums), pure=False)
        while len(level) > 1:  # sums of neighbours are added in the order of the rows
            level = [add(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
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


def _length(block: Block) -> int:
    return int(block["x"].shape[0])


def _named(d: int, others: list[str], table: Array) -> Block:
    """Return the columns of a partition as real numbers.

    An array that came over the network may not be aligned in memory. Its products are then slow,
    and round differently: it is copied.
    """
    table = as_real_array(table, "X", 2) if table.shape[0] else table
    block = {"x": table[:, :d], **{role: table[:, d + i] for i, role in enumerate(others)}}
    if isinstance(table, np.ndarray):
        return {
            name: np.require(column, requirements=["C", "A"]) for name, column in block.items()
        }
    return block


def _fold_partition(block: Block, measure: Measure, start: int, size: int, checked: bool) -> Sums:
    """Sum a measure over the blocks of a partition, on a worker."""
    if not checked:
        for name, column in block.items():
            check_finite(column, {"x": "X", "counts": "sample_weight"}.get(name, name), start)
        if "counts" in block and bool(namespace_of(block["x"]).any(block["counts"] < 0)):
            template = "`sample_weight` has {what}; give weights of 0 or more, some above 0"
            raise InputError("weights_invalid", template, what="negative entries")
    with threads_for_folds(1):
        return ArrayTable.of(block).fold(measure, size)


def rows_of(
    x: Any, columns: Sequence[Hashable] | None, *others: Any
) -> tuple[DaskArray, tuple[str, ...] | None]:
    """Return points with other columns behind them, in one chunk of columns, and their names.

    The others are arrays or series, or columns of a DataFrame. They are one array, since Dask may
    join partitions of a file when few columns are read.
    """
    names, apart = None, [other for other in others if hasattr(other, "shape")]
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
        x = _numbers_of(x, chosen, beside)
    _check_kind(x, "X", 2)
    parts = [x, *(_aligned(other, x)[:, None] for other in apart)]
    if apart:
        x = dask("array").concatenate(parts, axis=1, allow_unknown_chunksizes=True)
    return x.rechunk({1: -1}), names


def _numbers_of(frame: Any, columns: Sequence[Hashable], others: Sequence[Hashable]) -> DaskArray:
    """Return columns as an array: float32 if ``columns`` are, with NaN where one is missing."""
    kinds = (frame.dtypes[name] for name in columns)  # of NumPy, pandas or Arrow
    single = all(getattr(kind, "numpy_dtype", kind) == np.float32 for kind in kinds)
    dtype, chosen = np.dtype(np.float32 if single else np.float64), frame[[*columns, *others]]
    empty = np.empty((0, len(chosen.columns)), dtype)
    meta = import_module("pandas").DataFrame(empty, columns=chosen.columns)
    return chosen.map_partitions(_as_numbers, dtype, meta=meta).to_dask_array()


def _as_numbers(part: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a DataFrame of pandas to numbers; rows of an error are those of the partition."""
    try:
        return part.astype(dtype)
    except (TypeError, ValueError):
        check_cells("X", part)
        raise


def _aligned(column: Any, x: DaskArray) -> DaskArray:
    """Return a column in the row chunks and the precision of the points."""
    column = column.to_dask_array() if hasattr(column, "to_dask_array") else column
    column = dask("array").asarray(column).astype(x.dtype)
    _check_kind(column, "y", 1)
    known = not np.isnan(column.chunks[0] + x.chunks[0]).any()
    ours, theirs = (c.shape[0] if known else len(c.chunks[0]) for c in (column, x))
    if ours != theirs:
        template = "a column has {n_rows} rows or partitions and X has {expected}"
        raise InputError("wrong_length", template, n_rows=ours, expected=theirs)
    return column.rechunk({0: x.chunks[0]}) if known else column


def _check_kind(array: DaskArray, label: str, ndim: int) -> None:
    """Raise for arrays that are no real numbers, have other axes, or are empty."""
    fits = array.ndim == ndim and 0 not in array.shape
    shape = (1,) * ndim if fits else tuple(0 if np.isnan(n) else n for n in array.shape)
    as_real_array(np.broadcast_to(np.zeros((), array.dtype), shape), label, ndim)


def map_rows(
    x: DaskArray, function: Callable[[Array], Array], *, width: int | None = None, dtype: Any
) -> DaskArray:
    """Apply a function to the rows of a Dask array (n_samples, n_features) lazily.

    ``function(rows)`` answers rows ``(n, n_features)`` with ``(n,)``, or ``(n, width)``. It
    travels to the workers, and is called once per chunk that has rows.

    Examples
    --------
    >>> import dask.array as da
    >>> x = da.ones((6, 2), chunks=(3, 2))
    >>> map_rows(x, lambda rows: rows.sum(axis=1), dtype=float).compute().tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    answer = partial(_answer_chunk, function=function, width=width, out=np.dtype(dtype))
    if width is None:
        return x.map_blocks(answer, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
    meta = np.empty((0, 0), dtype)
    return x.map_blocks(answer, chunks=(x.chunks[0], (width,)), dtype=dtype, meta=meta)


def _answer_chunk(
    x: Array, *, function: Callable[[Array], Array], width: int | None, out: Any
) -> Array:
    """Apply a function to one chunk of rows, which may be empty."""
    if not x.shape[0]:
        return np.empty((0,) if width is None else (0, width), dtype=out)
    with threads_for_folds(1):
        return np.asarray(function(x)).astype(out, copy=False)
