"""Clusters of spherical mixtures whose means lie apart (Theorem 4.19)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import array_api_compat
import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, move_like, to_numpy
from implicitmoments.clustering.fit import ClusterOptions, fit_clusters
from implicitmoments.clustering.nearest_mean import Components
from implicitmoments.clustering.summary import ClustererSummary
from implicitmoments.notes import tell
from implicitmoments.rows import Progress, RandomState
from implicitmoments.rows.answers import answer
from implicitmoments.rows.inputs import Checkpoint, open_rows, probe_of
from implicitmoments.validation import check_method, check_variance, check_whole

__all__ = ["SphericalMixtureClusterer"]

HIGHEST_ORDER = 20
FEWEST_ROWS = 4  # two differences, one in each half


class SphericalMixtureClusterer(
    ClustererSummary,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    r"""Means, weights and labels of a spherical mixture, by a test of pairs of rows.

    For :math:`\sum_i w_i N(\mu_i, \sigma^2 I)` with means at least a constant times
    :math:`\sigma\sqrt{\log k}` apart. Theorem 4.19: rows are reduced to the span of the means, and
    two of them are told to be of one component when
    :math:`\langle H_t((x - x')/\sqrt 2), M_t \rangle` is small, with :math:`M_t` the moment of
    differences of means. Some rows, the landmarks, are tested with one another; clusters of the
    graph of tests give means, and every row goes to the component that is likeliest under them.

    Parameters
    ----------
    n_components : int, default 2
        The number k of components.
    variance : float, optional
        The common variance :math:`\sigma^2`. By default the mean of the smallest eigenvalues of
        the covariance, which takes ``n_components <= n_features``.
    order : int or "auto", default "auto"
        The even order t of the test. ``"auto"``: that of 2, 4 and 6 with the smallest estimated
        error rates, as far as they are affordable.
    n_landmarks : int or "auto", default "auto"
        Rows that are tested with one another; 40 a component, and at least 400, by default.
    method : {"closed_form", "paper"}, default "closed_form"
        ``"paper"`` estimates the moment by algorithm Implicit-Moment-Estimation and evaluates it
        with auxiliary draws: for comparison, it is slower and takes far more rows.
    n_draws : int, default 100
        Auxiliary draws of ``method="paper"`` for each pair.
    random_state : int, generator or None, default None
        Of the pairs and landmarks.

    Attributes
    ----------
    labels_ : array of int of shape (n_samples,)
        For arrays and data frames in memory; ``predict`` gives those of other rows.
    means_ : array of shape (n_clusters, n_features)
        Means of the rows in each cluster, the heaviest first; fewer than ``n_components`` where
        no more were found.
    weights_ : array of shape (n_clusters,)
    variance_ : float
    order_ : int or None
        The order of the test; None for one component.
    threshold_ : float or None
        Pairs with a smaller statistic are of one component.
    stats_ : dict
        ``split_rate`` and ``merge_rate``, the estimated errors of the test on pairs of one and of
        two components; ``same_rate``, the part of pairs of one; ``separation``, the least distance
        of two means in units of :math:`\sigma`; ``doubt``, the part of the rows that would be put
        wrong if the means were known; ``within_variance``, the largest variance in a cluster over
        that of the noise; ``outliers``; ``n_landmarks``; ``notes``, in words.
    n_features_in_ : int
    feature_names_in_ : array of str of shape (n_features,)
        Where the columns of the rows have names.

    Notes
    -----
    Rows are passed over five times, never held; of at most about a million of them the coordinates
    on the span of the means are held, for pairs and landmarks.

    ``means_``, ``weights_`` and what :meth:`transform` returns have the precision of the rows,
    float32 of float32. Sums over all rows are kept in float64, as is ``variance_``.

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

    def __init__(
        self,
        n_components: int = 2,
        *,
        variance: float | None = None,
        order: int | str = "auto",
        n_landmarks: int | str = "auto",
        method: str = "closed_form",
        n_draws: int = 100,
        random_state: RandomState = None,
    ) -> None:
        self.n_components = n_components
        self.variance = variance
        self.order = order
        self.n_landmarks = n_landmarks
        self.method = method
        self.n_draws = n_draws
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 (scikit-learn passes it)
        sample_weight: Any = None,
        *,
        checkpoint: Checkpoint = None,
        progress: Progress | None = None,
    ) -> SphericalMixtureClusterer:
        """Cluster the rows.

        Parameters
        ----------
        X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
        y : None
            Ignored; for pipelines.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts; 0 leaves it out. Weights above 0 with a mean below 1 are
            scaled to a mean of 1.
        checkpoint : path, optional
            Where a long fit keeps what it has done, to go on from there.
        progress : callable, optional
            Called as ``progress(what, rows_done, rows_total)``.
        """
        how = self._options()
        fewest = FEWEST_ROWS if how.k > 1 else 2
        with open_rows(
            self, X, None, sample_weight, fewest=2, checkpoint=checkpoint, progress=progress
        ) as (source, seed):
            how = replace(how, seed=seed)
            if (source.n_rows or 0) < fewest:
                raise ValueError(
                    f"n_samples={source.n_rows}: the moments of differences take at least "
                    f"{FEWEST_ROWS} rows; use more rows"
                )
            found = fit_clusters(source, how)
            probe = probe_of(source)
        self.means_ = move_like(found.components.means, probe)
        self.weights_ = move_like(found.components.weights, probe)
        self.variance_ = found.components.variance
        self.order_ = None if found.test is None else found.test.order
        self.threshold_ = None if found.test is None else found.test.threshold
        self.stats_ = found.stats
        self.__dict__.pop("labels_", None)  # of a fit before
        if _in_memory(X):
            self.labels_ = self.predict(X)
        tell(found.stats["notes"])
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Cluster the rows and return the label of each, as :meth:`predict` does."""
        if isinstance(X, Iterator):
            raise TypeError(
                "an iterator of blocks is used up by fit, and predict takes the rows again; give "
                "both a fresh iterator"
            )
        self.fit(X, y, sample_weight)
        return self.labels_ if "labels_" in vars(self) else self.predict(X)

    def predict(self, X: Any) -> Array:
        """Return for each row the component that is likeliest under the means and weights.

        In the library of the rows, block by block.
        """
        check_is_fitted(self)
        return answer(self, X, self._components().assign)

    def transform(self, X: Any) -> Array:
        """Return the distance of each row from each mean, of shape (n_samples, n_clusters).

        In the library of the rows, block by block; ``set_output`` makes data frames of them.
        """
        check_is_fitted(self)
        return answer(self, X, self._components().distances)

    @property
    def _n_features_out(self) -> int:
        return int(self.means_.shape[0])

    def _components(self) -> Components:
        """Return means, weights and variance on the host."""
        means, weights = (
            np.asarray(to_numpy(a), dtype=np.float64) for a in (self.means_, self.weights_)
        )
        return Components(means, weights, self.variance_)

    def __getattr__(self, name: str) -> Any:
        """Say why there are no labels after a fit of rows that are not in memory."""
        if name == "labels_" and "means_" in vars(self):
            raise AttributeError(
                "labels_ is kept for rows in memory alone, one number a row; predict(X) gives the "
                "labels of other rows, block by block"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _options(self) -> ClusterOptions:
        """Check the parameters."""
        for name in ("order", "n_landmarks"):
            value = getattr(self, name)
            if isinstance(value, str) and value != "auto":
                raise ValueError(f"{name} is a whole number or 'auto', got {value!r}")
        order = None
        if not isinstance(self.order, str):
            order = check_whole("order", self.order, 2, HIGHEST_ORDER)
            if order % 2:
                raise ValueError(f"order is even, got {order}: odd moments of differences are 0")
        k = check_whole("n_components", self.n_components, 1)
        landmarks = None
        if not isinstance(self.n_landmarks, str):
            landmarks = check_whole("n_landmarks", self.n_landmarks, max(k, 2))
        return ClusterOptions(
            k=k,
            variance=check_variance(self.variance),
            order=order,
            n_landmarks=landmarks,
            method=check_method(self.method),
            n_draws=check_whole("n_draws", self.n_draws, 1),
        )


def _in_memory(X: Any) -> bool:
    """Say whether X is an array, a list or a data frame, rather than rows from elsewhere."""
    if hasattr(X, "__dask_graph__"):
        return False
    held = array_api_compat.is_array_api_obj(X) or isinstance(X, (list, tuple))
    return held or hasattr(X, "to_numpy")
