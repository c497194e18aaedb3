"""Estimators with the manners of scikit-learn. Thin: what they compute is in ``fitting``."""

from implicitmoments.learners.activation import ActivationSumRegressor
from implicitmoments.learners.warnings import AssumptionWarning

__all__ = ["ActivationSumRegressor", "AssumptionWarning"]
