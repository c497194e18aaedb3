"""Mixtures of spherical Gaussians: initialisation from moments, search, EM on all rows."""

from implicitmoments.mixture.estimator import SphericalMixture
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, smallest_variance

__all__ = ["SphericalMixture", "SphericalSpan", "find_span", "smallest_variance"]
