"""What a fit is given, as rows that can be passed over: the one door of all estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
from sklearn.utils.validation import _check_sample_weight, validate_data

from implicitmoments.backends import (
    Array,
    as_real_array,
    check_finite,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.samples import (
    ArraySource,
    Block,
    MappedSource,
    RowDraws,
    Source,
    Stream,
    Sums,
)

__all__ = ["answer", "open_rows", "probe_of"]

COUNTED_ROWS = 65_536  # read at a time, where weights are looked at
ANSWERED_ROWS = 16_384
PRECISIONS = (np.float64, np.float32)


@contextmanager
def open_rows(  # noqa: PLR0913
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    labelled: bool = False,
    reset: bool = True,
    fewest: int = 1,
    checkpoint: Any = None,  # noqa: ARG001
    progress: Any = None,  # noqa: ARG001
) -> Iterator[Source]:
    """Give the rows of a fit as a source, checked, for as long as the fit takes.

    Its columns are ``"x"``, ``"y"`` where rows are labelled, and ``"counts"`` where a weight was
    given: how often each row counts, scaled to a mean of 1 where the mean is less. It remembers
    the number and names of features on the estimator.

    Parameters
    ----------
    estimator : estimator
    X : array, data frame or Source
    y : array, where rows are labelled
    sample_weight : array, optional
    labelled : bool
        Whether labels are asked for.
    reset : bool
        Whether the estimator takes the number of features from these rows, or expects its own.
    fewest : int
        The fewest rows that will do.
    """
    if isinstance(X, Source):
        source = _from_source(estimator, X, reset, labelled)
    elif _is_foreign(X):
        source = _from_foreign(estimator, X, y if labelled else None, sample_weight, reset)
    else:
        source = _from_arrays(estimator, X, y, sample_weight, labelled, reset, fewest)
    if (source.n_rows or 0) < fewest:
        raise ValueError(
            f"Found array with {source.n_rows} sample(s) while a minimum of {fewest} is required"
        )
    yield _scaled_counts(source)


def probe_of(source: Source) -> Array:
    """Return the first point, (1, d): its library, precision and device are those of the rows."""
    rows = range(1)
    return source.read(rows, RowDraws(0, rows, (Stream.ROWS,)))["x"]


def answer(
    estimator: Any,
    X: Any,
    function: Callable[..., Array],
    y: Any = None,
    *,
    labelled: bool = False,
    block_rows: int | None = None,
) -> Array:
    """Answer for every row, block by block, in the library and on the device of the rows.

    Parameters
    ----------
    estimator : fitted estimator
    X, y : what the user gave
    function : callable
        ``function(x)``, or ``function(x, y)`` of labelled rows, returns an array with one entry
        or one row for each row.
    labelled : bool
    block_rows : int, optional
    """
    with open_rows(estimator, X, y, labelled=labelled, reset=False) as source:
        size, n = block_rows or ANSWERED_ROWS, source.n_rows or 0
        names = ("x", "y") if labelled else ("x",)
        parts = []
        for start in range(0, n, size):
            rows = range(start, min(start + size, n))
            block = source.read(rows, RowDraws(0, rows, (Stream.ROWS,)))
            parts.append(function(*(block[name] for name in names)))
    return namespace_of(parts[0]).concat(parts) if len(parts) > 1 else parts[0]


def _is_foreign(X: Any) -> bool:
    """Say whether X is an array of a library other than NumPy."""
    return array_api_compat.is_array_api_obj(X) and not array_api_compat.is_numpy_array(X)


def _from_arrays(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    labelled: bool,
    reset: bool,
    fewest: int,
) -> Source:
    how = {"dtype": PRECISIONS, "reset": reset, "ensure_min_samples": fewest}
    columns = {}
    if labelled:
        X, y = validate_data(estimator, X, y, y_numeric=True, **how)
        columns["y"] = np.asarray(y, dtype=X.dtype)
    else:
        X = validate_data(estimator, X, **how)
    if sample_weight is not None:
        counts = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        kept = counts > 0
        if not kept.any():
            raise ValueError("sample_weight is zero for every row; give some row a weight")
        X, columns = X[kept], {name: column[kept] for name, column in columns.items()}
        columns["counts"] = counts[kept]
    return ArraySource(X, **columns)


def _from_foreign(estimator: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> Source:
    X = as_real_array(X, "X", 2)
    check_finite(X, "X")
    _remember(estimator, int(X.shape[1]), None, reset)
    columns = {}
    if y is not None:
        columns["y"] = move_like(as_real_array(y, "y", 1), X)
    if sample_weight is not None:
        counts = move_like(as_real_array(sample_weight, "sample_weight", 1), X)
        xp = namespace_of(counts)
        if bool(xp.any(counts < 0)):
            raise ValueError("sample_weight has negative entries; weights are 0 or more")
        columns["counts"] = counts
    return ArraySource(X, **columns)


def _from_source(estimator: Any, source: Source, reset: bool, labelled: bool) -> Source:
    if source.n_rows is None:
        raise ValueError(
            "the source makes as many rows as are asked for; give it n_rows to fit it"
        )
    rows = range(1)
    block = source.read(rows, RowDraws(0, rows, (Stream.ROWS,)))
    if labelled and "y" not in block:
        raise ValueError("the rows have no labels; name the column of labels, y='…'")
    _remember(estimator, source.n_features, getattr(source, "feature_names", None), reset)
    return source


def _remember(estimator: Any, n_features: int, names: Any, reset: bool) -> None:
    """Keep the number and names of the features, or compare with what was kept."""
    if reset:
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    elif n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )


def _scaled_counts(source: Source) -> Source:
    """Scale weights to a mean of 1 where it is less: shares are no numbers of rows."""
    begin = range(1)
    if "counts" not in source.read(begin, RowDraws(0, begin, (Stream.ROWS,))):
        return source
    n = source.n_rows or 0
    sums = source.fold(_look_at_counts, range(n), COUNTED_ROWS, what="counting rows")
    mass, there = float(sums["mass"]), float(sums["there"])
    if float(sums["negative"]):
        raise ValueError("sample_weight has negative entries; weights are 0 or more")
    if not there:
        raise ValueError("sample_weight is zero for every row; give some row a weight")
    mean = mass / there
    return source if mean >= 1 else MappedSource(source, _Scale(1 / mean))


def _look_at_counts(block: Block, rows: range) -> Sums:  # noqa: ARG001
    counts = to_numpy(block["counts"]).astype(np.float64)
    return {
        "mass": counts.sum(),
        "there": np.count_nonzero(counts > 0),
        "negative": np.count_nonzero(counts < 0),
    }


@dataclass(frozen=True)
class _Scale:
    """Makes rows count a number of times as often."""

    factor: float

    def __call__(self, block: Block) -> Block:
        return {**block, "counts": block["counts"] * self.factor}
