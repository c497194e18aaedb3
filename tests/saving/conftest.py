"""Small fitted models of every estimator, and what they answer."""

import warnings
from functools import cache

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES
from implicitmoments.problems import cosine, leaky_relu, relu


@cache
def rows(kind):
    """Rows to fit and to ask about; labels where there are any."""
    make = im.datasets
    if kind == "activation":
        return make.make_activation_sum(600, 2, 3, random_state=0)[:2]
    if kind == "apart":
        return make.make_spherical_mixture(600, 3, 3, radius=6.0, separation=6.0, random_state=0)[
            :1
        ]
    if kind == "many":
        return make.make_spherical_mixture(
            22_000, 3, 3, radius=6.0, separation=6.0, random_state=0
        )[:1]
    if kind == "close":
        return make.make_spherical_mixture(3_000, 2, 3, radius=1.2, random_state=0)[:1]
    return make.make_regression_mixture(800, 2, 3, noise=0.5, random_state=0)[:2]


def activation(given, **how):
    return lambda: im.ActivationSumRegressor(given, 2, degree=2, **how), "activation"


def mixture(**how):
    return lambda: im.SphericalMixture(
        **{"n_components": 3, "order": 4, "random_state": 0, **how}
    ), "apart"


def gaussian(**how):
    return lambda: im.GaussianMixture(3, random_state=0, **how), "apart"


def density(**how):
    return lambda: im.SphericalMixtureDensity(2, degree=2, random_state=0, **how), "close"


def regression(**how):
    given = {"n_components": 2, "random_state": 0, **how}
    return lambda: im.RegressionMixture(**given), "lines"


def regression_density(**how):
    given = {"degree": 2, "random_state": 0, **how}
    return lambda: im.RegressionMixtureDensity(2, **given), "lines"


ACTIVATIONS = {
    **{name: name for name in im.problems.activations.NAMED},
    "cosine(1.3, 0.2)": cosine(1.3, 0.2),
    "leaky_relu(0.2)": leaky_relu(0.2),
    "leaky_relu of NumPy's": leaky_relu(np.float64(0.1)),
    "relu()": relu(),
    "relu, uncalled": relu,
}
MODELS = {
    **{
        f"activation {name}, refine={refine}": activation(given, refine=refine)
        for name, given in ACTIVATIONS.items()
        for refine in (True, False)
    },
    "activation whitened": activation("relu", whiten=True),
    "activation signed": activation("relu", positive=False, fit_bias=True, random_state=0),
    "activation cv": (lambda: im.ActivationSumRegressor("gelu", 2), "activation"),
    "mixture shared": mixture(),
    "mixture separate": mixture(covariance_type="spherical"),
    "mixture auto": mixture(n_components="auto", order="auto", max_components=5),
    "mixture known": mixture(variance=1.0, rows_per_block=100),
    "mixture generator": mixture(random_state=np.random.default_rng(3)),
    "mixture RandomState": mixture(random_state=np.random.RandomState(3)),
    **{f"gaussian {name}": gaussian(covariance_type=name) for name in (*COVARIANCE_TYPES, "auto")},
    "gaussian student": gaussian(noise="student"),
    "gaussian given": gaussian(means_init=np.eye(3), warm_start=True),
    "density": density(),
    "density cv": (lambda: im.SphericalMixtureDensity(2, random_state=0), "close"),
    "density constant": (lambda: im.SphericalMixtureDensity(1, random_state=0), "close"),
    "clusterer": (lambda: im.SphericalMixtureClusterer(3, random_state=0), "apart"),
    "regression": regression(),
    "regression separate": regression(noise_type="separate", fit_intercept=False),
    "regression student": regression(noise="student"),
    "regression auto": regression(n_components="auto", max_components=3),
    "regression density": regression_density(),
}


@cache
def fitted(name):
    make, kind = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(*rows(kind))


def answers(model, data):
    """All that a model answers, by the method and its arguments."""
    X, *y = (column[:200] for column in data)
    labelled = isinstance(model, im.RegressionMixture | im.RegressionMixtureDensity)
    both = (X, *y) if labelled else (X,)
    found = {}
    for method in ("predict", "predict_proba", "predict_component", "score_samples", "bic", "aic"):
        if hasattr(model, method):
            given = (X,) if method == "predict" else both
            found[method] = getattr(model, method)(*given)
    if hasattr(model, "score"):
        found["score"] = model.score(X, *y)
    if isinstance(model, im.SphericalMixture | im.GaussianMixture):
        found["sample"] = model.sample(20)
    elif hasattr(model, "sample"):
        found["sample"] = model.sample(20, random_state=7)
    if hasattr(model, "sample_y"):
        found["marginal"] = model.score_samples(X)
        found["sample_y"] = model.sample_y(X[:5], 3, random_state=7)
    return found


@pytest.fixture(params=MODELS)
def case(request):
    """A fitted model and the rows it was fitted to."""
    return fitted(request.param), rows(MODELS[request.param][1])


@pytest.fixture
def library():
    """What tests of this folder share."""
    return {"fitted": fitted, "answers": answers, "rows": rows}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def model(library):
    return library["fitted"]("mixture shared")
