"""Clusters by the pairwise test on differences of rows (Theorem 4.19)."""

from implicitmoments.clustering.bayes_rule import BayesRule, measure_clusters, reassign_rows
from implicitmoments.clustering.estimator import SphericalMixtureClusterer

__all__ = [
    "BayesRule",
    "SphericalMixtureClusterer",
    "measure_clusters",
    "reassign_rows",
]
