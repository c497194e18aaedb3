"""Learn latent-variable models from implicit high-order moment tensors.

The folders are the data flow: ``samples`` → ``circuits`` → ``projections`` → ``moments`` →
``models`` → ``fitting`` → ``learners`` → ``plot``, ``saving`` → ``report``. After
Diakonikolas and Kane, *Implicit High-Order Moment Tensor Estimation and Learning Latent Variable
Models*.

Names are imported when they are first asked for (PEP 562), so that the command line can answer
``--help`` and Ctrl-C before SciPy and scikit-learn are there.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

    __version__: str

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

_FOLDERS = {
    *("circuits", "datasets", "models", "moments", "plot", "projections", "report", "samples"),
    *("backends", "fitting", "learners", "saving"),  # not in __all__, and there all the same
}
_HOMES = {
    **dict.fromkeys(("HermiteProblem", "MomentProblem", "implicit_moments"), "moments"),
    **dict.fromkeys(("ModelFileError", "load", "save"), "saving"),
}

if not TYPE_CHECKING:  # with it every name would pass the type checker

    def __getattr__(name):
        if name in _FOLDERS:
            return import_module(f"implicitmoments.{name}")
        if name == "__version__":
            value = import_module("importlib.metadata").version("implicitmoments")
        elif name in __all__:
            home = import_module(f"implicitmoments.{_HOMES.get(name, 'learners')}")
            value = getattr(home, name)
        else:
            raise AttributeError(f"module 'implicitmoments' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
