"""4 · Moments: problems, averages over rows, the recursions and their results."""

from implicitmoments.moments.decode import Components
from implicitmoments.moments.estimate import implicit_moments
from implicitmoments.moments.problem import HermiteProblem, MomentProblem
from implicitmoments.moments.result import ClosedFormMoments, ImplicitMoments, PaperMoments
from implicitmoments.moments.subspace import Run, StepReport

__all__ = [
    "ClosedFormMoments",
    "Components",
    "HermiteProblem",
    "MomentProblem",
    "PaperMoments",
    "implicit_moments",
]
