"""Mixtures of any family without restarts: one engine on feature maps."""

from implicitmoments.mixture.gaussian_mixture import GaussianMixture, start
from implicitmoments.mixture.regression_mixture import RegressionMixture
from implicitmoments.mixture.spherical_mixture import SphericalMixture
from implicitmoments.mixture.table_mixture import TableMixture

__all__ = ["GaussianMixture", "RegressionMixture", "SphericalMixture", "TableMixture", "start"]
