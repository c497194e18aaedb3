"""Some of the rows, evenly, wherever they are."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Array, Floats, check_positive, namespace_of, to_numpy
from implicitmoments.density import RegressionMixtureDensity
from implicitmoments.estimator import counted
from implicitmoments.regression import RegressionMixture
from implicitmoments.rows.inputs import open_rows

__all__ = ["Some", "asked", "some_rows", "target_of"]

LABELLED = (ActivationSumRegressor, RegressionMixture, RegressionMixtureDensity)

Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class Some(NamedTuple):
    """Rows that a picture shows.

    Attributes
    ----------
    given : array of shape (n, d)
        In the library they came in, for the methods of the model.
    x : array of shape (n, d)
        The same as NumPy.
    y : array of shape (n,)
        Of length 0 where there are no labels.
    total : int
        Rows of which they were taken.
    names : array of str or None
        Of the columns.
    target : str
        The name of the labels, "y" where it is not known.
    """

    given: Array
    x: Floats
    y: Floats
    total: int
    names: Any = None
    target: str = "y"

    @property
    def note(self) -> str:
        """How many rows are shown."""
        if len(self.x) == self.total:
            return counted(self.total, "row")
        return f"{len(self.x):,} of {counted(self.total, 'row')}"

    @property
    def label(self) -> str:
        """The name of the labels as axes take it: a dollar sign would begin a formula."""
        return self.target.replace("$", r"\$")

    def thinned(self, max_rows: int) -> Some:
        """Take some of these."""
        chosen = _evenly(len(self.x), max_rows)
        xp = namespace_of(self.given)
        places = xp.asarray(chosen, device=array_api_compat.device(self.given))
        given = xp.take(self.given, places, axis=0)
        labels = self.y[chosen] if len(self.y) else self.y
        return self._replace(given=given, x=self.x[chosen], y=labels)


def _evenly(n: int, most: int) -> Integers:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def some_rows(model: Any, X: Any, y: Any, max_rows: int) -> Some:
    """Take at most ``max_rows`` rows, evenly from the first to the last.

    Parameters
    ----------
    model : fitted estimator
    X, y : what ``fit`` takes
        Arrays, data frames, files, Dask, sources; or rows that were taken before.
    max_rows : int
    """
    check_positive("max_rows", max_rows)
    if isinstance(X, Some):
        return X.thinned(max_rows)
    labelled = isinstance(model, LABELLED)
    if y is not None and not labelled:
        raise TypeError(
            f"y is for models with labels, and {type(model).__name__} has none; got y of type "
            f"{type(y).__name__}. What comes after the rows is given by name: ax=…, path=…"
        )
    if labelled and y is None and hasattr(X, "__array__"):
        raise ValueError(
            f"{type(model).__name__} is fitted to rows with labels; give the picture y too"
        )
    with open_rows(model, X, y, labelled=labelled, reset=False) as (source, _):
        n = source.n_rows or 0
        chosen = _evenly(n, max_rows)
        block = source.pick(chosen, what="rows of a picture")
    labels = np.asarray(to_numpy(block["y"]) if labelled else [], dtype=np.float64)
    points = np.asarray(to_numpy(block["x"]), dtype=np.float64)
    names = getattr(model, "feature_names_in_", None)
    return Some(block["x"], points, labels, n, names, target_of(model, y))


def target_of(model: Any, y: Any = None) -> str:
    """Return the name of the labels: that of y, or of the column the model was fitted to."""
    if isinstance(y, str):
        return y
    columns = getattr(y, "columns", None)  # of a frame with one column
    name = getattr(y, "name", None) if columns is None else columns[0]
    if isinstance(name, str) and name:
        return name
    kept = getattr(model, "columns_in_", {}).get("target", "y")
    return f"column {kept}" if kept.isdecimal() else str(kept)


def asked(model: Any) -> Any:
    """Return a model to ask about rows, so that pictures repeat and change nothing.

    It has a seed and statistics of its own, and no names of columns: rows that were checked
    before come as plain arrays.
    """
    twin = copy.copy(model)
    twin.random_state, twin.stats_ = 0, dict(model.stats_)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return twin
