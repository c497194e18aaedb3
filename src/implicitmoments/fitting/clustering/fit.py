"""Parameter estimation under separation: the algorithm of Theorem 4.19, from rows to clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.clustering.graph_clusters import cluster_graph
from implicitmoments.fitting.clustering.nearest_mean import assign, cluster_moments
from implicitmoments.fitting.clustering.pairwise_test import (
    PairwiseTest,
    choose_test,
    difference_moments,
    random_differences,
    same_matrix,
    usable_orders,
)
from implicitmoments.fitting.spectra import account_of_span, second_moment_floor
from implicitmoments.fitting.spherical.span import (
    SphericalSpan,
    find_span,
    flat_directions,
    near_rows,
)

__all__ = ["ClusterFit", "ClusterOptions", "fit_clusters"]

Labels: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

LANDMARKS = 40  # rows a component that are tested with one another
FEWEST_LANDMARKS = 400
FAR = 10.0  # times the usual distance from the median, and a row is an outlier
UNSURE = 0.2  # sum of the error rates from which the test is not to be trusted
DOUBTFUL = 0.05  # part of the rows that the rule of Bayes would put wrong
WIDE = 1.5  # times the noise, and a cluster holds more than one component


@dataclass(frozen=True)
class ClusterOptions:
    """How clusters are found.

    Attributes
    ----------
    k : int
    variance : float or None
    order : int or None
        None to choose it from the rows.
    n_landmarks : int or None
    method : str
    n_draws, seed : int
    """

    k: int
    variance: float | None
    order: int | None
    n_landmarks: int | None
    method: str
    n_draws: int
    seed: int


@dataclass(frozen=True, eq=False)
class ClusterFit:
    """Components, and the test that found them.

    Attributes
    ----------
    means : array of shape (k, d)
    weights : array of shape (k,)
    labels : array of int of shape (n,)
    variance : float
    test : PairwiseTest or None
        None for one component.
    stats : dict
    """

    means: Floats
    weights: Floats
    labels: Labels
    variance: float
    test: PairwiseTest | None
    stats: dict[str, Any]


def fit_clusters(X: Floats, sample_weight: Floats | None, how: ClusterOptions) -> ClusterFit:
    """Reduce to the span of the means, test pairs, cluster, and average the clusters."""
    near = near_rows(X, sample_weight, times=FAR)
    rows = X if np.all(near) else X[near]
    counts = None if sample_weight is None else sample_weight[near]
    span = find_span(rows, how.k, how.variance, counts)
    test, means, n_landmarks = _find_means(rows, span, counts, how)
    # The span holds all that tells rows apart; labels and means are then taken in all features.
    weights = np.full(len(means), 1.0 / len(means))
    for _ in range(2):
        labels = assign(rows, means, weights, span.variance).labels
        means, weights = cluster_moments(rows, labels, len(means), counts)
        means, weights = means[weights > 0], weights[weights > 0]
    everywhere = assign(X, means, weights, span.variance)
    kept = everywhere.labels[near]
    stats: dict[str, Any] = {
        "method": how.method,
        "n_landmarks": n_landmarks,
        "separation": _separation(means) / span.sigma,
        "doubt": float(np.average(everywhere.doubt[near], weights=counts)),
        "within_variance": _within(rows, kept, span, means, counts),
        "rows_used": len(rows),
        "outliers": len(X) - len(rows),
    }
    if test is not None:
        stats |= {
            "order": test.order,
            "threshold": test.threshold,
            "split_rate": test.split_rate,
            "merge_rate": test.merge_rate,
            "same_rate": test.same_rate,
        }
    floor = second_moment_floor(len(span.spectrum), stats["rows_used"])
    stats |= account_of_span(span.spectrum - 1, span.p, floor)
    stats["warnings"] = _warnings(stats, span, len(means), how)
    return ClusterFit(means, weights, everywhere.labels, span.variance, test, stats)


def _find_means(
    X: Floats, span: SphericalSpan, counts: Floats | None, how: ClusterOptions
) -> tuple[PairwiseTest | None, Floats, int]:
    """Cluster some rows by the pairwise test, and return the means of their clusters."""
    if how.k == 1:
        return None, span.center[None, :], 0
    orders = usable_orders(how.k, span.p) if how.order is None else (how.order,)
    moments = {
        order: difference_moments(
            X, span, how.k, order, sample_weight=counts, method=how.method, seed=how.seed
        )
        for order in orders
    }
    pairs = random_differences(X, span, counts, how.seed)
    test = choose_test(moments, pairs, n_draws=how.n_draws, seed=how.seed)
    usable = len(X) if counts is None else int(np.sum(counts > 0))
    wanted = how.n_landmarks or max(FEWEST_LANDMARKS, LANDMARKS * how.k)
    chances = None if counts is None else counts / np.sum(counts)
    rng = np.random.default_rng(how.seed)
    chosen = rng.choice(len(X), size=min(usable, wanted), replace=False, p=chances)
    labels = cluster_graph(same_matrix(test, span.coordinates(X[chosen])), how.k)
    means, _ = cluster_moments(X[chosen], labels, int(np.max(labels)) + 1)
    return test, means, len(chosen)


def _separation(means: Floats) -> float:
    if len(means) < 2:
        return math.inf
    apart = np.linalg.norm(means[:, None] - means[None], axis=2)
    return float(np.min(apart[np.triu_indices(len(means), 1)]))


def _within(
    X: Floats, labels: Labels, span: SphericalSpan, means: Floats, counts: Floats | None
) -> float:
    """Return the largest variance within a cluster, on the span, over what noise would have."""
    largest = 1.0
    for c, mean in enumerate(means):
        rows = np.flatnonzero(labels == c)
        moved = (X[rows] - mean) @ span.basis.T / span.sigma
        if span.p == 0 or len(rows) < 2 * span.p + 10:  # too few to tell
            continue
        weight = np.ones(len(rows)) if counts is None else counts[rows]
        covariance = (moved * weight[:, None]).T @ moved / np.sum(weight)
        # the largest eigenvalue of the covariance of n standard normal rows
        usual = (1.0 + math.sqrt(span.p / len(rows))) ** 2
        largest = max(largest, float(np.linalg.eigvalsh(covariance)[-1]) / usual)
    return largest


def _warnings(
    stats: dict[str, Any], span: SphericalSpan, n_found: int, how: ClusterOptions
) -> list[str]:
    said = []
    if stats["outliers"]:
        said.append(
            f"{stats['outliers']} row(s) lie more than {FAR:g} times as far from the others as is "
            "usual; they were left out of the fit and labelled by the nearest mean"
        )
    flat = flat_directions(span, stats["rows_used"])
    if flat is not None:
        said.append(
            f"the rows have {flat:.2g} of the noise variance {span.variance:.3g} along some "
            "direction; remove constant or dependent columns, scale the columns alike, or give "
            "another variance"
        )
    if n_found < how.k:
        said.append(f"{n_found} clusters were found and n_components={how.k} asked for")
    errors = stats.get("split_rate", 0.0) + stats.get("merge_rate", 0.0)
    if errors > UNSURE or stats["doubt"] > DOUBTFUL:
        said.append(
            f"the separation is too small to cluster by pairs: the nearest means found are "
            f"{stats['separation']:.1f} noise deviations apart, the test of a pair errs on "
            f"{stats.get('split_rate', 0.0):.1%} of pairs of one component and "
            f"{stats.get('merge_rate', 0.0):.1%} of pairs of two, and {stats['doubt']:.1%} of the "
            "rows would be put wrong even if the means were known; use SphericalMixture"
        )
    if stats["within_variance"] > WIDE:
        said.append(
            f"a cluster has {stats['within_variance']:.1f} times the variance of the noise along "
            "some direction: it holds more than one component, some distances between means are "
            "far larger than others, or the variance is larger than "
            f"{span.variance:.3g}; use more components, SphericalMixture, or another variance"
        )
    return said
