"""Clusters by the pairwise test on differences of rows (Theorem 4.19)."""

from implicitmoments.clustering.estimator import SphericalMixtureClusterer
from implicitmoments.clustering.pair_test import BayesRule

__all__ = [
    "BayesRule",
    "SphericalMixtureClusterer",
]
