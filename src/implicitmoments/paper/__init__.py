"""The paper as printed: one file for each statement, NumPy only, rows in memory."""

from implicitmoments.paper.activation_sums import cosine, learn_activation_sum, relu
from implicitmoments.paper.circuits import hermite, number, power, scalar, vector
from implicitmoments.paper.clustering import cluster_spherical, learn_pair_test
from implicitmoments.paper.estimation import (
    Problem,
    answer,
    hermite_problem,
    implicit_moment_estimation,
    measure_errors,
    rows_in_turn,
)
from implicitmoments.paper.li_liu import li_liu_problem, naive_average
from implicitmoments.paper.projections import evaluate
from implicitmoments.paper.regression_density import learn_regression_density
from implicitmoments.paper.spherical_density import learn_spherical_density

__all__ = [
    "Problem",
    "answer",
    "cluster_spherical",
    "cosine",
    "evaluate",
    "hermite",
    "hermite_problem",
    "implicit_moment_estimation",
    "learn_activation_sum",
    "learn_pair_test",
    "learn_regression_density",
    "learn_spherical_density",
    "li_liu_problem",
    "measure_errors",
    "naive_average",
    "number",
    "power",
    "relu",
    "rows_in_turn",
    "scalar",
    "vector",
]
