"""Rows of Dask arrays and DataFrames: passes take place on the workers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial, reduce
from importlib import import_module
from typing import Any, TypeAlias
from uuid import uuid4

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.formats import MissingLibraryError
from implicitmoments.rows.passes import (
    After,
    Block,
    NumberedMeasure,
    Sums,
    add_sums,
    threads_for_folds,
)
from implicitmoments.rows.table import (
    ArrayTable,
    Table,
    check_cells,
    in_blocks_of,
    take_places,
)

DaskArray: TypeAlias = Any  # Dask ships no types
Frame: TypeAlias = Any

FAN_IN = 8  # sums added per task of the tree: few levels, and no worker holds many sums


def is_frame(value: Any) -> bool:
    """Return whether a value is a Dask DataFrame or Series."""
    return hasattr(value, "to_dask_array") and hasattr(value, "map_partitions")


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array or DataFrame; Dask need not be installed.

    Examples
    --------
    >>> is_dask([[1.0, 2.0]])
    False
    """
    return bool(array_api_compat.is_dask_array(value)) or is_frame(value)


def dask_module(name: str = "") -> Any:
    """Import Dask or a module of it, when it is needed and not before."""
    try:
        return import_module(f"dask.{name}" if name else "dask")
    except ImportError as reason:
        template = "rows on Dask need Dask: pip install 'implicitmoments[{extra}]'"
        raise MissingLibraryError("not_installed", template, extra="dask") from reason


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

    See Also
    --------
    ArrayTable : Rows of arrays in memory.
    open_file : Rows of files.

    Examples
    --------
    >>> import dask.array as da
    >>> table = DaskTable(da.ones((1_000, 3), chunks=(300, 2)))
    >>> print(table.fold(lambda block, rows: {"x": block["x"].sum(axis=0)}, 128)["x"])
    [1000. 1000. 1000.]
    """

    def __init__(
        self,
        x: DaskArray | Frame,
        *,
        y: Any = None,
        counts: Any = None,
        columns: Sequence[Hashable] | None = None,
    ) -> None:
        roles = {
            role: given for role, given in (("y", y), ("counts", counts)) if given is not None
        }
        if hasattr(x, "columns"):
            of_frame = {r: g for r, g in roles.items() if not hasattr(g, "shape")}
            chosen = choose_columns(x, columns, list(of_frame.values()))
            if all(isinstance(name, str) for name in chosen):
                self.names = tuple(str(name) for name in chosen)
            x = rows_of_frame(x, chosen, list(of_frame.values()))
            d = len(chosen)
            self.columns = {
                {"y": "target", "counts": "weight"}[role]: str(name)
                for role, name in of_frame.items()
            }
            places = {role: d + i for i, role in enumerate(of_frame)}
        else:
            d, places = int(x.shape[1]), {}
        x = rows_of_array(x)
        self.n_features, self._x = d, x
        apart = {role: aligned(g, x, role) for role, g in roles.items() if role not in places}
        chunks = [x.to_delayed().ravel(), *(c.to_delayed().ravel() for c in apart.values())]
        delayed, make = dask_module().delayed, partial(_named, d, places, list(apart))
        self._parts = [delayed(make, pure=False)(*part) for part in zip(*chunks, strict=True)]
        self._checked = False

    @cached_property
    def _edges(self) -> list[int]:
        """The first row of each partition, and the number of rows."""
        lengths: Sequence[float] = self._x.chunks[0]
        if np.isnan(lengths).any():
            lengths = _compute([dask_module().delayed(_length)(part) for part in self._parts])
        return [0, *(int(edge) for edge in np.cumsum(lengths))]

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]  # not known before it is asked for
        """The number of rows; to count partitions of unknown length takes a pass."""
        n = self._edges[-1]
        if not n:
            raise InputError("no_rows", "X has no rows, expected at least one", file="X")
        return n

    def blocks(self, size: int) -> Iterator[Block]:
        """Return the rows to this process, partition by partition."""
        parts = (_compute([part])[0] for part, start, stop in self._spans() if stop > start)
        return in_blocks_of(size, parts)

    def first(self) -> Block:
        """Return the first row, which is computed once."""
        return self._first

    @cached_property
    def _first(self) -> Block:
        part = next(part for part, start, stop in self._spans() if stop > start)
        row: Block = _compute([dask_module().delayed(take_places)(part, np.arange(1))])[0]
        return row

    def fold(self, measure: NumberedMeasure, size: int, after: After | None = None) -> Sums:
        """Sum over rows on the workers: partitions first, then a tree of their sums."""
        delayed = dask_module().delayed
        # one entry of the graph, on which every task depends
        carried = delayed(measure, name=f"measure-{uuid4().hex}", traverse=False)
        sum_up = delayed(_fold_partition, pure=False)
        level = [
            sum_up(part, carried, start, size, self._checked)
            for part, start, stop in self._spans()
            if stop > start
        ]
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
        pick, tasks, some = dask_module().delayed(take_places, pure=False), [], []
        for part, start, stop in self._spans():
            low, high = np.searchsorted(numbers, (start, stop))
            if high > low:
                some.append(numbers[low:high])
                tasks.append(pick(part, some[-1] - start))
        yield from zip(some, _compute(tasks), strict=True)

    def _spans(self) -> Iterator[tuple[Any, int, int]]:
        """Yield partitions, each with its first row and the first one after it."""
        return zip(self._parts, self._edges[:-1], self._edges[1:], strict=True)


def _compute(tasks: Sequence[Any]) -> list[Any]:
    """Compute by the active client or scheduler; BLAS has one thread per task."""
    with threads_for_folds(1):
        return list(dask_module().compute(*tasks))


def _length(block: Block) -> int:
    return int(block["x"].shape[0])


def _named(d: int, places: dict[str, int], apart: list[str], x: Array, *others: Array) -> Block:
    """Return the columns of a partition as real numbers, in the precision of the points.

    An array that came over the network may not be aligned in memory. Its products are then slow,
    and round differently: it is copied.
    """
    columns = {"x": x[:, :d], **{role: x[:, j] for role, j in places.items()}}
    columns |= dict(zip(apart, others, strict=True))
    block: dict[str, Array] = {}
    for name, column in columns.items():
        if column.shape[0] != x.shape[0]:
            raise InputError(
                "wrong_length",
                "`{name}` has {n_rows} rows in a partition where X has {expected}; partition "
                "both alike",
                name=name,
                n_rows=column.shape[0],
                expected=x.shape[0],
            )
        array = as_real_array(column, name, column.ndim) if column.shape[0] else column
        if isinstance(array, np.ndarray):
            array = np.require(array, requirements=["C", "A"])
        block[name] = move_like(array, block.get("x", array))
    return block


def _fold_partition(
    block: Block, measure: NumberedMeasure, start: int, size: int, checked: bool
) -> Sums:
    """Sum a measure over the blocks of a partition, on a worker."""
    if not checked:
        for name, column in block.items():
            check_finite(column, {"x": "X", "counts": "sample_weight"}.get(name, name), start)
        if "counts" in block and bool(namespace_of(block["x"]).any(block["counts"] < 0)):
            raise InputError(
                "weights_invalid",
                "`sample_weight` has negative entries between rows {start} and {stop}",
                start=start,
                stop=start + block["x"].shape[0],
            )
    table = ArrayTable.of(block)
    table.start = start
    with threads_for_folds(1):
        return table.fold(measure, size)


# columns


def rows_of_array(x: DaskArray) -> DaskArray:
    """Return points, checked by metadata, with all columns in one chunk."""
    rows: DaskArray = x
    _check_kind(rows, "X", 2)
    return rows.rechunk({1: -1})


def aligned(column: Any, x: DaskArray, role: str) -> DaskArray:
    """Return a column in the row chunks of the points.

    Lengths that are not known are compared on the workers.
    """
    da, name = dask_module("array"), "sample_weight" if role == "counts" else role
    column = da.asarray(column.to_dask_array() if is_frame(column) else column)
    _check_kind(column, name, 1)
    known = not np.isnan(column.chunks[0] + x.chunks[0]).any()
    ours, theirs = (c.shape[0] if known else len(c.chunks[0]) for c in (column, x))
    if ours != theirs:
        raise InputError(
            "wrong_length",
            "`{name}` has {n_rows} rows or partitions and X has {expected}; expected as many",
            name=name,
            n_rows=ours,
            expected=theirs,
        )
    return column.rechunk({0: x.chunks[0]}) if known else column


def _check_kind(array: DaskArray, label: str, ndim: int) -> None:
    """Raise for arrays that are no real numbers, have other axes, or are empty."""
    fits = array.ndim == ndim and 0 not in array.shape
    shape = (1,) * ndim if fits else tuple(0 if np.isnan(n) else n for n in array.shape)
    as_real_array(np.broadcast_to(np.zeros((), array.dtype), shape), label, ndim)


def choose_columns(
    frame: Frame, columns: Sequence[Hashable] | None, others: Sequence[Hashable]
) -> list[Hashable]:
    """Return the columns asked for, or all columns but some."""
    chosen = [c for c in frame.columns if c not in others] if columns is None else list(columns)
    absent = [name for name in (*chosen, *others) if name not in frame.columns]
    if absent or not chosen:
        raise InputError(
            "no_such_column",
            "the DataFrame has no column {wanted!r}; its columns are {names}",
            wanted=absent[0] if absent else None,
            names=list(frame.columns),
        )
    return chosen


def rows_of_frame(
    frame: Frame, columns: Sequence[Hashable], others: Sequence[Hashable] = ()
) -> DaskArray:
    """Return columns, and others behind them, as an array ``(n, …)`` of unknown row chunks.

    float32 where all of ``columns`` are, float64 otherwise; missing values become NaN. They are
    one array, since Dask may join partitions of a file when few columns are read, and partitions
    of different columns then differ.
    """
    kinds = (frame.dtypes[name] for name in columns)  # of NumPy, pandas or Arrow
    single = all(getattr(kind, "numpy_dtype", kind) == np.float32 for kind in kinds)
    dtype = np.dtype(np.float32 if single else np.float64)
    chosen = frame[[*columns, *others]]
    meta = import_module("pandas").DataFrame(
        np.empty((0, len(chosen.columns)), dtype), columns=chosen.columns
    )
    return chosen.map_partitions(_as_numbers, dtype, meta=meta).to_dask_array()


def _as_numbers(part: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a DataFrame of pandas to numbers; rows of an error are those of the partition."""
    try:
        return part.astype(dtype)
    except (TypeError, ValueError):
        check_cells("X", part)
        raise


# answers


def rows_of(x: DaskArray | Frame, columns: Sequence[Hashable] | None, y: Any) -> DaskArray:
    """Return points, and labels behind them if there are any, of a Dask array or DataFrame."""
    if hasattr(x, "columns"):
        beside = [y] if isinstance(y, str) else []
        x = rows_of_frame(x, choose_columns(x, columns, beside), beside)
        y = None if beside else y
    x = rows_of_array(x)
    if y is None:
        return x
    parts = [x, aligned(y, x, "y")[:, None]]
    joined = dask_module("array").concatenate(parts, axis=1, allow_unknown_chunksizes=True)
    return joined.rechunk({1: -1})


def map_rows(
    x: DaskArray, function: Callable[[Array], Array], *, width: int | None = None, dtype: Any
) -> DaskArray:
    """Apply a function to the rows of a Dask array lazily.

    Parameters
    ----------
    x : dask.array of shape (n_samples, n_features)
    function : callable
        ``function(rows)`` answers rows ``(n, n_features)`` with ``(n,)``, or ``(n, width)``. It
        travels to the workers, and is called once per chunk that has rows.
    width : int, optional
        Numbers in one answer; one number without an axis of its own by default.
    dtype : dtype
        Of the answers.

    Returns
    -------
    dask.array of shape (n_samples,) or (n_samples, width)
        In the row chunks of x.

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
    """Apply a function to one chunk of rows, ``(n,)`` or ``(n, width)``; a chunk may be empty."""
    if not x.shape[0]:
        return np.empty((0,) if width is None else (0, width), dtype=out)
    with threads_for_folds(1):
        return np.asarray(function(x)).astype(out, copy=False)
