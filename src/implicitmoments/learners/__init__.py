"""Estimators with the manners of scikit-learn. Thin: what they compute is in ``fitting``."""

from implicitmoments.learners.mixture import SphericalMixture
from implicitmoments.learners.warnings import AssumptionWarning

__all__ = ["AssumptionWarning", "SphericalMixture"]
