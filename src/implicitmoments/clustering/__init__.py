"""Clusters by the pairwise test on differences of rows (Theorem 4.19)."""

from implicitmoments.clustering.bayes_rule import (
    BayesRule,
    cluster_moments,
    measure_clusters,
    reassign_rows,
)
from implicitmoments.clustering.estimator import SphericalMixtureClusterer
from implicitmoments.clustering.pairwise_test import (
    PairwiseTest,
    affordable_orders,
    choose_test,
    cluster_graph,
    difference_moments,
    hold_coordinates,
    random_differences,
    same_matrix,
)

__all__ = [
    "BayesRule",
    "PairwiseTest",
    "SphericalMixtureClusterer",
    "affordable_orders",
    "choose_test",
    "cluster_graph",
    "cluster_moments",
    "difference_moments",
    "hold_coordinates",
    "measure_clusters",
    "random_differences",
    "reassign_rows",
    "same_matrix",
]
