"""Estimators with the manners of scikit-learn. Thin: what they compute is in ``fitting``."""

from implicitmoments.learners.activation import ActivationSumRegressor
from implicitmoments.learners.clustering import SphericalMixtureClusterer
from implicitmoments.learners.mixture import SphericalMixture
from implicitmoments.learners.mixture_density import SphericalMixtureDensity
from implicitmoments.learners.regression import RegressionMixture
from implicitmoments.learners.regression_density import RegressionMixtureDensity
from implicitmoments.learners.warnings import AssumptionWarning

__all__ = [
    "ActivationSumRegressor",
    "AssumptionWarning",
    "RegressionMixture",
    "RegressionMixtureDensity",
    "SphericalMixture",
    "SphericalMixtureClusterer",
    "SphericalMixtureDensity",
]
