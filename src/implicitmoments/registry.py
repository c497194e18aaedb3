"""All estimators by kind. A new one is registered here; it imports nothing until it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The word of the command line, and the class, a public name of the package.
ESTIMATORS = {
    "mixture": "SphericalMixture",
    "gaussian-mixture": "GaussianMixture",
    "density": "SphericalMixtureDensity",
    "clusters": "SphericalMixtureClusterer",
    "regressions": "RegressionMixture",
    "regression-density": "RegressionMixtureDensity",
    "activations": "ActivationSumRegressor",
}


def estimator_class(name: str) -> type[Any]:
    """Return an estimator by its kind or the name of its class; KeyError if there is none.

    Examples
    --------
    >>> estimator_class("mixture") is estimator_class("SphericalMixture")
    True
    """
    own = ESTIMATORS.get(name, name)
    if own not in ESTIMATORS.values():
        raise KeyError(name)
    found: type[Any] = getattr(import_module("implicitmoments"), own)
    return found


def description_class(estimator: str) -> type[Any]:
    """Return the description of an estimator by the name of its class."""
    descriptions = import_module("implicitmoments.description")
    found: type[Any] = getattr(descriptions, f"{estimator}Description")
    return found
