"""Mixtures of spherical Gaussians: initialisation from moments, search, EM on all rows."""

from implicitmoments.mixture.diagnostics import FEWEST_ROWS, measure_within
from implicitmoments.mixture.estimator import SphericalMixture
from implicitmoments.mixture.family import SphericalFamily, VarianceModel
from implicitmoments.mixture.fit import scattered_mixture, without_outliers
from implicitmoments.mixture.incremental import begin_stream, begin_sums, continue_stream
from implicitmoments.mixture.likelihood import Mixture, e_step, log_densities, log_joint
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, smallest_variance

__all__ = ["SphericalMixture", "SphericalSpan", "find_span", "smallest_variance"]
