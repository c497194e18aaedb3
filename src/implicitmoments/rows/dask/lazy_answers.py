"""Answers for rows of Dask arrays and DataFrames, when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.rows.dask.frame_columns import (
    DaskArray,
    Frame,
    is_frame,
    numeric_columns,
    rows_of_array,
    rows_of_frame,
)
from implicitmoments.rows.dask.tasks import answer_rows

__all__ = ["map_rows"]


def map_rows(
    x: DaskArray | Frame,
    function: Callable[[Array], Array],
    *,
    width: int | None = None,
    dtype: Any = np.float64,
    columns: Sequence[Hashable] | None = None,
) -> DaskArray:
    """Answer rows of a Dask array or DataFrame lazily: nothing is computed here.

    Parameters
    ----------
    x : dask.array of shape (n_samples, n_features), or dask DataFrame
    function : callable
        ``function(rows)`` answers rows ``(n, n_features)`` with ``(n,)``, or ``(n, width)``. It
        travels to the workers, and is called once a chunk that has rows.
    width : int, optional
        Numbers in one answer; one number without an axis of its own by default.
    dtype : dtype
        Of the answers.
    columns : list of column names, optional
        Of a DataFrame; all columns of numbers by default.

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
        x = rows_of_frame(x, numeric_columns(x, columns, ()))
    x = rows_of_array(x)
    dtype = np.dtype(dtype)
    answer = partial(answer_rows, function=function, width=width, out=dtype)
    if width is None:
        return x.map_blocks(answer, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
    meta = np.empty((0, 0), dtype)
    return x.map_blocks(answer, chunks=(x.chunks[0], (width,)), dtype=dtype, meta=meta)
