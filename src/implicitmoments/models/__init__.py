"""5 · The problems: which circuits and weights estimate which moments."""

from implicitmoments.models.activation import (
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
from implicitmoments.models.activation_sum import ActivationSumProblem
from implicitmoments.models.li_liu import LiLiuMixtureProblem, li_liu_hermite
from implicitmoments.models.mixture import PairwiseDifferenceProblem, SphericalMixtureProblem
from implicitmoments.models.population import PopulationProblem
from implicitmoments.models.quadrature import Quadrature, hermite_coefficients
from implicitmoments.models.regression import RegressionMixtureProblem

__all__ = [
    "NAMED",
    "Activation",
    "ActivationSumProblem",
    "LiLiuMixtureProblem",
    "PairwiseDifferenceProblem",
    "PopulationProblem",
    "Quadrature",
    "RegressionMixtureProblem",
    "SphericalMixtureProblem",
    "absolute",
    "as_activation",
    "cosine",
    "from_function",
    "gelu",
    "hermite_coefficients",
    "leaky_relu",
    "li_liu_hermite",
    "relu",
    "softplus",
    "square",
]
