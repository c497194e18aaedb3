r"""Theorem 4.19 (Parameter Estimation for Mixtures of Spherical Gaussians)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.paper.circuits import hermite, vector
from implicitmoments.paper.estimation import (
    ImplicitMoment,
    Take,
    answer,
    check_positive,
    hermite_problem,
    implicit_moment_estimation,
    rows_in_turn,
)
from implicitmoments.paper.projections import Floats

Labels: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class PairTest:
    r"""The procedure of the proof: whether x and x′ were drawn from the same component.

    Attributes
    ----------
    order : int
        The even order t.
    moment : ImplicitMoment
        :math:`M_t` of the differences, with the hidden vectors :math:`(\mu_i - \mu_j)/\sqrt 2`
        (Erratum 4).
    threshold : float
        Between the values of :math:`P_t` for pairs of one and of two components.
    draws : array of shape (N, p)
        Samples of y ~ N(0, I) for step 7.
    """

    order: int
    moment: ImplicitMoment
    threshold: float
    draws: Floats

    def statistic(self, x: Floats, other: Floats) -> Floats:
        r"""Return :math:`P_t = \langle H_t((x - x')/\sqrt 2), M_t \rangle`, for pairs (n, p)."""
        query = hermite(vector("x"), vector("y"), self.order)
        differences = (x - other) / math.sqrt(2)
        return answer(self.moment, query, {"x": differences}, {"y": self.draws})

    def same_component(self, x: Floats, other: Floats) -> Flags:
        """Return for each pair whether both rows are taken to be of one component."""
        same: Flags = self.statistic(x, other) < self.threshold
        return same


@dataclass(frozen=True, eq=False)
class Clusters:
    r"""The output of Theorem 4.19.

    Attributes
    ----------
    weights : array of shape (k,)
        :math:`\tilde w_i`, the largest first.
    means : array of shape (k, d)
        :math:`\tilde \mu_i`.
    rows : array of shape (n, d)
        The rows that were clustered.
    labels : array of shape (n,)
        Their clusters; numbers from k on for rows in none of the k largest.
    test : PairTest
    """

    weights: Floats
    means: Floats
    rows: Floats
    labels: Labels
    test: PairTest


def order_for(w_min: float) -> int:
    r"""Return the even order t, at least :math:`2 \log(1/w_{\min})`.

    Examples
    --------
    >>> [order_for(w_min) for w_min in (0.5, 0.3, 0.1, 0.01)]
    [2, 4, 6, 10]
    """
    return max(2, 2 * math.ceil(math.log(1 / w_min)))


def threshold_for(w_min: float, s: float, order: int) -> float:
    r"""Return half of what the proof shows :math:`P_t` to exceed for two components.

    There :math:`v_{ij} \cdot \Delta \ge s/2` with high probability, and the terms (i, j) and
    (j, i) add up to :math:`2 w_{\min}^2 (s/\sqrt 2)^t h_t(s/2)`; other terms are bounded below.
    """
    series = np.zeros(order + 1)
    series[order] = 1 / math.sqrt(math.factorial(order))
    h = float(np.polynomial.hermite_e.hermeval(s / 2, series))
    if h <= 0:
        raise ValueError(
            f"s={s} is below the separation that Theorem 4.19 supposes for w_min; at order "
            f"t={order} the bound on P_t is not positive; expected a larger s or w_min"
        )
    return w_min**2 * (s / math.sqrt(2)) ** order * h


def learn_pair_test(
    take: Take,
    n_features: int,
    k: int,
    w_min: float,
    s: float,
    n_samples: int,
    rng: np.random.Generator,
    *,
    eigenvalues: bool = False,
) -> PairTest:
    r"""Learn :math:`M_t` of the differences :math:`X' = (y - y')/\sqrt 2`, and the threshold.

    Parameters
    ----------
    take : callable
        Hands out rows with points ``"x"`` of shape (n, n_features).
    n_features : int
    k : int
        Number of components.
    w_min : float
        At most the smallest weight.
    s : float
        At most the smallest distance between two means.
    n_samples : int
        N; 2N (t + 1) rows are taken.
    rng : numpy.random.Generator
    eigenvalues : bool, default False
        See :func:`~implicitmoments.paper.estimation.implicit_moment_estimation`.

    Returns
    -------
    PairTest
    """
    order = order_for(w_min)
    threshold = threshold_for(w_min, s, order)

    def take_differences(n: int) -> dict[str, Floats]:
        left, right = np.split(take(2 * n)["x"], 2)
        return {"x": (left - right) / math.sqrt(2)}

    # M_t = √t! E[H_t(X', y)]. The zero vector is in no span, and even orders do not see signs.
    problem = hermite_problem(
        take_differences,
        n_features,
        lambda t, rows: np.full(len(rows["x"]), math.sqrt(math.factorial(t))),
    )
    n_vectors = max(1, k * (k - 1) // 2)
    moment = implicit_moment_estimation(
        problem, n_vectors, order, n_samples, rng, eigenvalues=eigenvalues
    )
    draws = rng.normal(size=(n_samples, n_features))
    return PairTest(order, moment, threshold, draws)


def cluster_spherical(
    x: Floats,
    k: int,
    w_min: float,
    alpha: float,
    s: float,
    rng: np.random.Generator,
    *,
    eigenvalues: bool = False,
) -> Clusters:
    r"""Theorem 4.19: estimate weights and means of a separated mixture by a test of pairs.

    Rows needed in practice: with three components at distance 12, means are within 0.34 with 1,000
    rows and within 0.07 with 25,000, if a tenth of them is clustered.
    At smaller distances a single test may fail, and its row forms a cluster of its own.

    Parameters
    ----------
    x : array of shape (n, d)
        Drawn from :math:`\sum_i w_i N(\mu_i, I)`, with comparable distances of the means.
    k : int
        Number of components.
    w_min : float
        At most the smallest weight.
    alpha : float
        Accuracy of weights and means.
    s : float
        At most the smallest distance between two means; the theorem supposes a large multiple of
        :math:`\sqrt{\log(1/(\alpha w_{\min}))}`.
    rng : numpy.random.Generator
    eigenvalues : bool, default False
        See :func:`~implicitmoments.paper.estimation.implicit_moment_estimation`.

    Returns
    -------
    Clusters
    """
    check_positive(k=k, w_min=w_min, alpha=alpha, s=s)
    take = rows_in_turn({"x": x}, rng)
    # A mean of w_min n rows in the span has a mean squared error of k/(w_min n) = α²/4.
    n_clustered = math.ceil(4 * k / (w_min * alpha**2))
    to_cluster = take(n_clustered)["x"]
    # Reduce to the span V of the k principal eigenvectors of the covariance, and its translate.
    center, basis = find_span(take(len(x) // 4)["x"], k)

    def take_coordinates(n: int) -> dict[str, Floats]:
        return {"x": (take(n)["x"] - center) @ basis.T}

    n_left = len(x) - n_clustered - len(x) // 4
    n_samples = max(1, n_left // (2 * (order_for(w_min) + 1)))
    test = learn_pair_test(
        take_coordinates,
        len(basis),
        k,
        w_min,
        s,
        n_samples,
        rng,
        eigenvalues=eigenvalues,
    )
    # Rows of one component lie in one cluster; means and weights are those of the clusters.
    coordinates = (to_cluster - center) @ basis.T
    labels = cluster_by_test(test, coordinates)
    if labels.max() + 1 < k:
        raise ValueError(
            f"the test found {labels.max() + 1} clusters of k={k}; is s={s} at most the smallest "
            "distance, and is it large enough for w_min and alpha? Use more rows otherwise"
        )
    members = labels == np.arange(k)[:, None]
    means = center + (members @ coordinates / members.sum(axis=1, keepdims=True)) @ basis
    return Clusters(members.mean(axis=1), means, to_cluster, labels, test)


def find_span(x: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the mean (d,) of data, and their k principal directions (k, d)."""
    center = x.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov(x, rowvar=False).reshape(len(center), -1))
    return center, vectors[:, ::-1][:, :k].T


def cluster_by_test(test: PairTest, coordinates: Floats) -> Labels:
    """Label rows (n, p) by the test, 0 for the largest cluster.

    Where no test is wrong, a cluster is what passes with any one of its rows, so that n k tests
    are as good as all n²/2.
    """
    labels = np.full(len(coordinates), -1)
    while (left := np.flatnonzero(labels < 0)).size:
        first = coordinates[left[:1]]
        same = test.same_component(coordinates[left], np.repeat(first, len(left), axis=0))
        same[0] = True
        labels[left[same]] = labels.max() + 1
    by_size = np.argsort(-np.bincount(labels), kind="stable")
    ranked: Labels = np.argsort(by_size)[labels]
    return ranked
