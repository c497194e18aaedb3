"""Clusters of spherical mixtures with separated means (Theorem 4.19)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import array_api_compat
import numpy as np
from scipy.spatial.distance import pdist
from scipy.special import softmax
from scipy.stats import chi
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import move_like, to_numpy
from implicitmoments.clustering.pair_test import (
    WIDE,
    BayesRule,
    PairTest,
    excess_variance,
    find_means,
    hold_coordinates,
    members_of,
    rule_of,
)
from implicitmoments.estimator import (
    FEATURES,
    Check,
    FittedEstimator,
    as_floats,
    constant_notes,
    outlier_notes,
)
from implicitmoments.evaluation import Predictions, RowFunction
from implicitmoments.mixture import SphericalMixture
from implicitmoments.moments.components import second_moment_floor
from implicitmoments.moments.problems import SphericalSpan, find_span, smallest_variance
from implicitmoments.notes import Note
from implicitmoments.picture_data import (
    OVERLAP,
    Distribution,
    FitView,
    Means,
    RowSample,
    spectrum_stats,
)
from implicitmoments.rows import (
    SMALLEST_COMPONENT,
    ArrayTable,
    Rows,
    find_constants,
    leave_out_outliers,
    restore_columns,
    weights_of,
)
from implicitmoments.validation import (
    ROWS_PER_COMPONENT,
    RandomState,
    check_enough_rows,
    check_even_order,
    check_variance,
    check_whole,
    check_whole_or,
)

# Thresholds: above, there is a note; up to them, evidence for the clusters.
UNRELIABLE = 0.2  # sum of the error rates of the test; 1 is chance
OVERLAPPING = 0.05  # expected misclassification rate: that of means 3.3 deviations apart


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixtureClusterer(
    Predictions,
    FittedEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""Clusters of a spherical Gaussian mixture, by a test of pairs of rows.

    For :math:`\sum_i w_i N(\mu_i, \sigma^2 I)` with means separated by at least a constant times
    :math:`\sigma\sqrt{\log k}`. Theorem 4.19: rows are projected onto the span of the means, and
    two rows are assigned to the same component when
    :math:`\langle H_t((x - x')/\sqrt 2), M_t \rangle` is small, where :math:`M_t` is the moment
    of differences of means. A random subset of rows, the landmarks, is tested pair by pair;
    clusters of the graph of tests give initial means, and every row is assigned to the most
    probable component under them.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components.
    variance : float, optional
        The common variance :math:`\sigma^2`, where it is known; by default the mean of the
        smallest eigenvalues of the covariance, and with more components than features that of
        :class:`SphericalMixture` on a sample of the rows.
    order : int or "auto", default "auto"
        The even order of the moment that is used. ``"auto"`` takes the order among 2, 4 and 6 with
        the smallest estimated error rates of the test, of those that are affordable; higher
        orders are tried only while the test is not reliable.
    n_landmarks : int or "auto", default "auto"
        Number of rows tested pair by pair; by default 40 per component, and at least 400. Wide
        clusters are tested again with as many.
    drop_outliers : bool, default True
        Leave out rows far from the bulk that have too few neighbours to be a component.
        ``stats_["outliers"]`` counts them.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers.
    rows_per_block : int, optional
        Rows that are processed at a time; chosen by the memory they take by default.

    Attributes
    ----------
    labels_ : array of int of shape (n_samples,)
        For arrays and data frames in memory; use ``predict`` for other rows.
    weights_ : array of shape (k,)
        In decreasing order.
    means_ : array of shape (k, n_features)
    variance_ : float
    n_components_ : int
        The number k of components. Fewer than ``n_components`` where fewer were found.
    order_ : int or None
        The order of the test; None for one component.
    threshold_ : float or None
        Pairs with a smaller statistic are taken to be of the same component.
    notes_ : Notes
        Findings about the fit, which print as sentences.
    stats_ : dict
        ``split_rate`` and ``merge_rate``, the estimated error rates of the test on pairs of the
        same and of two components, and ``same_rate``, the proportion of pairs of the same
        component, all of the least reliable test that no other one followed; ``n_tests``, of
        groups of rows; ``separation``, the smallest distance between two means in units of
        :math:`\sigma`; ``misclassification_rate``, expected; ``within_variance``, the largest
        variance within a cluster relative to that of the noise; ``outliers``.
    n_features_in_, feature_names_in_ : number of columns; their names, where they have any

    See Also
    --------
    SphericalMixture : Spherical covariances, one variance or several.
    GaussianMixture : Covariances of any shape.

    Notes
    -----
    Rows are read in four passes and never held; coordinates on the span of the means are, of at
    most a million rows, from which pairs and landmarks are drawn.

    ``means_``, ``weights_`` and the result of :meth:`transform` have the precision of the rows.
    Sums over all rows and ``variance_`` are in float64.

    Examples
    --------
    >>> from implicitmoments import SphericalMixtureClusterer
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> X, truth = make_spherical_mixture(5_000, 4, 8, radius=8.0, separation=8.0, random_state=0)
    >>> model = SphericalMixtureClusterer(n_components=4, random_state=0).fit(X)
    >>> model.means_.shape, model.labels_.shape
    ((4, 8), (5000,))
    >>> model.predict(truth.vectors).shape, model.stats_["split_rate"] < 0.05
    ((4,), True)
    """

    fewest_rows = 2
    saved: ClassVar[Mapping[str, Any]] = {
        "order_": int | None,
        "threshold_": float | None,
        "labels_": np.ndarray | None,
    }
    answers: ClassVar[Mapping[str, str]] = {"labels": "predict"}
    component, vectors = "cluster", "means_"
    tables: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "Clusters": {"weight": "weights_", "variance": "variance_", FEATURES: "means_"}
    }
    iterative = False
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Variance beyond the noise along principal directions. Filled: searched.",
        "components": "Rows by cluster, on the two directions along which the means differ most."
        + OVERLAP,
        "components_of_one": "Rows and their mean, on the two directions of largest variance.",
        "components_one_column": "Histogram of the column by cluster, and the fitted density.",
        "fit": "Distances of rows from the mean of their cluster, and their distribution if "
        "clusters are spherical.",
    }

    n_components: int = 2
    _: KW_ONLY
    variance: float | None = None
    order: int | str = "auto"
    n_landmarks: int | str = "auto"
    drop_outliers: bool = True
    random_state: RandomState = None
    rows_per_block: int | None = None

    def _fit(self, every: Rows, seed: int) -> None:
        k: int = self.n_components
        if isinstance(every.table, ArrayTable) and every.small:
            every = every.merged()  # weights and repeated rows then give the same clusters
        near = leave_out_outliers(
            every, k, drop=self.drop_outliers, least_share=SMALLEST_COMPONENT
        )
        rows = replace(near.rows, constants=find_constants(near.rows))
        n_used = max(near.rows.kept, round(rows.total))
        # two differences, one in each half of the rows
        check_enough_rows(n_used + near.n_outliers, k, max(k, 4) if k > 1 else None)
        # 1. Reduce to the span of the means, in units of the noise.
        span = find_span(rows, k, self._noise_variance(rows, seed))
        held, means, tests, n_tests = None, np.zeros((1, 0)), list[PairTest](), 0
        if k > 1:
            # 2 to 4. Moments of differences of rows, the test of pairs that they give, clusters of
            # the graph of tests of landmarks; wide clusters again, by moments of their own.
            held = hold_coordinates(rows, span, seed)
            order, n = (None if a == "auto" else int(a) for a in (self.order, self.n_landmarks))
            means, tests, n_tests = find_means(held, k, seed, order, n)
        # 5. Means and weights of all rows, assigned by the Bayes rule, heaviest first.
        rule = rule_of(span.restore(means), span.variance).settle(rows)
        self.means_ = move_like(restore_columns(rule.means, rows.constants), rows.like)
        self.weights_, self.variance_ = move_like(rule.weights, rows.like), rule.variance
        floor = second_moment_floor(rows.n_features, n_used)
        test = max(tests, key=lambda test: test.error_rate, default=None)
        self.order_, self.threshold_ = (getattr(test, a, None) for a in ("order", "threshold"))
        self.stats_ = {
            "n_tests": n_tests,
            "rows_used": n_used,
            "outliers": near.n_outliers,
            "separation": float(np.min(pdist(rule.means), initial=math.inf)) / span.sigma,
            **measure_spread(held, rule, span),
            **({} if test is None else test.rates),
            **spectrum_stats((span.spectrum - 1, floor, span.p, 2)),
        }
        self.notes_ = constant_notes(self, rows.constants)
        self.notes_[:0] = self._find_notes(span)

    def _find_notes(self, span: SphericalSpan) -> list[Note]:
        """Return notes on possible errors of the clusters."""
        stats, k, found = self.stats_, self.n_components, self._k()
        values, notes = {"variance": span.variance}, outlier_notes(stats["outliers"])
        if stats["rows_used"] < ROWS_PER_COMPONENT * k:
            notes.append(Note("few_rows", {"n": stats["rows_used"], "k": k}))
        flat = smallest_variance(span, stats["rows_used"])
        if flat is not None:
            notes.append(Note("flat_direction", {"ratio": flat, **values}))
        if found < k:
            notes.append(Note("fewer_components", {"asked": k, "k": found}))
        rates = {name: stats.get(name, 0.0) for name in ("split_rate", "merge_rate")}
        if sum(rates.values()) > UNRELIABLE or stats["misclassification_rate"] > OVERLAPPING:
            apart = {name: stats[name] for name in ("separation", "misclassification_rate")}
            notes.append(Note("separation_too_small", {**apart, **rates}))
        if stats["within_variance"] > WIDE:
            notes.append(Note("cluster_wide", {"ratio": stats["within_variance"], **values}))
        return notes

    def _label(self, X: Any) -> None:
        self.__dict__.pop("labels_", None)  # of an earlier fit
        array = array_api_compat.is_array_api_obj(X) or isinstance(X, (list, tuple))
        if (array or hasattr(X, "to_numpy")) and not hasattr(X, "__dask_graph__"):
            self.labels_ = self.predict(X)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Cluster the rows and return their labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table
        y : None
            Ignored; for pipelines.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        array of int of shape (n_samples,)
        """
        self.fit(X, y, sample_weight)
        return self.labels_ if "labels_" in vars(self) else self.predict(X)

    def _prediction(self) -> RowFunction:
        return RowFunction(self._rule().assign)

    def transform(self, X: Any) -> Any:
        """Return the distance of each row from each mean.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Table

        Returns
        -------
        array of shape (n_samples, k)
            In the library of the rows; ``set_output`` makes data frames of them.
        """
        check_is_fitted(self)
        return RowFunction(self._rule().distances).evaluate(self, X)

    @property
    def n_components_(self) -> int:
        """The number of clusters."""
        return int(self.weights_.shape[0])

    _n_features_out = n_components_  # of ``transform``

    def _rule(self) -> BayesRule:
        """Return means, weights and variance in main memory."""
        return BayesRule(as_floats(self.means_), as_floats(self.weights_), self.variance_)

    def _title(self) -> str:
        return f"{k:,} spherical clusters" if (k := self._k()) > 1 else "one spherical cluster"

    def _checks(self) -> list[Check]:
        # one cluster is no finding; a wide one is no unit of distances
        stats = self.stats_
        if self._k() == 1 or stats["within_variance"] > WIDE:
            return []
        found, rate = list[Check](), stats["misclassification_rate"]
        if rate <= OVERLAPPING:
            words = f"expected misclassification rate: {rate:.2%}"
            found.append(Check("misclassification", True, words))
        if (error := stats["split_rate"] + stats["merge_rate"]) <= UNRELIABLE:
            words = f"error rates of the pairwise test: {error:.2%} in all"
            found.append(Check("pair_test", True, words))
        return found

    def _component_view(self, rows: RowSample) -> Means:
        labels = np.asarray(to_numpy(self.predict(rows.given)))
        variances = np.full(self._k(), self.variance_)
        return Means(as_floats(self.weights_), as_floats(self.means_), variances, labels)

    def _fit_view(self, rows: RowSample) -> FitView:
        view = self._component_view(rows)
        apart = np.linalg.norm(rows.x - view.means[view.labels], axis=1)
        distances, law = apart / math.sqrt(self.variance_), chi(rows.x.shape[1]).pdf
        axis = "distance from the mean of the cluster (σ)"
        return Distribution("Distances within clusters", axis, distances, law=law)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_even_order(self.order, 20)  # 4.5 deviations to this power leave 3 of 16 digits
        k = check_whole("n_components", self.n_components, 1)
        check_whole_or("n_landmarks", self.n_landmarks, ("auto",), max(k, 2))
        check_variance(self.variance)

    def _noise_variance(self, rows: Rows, seed: int) -> float | None:
        """Return the variance, where the covariance of the rows does not determine it."""
        variance, k = check_variance(self.variance), self.n_components
        if variance is not None or k <= rows.n_features:
            return variance
        sample = rows.sample(max(20_000, 400 * k), seed)
        mixture = SphericalMixture(k, drop_outliers=False, random_state=seed)
        # the notes of this estimator are on the clusters
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            mixture.fit(sample.block["x"], sample_weight=sample.block.get("counts"))
        return float(mixture.variance_)


def measure_spread(held: Rows | None, rule: BayesRule, span: SphericalSpan) -> dict[str, float]:
    """Return the expected misclassification rate and the largest variance within a cluster."""
    if held is None:  # a single cluster
        return {"misclassification_rate": 0.0, "within_variance": 1.0}
    inside = BayesRule(to_numpy(span.coordinates(rule.means)), rule.weights, 1.0)
    clusters, wrong = members_of(held, inside.labels(held)), 0.0
    for block in held.blocks(len(rule.means)):
        doubt = 1.0 - np.max(softmax(as_floats(inside.scores(block["x"])), axis=1), axis=1)
        wrong += float(doubt @ to_numpy(weights_of(block)))
    return {
        "misclassification_rate": wrong / held.total,
        "within_variance": max(1.0, *map(excess_variance, clusters)),
    }
