"""Densities as clipped polynomials times a Gaussian (Theorems 4.16 and 4.22)."""

from implicitmoments.density.clipped_density import (
    ClippedDensity,
    choose_clip,
    clip_expansion,
    evaluate_rows,
    probe_gaussian,
)
from implicitmoments.density.degree import (
    compare_degrees,
    least_degree,
    make_folds,
    mixture_tail,
)
from implicitmoments.density.hermite_expansion import (
    Constant,
    JointExpansion,
    expand,
    expand_dense,
    graded_answers,
    graded_images,
)
from implicitmoments.density.line_distribution import LineDistribution, Residuals
from implicitmoments.density.norm_band import NormBand, largest_norm
from implicitmoments.density.regression_contraction import (
    contract_dense,
    contract_moments,
    contract_run,
    expand_contracted,
    expand_paper,
    expand_shifted,
)
from implicitmoments.density.regression_expansion import (
    LabelConstant,
    average_graded,
    expand_labels,
    expand_labels_dense,
)
from implicitmoments.density.regression_mixture_density import RegressionMixtureDensity
from implicitmoments.density.regression_truncation import (
    LineBound,
    order_norms,
    regression_tail,
)
from implicitmoments.density.spherical_mixture_density import SphericalMixtureDensity, Truncation

__all__ = ["RegressionMixtureDensity", "SphericalMixtureDensity", "regression_tail"]
