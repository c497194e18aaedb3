"""Learn latent-variable models from implicit high-order moment tensors.

The folders are the data flow: ``samples`` → ``circuits`` → ``projections`` → ``moments`` →
``models`` → ``fitting`` → ``learners`` → ``plot``, ``saving`` → ``report``. After
Diakonikolas and Kane, *Implicit High-Order Moment Tensor Estimation and Learning Latent Variable
Models*.
"""

from importlib.metadata import version

from implicitmoments import (
    circuits,
    datasets,
    models,
    moments,
    plot,
    projections,
    report,
    samples,
)
from implicitmoments.learners import (
    ActivationSumRegressor,
    AssumptionWarning,
    RegressionMixture,
    RegressionMixtureDensity,
    SphericalMixture,
    SphericalMixtureClusterer,
    SphericalMixtureDensity,
)
from implicitmoments.moments import HermiteProblem, MomentProblem, implicit_moments
from implicitmoments.saving import ModelFileError, load, save

__version__ = version("implicitmoments")

__all__ = [
    "ActivationSumRegressor",
    "AssumptionWarning",
    "HermiteProblem",
    "ModelFileError",
    "MomentProblem",
    "RegressionMixture",
    "RegressionMixtureDensity",
    "SphericalMixture",
    "SphericalMixtureClusterer",
    "SphericalMixtureDensity",
    "__version__",
    "circuits",
    "datasets",
    "implicit_moments",
    "load",
    "models",
    "moments",
    "plot",
    "projections",
    "report",
    "samples",
    "save",
]
