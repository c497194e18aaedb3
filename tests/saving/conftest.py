"""Small fitted models of every estimator, and what they answer."""

import warnings
from functools import cache

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.moments import cosine


@cache
def rows(kind):
    """Rows to fit and to ask about; labels where there are any."""
    make = im.datasets
    if kind == "activations":
        return make.make_activation_sum(600, 2, 3, random_state=0)[:2]
    if kind == "lines":
        return make.make_regression_mixture(800, 2, 3, noise=0.5, random_state=0)[:2]
    radius = {"apart": 6.0, "close": 1.2}[kind]
    return make.make_spherical_mixture(1_000, 3, 3, radius=radius, random_state=0)[:1]


def gaussian(**how):
    return im.GaussianMixture(3, random_state=0, **how)


def activation(given, **how):
    return im.ActivationSumRegressor(given, 2, degree=2, random_state=0, **how)


MODELS = {
    "spherical": (lambda: im.SphericalMixture(3, order=4, random_state=0), "apart"),
    "gaussian auto": (lambda: gaussian(covariance_type="auto"), "apart"),
    "gaussian student": (lambda: gaussian(noise="student", errors="observed"), "apart"),
    "gaussian given": (lambda: gaussian(means_init=np.eye(3)), "apart"),
    "regression": (lambda: im.RegressionMixture(2, random_state=0), "lines"),
    "table": (lambda: im.TableMixture(3, random_state=0), "apart"),
    "clusterer": (lambda: im.SphericalMixtureClusterer(3, random_state=0), "apart"),
    "density": (lambda: im.SphericalMixtureDensity(2, random_state=0), "close"),
    "regression density": (
        lambda: im.RegressionMixtureDensity(2, degree=4, random_state=0),
        "lines",
    ),
    "activation": (lambda: activation("relu", whiten=True), "activations"),
    "activation signed": (
        lambda: activation(cosine(1.3, 0.2), positive=False, fit_bias=True),
        "activations",
    ),
    "activation plain": (lambda: activation("relu", refine=False), "activations"),
}


@cache
def fitted(name):
    """A fitted model; a test that changes one makes a copy."""
    make, kind = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make().fit(*rows(kind))


@pytest.fixture(params=MODELS)
def case(request):
    """A fitted model and the rows it was fitted to."""
    return fitted(request.param), rows(MODELS[request.param][1])


@pytest.fixture
def model():
    return fitted("spherical")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def fitted_by_name():
    return fitted
