"""What a model file may hold: the classes that are written and read, by name.

A file names classes and never where they are to be imported from. A class that is not here is
neither written nor read. Cached properties of an object are not kept: they follow from its fields.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeAlias, get_type_hints

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.activation.conditions import Conditions
from implicitmoments.activation.hypothesis import FittedPolynomial
from implicitmoments.activation.least_squares import Choice, Range
from implicitmoments.activation.network import Network
from implicitmoments.activation.polynomial import Polynomial
from implicitmoments.arrays import Floats
from implicitmoments.clustering import SphericalMixtureClusterer
from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.density.hermite_expansion import (
    Constant,
    JointExpansion,
    OrderByOrder,
)
from implicitmoments.density.regression_contraction import (
    ContractedExpansion,
    PaperExpansion,
)
from implicitmoments.density.regression_expansion import GradedExpansion, LabelConstant
from implicitmoments.density.regression_fit import RegressionDensity
from implicitmoments.density.regression_frame import RegressionFrame
from implicitmoments.mixture import SphericalMixture
from implicitmoments.mixture.incremental import Stream
from implicitmoments.mixture.incremental_moments import MomentSums
from implicitmoments.mixture.likelihood import Mixture, Sums
from implicitmoments.mixture.mean_span import SphericalSpan
from implicitmoments.mixture.sample import Sample
from implicitmoments.moments import PaperMoments
from implicitmoments.moments.balanced import BalancedMoments
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.closed_form import Fold
from implicitmoments.moments.decode.components import Decoded
from implicitmoments.moments.decode.resolution import Components
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.result import Run
from implicitmoments.moments.step_report import StepReport
from implicitmoments.problems import Activation
from implicitmoments.projections.recursive import Step
from implicitmoments.regression import RegressionMixture
from implicitmoments.regression.em import Model
from implicitmoments.regression.standardise import Standard
from implicitmoments.rows import Whitening

__all__ = ["ESTIMATORS", "FIELDS", "NAMES", "RECORDS", "REQUIRED"]

Estimator: TypeAlias = type[Any]

ESTIMATORS: dict[str, Estimator] = {
    estimator.__name__: estimator
    for estimator in (
        ActivationSumRegressor,
        RegressionMixture,
        RegressionMixtureDensity,
        SphericalMixture,
        SphericalMixtureClusterer,
        SphericalMixtureDensity,
    )
}

# Frozen dataclasses, written field by field and built by their constructors.
RECORDS: dict[str, type[Any]] = {
    record.__name__: record
    for record in (
        BalancedMoments,
        Choice,
        ClippedDensity,
        Components,
        Conditions,
        Constant,
        ContractedExpansion,
        Decoded,
        FittedPolynomial,
        Fold,
        Frame,
        GradedExpansion,
        JointExpansion,
        LabelConstant,
        Mixture,
        Model,
        MomentSums,
        Network,
        OrderByOrder,
        PaperExpansion,
        PaperMoments,
        Polynomial,
        Range,
        RegressionDensity,
        RegressionFrame,
        Sample,
        Run,
        SphericalSpan,
        Standard,
        Step,
        StepReport,
        Stream,
        Sums,
        SymmetricChain,
        Whitening,
    )
}
NAMES = {record: name for name, record in RECORDS.items()}

# The type of every field. Annotations are resolved when this module is imported, so that nothing
# is compiled while a file is read.
FIELDS: dict[str, dict[str, Any]] = {
    name: {field.name: hints[field.name] for field in fields(record)}
    for name, record in RECORDS.items()
    for hints in [get_type_hints(record)]
}

# What answers of a fitted estimator read; a file without one of these is no model.
_ALL: dict[str, Any] = {"n_features_in_": int, "stats_": dict[str, Any]}
REQUIRED: dict[str, dict[str, Any]] = {
    "ActivationSumRegressor": {
        **_ALL,
        "activation_": Activation,
        "polynomial_": FittedPolynomial,
        "whitening_": Whitening | None,
        "_hypothesis": FittedPolynomial | Network,
    },
    "RegressionMixture": {
        **_ALL,
        "coef_": Floats,
        "intercept_": Floats,
        "weights_": Floats,
        "noise_": Floats,
        "_model": Model,
        "_standard": Standard,
    },
    "RegressionMixtureDensity": {**_ALL, "hypothesis_": RegressionDensity},
    "SphericalMixture": {
        **_ALL,
        "weights_": Floats,
        "means_": Floats,
        "variance_": float | Floats,
    },
    "SphericalMixtureClusterer": {
        **_ALL,
        "weights_": Floats,
        "means_": Floats,
        "variance_": float,
    },
    "SphericalMixtureDensity": {**_ALL, "hypothesis_": ClippedDensity[SphericalSpan]},
}
