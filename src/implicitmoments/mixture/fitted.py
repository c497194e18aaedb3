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
    on_host,
    softmax_rows,
    to_numpy,
)
from implicitmoments.mixture.likelihood import Mixture, log_densities, log_joint
from implicitmoments.mixture.summary import SphericalMixtureSummary
from implicitmoments.rows import Block, RandomState, Rows, Sums, as_seed
from implicitmoments.rows.answers import answer
from implicitmoments.rows.fold import DEFAULT_BUDGET
from implicitmoments.rows.inputs import open_rows
from implicitmoments.validation import check_whole

# rows and a mixture, both about one centre in one unit -> one entry or one row per row
Asked = Callable[[Array, Mixture], Array]


class SphericalAnswers(SphericalMixtureSummary, DensityMixin, BaseEstimator):
    """Methods that use ``weights_``, ``means_`` and ``variance_`` of a fitted mixture.

    They return arrays in the library of the rows that are given, on their device.
    """

    def predict(self, X: Any) -> Any:
        """Return the most probable component of every row, (n_samples,).

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, Source or path
            The rows.

        Returns
        -------
        array of int of shape (n_samples,)
            Component numbers.
        """
        return self._answer(X, _likeliest)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every component given each row, (n_samples, k).

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, Source or path
            The rows.

        Returns
        -------
        array of shape (n_samples, n_components)
            Responsibilities; rows sum to 1.
        """
        return self._answer(X, _shares)

    def score_samples(self, X: Any) -> Any:
        """Return the log density of every row, (n_samples,).

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, Source or path
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Log densities.
        """
        return self._answer(X, log_densities, density=True)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the mean log density of the rows, weighted where weights are given.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, Source or path
            The rows.
        y : None
            Ignored.
        sample_weight : array of shape (n_samples,), optional
            Multiplicity of each row.

        Returns
        -------
        float
            The mean over rows.
        """
        found = self._total(X, sample_weight)
        return float(found["log_likelihood"]) / float(found["mass"])

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Any, Any]:
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int
        random_state : int, generator or None
            That of the estimator by default.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        labels : array of int of shape (n_samples,)
            The component each row was drawn from. Rows come in their order.
        """
        check_is_fitted(self)
        check_whole("n_samples", n_samples, 1)
        chosen = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(as_seed(chosen))
        mixture = self._mixture()
        labels = np.repeat(np.arange(mixture.k), rng.multinomial(n_samples, mixture.weights))
        deviations = np.sqrt(mixture.variances)[labels][:, None]
        noise = rng.normal(size=(n_samples, mixture.d))
        X = mixture.means[labels] + deviations * noise
        if isinstance(self.means_, np.ndarray):
            return X, labels
        return move_like(X, self.means_), index_like(labels, self.means_)

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, Source or path
            The rows.

        Returns
        -------
        float
            The criterion of the rows.
        """
        found = self._total(X)
        penalty = self._n_parameters() * math.log(float(found["rows"]))
        return -2 * float(found["log_likelihood"]) + penalty

    def aic(self, X: Any) -> float:
        """Return Akaike's information criterion; lower is better.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, Source or path
            The rows.

        Returns
        -------
        float
            The criterion of the rows.
        """
        return -2 * float(self._total(X)["log_likelihood"]) + 2 * self._n_parameters()

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

    def _answer(self, X: Any, asked: Asked, *, density: bool = False) -> Array:
        check_is_fitted(self)
        evaluate = _Evaluated(self._mixture(), asked, density)
        k, d = evaluate.mixture.means.shape
        foreign = hasattr(X, "shape") and not on_host(X)
        size = DEFAULT_BUDGET.rows_per_block(max(k, d), X) if foreign else None
        return answer(self, X, evaluate, rows_per_block=size)

    def _total(self, X: Any, sample_weight: Any = None) -> Sums:
        """Add up log densities, weights and rows."""
        check_is_fitted(self)
        evaluate = _Evaluated(self._mixture(), log_densities, True)
        with open_rows(self, X, None, sample_weight, reset=False) as (given, _):
            rows = Rows.of(given)
            found = rows.fold(
                _LogDensityTotal(evaluate), width=evaluate.mixture.k, what="log-likelihood"
            )
            return {**found, "rows": rows.n}


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


@dataclass(frozen=True, eq=False)
class _LogDensityTotal:
    """Sums of log densities of a block."""

    evaluated: _Evaluated

    def __call__(self, block: Block) -> Sums:
        logs, counts = self.evaluated(block["x"]), block.get("counts")
        xp, mass = namespace_of(logs), float(logs.shape[0])
        if counts is not None:
            logs, mass = logs * counts, float(xp.sum(counts, dtype=xp.float64))
        return {"log_likelihood": xp.sum(logs, dtype=xp.float64), "mass": mass}
