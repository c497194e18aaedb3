"""Sums of activations (Theorem 4.7): a polynomial from moments, and the network itself."""

from implicitmoments.activation.estimator import ActivationSumRegressor
from implicitmoments.activation.network import Network, fit_network
from implicitmoments.activation.polynomial import Features, Polynomial, fit_polynomial

__all__ = [
    "ActivationSumRegressor",
    "Features",
    "Network",
    "Polynomial",
    "fit_network",
    "fit_polynomial",
]
