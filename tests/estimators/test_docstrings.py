"""What docstrings of estimators say of parameters and attributes is so."""

import ast
import inspect
import re

import pytest

import implicitmoments as im
from implicitmoments.datasets import (
    make_activation_sum,
    make_regression_mixture,
    make_spherical_mixture,
)

ESTIMATORS = [
    im.SphericalMixture,
    im.SphericalMixtureDensity,
    im.SphericalMixtureClusterer,
    im.RegressionMixture,
    im.RegressionMixtureDensity,
    im.ActivationSumRegressor,
]
each = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)


def section(estimator, title):
    text = inspect.getdoc(estimator)
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n---|\Z)", text, re.M | re.S)
    return found.group(1)


@each
def test_defaults_are_those_of_the_signature(estimator):
    said = {}
    for name, kind in re.findall(r"^(\w+) : (.*)$", section(estimator, "Parameters"), re.M):
        stated = re.search(r", default (.+)$", kind)
        assert (stated is None) == kind.endswith(", optional"), name
        said[name] = ast.literal_eval(stated.group(1)) if stated else None
    assert said == estimator().get_params()
    assert list(said) == list(inspect.signature(estimator).parameters)


@each
def test_features_are_among_the_attributes(estimator):
    found = re.findall(r"^(\w+(?:, \w+)*) : ", section(estimator, "Attributes"), re.M)
    named = {name for names in found for name in names.split(", ")}
    assert {"n_features_in_", "feature_names_in_", "stats_"} <= named


def fitted():
    """Fits that together hold every statistic."""
    X, _ = make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    yield im.SphericalMixture("auto", random_state=0).fit(X)
    yield im.SphericalMixture(3, order=4, random_state=0).fit(X)
    yield im.SphericalMixture(3, random_state=0).partial_fit(X)
    X, y, _ = make_regression_mixture(2_000, 2, 4, noise=0.2, random_state=0)
    yield im.RegressionMixture("auto", random_state=0).fit(X, y)
    yield im.RegressionMixture(2, random_state=0).partial_fit(X, y)
    X, y, _ = make_activation_sum(1_000, 2, 4, random_state=0)
    yield im.ActivationSumRegressor(n_components=2).fit(X, y)


def test_statistics_that_are_named_are_kept():
    kept = {}
    for model in fitted():
        kept.setdefault(type(model), set()).update(model.stats_)
    for estimator, keys in kept.items():
        told = section(estimator, "Attributes").split("stats_ : dict\n")[1]
        told = re.split(r"^\w", told, maxsplit=1, flags=re.M)[0]
        named = set(re.findall(r"``(\w+)``", told)) - {"predict", "partial_fit"}
        assert named <= keys, named - keys
        assert len(named) >= 5
    assert keys == named  # of activations all are named
