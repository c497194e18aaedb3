"""What a fitted mixture answers: labels, densities, samples, criteria, findings and pictures."""

from __future__ import annotations

import math
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
    to_numpy,
)
from implicitmoments.description import (
    MeansDescription,
    as_floats,
)
from implicitmoments.estimator import Fact, FittedEstimator
from implicitmoments.evaluation import (
    DensityCriteria,
    Predictions,
    RowFunction,
    evaluate_varying,
)
from implicitmoments.mixture.diagnostics import IN_DOUBT, WIDE
from implicitmoments.mixture.expansion import likeliest, log_densities, responsibilities
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.notes import Note
from implicitmoments.picture_data import (
    DENSITY_AXIS,
    OVERLAP,
    Distribution,
    FitView,
    Means,
    RowSample,
)
from implicitmoments.rows import RandomState
from implicitmoments.rows.constants import (
    precision_of,
    restore_columns,
    restore_matrices,
)
from implicitmoments.rows.draws import Integers
from implicitmoments.search.noise import draw_scales
from implicitmoments.validation import check_whole

CLEAR = 1.5  # times the noise, from which an eigenvalue is clear of it
# codes of notes that say the same, or explain it
AT_NOISE_FLOOR = {
    "bic_prefers_fewer",
    "components_are_one",
    "moments_unresolved",
    "directions_at_noise_floor",
    "directions_near_noise_floor",
}
MORE_EIGENVALUES = {
    "more_components_likely",
    "columns_differ_in_spread",
    "columns_correlated",
    "components_differ_in_covariance",
    "components_not_round",
    "component_missing",
}
LEAST_VARIANCE = 1e-5  # of that of the rows: less is the floor of the fit

# rows and a mixture -> one entry or one row per row
Asked = Callable[[Array, Gaussians], Array]


class MixtureSummary(
    Predictions, MeansDescription, FittedEstimator, DensityCriteria, DensityMixin, BaseEstimator
):
    """Answers of a mixture of Gaussians, and its data for the report and the pictures.

    Methods return arrays in the library of the rows that are given, on their device.
    """

    answers: ClassVar[Mapping[str, str]] = {
        "labels": "predict",
        "probabilities": "predict_proba",
        "densities": "score_samples",
        "samples": "sample",
    }
    captions: ClassVar[Mapping[str, str]] = {
        "components": "Rows by most probable component, on the two directions along which the "
        "means differ most." + OVERLAP,
        "components_of_one": "Rows and their mean, on the two directions of largest variance.",
        "components_one_column": "Histogram of the column by most probable component, and the "
        "density of the mixture.",
        "fit": "Log densities of the rows, and of rows drawn from the model. If the model is "
        "right, both have the same distribution.",
    }

    @property
    def _type(self) -> CovarianceType:
        """The type of the fitted covariances."""
        raise NotImplementedError

    def _covariances(self) -> Floats:
        """Return the covariances in NumPy, (k, p, p), or (k, p) if they are diagonal.

        Of the p columns that vary.
        """
        raise NotImplementedError

    def _mixture(self) -> Gaussians:
        """Return the mixture of the columns that vary, in NumPy and in the user's units."""
        weights, means = as_floats(self.weights_), as_floats(self.means_)[:, self._varying]
        freedom = np.full(len(weights), self._freedom())
        return Gaussians(weights / weights.sum(), means, self._covariances(), freedom)

    @property
    def _varying(self) -> Integers:
        """Columns that the fit did not leave out."""
        if self._constant_values is None:
            return np.arange(self.means_.shape[1])
        return np.flatnonzero(np.isnan(self._constant_values))

    def _freedom(self) -> float:
        """Return the degrees of freedom of the components."""
        return math.inf

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
        return self._function(responsibilities).evaluate(self, X)

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
        X *= draw_scales(mixture.freedom[labels], rng)[:, None]
        ends = np.cumsum(sizes)
        for i in range(mixture.k):
            own = X[ends[i] - sizes[i] : ends[i]]
            covariance = mixture.covariances[i]
            if mixture.diagonal:
                own *= np.sqrt(covariance)
            else:
                own[...] = own @ np.linalg.cholesky(covariance).T
            own += mixture.means[i]
        X = restore_columns(X, self._constant_values)
        return move_like(X, self.means_), index_like(labels, self.means_)

    def icl(self, X: Any, y: Any = None) -> float:
        """Return the integrated completed likelihood criterion; lower is better.

        The Bayesian information criterion of the most probable assignment of the rows: it also
        charges for components that overlap, so it counts clusters rather than components. Of all
        rows, as :meth:`bic`.

        Parameters
        ----------
        X, y : as for :meth:`bic`

        Returns
        -------
        float
        """
        check_is_fitted(self)
        doubt = self._function(_log_largest_share).total(self, X, None)
        return self.bic(X, y) - 2 * doubt.total

    def _prediction(self) -> RowFunction:
        return self._function(likeliest)

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function(log_densities, density=True)

    def _function(self, asked: Asked, *, density: bool = False) -> RowFunction:
        mixture, constants = self._mixture(), self._constant_values
        d = mixture.d
        width = max(mixture.k, 2 * d if mixture.diagonal else d * (d + 3) // 2)
        function = partial(_evaluate, mixture, asked)
        if constants is not None:
            epsilon = precision_of(self.means_)
            function = partial(evaluate_varying, function, constants, epsilon, density)
        return RowFunction(function, width=width)

    def _evidence(self) -> list[Fact]:
        stats, k, codes = self.stats_, self._k(), self._codes()
        facts = self._moment_facts(stats, k, codes)
        widths = [width for width in stats.get("width_by_component", []) if math.isfinite(width)]
        unequal = "columns_differ_in_spread" in codes
        if len(widths) == k and max(widths) <= WIDE and not unequal:
            facts.append(Fact(True, Note("components_spherical", {"ratio": max(widths)})))
        rate = stats.get("misclassification_rate", 1.0)
        if k > 1 and rate <= IN_DOUBT:
            facts.append(Fact(True, Note("few_misclassified", {"rate": rate})))
        facts += self._bic_facts()
        if stats.get("groups", 1) > 1:
            facts.append(Fact(True, Note("groups_fitted_apart", {"groups": stats["groups"]})))
        return facts

    @staticmethod
    def _moment_facts(stats: dict[str, Any], k: int, codes: set[str]) -> list[Fact]:
        if k == 1 or stats.get("start") != "moments":
            return []
        facts = []
        # where BIC chose k, the moments may have resolved another number
        if stats.get("spectra") and stats.get("ranks") == [k]:
            facts = _eigenvalue_facts(stats, k, codes)
        return [*facts, Fact(True, Note("moments_started_em"))]

    def _noise_free(self, rows: RowSample) -> bool:
        least = LEAST_VARIANCE * rows.x[:, self._varying].var(axis=0)
        return bool(np.any(self._mixture().variances.max(axis=0) <= least))

    def _component_view(self, rows: RowSample) -> Means:
        mixture, labels = self._mixture(), to_numpy(self.predict(rows.given))
        variances = mixture.variances.mean(axis=1)
        covariances, constants = None, self._constant_values
        if self._type.shape != "spherical":
            covariances = restore_matrices(mixture.expanded().covariances, constants)
        found = (mixture.weights, as_floats(self.means_), variances, np.asarray(labels))
        return Means(*found, covariances, self._freedom())

    def _fit_view(self, rows: RowSample) -> FitView:
        points = (rows.given, self.sample(len(rows.x))[0])
        logs, drawn = (as_floats(self.score_samples(each)) for each in points)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn, logs=True)


def _log_largest_share(x: Array, mixture: Gaussians) -> Array:
    xp = namespace_of(x)
    return xp.log(xp.max(responsibilities(x, mixture), axis=1))


def _evaluate(mixture: Gaussians, asked: Asked, x: Array) -> Array:
    """Evaluate a function of rows in double precision.

    A quadratic form in the products of columns loses half of its digits.
    """
    xp, dtype = namespace_of(x), x.dtype
    found = asked(xp.astype(x, xp.float64, copy=False), mixture)
    # rows of integers have answers in double precision
    single = xp.isdtype(found.dtype, "real floating") and xp.isdtype(dtype, "real floating")
    return xp.astype(found, dtype, copy=False) if single else found


def _eigenvalue_facts(stats: dict[str, Any], k: int, codes: set[str]) -> list[Fact]:
    """Compare the k-th eigenvalue of the moment, and the next one, with the noise."""
    values, floor = stats["spectra"][0], float(stats["noise_floor"][0])
    weakest, following = float(values[k - 1]), float(values[k]) if len(values) > k else 0.0
    if weakest <= CLEAR * floor:
        if not AT_NOISE_FLOOR.isdisjoint(codes):
            return []
        ratio = max(weakest, 0.0) / floor if floor > 0 else 0.0
        return [Fact(False, Note("moments_do_not_resolve", {"k": k, "ratio": ratio}))]
    if following > CLEAR * floor > 0:
        if not MORE_EIGENVALUES.isdisjoint(codes):
            return []
        return [Fact(False, Note("moments_show_more", {"k": k, "ratio": following / floor}))]
    if stats.get("resolved", k) < k:
        return []
    ratio = weakest / floor if floor > 0 else math.inf
    return [Fact(True, Note("moments_resolve", {"k": k, "ratio": ratio}))]
