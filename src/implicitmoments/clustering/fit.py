"""Parameter estimation under separation: the algorithm of Theorem 4.19, from rows to clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.clustering.graph_clusters import cluster_graph
from implicitmoments.clustering.nearest_mean import (
    Components,
    Within,
    cluster_moments,
    move_means,
    spread_within,
)
from implicitmoments.clustering.pairwise_test import (
    PairwiseTest,
    choose_test,
    difference_moments,
    hold_rows,
    random_differences,
    same_matrix,
    usable_orders,
)
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, flat_directions
from implicitmoments.moments.spectra import account_of_span, second_moment_floor
from implicitmoments.rows import Source
from implicitmoments.rows.outliers import check_enough, near_rows

__all__ = ["ClusterFit", "ClusterOptions", "fit_clusters"]

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
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ClusterFit:
    """Components, and the test that found them.

    Attributes
    ----------
    components : Components
    test : PairwiseTest or None
        None for one component.
    stats : dict
    """

    components: Components
    test: PairwiseTest | None
    stats: dict[str, Any]


def fit_clusters(source: Source, how: ClusterOptions) -> ClusterFit:
    """Reduce to the span of the means, test pairs, cluster, and average the clusters."""
    near = near_rows(source, times=FAR)
    check_enough(near, how.k)
    rows = near.rows
    span = find_span(rows, how.k, how.variance, near.center)
    test, means, n_landmarks = _find_means(rows, span, how)
    # The span holds all that tells rows apart; labels and means are then taken in all features.
    found = Components(means, np.full(len(means), 1.0 / len(means)), span.variance)
    for _ in range(2):
        found = move_means(rows, found)
    found = found.heaviest_first()
    within = spread_within(rows, found, span)
    stats: dict[str, Any] = {
        "method": how.method,
        "n_landmarks": n_landmarks,
        "separation": _separation(found.means) / span.sigma,
        "doubt": within.doubt,
        "within_variance": _widest(within, span.p),
        "rows_used": near.n_rows,
        "outliers": near.n_far,
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
    stats["notes"] = _warnings(stats, span, found.k, how)
    return ClusterFit(found, test, stats)


def _find_means(
    rows: Source, span: SphericalSpan, how: ClusterOptions
) -> tuple[PairwiseTest | None, Floats, int]:
    """Cluster some rows by the pairwise test, and return the means of their clusters."""
    if how.k == 1:
        return None, span.center[None, :], 0
    orders = usable_orders(how.k, span.p) if how.order is None else (how.order,)
    held = hold_rows(rows, span, how.seed)
    moments = {
        order: difference_moments(held, how.k, order, method=how.method, seed=how.seed)
        for order in orders
    }
    pairs = random_differences(held, how.seed)
    test = choose_test(moments, pairs, n_draws=how.n_draws, seed=how.seed)
    n = len(held.numbers)
    wanted = how.n_landmarks or max(FEWEST_LANDMARKS, LANDMARKS * how.k)
    rng = np.random.default_rng(how.seed)
    chosen = rng.choice(n, size=min(n, wanted), replace=False, p=held.chances)
    labels = cluster_graph(same_matrix(test, held.take(chosen)), how.k)
    order = np.argsort(chosen)
    picked = rows.pick(held.numbers[chosen[order]], what="landmarks")["x"]
    points = np.asarray(to_numpy(picked), dtype=np.float64)
    means, _ = cluster_moments(points, labels[order], int(np.max(labels)) + 1)
    return test, means, len(chosen)


def _separation(means: Floats) -> float:
    if len(means) < 2:
        return math.inf
    apart = np.linalg.norm(means[:, None] - means[None], axis=2)
    return float(np.min(apart[np.triu_indices(len(means), 1)]))


def _widest(within: Within, p: int) -> float:
    """Return the largest variance within a cluster, on the span, over what noise would have."""
    largest = 1.0
    for covariance, n in zip(within.covariances, within.there, strict=True):
        if p == 0 or n < 2 * p + 10:  # too few to tell
            continue
        # the largest eigenvalue of the covariance of n standard normal rows
        usual = (1.0 + math.sqrt(p / n)) ** 2
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
