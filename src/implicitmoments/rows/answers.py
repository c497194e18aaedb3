"""Apply a fitted estimator to rows from any source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, namespace_of
from implicitmoments.rows import Block, Rows, Sums, is_dask, map_rows, weights_of
from implicitmoments.rows.dask import dask_module
from implicitmoments.rows.inputs import check_n_features, open_rows


def answer(
    estimator: Any,
    X: Any,
    function: Callable[..., Array],
    y: Any = None,
    *,
    labelled: bool = False,
    width: int = 1,
) -> Array:
    """Apply a function to all rows, block by block, in their library and on their device.

    Of Dask arrays and data frames the answer is a Dask array that computes nothing yet.

    Parameters
    ----------
    function : callable
        ``function(x)``, or ``function(x, y)`` of labelled rows, returns an array with one entry
        or one row for each row.
    width : int
        Numbers computed per row.
    """
    if is_dask(X):
        return _answer_lazily(estimator, X, function, y if labelled else None)
    with open_rows(estimator, X, y, labelled=labelled, reset=False) as (given, _):
        names = ("x", "y") if labelled else ("x",)
        blocks = Rows.of(given).blocks(width, whole=True)
        parts = [function(*(block[name] for name in names)) for block in blocks]
    return namespace_of(parts[0]).concat(parts) if len(parts) > 1 else parts[0]


def total_answer(
    estimator: Any,
    X: Any,
    function: Callable[..., Array],
    y: Any = None,
    sample_weight: Any = None,
    *,
    labelled: bool = False,
    width: int = 1,
) -> Sums:
    """Return the weighted ``total`` of a function over rows, and their ``weight``.

    One pass, without storing values per row; the parameters are those of :func:`answer`.
    """
    with open_rows(estimator, X, y, sample_weight, labelled=labelled, reset=False) as (given, _):
        return Rows.of(given).fold(_Total(function, labelled), width=width, what="score")


@dataclass(frozen=True, eq=False)
class _Total:
    """Sums of an answer and of weights over a block."""

    function: Callable[..., Array]
    labelled: bool

    def __call__(self, block: Block) -> Sums:
        names = ("x", "y") if self.labelled else ("x",)
        found, counts = self.function(*(block[name] for name in names)), weights_of(block)
        xp = namespace_of(found)
        return {
            "total": xp.sum(found * counts, dtype=xp.float64),
            "weight": xp.sum(counts, dtype=xp.float64),
        }


def _answer_lazily(estimator: Any, X: Any, function: Callable[..., Array], y: Any) -> Array:
    """Map the function over chunks; labels are passed as an additional column."""
    d, names = estimator.n_features_in_, getattr(estimator, "feature_names_in_", None)
    if names is not None and hasattr(X, "columns"):
        X = X[[*names, y] if isinstance(y, str) else list(names)]
    if y is not None:
        X, function = _beside(X, y), _Labelled(function)
    width = d + (y is not None)
    check_n_features(estimator, int(X.shape[1]) - (y is not None))
    example = np.asarray(function(np.zeros((1, width))))
    width = None if example.ndim == 1 else example.shape[1]
    lazy: Array = map_rows(X, function, width=width, dtype=example.dtype)
    return lazy


def _beside(X: Any, y: Any) -> Any:
    if hasattr(X, "columns"):
        names = [name for name in X.columns if name is not y]
        X, y = X[names].to_dask_array(), X[y].to_dask_array() if isinstance(y, str) else y
    return dask_module("array").concatenate([X, y[:, None]], axis=1)


class _Labelled:
    """Splits the last column off as labels."""

    def __init__(self, function: Callable[..., Array]) -> None:
        self._function = function

    def __call__(self, rows: Array) -> Array:
        return self._function(rows[:, :-1], rows[:, -1])
