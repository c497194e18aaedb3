"""Densities as clipped polynomials times a Gaussian (Theorems 4.16 and 4.22)."""

from implicitmoments.density.regression_mixture_density import RegressionMixtureDensity
from implicitmoments.density.spherical_mixture_density import SphericalMixtureDensity

__all__ = ["RegressionMixtureDensity", "SphericalMixtureDensity"]
