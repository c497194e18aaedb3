"""A random sample of the rows, and a copy of the model to ask about it."""

from __future__ import annotations

import copy
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import namespace_of
from implicitmoments.estimator import FittedEstimator, as_floats, counted, fit_columns
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.picture_data import RowSample
from implicitmoments.rows import Rows, draw_numbers
from implicitmoments.rows.inputs import open_rows
from implicitmoments.validation import check_whole


def sample_rows(model: FittedEstimator, X: Any, y: Any, max_rows: int) -> RowSample:
    """Return at most ``max_rows`` rows, drawn at random with a fixed seed, in their order.

    Parameters
    ----------
    X, y : what ``fit`` takes
        Arrays, data frames, files, Dask, sources; or a sample drawn before.
    """
    check_whole("max_rows", max_rows, 1)
    if isinstance(X, RowSample):
        return _subsample(X, max_rows)
    name = type(model).__name__
    if y is not None and not model.labelled:
        raise InputTypeError(
            "labels_not_used",
            "{name} has no labels, so that y does not apply; got y of type {given}. Other "
            "arguments are given by name: ax=…, path=…",
            name=name,
            given=type(y).__name__,
        )
    if model.labelled and y is None and hasattr(X, "__array__"):
        raise InputError(
            "labels_missing", "{name} has labels; give the picture `y` too", name=name
        )
    with open_rows(model, X, y, labelled=model.labelled, reset=False) as (given, _):
        rows = Rows.of(given)
        n, block = rows.n, rows.sample(max_rows, 0).block
    labels = as_floats(block["y"]) if model.labelled else np.zeros(0)
    names = getattr(model, "feature_names_in_", None)
    return RowSample(block["x"], as_floats(block["x"]), labels, n, names, target_name(model, y))


def _subsample(rows: RowSample, most: int) -> RowSample:
    chosen = draw_numbers(len(rows.x), most, 0)
    xp = namespace_of(rows.given)
    places = xp.asarray(chosen, device=array_api_compat.device(rows.given))
    given = xp.take(rows.given, places, axis=0)
    labels = rows.y[chosen] if len(rows.y) else rows.y
    return rows._replace(given=given, x=rows.x[chosen], y=labels)


def count_note(rows: RowSample) -> str:
    """Return how many rows are shown."""
    shown = f"{len(rows.x):,} of " if len(rows.x) < rows.total else ""
    return shown + counted(rows.total, "row")


def target_name(model: FittedEstimator, y: Any = None) -> str:
    """Return the name of the labels: that of y, or of the column the model was fitted to."""
    if isinstance(y, str):
        return y
    columns = getattr(y, "columns", None)  # of a frame with one column
    name = getattr(y, "name", None) if columns is None else columns[0]
    if isinstance(name, str) and name:
        return name
    column = str(fit_columns(model).get("target", "y"))
    return f"column {column}" if column.isdecimal() else column


def frozen_copy(model: Any) -> Any:
    """Return a copy with a fixed seed, so that pictures repeat and leave the model as it was.

    It has no names of columns: rows that were checked before come as plain arrays.
    """
    twin = copy.copy(model)
    twin.random_state, twin.stats_ = 0, dict(model.stats_)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return twin
