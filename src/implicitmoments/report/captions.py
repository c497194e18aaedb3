"""What the pictures of a page show, for the model that is on it."""

from __future__ import annotations

from typing import Any, NamedTuple

from implicitmoments.report.model_names import number_of

__all__ = ["Caption", "caption_of"]


class Caption(NamedTuple):
    """The name of a picture, and how to read it."""

    title: str
    words: str


NOISE = " Dashed: the noise, below which an eigenvalue says nothing."
SPECTRA = {
    "SphericalMixture": "Eigenvalues of the moment that components were read from, one for each "
    "that the rows tell apart. One of the filled at the noise, or others far above it, ask for "
    "another number of components, or columns of one scale.",
    "SphericalMixtureClusterer": "How much more than the noise the rows vary along each principal "
    "direction. Filled: the directions in which clusters were looked for.",
    "SphericalMixtureDensity": "How much more than the noise the rows vary along each principal "
    "direction. Filled: the directions that the density is expanded along.",
    "RegressionMixture": "Eigenvalues of a moment of the slopes, from which one start was read. "
    "The lines rest on their likelihood: a weak eigenvalue here is no fault of theirs.",
    "RegressionMixtureDensity": "How much the slopes vary along each direction of the inputs. "
    "Filled: the directions that the density is expanded along.",
    "ActivationSumRegressor": "Eigenvalues of the moments, order by order. Filled: the directions "
    "that the polynomial takes up.",
}
OVERLAP = " What overlaps here may be apart along other directions."
COMPONENTS = {
    "SphericalMixture": "Rows by their likeliest component, along the two directions in which the "
    "means differ most." + OVERLAP,
    "SphericalMixtureClusterer": "Rows by their cluster, along the two directions in which the "
    "means differ most." + OVERLAP,
    "SphericalMixtureDensity": "Rows along two directions, coloured by their log density. A "
    "density has no components.",
    "RegressionMixture": "Rows by their likeliest line, along the direction in which the slopes "
    "differ most.",
    "RegressionMixtureDensity": "Rows about the line of least squares, coloured by their log "
    "density. A density has no lines of its own.",
    "ActivationSumRegressor": "Rows along the two leading directions of the network, coloured by "
    "{target}.",
}
OF_ONE = {
    "SphericalMixture": "Rows about their mean, along the two directions in which they vary most.",
    "RegressionMixture": "Rows and the line, along its slope.",
}
OF_ONE["SphericalMixtureClusterer"] = OF_ONE["SphericalMixture"]
INSTEAD = " Predictions are those of the polynomial, and not of the network."
ALONG_ONE = {
    "SphericalMixture": "Histogram of the one column, by the likeliest component, and the density "
    "of the mixture.",
    "SphericalMixtureClusterer": "Histogram of the one column, by cluster, and the density of the "
    "clusters.",
    "SphericalMixtureDensity": "Log density of the rows along the one column.",
    "RegressionMixture": "Rows by their likeliest line.",
    "ActivationSumRegressor": "Rows, with {target} against the one column.",
}
FIT = {
    "SphericalMixture": "Log densities of the rows, and of rows drawn from the model. If it is "
    "right, they agree up to chance.",
    "SphericalMixtureClusterer": "Distances of rows from the mean of their cluster, and the law "
    "they follow if clusters are spherical.",
    "RegressionMixture": "Residuals of {target} from each row's likeliest line, and those of "
    "labels drawn from the model. If it is right, they agree up to chance.",
    "ActivationSumRegressor": "Actual against predicted values of {target}. If the model is "
    "right, rows lie about the dashed line.",
}
FIT["SphericalMixtureDensity"] = FIT["RegressionMixtureDensity"] = FIT["SphericalMixture"]
EM = Caption(
    "Convergence",
    "What EM had yet to gain at each pass over the rows; below tol it ends. At the foot: a "
    "thousandth of tol, or less.",
)
NETWORK = Caption(
    "Convergence",
    "Error of the network on the rows it is fitted to, step by step. Dashed: that of the "
    "polynomial, expected on new rows.",
)
HELD_OUT = "{what} of the polynomial on rows that it was not fitted to, by its degree."


def caption_of(picture: str, model: Any, target: str = "y") -> Caption:
    """Return what a picture of a model shows.

    Parameters
    ----------
    picture : {"spectra", "components", "fit", "convergence"}
    model : fitted estimator
    target : str
        The name of the labels.
    """
    own = type(model).__name__
    if picture == "spectra":
        noisy = any(floor > 0 for floor in model.stats_.get("noise_floor", ()))
        return Caption("Spectra", SPECTRA[own] + (NOISE if noisy else ""))
    if picture == "components":
        return _components(model, own, target)
    if picture == "fit":
        return Caption("Fit against data", FIT[own].format(target=target))
    return _course(model)


def _components(model: Any, own: str, target: str) -> Caption:
    words = COMPONENTS[own]
    if number_of(model) == 1:
        words = OF_ONE.get(own, words)
    if model.n_features_in_ == 1:
        words = ALONG_ONE.get(own, words)
    if model.stats_.get("hypothesis") == "polynomial":
        words += INSTEAD
    title = "Rows by density" if hasattr(model, "hypothesis_") else "Components"
    return Caption(title, words.format(target=target))


def _course(model: Any) -> Caption:
    stats = model.stats_
    if stats.get("mean_log_likelihood_history"):
        return EM
    if stats.get("loss_history"):
        return NETWORK
    what = "Mean log density" if stats.get("scores") else "Squared error"
    return Caption("Choice of the degree", HELD_OUT.format(what=what))
