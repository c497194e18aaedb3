"""A fitted model on rows: predictions, log densities, scores and criteria."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array
from implicitmoments.rows import Sums
from implicitmoments.rows.answers import answer, total_answer
from implicitmoments.search import bic


class RowFunction(NamedTuple):
    """A function of blocks of rows, with one entry or one row of its result per row."""

    function: Callable[..., Array]  # of x, or of x and y where it is labelled
    labelled: bool = False
    width: int = 1  # numbers computed per row

    def evaluate(self, model: Any, X: Any, y: Any = None) -> Any:
        """Return the results of all rows, in their library."""
        how: dict[str, Any] = self._asdict()
        return answer(model, X, how.pop("function"), y if self.labelled else None, **how)

    def total(self, model: Any, X: Any, y: Any, sample_weight: Any = None) -> Sums:
        """Return the ``total`` of the results over rows, and the ``weight`` of the rows."""
        how: dict[str, Any] = {"labelled": self.labelled, "width": self.width}
        labels = y if self.labelled else None
        return total_answer(model, X, self.function, labels, sample_weight, **how)


class Predictions:
    """``predict`` of an estimator of components or labels."""

    def _prediction(self) -> RowFunction:
        """Return what the fitted model predicts of rows."""
        raise NotImplementedError

    def predict(self, X: Any) -> Any:
        """Return the most probable component of each row, or the mean of its label given x.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source

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
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source
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
        """Return the mean log density of the rows.

        Parameters
        ----------
        X, y : as for :meth:`score_samples`
        sample_weight : array of shape (n_samples,), optional
            Number of times each row counts.

        Returns
        -------
        float
        """
        sums = self._log_likelihood(X, y, sample_weight)
        return float(sums["total"]) / float(sums["weight"])

    def _log_likelihood(self, X: Any, y: Any, sample_weight: Any = None) -> Sums:
        """Return the ``total`` of the log densities of the rows, and their ``weight``."""
        check_is_fitted(self)
        return self._log_density(X, y).total(self, X, y, sample_weight)


class DensityCriteria(DensityScores):
    """Information criteria of a mixture, besides its scores."""

    def _n_parameters(self) -> int:
        """Return how many numbers were estimated."""
        raise NotImplementedError

    def bic(self, X: Any, y: Any = None) -> float:
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X, y : as for :meth:`score_samples`

        Returns
        -------
        float
        """
        sums = self._log_likelihood(X, y)
        return bic(float(sums["total"]), self._n_parameters(), float(sums["weight"]))

    def aic(self, X: Any, y: Any = None) -> float:
        """Return the Akaike information criterion; lower is better.

        Parameters
        ----------
        X, y : as for :meth:`bic`

        Returns
        -------
        float
        """
        return -2 * float(self._log_likelihood(X, y)["total"]) + 2 * self._n_parameters()
