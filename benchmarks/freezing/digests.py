"""Predictions of every estimator, and queries of moments, on small data sets with fixed seeds."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import implicitmoments as im
from freezing.kinds import EXACT, SEARCHED, Floats, Items, Numbers, Search, flat
from freezing.truth import mixture_from_truth, n_close, regression_from_truth

ROWS = 8
MIXTURE_WEIGHTS = (0.4, 0.3, 0.2, 0.1)
LINE_WEIGHTS = (0.5, 0.3, 0.2)


def some(rows: Any) -> Any:
    """Return eight rows of many."""
    return rows[:: len(rows) // ROWS][:ROWS]


# mixtures of spherical Gaussians


@cache
def mixture_data(n: int = 3_000, d: int = 6) -> tuple[Floats, Any]:
    """Return rows of four components, and the truth."""
    return im.datasets.make_spherical_mixture(
        n, 4, d, radius=5.0, separation=4.0, weights=MIXTURE_WEIGHTS, random_state=0
    )


@cache
def row_weights(n: int) -> Any:
    """Return how often each row counts: 0 to 3 times."""
    return np.random.default_rng(1).integers(0, 4, size=n)


def mixture_rows(case: str) -> tuple[Any, Any]:
    """Return the rows of a case, and the truth."""
    if case == "partial_fit":
        return mixture_data(50_000, 4)
    if case == "2 features":
        return im.datasets.make_spherical_mixture(
            3_000, 5, 2, radius=(0.0, 8.0), separation=4.0, random_state=0
        )
    X, truth = mixture_data()
    if case == "separate":
        middle = truth.vectors[truth.labels]
        X = middle + (X - middle) * np.sqrt(np.array([0.5, 1.0, 1.5, 2.0])[truth.labels, None])
    return (X.astype(np.float32) if case == "float32" else X), truth


# parameters by their names before and after
NAMES = inspect.signature(im.SphericalMixture).parameters
BLOCK_ROWS = "rows_per_block" if "rows_per_block" in NAMES else "block_rows"
LINES = inspect.signature(im.RegressionMixture).parameters
NOISE = "noise_type" if "noise_type" in LINES else "noise"


def variance_options(*, separate: bool) -> dict[str, Any]:
    """Return the parameter for one variance or one each, by its name in this version."""
    if "covariance_type" in NAMES:
        return {"covariance_type": "spherical" if separate else "tied_spherical"}
    return {"variance_type": "separate" if separate else "shared"}


MIXTURES: dict[str, dict[str, Any]] = {
    "shared": {},
    "separate": variance_options(separate=True),
    "auto": {"n_components": "auto"},
    "known variance": {"variance": 1.0},
    "sample_weight": {"drop_outliers": False},
    "partial_fit": {},
    "2 features": {"n_components": 5},
    "float32": {},
    "blocks": {BLOCK_ROWS: 701},
}
CLIMBS: dict[str, dict[str, Any]] = {
    "separate": {"separate": True},
    "known variance": {"variance": 1.0},
}


@cache
def mixture(case: str) -> tuple[Any, Any, Any]:
    """Return a fitted model, its rows and the truth."""
    X, truth = mixture_rows(case)
    how = {"n_components": 4, "random_state": 0, **MIXTURES[case]}
    model = im.SphericalMixture(**how)
    if case == "partial_fit":
        for piece in np.array_split(X, 5):
            model.partial_fit(piece)
    elif case == "sample_weight":
        times = row_weights(len(X))
        return model.fit(X, sample_weight=times), np.repeat(X, times, axis=0), truth
    else:
        model.fit(X)
    return model, X, truth


def mixture_digest(case: str) -> Numbers:
    """Return log densities, largest probabilities, score, BIC and the number of components."""
    model, X, _ = mixture(case)
    rows = some(X)
    chances = np.max(model.predict_proba(rows), axis=1)
    k = len(model.weights_)
    values = flat(model.score_samples(rows), chances, model.score(X), model.bic(X), k)
    return Numbers(values, SEARCHED)


def mixture_search(case: str) -> Search:
    """Return likelihood and means found."""
    model, X, truth = mixture(case)
    wide = np.asarray(X, dtype=np.float64)
    goal = mixture_from_truth(wide, truth.weights, truth.vectors, **CLIMBS.get(case, {}))
    found = n_close(np.asarray(model.means_, dtype=np.float64), truth.vectors)
    return Search(float(model.score(wide)) * len(X), found, len(truth.vectors), goal)


def sampled() -> Numbers:
    """Return rows sampled from a fitted mixture."""
    rows, labels = mixture("shared")[0].sample(3, random_state=0)
    return Numbers(flat(rows, labels), SEARCHED)


def saved(case: Callable[[], Any], ask: Callable[[Any], Any]) -> Numbers:
    """Return the largest difference between predictions of a model and of its copy on disk."""
    model = case()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.im")
        im.save(model, path)
        copy = im.load(path)
    return Numbers(flat(np.max(np.abs(ask(model) - ask(copy)))))


# mixtures of regressions


@cache
def regression(case: str) -> tuple[Any, Floats, Floats, Any, dict[str, Any]]:
    """Return a fitted model, rows, labels, the truth and options of EM from the truth."""
    X, y, truth = im.datasets.make_regression_mixture(
        3_000, 3, 5, radius=(1.0, 2.0), noise=0.3, weights=LINE_WEIGHTS, random_state=0
    )
    make = partial(im.RegressionMixture, 3, random_state=0)
    if case == "separate noise":
        lines = np.sum(X * truth.vectors[truth.labels], axis=1)
        y = lines + (y - lines) * np.array([0.5, 1.0, 2.0])[truth.labels]
        separate: dict[str, Any] = {NOISE: "separate"}
        return make(**separate).fit(X, y), X, y, truth, {"separate": True}
    if case == "no intercept":
        return make(fit_intercept=False).fit(X, y), X, y, truth, {"intercept": False}
    if case == "sample_weight":
        times = row_weights(len(X))
        model = make().fit(X, y, sample_weight=times)
        return model, np.repeat(X, times, axis=0), np.repeat(y, times), truth, {}
    if case == "one feature":
        X = X[:, :1]
        y = y - np.sum(X * truth.vectors[truth.labels][:, :1], axis=1)
        y = 0.3 * y + np.array([2.0, -1.0, 0.0])[truth.labels] * X[:, 0]
        return make().fit(X, y), X, y, None, {}
    k = "auto" if case == "auto" else 3
    return im.RegressionMixture(k, random_state=0).fit(X, y), X, y, truth, {}


REGRESSIONS = ("shared noise", "separate noise", "auto", "no intercept", "sample_weight")


def regression_digest(case: str) -> Numbers:
    """Return predictions, log densities, probabilities, score, BIC and the number of lines."""
    model, X, y, _, _ = regression(case)
    x, t = some(X), some(y)
    chances = np.max(model.predict_proba(x, t), axis=1)
    logs, k = model.score_samples(x, t), model.n_components_
    values = flat(model.predict(x), logs, chances, model.score(X, y), model.bic(X, y), k)
    return Numbers(values, SEARCHED)


def regression_search(case: str) -> Search:
    """Return likelihood and lines found."""
    model, X, y, truth, how = regression(case)
    goal = regression_from_truth(X, y, truth.weights, truth.vectors, truth.noise, **how)
    likelihood = float(np.sum(model.score_samples(X, y)))
    return Search(likelihood, n_close(model.coef_, truth.vectors), len(truth.vectors), goal)


# densities, clusters and sums of activations


def mixture_density(**how: Any) -> Numbers:
    """Return log densities, score, chosen parameters, and sampled rows."""
    X, _ = im.datasets.make_spherical_mixture(4_000, 3, 5, radius=1.2, random_state=0)
    model = im.SphericalMixtureDensity(3, random_state=0, **how).fit(X)
    chosen = (model.degree_, model.clip_, model.normalizer_, model.variance_)
    drawn = model.sample(2, random_state=0)
    return Numbers(flat(model.score_samples(X[:ROWS]), model.score(X), chosen, drawn), EXACT)


def regression_density(**how: Any) -> Numbers:
    """Return log densities, score, chosen parameters, and sampled labels."""
    X, y, _ = im.datasets.make_regression_mixture(4_000, 3, 4, noise=1.0, random_state=0)
    model = im.RegressionMixtureDensity(3, random_state=0, **how).fit(X, y)
    chosen = (model.degree_, model.clip_, model.normalizer_, model.noise_)
    logs, drawn = model.score_samples(X[:ROWS], y[:ROWS]), model.sample_y(X[:2], 2, 0)
    return Numbers(flat(logs, model.score(X, y), chosen, drawn), EXACT)


def clusterer(**how: Any) -> Numbers:
    """Return weights, labels, distances from the means, and chosen parameters."""
    X, _ = im.datasets.make_spherical_mixture(
        3_000, 4, 8, radius=7.0, separation=7.0, weights=MIXTURE_WEIGHTS, random_state=0
    )
    model = im.SphericalMixtureClusterer(4, random_state=0, **how).fit(X)
    chosen = (model.variance_, model.order_, model.threshold_)
    labels = model.predict(X[:ROWS])
    return Numbers(flat(model.weights_, labels, model.transform(X[:2]), chosen), EXACT)


def activation_model(activation: Any, k: Any, **how: Any) -> tuple[Any, Floats, Floats]:
    """Return a fitted regressor, and rows and labels."""
    function: Any = {"cos": np.cos, "abs": np.abs}.get(activation)
    X, y, _ = im.datasets.make_activation_sum(
        3_000, 3, 6, activation=function, noise=0.05, weights=(0.5, 0.3, 0.2), random_state=0
    )
    return im.ActivationSumRegressor(activation, k, random_state=0, **how).fit(X, y), X, y


def activations(activation: Any, k: Any, margin: float, **how: Any) -> Numbers:
    """Return predictions and the score."""
    model, X, y = activation_model(activation, k, **how)
    return Numbers(flat(model.predict(X[:ROWS]), model.score(X, y)), margin)


def generators() -> Numbers:
    """Return rows of every synthetic data set: if these change, everything does."""
    a, _ = im.datasets.make_spherical_mixture(4, 3, 2, random_state=7)
    b, _ = im.datasets.make_pairwise_differences(4, 3, 2, random_state=7)
    *c, _ = im.datasets.make_regression_mixture(4, 3, 2, random_state=7)
    *d, _ = im.datasets.make_activation_sum(4, 3, 2, random_state=7)
    return Numbers(flat(a, b, *c, *d))


def saved_models() -> Items:
    """Return items of models that are written and read again."""
    X, _ = mixture_data()
    return {
        "save and load, SphericalMixture": partial(
            saved, lambda: mixture("shared")[0], lambda model: model.score_samples(X)
        ),
        "save and load, RegressionMixture": partial(
            saved, lambda: regression("auto")[0], lambda model: model.predict(X[:, :5])
        ),
        "save and load, ActivationSumRegressor": partial(
            saved, lambda: activation_model("cos", 3)[0], lambda model: model.predict(X)
        ),
    }


def densities() -> Items:
    """Return items of both estimators of densities."""
    items: Items = {}
    for degree in (6, "auto"):
        items[f"SphericalMixtureDensity, degree {degree}"] = partial(
            mixture_density, degree=degree
        )
        items[f"RegressionMixtureDensity, degree {degree}"] = partial(
            regression_density, degree=degree
        )
    return items


def digests() -> Items:
    """Return every item by name."""
    items: Items = {"synthetic data": generators}
    for case in MIXTURES:
        items[f"SphericalMixture, {case}"] = partial(mixture_digest, case)
        items[f"SphericalMixture, {case}, search"] = partial(mixture_search, case)
    items["SphericalMixture, sample"] = sampled
    for case in REGRESSIONS:
        items[f"RegressionMixture, {case}"] = partial(regression_digest, case)
        items[f"RegressionMixture, {case}, search"] = partial(regression_search, case)
    items["RegressionMixture, one feature"] = partial(regression_digest, "one feature")
    items |= densities()
    items["SphericalMixtureClusterer"] = clusterer
    items["SphericalMixtureClusterer, order 4, known variance"] = partial(
        clusterer, order=4, variance=1.0
    )
    for activation, k in (("relu", 3), ("cos", 3), ("relu", "auto"), ("cos", "auto"), ("abs", 3)):
        label = f"ActivationSumRegressor, {activation}, k = {k}"
        items[f"{label}, refined"] = partial(activations, activation, k, SEARCHED)
        items[f"{label}, polynomial"] = partial(activations, activation, k, EXACT, refine=False)
    items["ActivationSumRegressor, paper"] = partial(
        activations, "relu", 3, EXACT, refine=False, degree=2, method="paper"
    )
    return items | saved_models()
