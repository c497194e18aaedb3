"""Moments of any order: problems, one recursion, answers to queries and components."""

from implicitmoments.moments.activations import (
    Activation,
    ActivationSumProblem,
    as_activation,
    cosine,
    leaky_relu,
)
from implicitmoments.moments.components import Components
from implicitmoments.moments.implicit import ImplicitMoments, implicit_moments
from implicitmoments.moments.problems import (
    HermiteProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
)

__all__ = [
    "Activation",
    "ActivationSumProblem",
    "Components",
    "HermiteProblem",
    "ImplicitMoments",
    "PairwiseDifferenceProblem",
    "RegressionMixtureProblem",
    "SphericalMixtureProblem",
    "as_activation",
    "cosine",
    "implicit_moments",
    "leaky_relu",
]
