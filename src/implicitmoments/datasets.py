"""Synthetic data sets for the four problems, each with its true parameters."""

from implicitmoments.rows.synthetic import (
    Truth,
    make_activation_sum,
    make_pairwise_differences,
    make_regression_mixture,
    make_spherical_mixture,
)

__all__ = [
    "Truth",
    "make_activation_sum",
    "make_pairwise_differences",
    "make_regression_mixture",
    "make_spherical_mixture",
]
