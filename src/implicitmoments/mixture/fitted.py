"""Labels, densities, samples and criteria of a fitted spherical mixture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import (
    Array,
    Floats,
    index_like,
    move_like,
    namespace_of,
    softmax_rows,
    to_numpy,
)
from implicitmoments.evaluation import DensityCriteria, RowFunction
from implicitmoments.mixture.likelihood import Mixture, log_densities, log_joint
from implicitmoments.mixture.summary import SphericalMixtureSummary
from implicitmoments.rows import RandomState
from implicitmoments.validation import check_whole

# rows and a mixture, both about one centre in one unit -> one entry or one row per row
Asked = Callable[[Array, Mixture], Array]


class SphericalAnswers(SphericalMixtureSummary, DensityCriteria, DensityMixin, BaseEstimator):
    """Methods that use ``weights_``, ``means_`` and ``variance_`` of a fitted mixture.

    They return arrays in the library of the rows that are given, on their device.
    """

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each component given each row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source

        Returns
        -------
        array of shape (n_samples, n_components)
            Responsibilities; rows sum to 1.
        """
        check_is_fitted(self)
        return self._function(_shares).evaluate(self, X)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Any, Any]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None; by default that of the estimator

        Returns
        -------
        X : array of shape (n_samples, n_features)
        labels : array of int of shape (n_samples,)
            The component of each row, in increasing order as in scikit-learn.
        """
        rng = np.random.default_rng(self._seed(random_state))
        check_whole("n_samples", n_samples, 1)
        mixture = self._mixture()
        labels = np.repeat(np.arange(mixture.k), rng.multinomial(n_samples, mixture.weights))
        deviations = np.sqrt(mixture.variances)[labels][:, None]
        noise = rng.normal(size=(n_samples, mixture.d))
        X = mixture.means[labels] + deviations * noise
        if isinstance(self.means_, np.ndarray):
            return X, labels
        return move_like(X, self.means_), index_like(labels, self.means_)

    def _n_parameters(self) -> int:
        k, d = self.means_.shape
        shared = isinstance(self.variance_, float)
        n_variances = 0 if self.variance is not None else 1 if shared else k
        return int(k * d + k - 1 + n_variances)

    def _mixture(self) -> Mixture:
        """Return the mixture in NumPy, in the user's units."""
        weights = to_numpy(self.weights_).astype(np.float64)
        means = to_numpy(self.means_).astype(np.float64)
        shared = isinstance(self.variance_, float)
        variances = np.asarray(self.variance_ if shared else to_numpy(self.variance_), dtype=float)
        variances = np.array(np.broadcast_to(variances, weights.shape))
        return Mixture(weights / weights.sum(), means, variances)

    def _prediction(self) -> RowFunction:
        return self._function(_likeliest)

    def _function(self, asked: Asked, *, density: bool = False) -> RowFunction:
        mixture = self._mixture()
        evaluate = _Evaluated(mixture, asked, density)
        return RowFunction(evaluate, width=max(mixture.means.shape))

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function(log_densities, density=True)


def _likeliest(x: Array, mixture: Mixture) -> Array:
    return namespace_of(x).argmax(log_joint(x, mixture), axis=1)


def _shares(x: Array, mixture: Mixture) -> Array:
    return softmax_rows(log_joint(x, mixture))[0]


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """Evaluates a function of rows about the centre of a mixture, in its own unit."""

    mixture: Mixture
    asked: Asked
    density: bool  # whether the values are log densities, which depend on the unit

    def __call__(self, x: Array) -> Array:
        if isinstance(x, np.ndarray):
            x = x.astype(np.float64, copy=False)
        m = self.mixture
        middle: Floats = m.weights @ m.means
        center, scale = move_like(middle, x), math.sqrt(m.pooled)
        # the centre as the precision of the rows has it
        middle = to_numpy(center).astype(np.float64)
        found = self.asked((x - center) / scale, m.moved(-middle / scale, 1 / scale))
        return found - m.d * math.log(scale) if self.density else found
