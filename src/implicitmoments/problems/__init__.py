"""5 · Problems: circuits and weights whose means are the moments of a model."""

from implicitmoments.problems.activation_sum import ActivationSumProblem
from implicitmoments.problems.activations import (
    NAMED,
    Activation,
    absolute,
    as_activation,
    cosine,
    from_function,
    gelu,
    leaky_relu,
    relu,
    softplus,
    square,
)
from implicitmoments.problems.hermite_quadrature import Quadrature, hermite_coefficients
from implicitmoments.problems.li_liu import (
    LiLiuMixtureProblem,
    li_liu_hermite,
    li_liu_names,
    li_liu_variance,
)
from implicitmoments.problems.linear_regressions import (
    RegressionMixtureProblem,
    monic_polynomial,
    recurrence_from_moments,
)
from implicitmoments.problems.spherical_mixture import (
    PairwiseDifferenceProblem,
    PopulationProblem,
    SphericalMixtureProblem,
)

__all__ = [
    "Activation",
    "ActivationSumProblem",
    "LiLiuMixtureProblem",
    "PairwiseDifferenceProblem",
    "PopulationProblem",
    "RegressionMixtureProblem",
    "SphericalMixtureProblem",
    "as_activation",
    "cosine",
    "from_function",
    "leaky_relu",
]
