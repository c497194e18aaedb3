"""Positive sums of activations (Theorem 4.7)."""

from implicitmoments.activation.estimator import ActivationSumRegressor
from implicitmoments.activation.hypothesis import fit_polynomial
from implicitmoments.activation.least_squares import fit_network
from implicitmoments.activation.network import Network
from implicitmoments.activation.polynomial import Features, Polynomial
from implicitmoments.problems.activation_sum import degree_for

__all__ = [
    "ActivationSumRegressor",
    "Features",
    "Network",
    "Polynomial",
    "degree_for",
    "fit_network",
    "fit_polynomial",
]
