"""What a fitted spherical mixture answers: labels, densities, samples, findings and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NotRequired

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
from implicitmoments.mixture.diagnostics import IN_DOUBT, WIDE
from implicitmoments.mixture.family import Mixture, log_densities, log_joint
from implicitmoments.mixture.incremental import Stream
from implicitmoments.moments.components import Components
from implicitmoments.notes import Note
from implicitmoments.picture_data import Distribution, FitView, Means, RowSample
from implicitmoments.rows import RandomState
from implicitmoments.validation import check_whole

CLEAR = 1.5  # times the noise, from which an eigenvalue is clear of it
# codes of notes that say the same, or explain it
AT_NOISE_FLOOR = {
    "bic_prefers_fewer",
    "components_unresolved",
    "directions_at_noise_floor",
    "directions_near_noise_floor",
}
MORE_EIGENVALUES = {
    "more_components_likely",
    "columns_differ_in_spread",
    "component_not_spherical",
}
LEAST_VARIANCE = 1e-5  # of that of the rows: less is the floor of the fit
DENSITY_AXIS = "log density under the model (nats)"
OVERLAP = " Components that overlap here may be separated along other directions."

# rows and a mixture, both about one centre in one unit -> one entry or one row per row
Asked = Callable[[Array, Mixture], Array]


class MeansSummary(Predictions, FittedEstimator):
    """A model with means, weights and variances."""

    vectors = "means_"
    results: ClassVar[tuple[str, ...]] = ("n_components_", "weights_", "means_", "variance_")
    saved: ClassVar[Mapping[str, Any]] = {
        "weights_": Floats,
        "means_": Floats,
        "variance_": float | Floats,
        "decoded_components_": NotRequired[Components | None],
        "_stream": NotRequired[Stream | None],
    }
    points = ("means_",)

    weights_: Any
    means_: Any
    variance_: Any

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.means_.shape[0])

    def _variances(self) -> Floats:
        return np.broadcast_to(as_floats(self.variance_), self._k())

    def _parameter_tables(self) -> list[Table]:
        columns = [self.component, "weight", "variance", *column_names(self)]
        parts = (self.weights_, self._variances(), self.means_)
        return [Table(f"{self.component.capitalize()}s", columns, numbered_rows(*parts))]

    def _component_view(self, rows: RowSample) -> Means:
        labels = to_numpy(self.predict(rows.given))
        return Means(
            as_floats(self.weights_), as_floats(self.means_), self._variances(), np.asarray(labels)
        )


class SphericalMixtureSummary(MeansSummary, DensityCriteria, DensityMixin, BaseEstimator):
    """Answers of a ``SphericalMixture``, and its data for the report and the pictures.

    Methods return arrays in the library of the rows that are given, on their device.
    """

    kind = "mixture"
    answers: ClassVar[Mapping[str, str]] = {
        "labels": "predict",
        "probabilities": "predict_proba",
        "densities": "score_samples",
        "samples": "sample",
    }
    results = (*MeansSummary.results, "lower_bound_", "converged_", "n_iter_")
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Eigenvalues of the moment from which the components were read; filled: those "
        "kept. A kept eigenvalue at the noise level, or others far above it, suggest another "
        "number of components, or columns that differ in scale.",
        "components": "Rows by most probable component, on the two directions along which the "
        "means differ most." + OVERLAP,
        "components_of_one": "Rows and their mean, on the two directions of largest variance.",
        "components_one_column": "Histogram of the column by most probable component, and the "
        "density of the mixture.",
        "fit": "Log densities of the rows, and of rows drawn from the model. If the model is "
        "right, both have the same distribution.",
    }

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

    def _mixture(self) -> Mixture:
        """Return the mixture in NumPy, in the user's units."""
        weights, means = as_floats(self.weights_), as_floats(self.means_)
        return Mixture(weights / weights.sum(), means, np.array(self._variances()))

    def _prediction(self) -> RowFunction:
        return self._function(_likeliest)

    def _function(self, asked: Asked, *, density: bool = False) -> RowFunction:
        mixture = self._mixture()
        function = partial(_evaluate, mixture, asked, density)
        return RowFunction(function, width=max(mixture.means.shape))

    def _log_density(self, X: Any, y: Any) -> RowFunction:  # noqa: ARG002
        return self._function(log_densities, density=True)

    def _title(self) -> str:
        k = self._k()
        return "one spherical Gaussian" if k == 1 else f"a mixture of {k:,} spherical Gaussians"

    def _evidence(self) -> list[Fact]:
        stats, k, facts = self.stats_, self._k(), []
        codes = self._codes()
        if k > 1 and stats.get("start") == "moments":
            # where BIC chose k, the moments may have resolved another number
            if stats.get("spectra") and stats.get("ranks") == [k]:
                facts += _eigenvalue_facts(stats, k, codes)
            facts.append(Fact(True, Note("moments_started_em")))
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

    def _noise_free(self, rows: RowSample) -> bool:
        least = LEAST_VARIANCE * float(rows.x.var(axis=0).sum())
        return float(self._variances().max()) <= least

    def _fit_view(self, rows: RowSample) -> FitView:
        points = (rows.given, self.sample(len(rows.x))[0])
        logs, drawn = (as_floats(self.score_samples(each)) for each in points)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn)


def _likeliest(x: Array, mixture: Mixture) -> Array:
    return namespace_of(x).argmax(log_joint(x, mixture), axis=1)


def _shares(x: Array, mixture: Mixture) -> Array:
    return softmax_rows(log_joint(x, mixture))[0]


def _evaluate(mixture: Mixture, asked: Asked, density: bool, x: Array) -> Array:
    """Evaluate a function of rows about the centre of a mixture, in its own unit.

    ``density`` says whether the values are log densities, which depend on the unit.
    """
    if isinstance(x, np.ndarray):
        x = x.astype(np.float64, copy=False)
    center, scale = move_like(mixture.weights @ mixture.means, x), math.sqrt(mixture.pooled)
    # the centre as the precision of the rows has it
    middle = to_numpy(center).astype(np.float64)
    found = asked((x - center) / scale, mixture.moved(-middle / scale, 1 / scale))
    return found - mixture.d * math.log(scale) if density else found


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


def numbered_rows(*parts: Any) -> list[list[Any]]:
    """Return rows of a table: the number of a component and its parameters."""
    table = np.column_stack([as_floats(part) for part in parts])
    return [[i, *(float(value) for value in row)] for i, row in enumerate(table)]
