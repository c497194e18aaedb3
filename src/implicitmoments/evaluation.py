"""A fitted model on rows: predictions, log densities, scores and criteria."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import (
    Array,
    Floats,
    check_not_large,
    index_like,
    is_dask,
    machine_epsilon,
    namespace_of,
    refuse_large,
)
from implicitmoments.notes import Note, warn_of
from implicitmoments.rows import (
    Block,
    Rule,
    Sums,
    cells_off,
    check_n_features,
    map_rows,
    open_rows,
    rows_of,
    take_rows,
    weights_of,
)


def bic(log_likelihood: float, n_parameters: int, total: float) -> float:
    """Return the Bayesian information criterion; lower is better.

    Examples
    --------
    >>> round(bic(-100.0, 3, 50.0), 1)
    211.7
    """
    return -2 * log_likelihood + n_parameters * math.log(total)


class Part(NamedTuple):
    """A sum over some rows."""

    n: int = 0
    total: float = 0.0
    weight: float = 0.0
    zero: int = 0  # rows for which the result is −∞

    @property
    def mean(self) -> float:
        """The mean over these rows."""
        return self.total / self.weight


class Total(NamedTuple):
    """A sum over rows, with those apart that a fit leaves out as outliers."""

    near: Part
    far: Part  # rows that are outliers by the rule of the fit

    @property
    def total(self) -> float:
        """The sum over all rows."""
        return self.near.total + self.far.total

    @property
    def weight(self) -> float:
        """The weight of all rows."""
        return self.near.weight + self.far.weight

    @property
    def mean(self) -> float:
        """The mean over all rows."""
        return self.total / self.weight

    @property
    def notes(self) -> list[Note]:
        """What to say of the sum."""
        n, zero = self.near.n + self.far.n, self.near.zero + self.far.zero
        counts = {"n": self.far.n, "zero": zero, "rows": n}
        return [Note("outliers_scored", counts)] if self.far.n or zero else []


@dataclass(frozen=True, eq=False)
class RowFunction:
    """A function of blocks of rows, with one entry or one row of its result per row."""

    function: Callable[..., Array]  # of x, or of x and y where it is labelled
    labelled: bool = False
    width: int = 1  # numbers computed per row

    def evaluate(self, model: Any, X: Any, y: Any = None) -> Any:
        """Return the results of all rows, block by block, in their library and on their device.

        Of Dask arrays and data frames it is a Dask array that computes nothing yet.
        """
        if is_dask(X):
            return self._evaluate_lazily(model, X, y)
        with open_rows(model, X, y, labelled=self.labelled, reset=False) as (rows, _):
            blocks = rows.blocks(self.width, whole=True)
            parts = [self._answers(*self._columns(block)) for block in blocks]
        return namespace_of(parts[0]).concat(parts) if len(parts) > 1 else parts[0]

    def total(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> Total:
        """Sum the results over the rows, and apart over outliers by the rule of the fit.

        One pass, without storing values per row.
        """
        how: dict[str, Any] = {"labelled": self.labelled, "reset": False}
        measure = partial(self._sum, getattr(model, "_near", None))
        with open_rows(model, X, y, sample_weight, **how) as (rows, _):
            sums = rows.fold(measure, width=self.width, what="score")
        found = Total(*(_part(sums, which) for which in Total._fields))
        refuse_large("X", found=math.isnan(found.total))
        return found

    def _columns(self, block: Block) -> list[Array]:
        return [block[name] for name in ("x", "y")[: 1 + self.labelled]]

    def _answers(self, *columns: Array) -> Array:
        """Return the results of rows, unless their squares overflow."""
        for name, column in zip(("X", "y"), columns, strict=False):
            check_not_large(name, column)
        return self.function(*columns)

    def _sum(self, rule: Rule | None, block: Block) -> Sums:
        found, counts = self.function(*self._columns(block)), weights_of(block)
        xp, kept = namespace_of(found), None if rule is None else rule(block)
        columns = {"total": found * counts, "weight": counts}
        columns["zero"] = xp.astype(found == -math.inf, counts.dtype)
        parts = {"near": take_rows(columns, kept)}
        if kept is not None:
            parts["far"] = take_rows(columns, ~kept)
        sums: Sums = {}
        for which, part in parts.items():
            sums[f"{which} n"] = int(part["total"].shape[0])
            sums |= {f"{which} {name}": xp.sum(part[name], dtype=xp.float64) for name in columns}
        return sums

    def _evaluate_lazily(self, model: Any, X: Any, y: Any) -> Array:
        """Map the function over chunks; labels are passed as an additional column."""
        own, width = getattr(model, "feature_names_in_", None), model.n_features_in_
        function: Callable[..., Array] = self._answers
        labelled = self.labelled and y is not None
        X, _ = rows_of(X, None if own is None else list(own), *([y] if labelled else []))
        if labelled:
            function, width = self._apply_joined, width + 1
        check_n_features(model, int(X.shape[1]) - labelled)
        example = np.asarray(function(np.zeros((1, width))))
        lazy: Array = map_rows(X, function, example)
        return lazy

    def _apply_joined(self, rows: Array) -> Array:
        return self._answers(rows[:, :-1], rows[:, -1])


def _part(sums: Sums, which: str) -> Part:
    n, total, weight, zero = (float(sums.get(f"{which} {name}", 0.0)) for name in Part._fields)
    return Part(int(n), total, weight, int(zero))


def evaluate_varying(
    function: Callable[[Array], Array], constants: Floats, epsilon: float, density: bool, x: Array
) -> Array:
    """Evaluate a function of the columns that vary; a row off the constants has density 0.

    Parameters
    ----------
    function : callable
        Of the columns that vary, (n, p).
    constants : array of shape (d,)
        Values of the constant columns; NaN for those that vary.
    epsilon : float
        Machine epsilon of the rows that were fitted.
    density : bool
        Whether the function is a log density.
    x : array of shape (n, d)
    """
    xp = namespace_of(x)
    found = function(xp.take(x, index_like(np.flatnonzero(np.isnan(constants)), x), axis=1))
    if not density:
        return found
    off = xp.any(cells_off(constants, max(epsilon, machine_epsilon(x)), x), axis=1)
    return xp.where(off, xp.full_like(found, -math.inf), found)


class Predictions:
    """``predict`` of an estimator of components or labels."""

    def _prediction(self) -> RowFunction:
        """Return what the fitted model predicts of rows."""
        raise NotImplementedError

    def predict(self, X: Any) -> Any:
        """Return the most probable component of each row, or the mean of its label given x.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table

        Returns
        -------
        array of shape (n_samples,)
            Of int for components; in the library and on the device of the rows.
        """
        check_is_fitted(self)
        return self._prediction().evaluate(self, X)


class DensityScores:
    """``score_samples`` and ``score`` of an estimator that has a log density."""

    def _log_density(self, X: Any, y: Any) -> RowFunction:
        """Return the log density of the fitted model, for rows with or without labels."""
        raise NotImplementedError

    def score_samples(self, X: Any, y: Any = None) -> Any:
        """Return the log density of each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table
        y : array of shape (n_samples,), optional
            Labels, for models of labelled rows; ignored by the others. A regression mixture has
            the density of y given x; a density of both has that of x where there are no labels.

        Returns
        -------
        array of shape (n_samples,)
            In the library of the rows.
        """
        check_is_fitted(self)
        return self._log_density(X, y).evaluate(self, X, y)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean log density of all rows, that of :meth:`score_samples`.

        Of the rows of the fit it is ``lower_bound_``, unless outliers were left out of the fit.
        Rows that its rule would leave out count here, and a warning says how many they are.

        Parameters
        ----------
        X, y : as for :meth:`score_samples`
        sample_weight : array of shape (n_samples,), optional
            Number of times each row counts.

        Returns
        -------
        float
        """
        found = self._log_likelihood(X, y, sample_weight)
        warn_of(found.notes)
        return found.mean

    def _log_likelihood(self, X: Any, y: Any = None, sample_weight: Any = None) -> Total:
        """Return the sum of the log densities of the rows."""
        check_is_fitted(self)
        return self._log_density(X, y).total(self, X, y, sample_weight)


class DensityCriteria(DensityScores):
    """Information criteria of a mixture, besides its scores."""

    def _n_parameters(self) -> int:
        """Return how many numbers were estimated."""
        raise NotImplementedError

    def bic(self, X: Any, y: Any = None) -> float:
        """Return the Bayesian information criterion; lower is better.

        Of all rows, as :meth:`score`. Outliers that the fit left out may decide a comparison of
        such criteria; leave them out of X too, or compare ``stats_["bic_by_n_components"]`` of
        ``n_components="auto"``, which is of the rows that were fitted.

        Parameters
        ----------
        X, y : as for :meth:`score_samples`

        Returns
        -------
        float
        """
        found = self._log_likelihood(X, y)
        warn_of(found.notes)
        return bic(found.total, self._n_parameters(), found.weight)

    def aic(self, X: Any, y: Any = None) -> float:
        """Return the Akaike information criterion; lower is better.

        Of all rows, as :meth:`bic`.

        Parameters
        ----------
        X, y : as for :meth:`bic`

        Returns
        -------
        float
        """
        found = self._log_likelihood(X, y)
        warn_of(found.notes)
        return -2 * found.total + 2 * self._n_parameters()
