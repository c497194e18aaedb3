"""Columns of Dask arrays and DataFrames, checked by metadata; functions of them, lazily."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, as_real_array
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows.blas_threads import threads_for_folds
from implicitmoments.rows.cells import check_cells
from implicitmoments.rows.files.errors import MissingLibraryError
from implicitmoments.rows.sources import is_frame

# Dask DataFrames, Series and arrays: Dask ships no types.
Frame: TypeAlias = Any
DaskArray: TypeAlias = Any


def dask_module(name: str) -> Any:
    """Import a module of Dask, when it is needed and not before."""
    try:
        return import_module(f"dask.{name}")
    except ImportError as reason:
        template = "rows on Dask need Dask: pip install 'implicitmoments[{extra}]'"
        raise MissingLibraryError("not_installed", template, extra="dask") from reason


def rows_of_array(x: DaskArray) -> DaskArray:
    """Return points, checked by metadata, with all columns in one chunk."""
    if not array_api_compat.is_dask_array(x):
        hint = "`ArraySource` takes arrays in memory"
        if is_frame(x):
            hint = "`DaskSource.from_frame` takes columns of a DataFrame"
        kind, template = type(x).__name__, "X is a {kind}, expected a Dask array; "
        raise InputTypeError("not_a_dask_array", template + hint, kind=kind)
    rows: DaskArray = x
    _check_kind(rows, "X", 2)
    return rows.rechunk({1: -1})


def aligned(column: Any, x: DaskArray, what: str) -> DaskArray:
    """Return a column in the row chunks of the points.

    Lengths that are not known are compared on the workers.
    """
    da = dask_module("array")
    column = da.asarray(column.to_dask_array() if is_frame(column) else column)
    _check_kind(column, what, 1)
    lengths = column.chunks[0], x.chunks[0]
    if np.isnan(lengths[0] + lengths[1]).any():
        found, expected = len(lengths[0]), len(lengths[1])
        if found != expected:
            raise InputError(
                "partitions_differ",
                "`{what}` has {found:count partition} of unknown length and X has {expected}; "
                "partition both alike",
                **{"what": what, "found": found, "expected": expected},
            )
        return column
    if column.shape != x.shape[:1]:
        raise InputError(
            "wrong_length",
            "`{name}` has {n_rows} rows and X has {expected}; expected one value per row",
            **{"name": what, "n_rows": column.shape[0], "expected": x.shape[0]},
        )
    return column.rechunk({0: x.chunks[0]})


def join_column(x: DaskArray, column: Any, what: str) -> DaskArray:
    """Return points with a column behind the others; both may have chunks of unknown length."""
    x, da = rows_of_array(x), dask_module("array")
    parts = [x, aligned(column, x, what)[:, None]]
    return da.concatenate(parts, axis=1, allow_unknown_chunksizes=True).rechunk({1: -1})


def _check_kind(array: DaskArray, label: str, ndim: int) -> None:
    """Raise for arrays that are no real numbers, have other axes, or are empty."""
    fits = array.ndim == ndim and 0 not in array.shape
    shape = (1,) * ndim if fits else tuple(0 if np.isnan(n) else n for n in array.shape)
    as_real_array(np.broadcast_to(np.zeros((), array.dtype), shape), label, ndim)


def choose_columns(
    frame: Frame, columns: Sequence[Hashable] | None, without: Sequence[Hashable]
) -> list[Hashable]:
    """Return the columns asked for, or all columns but some."""
    if columns is None:
        chosen = [c for c in frame.columns if c not in without]
        if not chosen:
            template = "the DataFrame has no column of features; its columns are {names}"
            raise InputError("no_features", template, names=list(frame.columns))
        return chosen
    if isinstance(columns, str) or not columns:
        template = "`columns` must be a list of at least one name, got {given!r}"
        raise InputError("columns_not_a_list", template, given=columns)
    return list(columns)


def rows_of_frame(
    frame: Frame, columns: Sequence[Hashable], others: Sequence[Hashable] = ()
) -> DaskArray:
    """Return columns, and others behind them, as an array ``(n, …)`` of unknown row chunks.

    float32 where all of ``columns`` are, float64 otherwise; missing values become NaN. Text,
    objects and categories are converted on the workers, where those that are no numbers are
    refused. They are one array, since Dask may join partitions of a file when few columns are
    read, and partitions of different columns then differ.
    """
    for name in (*columns, *others):
        if name not in frame.columns:
            template = "the DataFrame has no column {wanted!r}; its columns are {names}"
            raise InputError("no_such_column", template, wanted=name, names=list(frame.columns))
    kinds = (frame.dtypes[name] for name in columns)  # of NumPy, pandas or Arrow
    single = all(getattr(kind, "numpy_dtype", kind) == np.float32 for kind in kinds)
    dtype = np.dtype(np.float32 if single else np.float64)
    chosen = frame[[*columns, *others]]
    if all(map(_is_numeric, chosen.dtypes)):
        return chosen.astype(dtype).to_dask_array()
    empty = np.empty((0, len(chosen.columns)), dtype)
    meta = import_module("pandas").DataFrame(empty, columns=chosen.columns)
    return chosen.map_partitions(convert_cells, dtype, meta=meta).to_dask_array()


def convert_cells(part: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a partition, a DataFrame of pandas, to numbers, as an array of its cells would be.

    Rows of an error are numbers within the partition.
    """
    try:
        columns = [_convert_column(part.iloc[:, j], dtype) for j in range(part.shape[1])]
    except (TypeError, ValueError):
        check_cells("X", part)
        raise
    made = import_module("pandas").DataFrame(dict(enumerate(columns)), index=part.index)
    return made.set_axis(part.columns, axis=1)


def _convert_column(column: Any, dtype: np.dtype[Any]) -> Any:
    if _is_numeric(column.dtype):
        return column.astype(dtype)
    cells = np.asarray(column, dtype=object)  # of a date its objects, and not its nanoseconds
    missing = np.asarray(column.isna(), dtype=bool)
    return np.where(missing, np.nan, cells).astype(dtype)


def _is_numeric(dtype: Any) -> bool:
    types = import_module("pandas.api.types")
    return bool(types.is_numeric_dtype(dtype)) and not types.is_complex_dtype(dtype)


def map_rows(
    x: DaskArray | Frame,
    function: Callable[[Array], Array],
    *,
    width: int | None = None,
    dtype: Any = np.float64,
    columns: Sequence[Hashable] | None = None,
) -> DaskArray:
    """Apply a function to the rows of a Dask array or DataFrame lazily.

    Parameters
    ----------
    x : dask.array of shape (n_samples, n_features), or dask DataFrame
    function : callable
        ``function(rows)`` answers rows ``(n, n_features)`` with ``(n,)``, or ``(n, width)``. It
        travels to the workers, and is called once per chunk that has rows.
    width : int, optional
        Numbers in one answer; one number without an axis of its own by default.
    dtype : dtype
        Of the answers.
    columns : list of column names, optional
        Of a DataFrame; all columns by default.

    Returns
    -------
    dask.array of shape (n_samples,) or (n_samples, width)
        In the row chunks of x.

    Examples
    --------
    >>> import dask.array as da
    >>> from implicitmoments.rows import map_rows
    >>> map_rows(da.ones((6, 2), chunks=(3, 2)), lambda x: x.sum(axis=1)).compute().tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    if is_frame(x):
        x = rows_of_frame(x, choose_columns(x, columns, ()))
    x, dtype = rows_of_array(x), np.dtype(dtype)
    answer = partial(_answer_chunk, function=function, width=width, out=dtype)
    if width is None:
        return x.map_blocks(answer, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
    meta = np.empty((0, 0), dtype)
    return x.map_blocks(answer, chunks=(x.chunks[0], (width,)), dtype=dtype, meta=meta)


def _answer_chunk(
    x: Array, *, function: Callable[[Array], Array], width: int | None, out: Any
) -> Array:
    """Apply a function to one chunk of rows, ``(n,)`` or ``(n, width)``; a chunk may be empty."""
    shape = (x.shape[0],) if width is None else (x.shape[0], width)
    if not x.shape[0]:
        return np.empty(shape, dtype=out)
    with threads_for_folds(1):
        answers = function(x)
    if tuple(answers.shape) != shape:
        template, given = "answers have shape {shape}, expected {expected}", tuple(answers.shape)
        raise InputError("wrong_answers", template, shape=str(given), expected=str(shape))
    return np.asarray(answers).astype(out, copy=False)
