"""4 · Moments: problems, averages over rows, the recursion, and what it returns."""

from implicitmoments.moments.estimate import implicit_moments
from implicitmoments.moments.problem import HermiteProblem, MomentProblem
from implicitmoments.moments.result import ImplicitMoments, Run, StepReport

__all__ = [
    "HermiteProblem",
    "ImplicitMoments",
    "MomentProblem",
    "Run",
    "StepReport",
    "implicit_moments",
]
