"""What a fitted spherical mixture answers: labels, densities, samples, criteria."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from implicitmoments.backends import Floats, check_positive
from implicitmoments.fitting.spherical.likelihood import (
    Mixture,
    log_densities,
    log_joint,
    responsibilities,
)
from implicitmoments.fitting.spherical.rows import Rows
from implicitmoments.learners.summary import FittedSummary
from implicitmoments.samples import as_seed

__all__ = ["SphericalAnswers"]

Integers = np.ndarray[Any, np.dtype[np.int64]]


class SphericalAnswers(FittedSummary, DensityMixin, BaseEstimator):
    """Methods that read ``weights_``, ``means_`` and ``variance_`` of a fitted mixture."""

    def predict(self, X: Any) -> Integers:
        """Return the likeliest component of every row, (n_samples,)."""
        rows, mixture = self._read(X)
        blocks = rows.blocks(mixture.k)
        return np.concatenate([log_joint(x, mixture).argmax(axis=1) for x, _ in blocks])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every component given each row, (n_samples, k)."""
        return responsibilities(*self._read(X))[0]

    def score_samples(self, X: Any) -> Floats:
        """Return the log density of every row, (n_samples,)."""
        rows, mixture = self._read(X)
        return np.asarray(log_densities(rows, mixture) - rows.d * math.log(rows.scale))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the mean log density of the rows, weighted where weights are given."""
        return float(np.average(self.score_samples(X), weights=sample_weight))

    def sample(self, n_samples: int = 1) -> tuple[Floats, Integers]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int

        Returns
        -------
        X : array of shape (n_samples, n_features)
        labels : array of int of shape (n_samples,)
            The component each row was drawn from. Rows come in their order.
        """
        check_is_fitted(self)
        check_positive("n_samples", n_samples)
        rng = np.random.default_rng(as_seed(self.random_state))
        k, d = self.means_.shape
        labels = np.repeat(np.arange(k), rng.multinomial(n_samples, self.weights_))
        deviations = np.sqrt(np.broadcast_to(self.variance_, (k,)))[labels]
        return self.means_[labels] + deviations[:, None] * rng.normal(size=(n_samples, d)), labels

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion; lower is better."""
        densities = self.score_samples(X)
        return -2 * float(densities.sum()) + self._n_parameters() * math.log(len(densities))

    def aic(self, X: Any) -> float:
        """Return Akaike's information criterion; lower is better."""
        return -2 * float(self.score_samples(X).sum()) + 2 * self._n_parameters()

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        n_variances = 0 if self.variance is not None else int(np.size(self.variance_))
        return int(k * d + k - 1 + n_variances)

    def _read(self, X: Any) -> tuple[Rows, Mixture]:
        """Check rows, and look at them from the centre of the mixture in its own unit."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        k = len(self.weights_)
        mixture = Mixture(self.weights_, self.means_, np.array(np.broadcast_to(self.variance_, k)))
        center, scale = self.weights_ @ self.means_, math.sqrt(mixture.pooled)
        return Rows(X, None, center, scale), mixture.moved(-center / scale, 1 / scale)
