"""Synthetic data sets for the four problems, each with the truth it was made from."""

from implicitmoments.rows.synthetic import (
    make_activation_sum,
    make_pairwise_differences,
    make_regression_mixture,
    make_spherical_mixture,
)
from implicitmoments.rows.truth import Truth

__all__ = [
    "Truth",
    "make_activation_sum",
    "make_pairwise_differences",
    "make_regression_mixture",
    "make_spherical_mixture",
]
