"""Densities as clipped polynomials times a Gaussian (Theorems 4.16 and 4.22)."""

from implicitmoments.density.clipped_density import (
    ClippedDensity,
    Ratios,
    choose_clip,
    clip_expansion,
    evaluate_rows,
    probe_gaussian,
    rejection_sample,
)
from implicitmoments.density.degree import (
    compare_degrees,
    least_degree,
    mixture_tail,
    regression_tail,
)
from implicitmoments.density.hermite_expansion import (
    Constant,
    JointExpansion,
    expand,
    expand_dense,
    graded_answers,
    graded_images,
)
from implicitmoments.density.regression_contraction import (
    contract_dense,
    contract_moments,
    contract_run,
    expand_contracted,
    expand_paper,
)
from implicitmoments.density.regression_expansion import (
    LabelConstant,
    average_graded,
    expand_labels,
    expand_labels_dense,
)
from implicitmoments.density.regression_mixture_density import RegressionMixtureDensity
from implicitmoments.density.spherical_mixture_density import SphericalMixtureDensity

__all__ = [
    "ClippedDensity",
    "Constant",
    "JointExpansion",
    "LabelConstant",
    "Ratios",
    "RegressionMixtureDensity",
    "SphericalMixtureDensity",
    "average_graded",
    "choose_clip",
    "clip_expansion",
    "compare_degrees",
    "contract_dense",
    "contract_moments",
    "contract_run",
    "evaluate_rows",
    "expand",
    "expand_contracted",
    "expand_dense",
    "expand_labels",
    "expand_labels_dense",
    "expand_paper",
    "graded_answers",
    "graded_images",
    "least_degree",
    "mixture_tail",
    "probe_gaussian",
    "regression_tail",
    "rejection_sample",
]
