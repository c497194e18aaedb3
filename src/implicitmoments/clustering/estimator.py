"""Clusters of spherical mixtures with separated means (Theorem 4.19)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import array_api_compat
import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import chi
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import as_double, move_like, to_numpy
from implicitmoments.clustering.pair_test import (
    WIDE,
    BayesRule,
    excess_variance,
    find_means,
    hold_coordinates,
    members_of,
    rule_of,
)
from implicitmoments.description import SphericalMixtureClustererDescription, as_floats
from implicitmoments.estimator import Fact, FittedEstimator, constant_notes
from implicitmoments.evaluation import Predictions, RowFunction
from implicitmoments.mixture import SphericalMixture
from implicitmoments.moments.components import second_moment_floor, spectrum_stats
from implicitmoments.moments.mean_span import SphericalSpan, find_span, smallest_variance
from implicitmoments.notes import InputError, InputTypeError, Note
from implicitmoments.picture_data import OVERLAP, Distribution, FitView, Means, RowSample
from implicitmoments.rows import ArraySource, RandomState, Rows
from implicitmoments.rows.constants import find_constants, restore_columns
from implicitmoments.rows.outliers import SMALLEST_COMPONENT, leave_out_outliers
from implicitmoments.validation import (
    ROWS_PER_COMPONENT,
    check_enough_rows,
    check_even_order,
    check_variance,
    check_whole,
    check_whole_or,
)

HIGHEST_ORDER = 20  # limit of `order`: 4.5 deviations to this power leave 3 of 16 digits
FEWEST_ROWS = 4  # two differences, one in each half of the rows
# size of the subsample to which a mixture is fitted for its variance: in all and per component
SAMPLE_ROWS, SAMPLE_ROWS_EACH = 20_000, 400
# From these on there is a note, and below them evidence for the clusters.
UNRELIABLE = 0.2  # sum of the error rates of the test; 1 is chance
OVERLAPPING = 0.05  # expected misclassification rate: that of means 3.3 deviations apart
RATES = ("split_rate", "merge_rate", "same_rate")  # of the test


@dataclass(eq=False, repr=False)  # scikit-learn compares and prints estimators
class SphericalMixtureClusterer(
    SphericalMixtureClustererDescription,
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
        variance within a cluster relative to that of the noise; ``outliers``; ``n_landmarks``.
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
        "weights_": np.ndarray,
        "means_": np.ndarray,
        "variance_": float,
        "order_": int | None,
        "threshold_": float | None,
        "labels_": np.ndarray | None,
    }
    answers: ClassVar[Mapping[str, str]] = {"labels": "predict"}
    iterative = False
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Variance of the rows beyond the noise along each principal direction. Filled: "
        "the directions searched for clusters.",
        "components": "Rows by cluster, on the two directions along which the means differ most."
        + OVERLAP,
        "components_of_one": "Rows and their mean, on the two directions of largest variance.",
        "components_one_column": "Histogram of the column by cluster, and the density of the "
        "clusters.",
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
        if isinstance(every.source, ArraySource) and every.small:
            every = every.merged()  # weights and repeated rows then give the same clusters
        near = leave_out_outliers(
            every, k, drop=self.drop_outliers, least_share=SMALLEST_COMPONENT, seed=seed
        )
        rows, probe = near.rows, near.rows.like
        rows = rows.without(find_constants(rows))
        n_used = max(near.n_rows, round(rows.total))
        self._check_rows(n_used + near.n_outliers)
        # 1. Reduce to the span of the means, in units of the noise.
        span = find_span(rows, k, self._noise_variance(rows, seed))
        means, found, held = span.center[None, :], None, None
        if k > 1:
            # 2 to 4. Moments of differences of rows, the test of pairs that they give, clusters of
            # the graph of tests of landmarks; wide clusters again, by moments of their own.
            held = hold_coordinates(rows, span, seed)
            order = None if self.order == "auto" else int(self.order)
            n = None if self.n_landmarks == "auto" else int(self.n_landmarks)
            found = find_means(held, k, seed, order, n)
            means = span.restore(found.means)
        # 5. Means and weights of all rows, assigned by the Bayes rule.
        rule = rule_of(means, span.variance).settle(rows)
        heaviest = np.argsort(-rule.weights, kind="stable")
        rule = BayesRule(rule.means[heaviest], rule.weights[heaviest], rule.variance)
        means = restore_columns(rule.means, rows.constants)
        self.means_, self.weights_ = (move_like(a, probe) for a in (means, rule.weights))
        self.variance_ = rule.variance
        test = None if found is None else found.test
        self.order_, self.threshold_ = (getattr(test, a, None) for a in ("order", "threshold"))
        floor = second_moment_floor(rows.n_features, n_used)
        self.stats_ = {
            "n_landmarks": 0 if found is None else found.n_landmarks,
            "n_tests": 0 if found is None else found.n_tests,
            "rows_used": n_used,
            "outliers": near.n_outliers,
            "separation": float(np.min(pdist(rule.means), initial=math.inf)) / span.sigma,
            **measure_spread(held, rule, span),
            **({} if test is None else {name: getattr(test, name) for name in RATES}),
            **spectrum_stats((span.spectrum - 1, floor, span.p, 2)),
        }
        self.notes_ = constant_notes(self, rows.constants)
        self.notes_[:0] = self._find_notes(span)

    def _find_notes(self, span: SphericalSpan) -> list[Note]:
        """Return notes on possible errors of the clusters."""
        stats, k, found = self.stats_, self.n_components, self._k()
        values, notes = {"variance": span.variance}, []
        if stats["outliers"]:
            notes.append(Note("outliers_dropped", {"n": stats["outliers"]}))
        if stats["rows_used"] < ROWS_PER_COMPONENT * k:
            notes.append(Note("few_rows_per_component", {"n": stats["rows_used"], "k": k}))
        flat = smallest_variance(span, stats["rows_used"])
        if flat is not None:
            notes.append(Note("flat_direction", {"ratio": flat, **values}))
        if found < k:
            notes.append(Note("fewer_clusters", {"n": found, "k": k}))
        rates = {name: stats.get(name, 0.0) for name in RATES[:2]}
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
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source
        y : None
            Ignored; for pipelines.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        array of int of shape (n_samples,)
        """
        if isinstance(X, Iterator):
            raise InputTypeError(
                "iterator_consumed",
                "fit consumes an iterator of blocks, and predict needs the rows again; call both "
                "with a fresh iterator",
            )
        self.fit(X, y, sample_weight)
        return self.labels_ if "labels_" in vars(self) else self.predict(X)

    def _prediction(self) -> RowFunction:
        return RowFunction(self._rule().assign)

    def transform(self, X: Any) -> Any:
        """Return the distance of each row from each mean.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), data frame, path, Dask or Source

        Returns
        -------
        array of shape (n_samples, k)
            In the library of the rows; ``set_output`` makes data frames of them.
        """
        check_is_fitted(self)
        return RowFunction(self._rule().distances).evaluate(self, X)

    @property
    def _n_features_out(self) -> int:
        return int(self.means_.shape[0])

    def _rule(self) -> BayesRule:
        """Return means, weights and variance in main memory."""
        means, weights = (
            np.asarray(to_numpy(a), dtype=np.float64) for a in (self.means_, self.weights_)
        )
        return BayesRule(means, weights, self.variance_)

    def __getattr__(self, name: str) -> Any:
        """Explain why there are no labels after a fit of rows that are not in memory."""
        if name == "labels_" and "means_" in vars(self):
            raise AttributeError(
                "labels_ is kept for rows in memory only; predict(X) returns the labels of other "
                "rows, block by block"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _title(self) -> str:
        k = self._k()
        return "one spherical cluster" if k == 1 else f"{k:,} spherical clusters"

    def _evidence(self) -> list[Fact]:
        # one cluster is no finding; a wide one is no unit of distances
        stats = self.stats_
        if self._k() == 1 or stats["within_variance"] > WIDE:
            return []
        notes = [Note("clusters_spherical", {"ratio": stats["within_variance"]})]
        rate = stats["misclassification_rate"]
        if rate <= OVERLAPPING:
            notes.append(
                Note("means_separated", {"separation": stats["separation"], "rate": rate})
            )
        rates = {"split": stats["split_rate"], "merge": stats["merge_rate"]}
        if sum(rates.values()) <= UNRELIABLE:
            notes.append(Note("pairwise_test_reliable", rates))
        return [Fact(True, note) for note in notes]

    def _component_view(self, rows: RowSample) -> Means:
        labels = np.asarray(to_numpy(self.predict(rows.given)))
        return Means(as_floats(self.weights_), as_floats(self.means_), self._variances(), labels)

    def _fit_view(self, rows: RowSample) -> FitView:
        view = self._component_view(rows)
        apart = np.linalg.norm(rows.x - view.means[view.labels], axis=1)
        d = rows.x.shape[1]
        return Distribution(
            "Distances within clusters",
            "distance from the mean of the cluster (σ)",
            apart / float(np.sqrt(self.variance_)),
            law=lambda at: np.asarray(chi.pdf(at, d)),
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_even_order(self.order, HIGHEST_ORDER)
        k = check_whole("n_components", self.n_components, 1)
        check_whole_or("n_landmarks", self.n_landmarks, ("auto",), max(k, 2))
        check_variance(self.variance)

    def _check_rows(self, n: int) -> None:
        k = self.n_components
        check_enough_rows(n, k)
        if k > 1 and n < FEWEST_ROWS:
            raise InputError(
                "too_few_rows",
                "moments of differences need at least {least:count row}, got {n}; use more rows",
                least=FEWEST_ROWS,
                n=n,
                k=k,
            )

    def _noise_variance(self, rows: Rows, seed: int) -> float | None:
        """Return the variance, where the covariance of the rows does not determine it."""
        variance, k = check_variance(self.variance), self.n_components
        if variance is not None or k <= rows.n_features:
            return variance
        sample = rows.sample(max(SAMPLE_ROWS, SAMPLE_ROWS_EACH * k), seed)
        mixture = SphericalMixture(k, drop_outliers=False, random_state=seed)
        with warnings.catch_warnings():  # the notes of this estimator are on the clusters
            warnings.simplefilter("ignore", UserWarning)
            mixture.fit(sample.block["x"], sample_weight=sample.block.get("counts"))
        return float(mixture.variance_)


def measure_spread(held: Rows | None, rule: BayesRule, span: SphericalSpan) -> dict[str, float]:
    """Return the expected misclassification rate and the largest variance within a cluster."""
    if held is None:  # a single cluster
        return {"misclassification_rate": 0.0, "within_variance": 1.0}
    x = held.block["x"]
    inside = BayesRule(to_numpy(span.coordinates(rule.means)), rule.weights, 1.0)
    wrong = to_numpy(as_double(inside.error_rates(x)))
    clusters = members_of(held, to_numpy(inside.assign(x)))
    return {
        "misclassification_rate": float(wrong @ held.counts) / held.total,
        "within_variance": max(1.0, *map(excess_variance, clusters)),
    }
