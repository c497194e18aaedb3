"""5 · The problems: which circuits and weights estimate which moments."""

from implicitmoments.models.activation import Activation, ActivationSumProblem, cosine, relu
from implicitmoments.models.li_liu import LiLiuMixtureProblem, li_liu_hermite
from implicitmoments.models.mixture import PairwiseDifferenceProblem, SphericalMixtureProblem
from implicitmoments.models.population import PopulationProblem
from implicitmoments.models.regression import RegressionMixtureProblem

__all__ = [
    "Activation",
    "ActivationSumProblem",
    "LiLiuMixtureProblem",
    "PairwiseDifferenceProblem",
    "PopulationProblem",
    "RegressionMixtureProblem",
    "SphericalMixtureProblem",
    "cosine",
    "li_liu_hermite",
    "relu",
]
