"""Mixtures of any family without restarts: one engine on feature maps."""

from implicitmoments.mixture2.gaussian_mixture import GaussianMixture, start
from implicitmoments.mixture2.regression_mixture import RegressionMixture
from implicitmoments.mixture2.spherical_mixture import SphericalMixture

__all__ = ["GaussianMixture", "RegressionMixture", "SphericalMixture", "start"]
