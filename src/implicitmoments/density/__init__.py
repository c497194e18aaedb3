"""Densities as clipped polynomials times a Gaussian (Theorems 4.16 and 4.22)."""

from implicitmoments.density.clipped_density import (
    ClippedDensity,
    Probe,
    choose_clip,
    clip_expansion,
    evaluate_rows,
    held_out_logs,
    kolmogorov_distance,
    least_degree,
)
from implicitmoments.density.expansion import (
    GradedExpansion,
    GradedMoments,
    JointExpansion,
    average_moments,
    expand_labels,
    expand_means,
    graded_answers,
    graded_images,
    hermite_values,
)
from implicitmoments.density.mixture_densities import (
    RegressionMixtureDensity,
    SphericalMixtureDensity,
)
from implicitmoments.density.regression_density import RegressionFrame, find_frame

__all__ = ["RegressionMixtureDensity", "SphericalMixtureDensity"]
