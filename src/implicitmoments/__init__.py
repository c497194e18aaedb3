"""Learn latent-variable models from implicit high-order moment tensors.

The folders are the data flow: ``rows`` → ``moments`` → ``mixture`` → ``activation``, ``density``,
``clustering`` → ``plot``, ``saving`` → ``report`` → ``cli``. After Diakonikolas and Kane,
*Implicit High-Order Moment Tensor Estimation and Learning Latent Variable Models*.

Names are imported when they are first used (PEP 562), so that the command line can answer
``--help`` and Ctrl-C before SciPy and scikit-learn are imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from implicitmoments import (
        datasets,
        moments,
        paper,
        plot,
        report,
        rows,
    )
    from implicitmoments.activation import ActivationSumRegressor
    from implicitmoments.clustering import SphericalMixtureClusterer
    from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
    from implicitmoments.mixture import (
        GaussianMixture,
        RegressionMixture,
        SphericalMixture,
        TableMixture,
        start,
    )
    from implicitmoments.moments import implicit_moments
    from implicitmoments.notes import AssumptionWarning, FitWarning
    from implicitmoments.saving import ModelFileError, load, save

    __version__: str

# Modules of the public names, which are imported on first use: the package imports fast.
_HOMES = {
    "ActivationSumRegressor": "activation",
    "AssumptionWarning": "notes",
    "FitWarning": "notes",
    "GaussianMixture": "mixture",
    "ModelFileError": "saving",
    "RegressionMixture": "mixture",
    "RegressionMixtureDensity": "density",
    "SphericalMixture": "mixture",
    "SphericalMixtureClusterer": "clustering",
    "SphericalMixtureDensity": "density",
    "TableMixture": "mixture",
    "implicit_moments": "moments",
    "load": "saving",
    "save": "saving",
    "start": "mixture",
}
__all__ = [
    "ActivationSumRegressor",
    "AssumptionWarning",
    "FitWarning",
    "GaussianMixture",
    "ModelFileError",
    "RegressionMixture",
    "RegressionMixtureDensity",
    "SphericalMixture",
    "SphericalMixtureClusterer",
    "SphericalMixtureDensity",
    "TableMixture",
    "__version__",
    "datasets",
    "implicit_moments",
    "load",
    "moments",
    "paper",
    "plot",
    "report",
    "rows",
    "save",
    "start",
]

if not TYPE_CHECKING:  # with it every name would pass the type checker

    def __getattr__(name):
        if name == "__version__":
            return import_module("importlib.metadata").version("implicitmoments")
        if name in _HOMES:
            return getattr(import_module(f"implicitmoments.{_HOMES[name]}"), name)
        if name in __all__:
            return import_module(f"implicitmoments.{name}")
        raise AttributeError(f"module 'implicitmoments' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
