"""Sums of activations (Theorem 4.7): a polynomial from moments, and the network itself."""

from implicitmoments.activation.estimator import ActivationSumRegressor
from implicitmoments.activation.network import Network, fit_network

__all__ = ["ActivationSumRegressor", "Network", "fit_network"]
