"""Mixtures of linear regressions: from a global start to the maximum of the likelihood."""

from implicitmoments.regression.estimator import RegressionMixture

__all__ = ["RegressionMixture"]
