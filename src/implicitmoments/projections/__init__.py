"""3 · Projections: recursive pseudo-projections, and circuits evaluated through them."""

from implicitmoments.projections.dense import evaluate_dense, hermite_dense, project_dense
from implicitmoments.projections.evaluate import Batch, evaluate, evaluate_split, read_inputs
from implicitmoments.projections.recursive import RecursiveProjection, Step

__all__ = ["RecursiveProjection", "evaluate", "evaluate_dense", "hermite_dense", "project_dense"]
