"""What a model file may hold: the classes that are written and read, by name.

A file names classes and never where they are to be imported from. A class that is not here is
neither written nor read. Cached properties of an object are not kept: they follow from its fields.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeAlias, get_type_hints

from implicitmoments.backends import Floats
from implicitmoments.fitting.activation.conditions import Conditions
from implicitmoments.fitting.activation.hypothesis import FittedPolynomial
from implicitmoments.fitting.activation.least_squares import Choice, Range
from implicitmoments.fitting.activation.network import Network
from implicitmoments.fitting.activation.polynomial import Polynomial
from implicitmoments.fitting.density.clipped_density import ClippedDensity
from implicitmoments.fitting.density.hermite_expansion import (
    Constant,
    JointExpansion,
    OrderByOrder,
)
from implicitmoments.fitting.density.regression_contraction import (
    ContractedExpansion,
    PaperExpansion,
)
from implicitmoments.fitting.density.regression_density import RegressionDensity
from implicitmoments.fitting.density.regression_expansion import GradedExpansion, LabelConstant
from implicitmoments.fitting.density.regression_frame import RegressionFrame
from implicitmoments.fitting.regression.em import Model
from implicitmoments.fitting.regression.standard import Standard
from implicitmoments.fitting.spherical.likelihood import Mixture, Sums
from implicitmoments.fitting.spherical.sample import Sample
from implicitmoments.fitting.spherical.span import SphericalSpan
from implicitmoments.fitting.spherical.stream import Stream
from implicitmoments.fitting.spherical.stream_moments import MomentSums
from implicitmoments.learners import (
    ActivationSumRegressor,
    RegressionMixture,
    RegressionMixtureDensity,
    SphericalMixture,
    SphericalMixtureClusterer,
    SphericalMixtureDensity,
)
from implicitmoments.models import Activation
from implicitmoments.moments import PaperMoments
from implicitmoments.moments.balanced import BalancedMoments
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.moments.closed_form import Fold
from implicitmoments.moments.decode.components import Decoded
from implicitmoments.moments.decode.verdict import Components
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.report import StepReport
from implicitmoments.moments.result import Run
from implicitmoments.projections.recursive import Step
from implicitmoments.samples import Whitening

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
