"""4 · Moments: problems, averages over rows, the recursions and their results."""

from implicitmoments.moments.chain import Frame, SymmetricChain
from implicitmoments.moments.closed_form import BalancedMoments, noise_floor, split_order
from implicitmoments.moments.components import Components
from implicitmoments.moments.estimate import implicit_moments
from implicitmoments.moments.hermite_problem import FramedRows, HermiteProblem
from implicitmoments.moments.implicit import (
    Run,
    StepReport,
    distances_to_truth,
    projected_moment,
)
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.moments.result import ClosedFormMoments, ImplicitMoments, PaperMoments
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.moments.subspace import top_subspace

__all__ = [
    "ClosedFormMoments",
    "Components",
    "HermiteProblem",
    "MomentProblem",
    "PaperMoments",
    "implicit_moments",
]
