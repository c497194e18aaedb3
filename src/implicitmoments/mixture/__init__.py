"""Mixtures of spherical Gaussians: start from moments, search, polish."""

from implicitmoments.mixture.estimator import SphericalMixture
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, smallest_variance

__all__ = ["SphericalMixture", "SphericalSpan", "find_span", "smallest_variance"]
