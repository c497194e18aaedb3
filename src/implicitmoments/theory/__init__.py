"""Sample sizes, time and errors that the proofs of the paper give, with explicit constants."""

from implicitmoments.theory.applications import (
    activation_bound,
    mixture_density_bound,
    regression_density_bound,
)
from implicitmoments.theory.clustering import clustering_bound, least_separation
from implicitmoments.theory.hermite_variance import log10_hermite_second_moment
from implicitmoments.theory.proposition import Bound, error_bound, moment_bound

__all__ = [
    "Bound",
    "activation_bound",
    "clustering_bound",
    "error_bound",
    "least_separation",
    "log10_hermite_second_moment",
    "mixture_density_bound",
    "moment_bound",
    "regression_density_bound",
]
