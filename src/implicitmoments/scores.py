"""Log densities, scores and criteria of the estimators that have a density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array
from implicitmoments.rows import Sums
from implicitmoments.rows.answers import answer, total_answer
from implicitmoments.search import bic


class LogDensity(NamedTuple):
    """A log density, one entry per row."""

    function: Callable[..., Array]  # of x, or of x and y where it is labelled
    labelled: bool = False
    width: int = 1  # numbers computed per row


class DensityScores:
    """``score_samples`` and ``score`` of an estimator that has a log density."""

    def _log_density(self, X: Any, y: Any) -> LogDensity:
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
        function, labelled, width = self._log_density(X, y)
        y = y if labelled else None
        return answer(self, X, function, y, labelled=labelled, width=width)

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
        function, labelled, width = self._log_density(X, y)
        y = y if labelled else None
        return total_answer(self, X, function, y, sample_weight, labelled=labelled, width=width)


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
