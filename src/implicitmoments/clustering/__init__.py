"""Clusters by the pairwise test on differences of rows (Theorem 4.19)."""

from implicitmoments.clustering.bayes_rule import (
    BayesRule,
    cluster_moments,
    measure_clusters,
    reassign_rows,
)
from implicitmoments.clustering.estimator import SphericalMixtureClusterer

__all__ = [
    "BayesRule",
    "SphericalMixtureClusterer",
    "cluster_moments",
    "measure_clusters",
    "reassign_rows",
]
