"""Findings about clusters: what may be wrong with them, and assumptions that they violate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from implicitmoments.clustering.bayes_rule import SETTLED, BayesRule
from implicitmoments.moments.mean_span import SphericalSpan, smallest_variance
from implicitmoments.notes import Note, Notes
from implicitmoments.validation import ROWS_PER_COMPONENT

# From these on there is a note, and below them evidence for the clusters.
WIDE = 1.5  # noise variances: two equal components 2 deviations apart have 2
UNRELIABLE = 0.2  # sum of the error rates of the test; 1 is chance
OVERLAPPING = 0.05  # expected misclassification rate: that of means 3.3 deviations apart
SURE = 3.0  # standard errors by which an assumption may be missed
GIVEN = ("separation", "smallest_weight", "accuracy")  # what Theorem 4.19 is given


def find_notes(
    stats: dict[str, Any],
    span: SphericalSpan,
    rule: BayesRule,
    k: int,
    given: Mapping[str, float | None],
) -> Notes:
    """Return notes on possible errors of the clusters.

    Parameters
    ----------
    stats : dict
        Of the fit.
    k : int
        Number of components that was asked for.
    given : mapping of str to float or None
        The parameters of Theorem 4.19 by name.
    """
    notes, variance = Notes(), span.variance
    if stats["outliers"]:
        notes.append(Note("outliers_dropped", {"n": stats["outliers"]}))
    if stats["rows_used"] < ROWS_PER_COMPONENT * k:
        notes.append(Note("few_rows_per_component", {"n": stats["rows_used"], "k": k}))
    flat = smallest_variance(span, stats["rows_used"])
    if flat is not None:
        notes.append(Note("flat_direction", {"ratio": flat, "variance": variance}))
    if rule.k < k:
        notes.append(Note("fewer_clusters", {"n": rule.k, "k": k}))
    rates = {name: stats.get(name, 0.0) for name in ("split_rate", "merge_rate")}
    if sum(rates.values()) > UNRELIABLE or stats["misclassification_rate"] > OVERLAPPING:
        values = {name: stats[name] for name in ("separation", "misclassification_rate")}
        notes.append(Note("separation_too_small", {**values, **rates}))
    if stats["within_variance"] > WIDE:
        ratio = stats["within_variance"]
        notes.append(Note("cluster_wide", {"ratio": ratio, "variance": variance}))
    notes.extend(_violations(stats, rule, k, given))
    return notes


def _violations(
    stats: dict[str, Any], rule: BayesRule, k: int, given: Mapping[str, float | None]
) -> Iterator[Note]:
    """Yield notes on parameters of the theorem that the clusters do not satisfy."""
    separation, smallest, accuracy = (given[name] for name in GIVEN)
    lightest, n = float(np.min(rule.weights)), stats["rows_used"]
    # errors of a distance along its direction, and of a weight, with this number of rows
    apart = SURE * math.sqrt(2 / (n * lightest))
    if separation is not None and stats["separation"] < separation - apart:
        values = {"found": stats["separation"], "separation": separation}
        yield Note("means_nearer", values)
    if smallest is not None and lightest < smallest - SURE * math.sqrt(smallest / n):
        yield Note("weight_smaller", {"found": lightest, "smallest_weight": smallest})
    if accuracy is not None:
        yield from _inaccuracies(stats, rule.k, k, accuracy)


def _inaccuracies(stats: dict[str, Any], n: int, k: int, accuracy: float) -> Iterator[Note]:
    """Yield notes on an accuracy that is not reached, or may not be, by n of k clusters.

    The expected errors are those of averages of rows whose components are known.
    """
    errors = {name: stats[name] for name in ("mean_error", "weight_error")}
    if max(errors.values()) > accuracy:
        enough = math.ceil(stats["rows_used"] * (max(errors.values()) / accuracy) ** 2)
        yield Note("accuracy_not_reached", {**errors, "accuracy": accuracy, "n": enough})
    rate = stats["misclassification_rate"]
    left = stats["distance_left"]
    if n < k or rate > OVERLAPPING or left > SETTLED * accuracy:
        values = {"accuracy": accuracy, "n": n, "k": k, "rate": rate, "left": left}
        yield Note("accuracy_unknown", values)


def evidence_of(stats: Mapping[str, Any]) -> Iterator[Note]:
    """Yield notes on what speaks for several clusters, by the statistics of a fit."""
    if stats["within_variance"] > WIDE:  # the unit is not the noise then
        return
    yield Note("clusters_spherical", {"ratio": stats["within_variance"]})
    if stats["misclassification_rate"] <= OVERLAPPING:
        values = {"separation": stats["separation"], "rate": stats["misclassification_rate"]}
        yield Note("means_separated", values)
    rates = {"split": stats.get("split_rate", 1.0), "merge": stats.get("merge_rate", 1.0)}
    if sum(rates.values()) <= UNRELIABLE:
        yield Note("pairwise_test_reliable", rates)
