"""All estimators by kind. A new one is registered here; it imports nothing until it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["ESTIMATORS", "class_names", "estimator_class"]

# The word of the command line, and where the class is.
ESTIMATORS: dict[str, str] = {
    "mixture": "implicitmoments.mixture:SphericalMixture",
    "density": "implicitmoments.density:SphericalMixtureDensity",
    "clusters": "implicitmoments.clustering:SphericalMixtureClusterer",
    "regressions": "implicitmoments.regression:RegressionMixture",
    "regression-density": "implicitmoments.density:RegressionMixtureDensity",
    "activations": "implicitmoments.activation:ActivationSumRegressor",
}


def class_names() -> dict[str, str]:
    """Return the class names of all estimators by kind, without importing them."""
    return {kind: place.split(":")[1] for kind, place in ESTIMATORS.items()}


def estimator_class(name: str) -> type[Any]:
    """Return an estimator by its kind or the name of its class.

    Returns
    -------
    class
        Imported when it is asked for.

    Raises
    ------
    KeyError
        If there is none.

    Examples
    --------
    >>> estimator_class("mixture") is estimator_class("SphericalMixture")
    True
    """
    kinds = {own: kind for kind, own in class_names().items()}
    module, own = ESTIMATORS[kinds.get(name, name)].split(":")
    found: type[Any] = getattr(import_module(module), own)
    return found
