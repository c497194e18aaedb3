"""Mixtures of Gaussians: initialisation from moments, search, EM on all rows."""

from implicitmoments.mixture.diagnostics import ROWS_FOR_WIDTH, measure_within
from implicitmoments.mixture.estimator import SphericalMixture
from implicitmoments.mixture.family import Mixture, SphericalFamily, log_densities, log_joint
from implicitmoments.mixture.fit import far_groups, one_less_suffices, without_outliers
from implicitmoments.mixture.gaussian import GaussianMixture
from implicitmoments.mixture.incremental import begin_stream, begin_sums, continue_stream
from implicitmoments.mixture.initialisation import kmeans_mixture
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, smallest_variance

__all__ = [
    "GaussianMixture",
    "SphericalMixture",
    "SphericalSpan",
    "find_span",
    "smallest_variance",
]
