"""Mixtures of linear regressions: global starts, moves and EM."""

from implicitmoments.regression.estimator import RegressionMixture
from implicitmoments.regression.family import LineFamily
from implicitmoments.regression.fit import fit_lines, search_span, unalias
from implicitmoments.regression.likelihood import Lines, Model, responsibilities
from implicitmoments.regression.standard_errors import covariances, information
from implicitmoments.regression.standardise import Standard, design_rows, standardise
from implicitmoments.regression.summary import wald

__all__ = [
    "LineFamily",
    "Lines",
    "Model",
    "RegressionMixture",
    "Standard",
    "covariances",
    "design_rows",
    "fit_lines",
    "information",
    "responsibilities",
    "standardise",
]
