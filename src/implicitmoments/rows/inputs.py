"""The input of an estimator as rows that can be read several times."""

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
    check_unmasked,
    is_dask,
    refuse_large,
    sizes_of,
    threads_for_folds,
    to_numpy,
)
from implicitmoments.notes import InputError
from implicitmoments.rows.checkpoint import open_checkpoint
from implicitmoments.rows.dask_table import DaskTable
from implicitmoments.rows.file_table import open_file, spool_blocks
from implicitmoments.rows.rows import Census, Drawn, Rows
from implicitmoments.rows.table import (
    ARGUMENTS,
    ArrayTable,
    Block,
    Progress,
    Sums,
    Table,
    checked_block,
    join_labels,
    naming_cells,
    slice_rows,
    take_rows,
    weights_of,
)
from implicitmoments.validation import (
    as_seed,
    check_enough_rows,
    check_progress,
    unnamed_columns,
)

CheckpointPath: TypeAlias = str | PathLike[str] | None


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
    checkpoint: CheckpointPath = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Rows, int]]:
    """Yield the rows of a fit, validated and open for its duration, and its seed.

    Their columns are ``"x"``, ``"y"`` where rows are labelled, and ``"counts"`` where weights
    were given, scaled to a mean of 1 where they are no counts, unless ``as_counts``. The number
    and names of features are stored on the estimator.

    Parameters
    ----------
    X : array, data frame, path, iterator of blocks, Table, or Rows
        Arrays of NumPy, torch, CuPy and other libraries of the array API; Dask arrays and data
        frames; the path of a file, or a list of paths.
    y : array or column, where rows are labelled
        Of files and Dask data frames the name of a column. Blocks and tables hold their own.
    labelled : bool
        Whether labels are asked for.
    reset : bool
        Whether the estimator takes the number of features from these rows, or expects its own.
    as_counts : bool
        Leave weights as they are: those of further rows will have the same unit.
    fewest : int
        The fewest rows that will do.
    checkpoint : path, optional
        Keeps what passes over the rows have summed up, so that a fit that was interrupted goes
        on from there.
    progress : callable, optional
        Called as ``progress(what, rows_done, rows_total)``.
    """
    check_progress(progress)
    with ExitStack() as stack:
        given = {"X": X, "y": y if labelled else None, "sample_weight": sample_weight}
        paths = isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | PathLike)
        if paths or isinstance(X, Rows | Table | str | PathLike | Iterator) or is_dask(X):
            names = None if reset else getattr(estimator, "feature_names_in_", None)
            rows = Rows.of(_open_table(X, given["y"], sample_weight, names, stack))
            if labelled and "y" not in rows.table.first:
                raise InputError("labels_missing", "there are no labels; name a column, `y='…'`")
            _remember(estimator, rows.n_features, rows.table.names, reset)
            if reset and rows.table.columns:
                estimator.columns_in_ = dict(rows.table.columns)
        elif is_array_api_obj(X) and not is_numpy_array(X):
            rows = Rows(ArrayTable.of(_from_foreign(estimator, given, reset)))
        else:
            block = _from_arrays(estimator, given, labelled, reset, fewest)
            rows = Rows(ArrayTable.of(block))
        check_enough_rows(rows.n, 1, fewest)
        if reset:
            _check_sizes(rows)
        # Most products of a fit are small: threads of BLAS would only wait for one another.
        stack.enter_context(threads_for_folds())
        draw = partial(as_seed, getattr(estimator, "random_state", 0) if reset else 0)
        kept = None if checkpoint is None else open_checkpoint(checkpoint, estimator, rows)
        seed = draw() if kept is None else kept.seed(draw)
        rows = replace(
            rows,
            checkpoint=kept,
            drawn=Drawn(seed),
            progress=progress or rows.progress,
            rows_per_block=getattr(estimator, "rows_per_block", None) or rows.rows_per_block,
        )
        yield _checked_weights(rows, as_counts), seed


def _open_table(X: Any, y: Any, sample_weight: Any, names: Any, stack: ExitStack) -> Table | Rows:
    """Open rows; of files and frames the columns of the fit, by name and in their order."""
    own = None if names is None else list(names)
    if is_dask(X):
        return DaskTable(X, y=y, counts=sample_weight, columns=own)
    columns: dict[str, Any] = {"y": y, "sample_weight": sample_weight}
    if isinstance(X, Rows | Table | Iterator):
        beside = [name for name, column in columns.items() if column is not None]
        if beside:
            template = "`{name}` is a column of its own in tables and blocks of rows; add it there"
            raise InputError("column_beside_rows", template, name=beside[0])
        return stack.enter_context(spool_blocks(X)) if isinstance(X, Iterator) else X
    try:
        return stack.enter_context(open_file(X, columns=own, **columns))
    except InputError as error:
        if own is None or error.code != "no_such_column":
            raise
        table = stack.enter_context(open_file(X, **columns))
        if table.names is not None:  # columns of a file without names go by position
            raise
        return table


def _from_arrays(
    estimator: Any, given: dict[str, Any], labelled: bool, reset: bool, fewest: int
) -> Block:
    """Return arrays as scikit-learn validates them; an error names the cell it is about."""
    for name, array in given.items():
        check_unmasked(array, name)
    # single and double precision are kept; other types become float64
    how = {"dtype": (np.float64, np.float32), "reset": reset, "ensure_min_samples": fewest}
    X, y, weights = given.values()
    with naming_cells(given):
        if labelled:
            X, y = validate_data(estimator, X, y, y_numeric=True, **how)
        else:
            X = validate_data(estimator, X, **how)
        if weights is not None:
            weights = _check_sample_weight(weights, X, dtype=X.dtype, ensure_non_negative=True)
    block = {"x": X} | ({"y": np.asarray(y, dtype=X.dtype)} if labelled else {})
    if weights is None:
        return block
    block["counts"] = weights
    return take_rows(block, weights > 0) if weights.any() else block


def _from_foreign(estimator: Any, given: dict[str, Any], reset: bool) -> Block:
    """Return arrays of another library than NumPy."""
    columns = zip(ARGUMENTS, given.values(), strict=True)
    block = checked_block({name: column for name, column in columns if column is not None})
    _remember(estimator, int(block["x"].shape[1]), None, reset)
    return block


def _check_sizes(rows: Rows) -> None:
    """Raise where squares of a column underflow in the first rows, or overflow in most of them."""
    block = next(rows.blocks(whole=True))  # those of GPUs are large
    block = slice_rows(block, range(min(16_384, int(block["x"].shape[0]))))
    smallest, largest = sizes_of(block["x"])
    size = np.abs(to_numpy(join_labels(block) if "y" in block else block["x"]))
    refuse_large("X", found=bool(np.any(np.median(size, axis=0) > largest)), largest=largest)
    top, names = size.max(axis=0), [*unnamed_columns(rows.n_features), "y"]
    for j in np.flatnonzero((top > 0) & (top < smallest)):
        template = (
            "{column} has no entry above {smallest:g}, and smaller squares underflow; rescale it"
        )
        raise InputError("entries_too_small", template, column=names[j], smallest=smallest)


def _remember(estimator: Any, n_features: int, names: Any, reset: bool) -> None:
    """Store the number and names of the features, or compare with the stored ones."""
    if reset:
        for name in ("columns_in_", "feature_names_in_"):
            vars(estimator).pop(name, None)
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return
    check_n_features(estimator, n_features)
    expected = getattr(estimator, "feature_names_in_", None)
    if names is not None and expected is not None and list(names) != list(expected):
        template = "the feature names should match those of the fit, {expected}; got {names}"
        values = {"names": list(names), "expected": list(expected)}
        raise InputError("feature_names_differ", template, **values)


def check_n_features(estimator: Any, n_features: int) -> None:
    """Raise unless rows have as many features as those of the fit."""
    expected = estimator.n_features_in_
    if n_features != expected:
        template = "X has {n_features} features, but {kind} is expecting {expected} features"
        values = {"n_features": n_features, "kind": type(estimator).__name__, "expected": expected}
        raise InputError("wrong_n_features", template, **values)


def _checked_weights(rows: Rows, as_counts: bool) -> Rows:
    """Scale weights to mean 1 if it is smaller, or if they are no counts.

    Weights that are not whole numbers, or more than a double can count, are proportions: a larger
    total would pass for more rows, and buy components.
    """
    if not rows.weighted_rows:
        return rows
    sums = rows.table.fold(_sum_weights, rows.block_size())
    total, n = float(sums["total"]) * rows.weights, int(sums["n"])
    refuse_large("sample_weight", found=not total <= LARGEST)
    if sums["negative"] or not n:
        raise InputError("weights_invalid", "`sample_weight` must be 0 or more, and some above 0")
    if not as_counts and (total < n or sums["parts"] or total > 2**53):
        rows, total = rows.weighted(n / total), float(n)
    return rows if rows.keep else replace(rows, known=Census(n, total))


def _sum_weights(block: Block) -> Sums:
    weights = np.asarray(to_numpy(weights_of(block)), dtype=np.float64)
    return {
        "total": weights.sum(),
        "n": np.count_nonzero(weights > 0),
        "negative": np.count_nonzero(weights < 0),
        "parts": np.count_nonzero(weights != np.round(weights)),
    }
