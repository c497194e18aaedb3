"""Convert the input of an estimator to rows that can be read several times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array
from sklearn.utils.validation import _check_sample_weight, validate_data

from implicitmoments.arrays import (
    LARGEST,
    as_real_array,
    check_unmasked,
    move_like,
    namespace_of,
    refuse_large,
    sizes_of,
    to_numpy,
)
from implicitmoments.column_names import unnamed_column
from implicitmoments.notes import InputError
from implicitmoments.rows import (
    ArraySource,
    Block,
    BlockSource,
    Census,
    DaskSource,
    Journal,
    JournaledSource,
    Progress,
    Rows,
    Source,
    Sums,
    as_seed,
    is_dask,
    open_checkpoint,
    open_file,
    threads_for_folds,
)
from implicitmoments.rows.cells import check_cells
from implicitmoments.validation import check_progress

Checkpoint: TypeAlias = str | PathLike[str] | Journal | None

PRECISIONS = (np.float64, np.float32)  # kept as given; other types become float64
SIZES = ("small", "fair", "large")  # of entries
MOST_COUNTED = 2**53  # whole numbers that a double distinguishes


@contextmanager
def open_rows(  # noqa: PLR0913 (keyword-only, each documented)
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    labelled: bool = False,
    reset: bool = True,
    as_counts: bool = False,
    fewest: int = 1,
    checkpoint: Checkpoint = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Rows, int]]:
    """Yield the rows of a fit, validated and open for its duration, and its seed.

    Their columns are ``"x"``, ``"y"`` where rows are labelled, and ``"counts"`` where weights
    were given, scaled to a mean of 1 where they are no counts, unless ``as_counts``. The number
    and names of features are stored on the estimator.

    Parameters
    ----------
    X : array, data frame, path, iterator of blocks, Source, or Rows
        Arrays of NumPy, torch, CuPy and other libraries of the array API; Dask arrays and data
        frames; the path of a file, or a list of paths. A lazy frame of polars is collected.
    y : array or column, where rows are labelled
        Of files and Dask data frames the name of a column. Blocks and sources hold their own.
    labelled : bool
        Whether labels are asked for.
    reset : bool
        Whether the estimator takes the number of features from these rows, or expects its own.
    as_counts : bool
        Leave weights as they are: those of further rows will have the same unit.
    fewest : int
        The fewest rows that will do.
    checkpoint : path or Journal, optional
        Keeps what passes over the rows have summed up, so that a fit that was interrupted goes
        on from there.
    progress : callable, optional
        Called as ``progress(what, rows_done, rows_total)``.
    """
    check_progress(progress)
    if type(X).__name__ == "LazyFrame":
        X = X.collect()
    with ExitStack() as stack:
        columns = (y if labelled else None, sample_weight)
        paths = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | PathLike)
        if paths or isinstance(X, Rows | Source | str | PathLike | Iterator) or is_dask(X):
            names = None if reset else getattr(estimator, "feature_names_in_", None)
            rows = Rows.of(_open_elsewhere(X, *columns, names, stack))
            _check_rows(estimator, rows, reset, labelled)
        elif is_array_api_obj(X) and not is_numpy_array(X):
            rows = Rows(_from_foreign(estimator, X, *columns, reset))
        else:
            rows = Rows(_from_checked_arrays(estimator, X, *columns, labelled, reset, fewest))
        if rows.n < fewest:
            raise InputError(
                "too_few_rows",
                "Found array with {n_rows} sample(s) while a minimum of {fewest} is required",
                n_rows=rows.n,
                fewest=fewest,
            )
        if reset:
            _check_sizes(rows)
        # Most products of a fit are small: threads of BLAS would only wait for one another.
        stack.enter_context(threads_for_folds())
        journal = None
        if checkpoint is not None:  # before a generator is drawn from: it is known by its state
            journal = stack.enter_context(open_checkpoint(checkpoint, estimator, rows))
            rows = replace(rows, source=JournaledSource(rows.source, journal))
        seed = as_seed(getattr(estimator, "random_state", 0)) if reset else 0
        if journal is not None:
            seed = int(journal.remember("seed", seed))
        size = getattr(estimator, "rows_per_block", None) or rows.rows_per_block
        rows = replace(rows, progress=progress or rows.progress, rows_per_block=size)
        yield _checked_weights(rows, as_counts), seed


def _from_checked_arrays(
    estimator: Any, X: Any, y: Any, sample_weight: Any, labelled: bool, reset: bool, fewest: int
) -> Source:
    """Return arrays as scikit-learn validates them; an error names the cell it is about."""
    given = {"X": X, "y": y, "sample_weight": sample_weight}
    for name, array in given.items():
        check_unmasked(array, name)
    try:
        return _from_arrays(estimator, X, y, sample_weight, labelled, reset, fewest)
    except (ValueError, TypeError):
        for name, array in given.items():
            check_cells(name, array)
        raise


def _open_elsewhere(
    X: Any, y: Any, sample_weight: Any, names: Any, stack: ExitStack
) -> Source | Rows:
    """Open rows; from tables, read the columns of the fit by name."""
    if is_dask(X):
        if hasattr(X, "columns"):
            own = None if names is None else list(names)
            return DaskSource.from_frame(X, columns=own, y=y, sample_weight=sample_weight)
        return DaskSource(X, y=y, counts=sample_weight)
    if isinstance(X, Rows | Source | Iterator):
        for name, column in (("y", y), ("sample_weight", sample_weight)):
            if column is not None:
                raise InputError(
                    "column_beside_rows",
                    "`{name}` was given with a source or blocks of rows, which have columns of "
                    "their own; add it there",
                    name=name,
                )
        return X if isinstance(X, Rows | Source) else stack.enter_context(BlockSource(X))
    columns = {"y": y, "sample_weight": sample_weight}
    try:
        found = open_file(X, **columns)
    except (TypeError, ValueError):  # perhaps of a column that the fit did not ask for
        if names is None:
            raise
    else:
        if names is None or found.feature_names in (None, tuple(names)):
            return stack.enter_context(found)
        found.close()
    # the columns of the fit, in their order
    return stack.enter_context(open_file(X, columns=list(names), **columns))


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
        columns["counts"] = counts
        if counts.any():  # otherwise it is refused below
            kept = counts > 0
            X, columns = X[kept], {name: column[kept] for name, column in columns.items()}
    return ArraySource(X, **columns)


def _from_foreign(estimator: Any, X: Any, y: Any, sample_weight: Any, reset: bool) -> Source:
    X = as_real_array(X, "X", 2)
    _remember(estimator, int(X.shape[1]), None, reset)
    given = {"y": ("y", y), "counts": ("sample_weight", sample_weight)}
    columns = {
        name: move_like(as_real_array(column, label, 1), X)
        for name, (label, column) in given.items()
        if column is not None
    }
    return ArraySource(X, **columns)


def _check_rows(estimator: Any, rows: Rows, reset: bool, labelled: bool) -> None:
    source = rows.source
    if source.n_rows is None:
        raise InputError(
            "source_endless",
            "the source makes as many rows as are asked for; set its n_rows to fit it",
        )
    if labelled and "y" not in rows.first:
        raise InputError(
            "labels_missing", "the rows have no labels; name the column of labels, `y='…'`"
        )
    _remember(estimator, rows.n_features, getattr(source, "feature_names", None), reset)
    columns = getattr(source, "columns", {})
    if reset and columns:
        estimator.columns_in_ = dict(columns)


def _check_sizes(rows: Rows) -> None:
    """Raise where squares of a column underflow in all rows, or overflow in most.

    A pass only where the first row gives cause: it has such an entry, or is 0.
    """
    for name, first in ((name, rows.first[name]) for name in ("x", "y") if name in rows.first):
        smallest, largest = sizes_of(first)
        size = np.abs(np.asarray(to_numpy(first), dtype=np.float64))
        odd = ((size > 0) & (size < smallest)) | (size > largest)
        if not odd.any() and size.any():
            continue
        sums = rows.fold(partial(_count_sizes, name), width=size.size, what="sizes of entries")
        small, fair, large = (np.atleast_1d(to_numpy(sums[key])) for key in SIZES)
        label = "X" if name == "x" else "y"
        refuse_large(label, found=bool(np.any(large > small + fair)), largest=largest)
        lost = np.flatnonzero((small > 0) & (fair + large == 0))
        if len(lost):
            where = "column {column} of X" if name == "x" else "y"
            raise InputError(
                "entries_too_small",
                where + " has no entry above {smallest:g}, and smaller squares underflow; "
                "rescale it, for instance by its standard deviation",
                name=label,
                column=unnamed_column(int(lost[0])),
                smallest=smallest,
            )


def _count_sizes(name: str, block: Block) -> Sums:
    column = block[name]
    xp, (smallest, largest) = namespace_of(column), sizes_of(column)
    size = xp.abs(column)
    small, large = (size > 0) & (size < smallest), size > largest
    kinds = (small, (size >= smallest) & ~large, large)
    return {
        key: xp.sum(xp.astype(kind, xp.int64), axis=0)
        for key, kind in zip(SIZES, kinds, strict=True)
    }


def _remember(estimator: Any, n_features: int, names: Any, reset: bool) -> None:
    """Store the number and names of the features, or compare with the stored ones."""
    if reset:
        vars(estimator).pop("columns_in_", None)
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    check_n_features(estimator, n_features)
    if names is None or not hasattr(estimator, "feature_names_in_"):
        return
    for j, (name, expected) in enumerate(zip(names, estimator.feature_names_in_, strict=True)):
        if name != expected:
            raise InputError(
                "feature_names_differ",
                "the feature names should match those that were passed during fit: column "
                "{column} is {name!r}, expected {expected!r}; reorder the columns",
                column=j,
                name=name,
                expected=expected,
            )


def check_n_features(estimator: Any, n_features: int) -> None:
    """Raise unless rows have as many features as those of the fit."""
    if n_features != estimator.n_features_in_:
        raise InputError(
            "wrong_n_features",
            "X has {n_features} features, but {kind} is expecting {expected} features as input",
            n_features=n_features,
            kind=type(estimator).__name__,
            expected=estimator.n_features_in_,
        )


def _checked_weights(rows: Rows, as_counts: bool) -> Rows:
    """Scale weights to mean 1 if it is smaller, or if they are no counts.

    Weights that are not whole numbers, or more than can be counted, are proportions: a larger
    total would pass for more rows, and buy components.
    """
    if not rows.weighted_rows:
        return rows
    sums = rows.fold_numbered(_sum_weights, what="counting rows")
    total, n = float(sums["total"]), int(sums["n"])
    if sums["negative"]:
        raise InputError(
            "negative_weight", "`sample_weight` has negative entries; weights must be 0 or more"
        )
    if sums["large"]:
        raise InputError(
            "weights_too_large",
            "`sample_weight` has entries above {largest:g}, whose sums may overflow; divide the "
            "weights by the largest one",
            largest=LARGEST,
        )
    if not n:
        raise InputError(
            "weights_all_zero", "`sample_weight` is zero for every row; give some row a weight"
        )
    if not as_counts and (total < n or sums["parts"] or total > MOST_COUNTED):
        rows, total = rows.weighted(n / total), float(n)
    return replace(rows, known=Census(n, total))


def _sum_weights(block: Block, rows: range) -> Sums:  # noqa: ARG001
    weights = np.asarray(to_numpy(block["counts"]), dtype=np.float64)
    return {
        "total": np.minimum(weights, LARGEST).sum(),
        "large": np.count_nonzero(weights > LARGEST),
        "n": np.count_nonzero(weights > 0),
        "negative": np.count_nonzero(weights < 0),
        "parts": np.count_nonzero(weights != np.round(weights)),
    }
