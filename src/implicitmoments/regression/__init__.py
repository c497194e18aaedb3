"""Mixtures of linear regressions: global starts, moves and EM."""

from implicitmoments.regression.diagnostics import bound_notes
from implicitmoments.regression.estimator import RegressionMixture
from implicitmoments.regression.family import LineFamily, least_ratio
from implicitmoments.regression.fit import FittedLines, fit_lines
from implicitmoments.regression.initialisation import search_span, unalias
from implicitmoments.regression.lines import (
    Lines,
    Model,
    Standard,
    design_rows,
    responsibilities,
    standardise,
)
from implicitmoments.regression.standard_errors import ScoredLines, line_errors
from implicitmoments.regression.summary import wald

__all__ = [
    "FittedLines",
    "LineFamily",
    "Lines",
    "Model",
    "RegressionMixture",
    "ScoredLines",
    "Standard",
    "bound_notes",
    "design_rows",
    "fit_lines",
    "least_ratio",
    "line_errors",
    "responsibilities",
    "standardise",
]
