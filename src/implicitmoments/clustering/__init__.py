"""Clusters by the pairwise test on differences of rows (Theorem 4.19)."""

from implicitmoments.clustering.estimator import SphericalMixtureClusterer

__all__ = ["SphericalMixtureClusterer"]
