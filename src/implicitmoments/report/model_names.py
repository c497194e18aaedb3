"""What a model is called on a page."""

from __future__ import annotations

from typing import Any

__all__ = ["name_of", "number_of"]

# of one, of several; {k} components, {degree}
MIXTURES = {
    "SphericalMixture": ("one spherical Gaussian", "a mixture of {k} spherical Gaussians"),
    "SphericalMixtureClusterer": ("one spherical cluster", "{k} spherical clusters"),
    "RegressionMixture": ("one linear regression", "a mixture of {k} linear regressions"),
    "ActivationSumRegressor": ("one activation", "a positive sum of {k} activations"),
}
DENSITIES = {
    "SphericalMixtureDensity": "a density of degree {degree} for a spherical mixture",
    "RegressionMixtureDensity": "a density of degree {degree} for a mixture of regressions",
}


def name_of(model: Any, target: str = "y") -> str:
    """Return what a fitted model is, in words.

    Parameters
    ----------
    model : fitted estimator
    target : str
        The name of the labels; "y" says nothing and is left out.
    """
    of_target = "" if target == "y" else f" of {target}"
    own = type(model).__name__
    if own in DENSITIES:
        return DENSITIES[own].format(degree=model.degree_) + of_target
    if model.stats_.get("hypothesis") == "polynomial":
        return f"a polynomial of degree {model.degree_}" + of_target.replace(" of ", " for ", 1)
    one, several = MIXTURES[own]
    k = number_of(model)
    labels = of_target if own == "RegressionMixture" else of_target.replace(" of ", " for ", 1)
    return (one if k == 1 else several.format(k=f"{k:,}")) + labels


def number_of(model: Any) -> int:
    """Return how many components a model has, or was asked to have."""
    if hasattr(model, "means_"):
        return int(model.means_.shape[0])
    return int(getattr(model, "n_components_", model.n_components))
