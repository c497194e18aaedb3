"""Sums of activations: the polynomial of Theorem 4.7, its coefficients, and the network itself."""

from implicitmoments.activation.estimator import ActivationSumRegressor

__all__ = ["ActivationSumRegressor"]
