"""Summary of a fitted clusterer: findings, parameters, evidence and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.stats import chi

from implicitmoments.arrays import Floats
from implicitmoments.estimator import Fact
from implicitmoments.mixture.summary import OVERLAP, MeansSummary
from implicitmoments.notes import Note
from implicitmoments.picture_data import Distribution, FitView, RowSample

WIDE = 1.5  # noise variances from which a cluster may contain several (starting value)
UNRELIABLE = 0.2  # sum of the error rates of the test; 1 is chance (starting value)
OVERLAPPING = 0.05  # expected misclassification rate (starting value)


class ClustererSummary(MeansSummary):
    """Data of a ``SphericalMixtureClusterer`` for the report and the pictures."""

    kind = "clusters"
    fewest_rows = 2
    answers: ClassVar[Mapping[str, str]] = {"labels": "predict"}
    component = "cluster"
    results = ("n_components_", "weights_", "means_", "variance_", "order_")
    saved: ClassVar[Mapping[str, Any]] = {"weights_": Floats, "means_": Floats, "variance_": float}
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

    def _title(self) -> str:
        k = self._k()
        return "one spherical cluster" if k == 1 else f"{k:,} spherical clusters"

    def _evidence(self) -> list[Fact]:
        """Return evidence for the clusters; evidence against them is in the notes of the fit."""
        stats = self.stats_
        if self._k() == 1 or stats["within_variance"] > WIDE:  # the unit is not the noise then
            return []
        facts = [Fact(True, Note("clusters_spherical", {"ratio": stats["within_variance"]}))]
        if stats["misclassification_rate"] <= OVERLAPPING:
            values = {"separation": stats["separation"], "rate": stats["misclassification_rate"]}
            facts.append(Fact(True, Note("means_separated", values)))
        rates = {"split": stats.get("split_rate", 1.0), "merge": stats.get("merge_rate", 1.0)}
        if sum(rates.values()) <= UNRELIABLE:
            facts.append(Fact(True, Note("pairwise_test_reliable", rates)))
        return facts

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
