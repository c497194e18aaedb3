"""Mixtures of spherical Gaussians: start from moments, search, polish."""

from implicitmoments.mixture.estimator import SphericalMixture

__all__ = ["SphericalMixture"]
