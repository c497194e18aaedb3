"""Mixtures of Gaussians: starts that compete, search, EM on all rows."""

from implicitmoments.mixture.diagnostics import ROWS_FOR_WIDTH, measure_within
from implicitmoments.mixture.expansion import log_densities, log_joint
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.far_groups import far_groups
from implicitmoments.mixture.fit import search_again
from implicitmoments.mixture.gaussian import GaussianMixture
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.mixture.incremental import begin_stream, continue_stream
from implicitmoments.mixture.initial_parameters import InitialParameters, start
from implicitmoments.mixture.spherical import SphericalMixture
from implicitmoments.mixture.standard_errors import ScoredGaussians, standard_errors
from implicitmoments.mixture.starts import Options
from implicitmoments.mixture.view import make_view
from implicitmoments.moments.mean_span import SphericalSpan, find_span, smallest_variance

__all__ = [
    "GaussianMixture",
    "SphericalMixture",
    "SphericalSpan",
    "find_span",
    "smallest_variance",
    "start",
]
