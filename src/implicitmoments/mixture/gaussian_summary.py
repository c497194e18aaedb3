"""What a fitted Gaussian mixture answers: labels, densities, samples, criteria and findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

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
from implicitmoments.estimator import Fact, FittedEstimator, Table, as_floats, column_names
from implicitmoments.evaluation import DensityCriteria, Predictions, RowFunction
from implicitmoments.mixture.diagnostics import IN_DOUBT
from implicitmoments.mixture.gaussians import (
    CovarianceType,
    Gaussians,
    inverse_roots,
    log_densities,
    log_joint,
    precisions_of,
)
from implicitmoments.mixture.summary import (
    DENSITY_AXIS,
    LEAST_VARIANCE,
    OVERLAP,
    numbered_rows,
)
from implicitmoments.notes import Note
from implicitmoments.picture_data import Distribution, FitView, Means, RowSample
from implicitmoments.rows import RandomState
from implicitmoments.validation import check_whole

TITLES = {
    "full": "Gaussians",
    "tied": "Gaussians with one covariance",
    "diag": "Gaussians with diagonal covariances",
    "tied_diag": "Gaussians with one diagonal covariance",
    "spherical": "spherical Gaussians",
    "tied_spherical": "spherical Gaussians with one variance",
}

# rows and a mixture, both about one centre in one unit -> one entry or one row per row
Asked = Callable[[Array, Gaussians], Array]


class GaussianMixtureSummary(
    Predictions, FittedEstimator, DensityCriteria, DensityMixin, BaseEstimator
):
    """Answers of a ``GaussianMixture``, and its data for the report and the pictures.

    Methods return arrays in the library of the rows that are given, on their device.
    """

    kind = "gaussian-mixture"
    answers: ClassVar[Mapping[str, str]] = {
        "labels": "predict",
        "probabilities": "predict_proba",
        "densities": "score_samples",
        "samples": "sample",
    }
    vectors = "means_"
    points = ("means_",)
    results: ClassVar[tuple[str, ...]] = (
        "n_components_",
        "covariance_type_",
        "weights_",
        "means_",
        "covariances_",
        "lower_bound_",
        "converged_",
        "n_iter_",
    )
    saved: ClassVar[Mapping[str, Any]] = {
        "weights_": Floats,
        "means_": Floats,
        "covariances_": float | Floats,
        "covariance_type_": str,
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "",  # moments are at most a start
        "components": "Rows by most probable component, on the two directions along which the "
        "means differ most." + OVERLAP,
        "components_of_one": "Rows and their mean, on the two directions of largest variance.",
        "components_one_column": "Histogram of the column by most probable component, and the "
        "density of the mixture.",
        "fit": "Log densities of the rows, and of rows drawn from the model. If the model is "
        "right, both have the same distribution.",
    }

    weights_: Any
    means_: Any
    covariances_: Any
    covariance_type_: str

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.means_.shape[0])

    @property
    def lower_bounds_(self) -> list[float]:
        """Mean log-likelihoods per row after each step of EM on all rows."""
        return list(self.stats_["mean_log_likelihood_history"])

    @property
    def precisions_(self) -> Any:
        """Inverses of the covariances, in their shape."""
        return self._shaped(precisions_of(self._mixture().covariances)[0])

    @property
    def precisions_cholesky_(self) -> Any:
        """Upper triangular roots of the precisions, or their square roots if diagonal."""
        covariances = self._mixture().covariances
        if covariances.ndim == 2:
            return self._shaped(1 / np.sqrt(covariances))
        return self._shaped(inverse_roots(covariances).transpose(0, 2, 1))

    def _shaped(self, whole: Floats) -> Any:
        """Return covariances or their like (k, d, d) or (k, d) in the shape of scikit-learn."""
        kind = CovarianceType(self.covariance_type_)
        if kind.shape == "spherical":
            whole = whole[:, 0]
        if kind.tied:
            whole = whole[0]
        if np.ndim(whole) == 0:
            return float(whole)
        return whole if isinstance(self.means_, np.ndarray) else move_like(whole, self.means_)

    def _mixture(self) -> Gaussians:
        """Return the mixture in NumPy, in the user's units."""
        weights, means = as_floats(self.weights_), as_floats(self.means_)
        kind, (k, d) = CovarianceType(self.covariance_type_), means.shape
        found = as_floats(self.covariances_)
        if kind.tied:
            found = np.repeat(found[None], k, axis=0)
        if kind.shape == "spherical":
            found = np.repeat(found[:, None], d, axis=1)
        return Gaussians(weights / weights.sum(), means, found)

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
        sizes = rng.multinomial(n_samples, mixture.weights)
        labels = np.repeat(np.arange(mixture.k), sizes)
        X = rng.normal(size=(n_samples, mixture.d))
        ends = np.cumsum(sizes)
        for i in range(mixture.k):
            own = X[ends[i] - sizes[i] : ends[i]]
            covariance = mixture.covariances[i]
            if mixture.diagonal:
                own *= np.sqrt(covariance)
            else:
                own[...] = own @ np.linalg.cholesky(covariance).T
            own += mixture.means[i]
        if isinstance(self.means_, np.ndarray):
            return X, labels
        return move_like(X, self.means_), index_like(labels, self.means_)

    def icl(self, X: Any, y: Any = None) -> float:
        """Return the integrated completed likelihood criterion; lower is better.

        The Bayesian information criterion of the most probable assignment of the rows: it also
        charges for components that overlap, so it counts clusters rather than components.

        Parameters
        ----------
        X, y : as for :meth:`bic`

        Returns
        -------
        float
        """
        check_is_fitted(self)
        doubt = self._function(_log_largest_share).total(self, X, None)
        return self.bic(X, y) - 2 * float(doubt["total"])

    def _prediction(self) -> RowFunction:
        return self._function(_likeliest)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function(log_densities, density=True)

    def _function(self, asked: Asked, *, density: bool = False) -> RowFunction:
        mixture = self._mixture()
        d = mixture.d
        width = max(mixture.k, 2 * d if mixture.diagonal else d * (d + 3) // 2)
        return RowFunction(partial(_evaluate, mixture, asked, density), width=width)

    def _n_parameters(self) -> int:
        return CovarianceType(self.covariance_type_).n_parameters(*self.means_.shape)

    def _title(self) -> str:
        k, words = self._k(), TITLES[self.covariance_type_]
        return "one Gaussian" if k == 1 else f"a mixture of {k:,} {words}"

    def _parameter_tables(self) -> list[Table]:
        columns = column_names(self)
        means = numbered_rows(self.weights_, self.means_)
        deviations = numbered_rows(np.sqrt(self._mixture().variances))
        return [
            Table("Components", [self.component, "weight", *columns], means),
            Table("Standard deviations", [self.component, *columns], deviations),
        ]

    def _evidence(self) -> list[Fact]:
        facts, rate = self._bic_facts(), self.stats_.get("misclassification_rate", 1.0)
        if self._k() > 1 and rate <= IN_DOUBT:
            facts.append(Fact(True, Note("few_misclassified", {"rate": rate})))
        return facts

    def _noise_free(self, rows: RowSample) -> bool:
        least = LEAST_VARIANCE * rows.x.var(axis=0)
        return bool(np.any(self._mixture().variances.max(axis=0) <= least))

    def _component_view(self, rows: RowSample) -> Means:
        mixture, labels = self._mixture(), to_numpy(self.predict(rows.given))
        variances = mixture.variances.mean(axis=1)
        spherical = CovarianceType(self.covariance_type_).shape == "spherical"
        covariances = None if spherical else mixture.expanded().covariances
        return Means(mixture.weights, mixture.means, variances, np.asarray(labels), covariances)

    def _fit_view(self, rows: RowSample) -> FitView:
        points = (rows.given, self.sample(len(rows.x))[0])
        logs, drawn = (as_floats(self.score_samples(each)) for each in points)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn)


def _likeliest(x: Array, mixture: Gaussians) -> Array:
    return namespace_of(x).argmax(log_joint(x, mixture), axis=1)


def _shares(x: Array, mixture: Gaussians) -> Array:
    return softmax_rows(log_joint(x, mixture))[0]


def _log_largest_share(x: Array, mixture: Gaussians) -> Array:
    xp = namespace_of(x)
    return xp.log(xp.max(_shares(x, mixture), axis=1))


def _evaluate(mixture: Gaussians, asked: Asked, density: bool, x: Array) -> Array:
    """Evaluate a function of rows about the centre of a mixture, in units of its deviations.

    In double precision: a quadratic form in the products of columns loses half of its digits.
    ``density`` says whether the values are log densities, which depend on the unit.
    """
    xp, dtype = namespace_of(x), x.dtype
    x = xp.astype(x, xp.float64, copy=False)
    center, scale = mixture.weights @ mixture.means, np.sqrt(mixture.weights @ mixture.variances)
    found = asked(
        (x - move_like(center, x)) / move_like(scale, x),
        mixture.moved(-center / scale, 1 / scale),
    )
    if density:
        found = found - float(np.log(scale).sum())
    if isinstance(x, np.ndarray) or not xp.isdtype(found.dtype, "real floating"):
        return found
    return xp.astype(found, dtype, copy=False)
