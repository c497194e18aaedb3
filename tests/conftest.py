"""Fixtures shared by all tests."""

import warnings
from typing import NamedTuple

import array_api_strict
import numpy as np
import pytest
from hypothesis import settings

import implicitmoments as im

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


@pytest.fixture(params=["numpy", "array_api_strict"])
def xp(request):
    return {"numpy": np, "array_api_strict": array_api_strict}[request.param]


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)


class Fitted(NamedTuple):
    model: object
    X: np.ndarray
    y: np.ndarray | None


@pytest.fixture(scope="session")
def fitted():
    """One small fitted model of every estimator, by name, with its rows."""
    made = im.datasets
    X, _ = made.make_spherical_mixture(1500, 4, 4, radius=6.0, separation=6.0, random_state=0)
    close, _ = made.make_spherical_mixture(1500, 3, 4, radius=1.2, random_state=0)
    A, a, _ = made.make_regression_mixture(1500, 3, 4, noise=0.2, random_state=0)
    B, b, _ = made.make_regression_mixture(1500, 3, 3, noise=1.0, random_state=0)
    C, c, _ = made.make_activation_sum(1500, 3, 5, random_state=0)
    density = im.RegressionMixtureDensity(3, max_degree=4, random_state=0)
    models = [
        Fitted(im.SphericalMixture(4, random_state=0), X, None),
        Fitted(im.GaussianMixture(4, random_state=0), X, None),
        Fitted(im.SphericalMixtureClusterer(4, variance=1.0, random_state=0), X, None),
        Fitted(im.SphericalMixtureDensity(3, max_degree=4, random_state=0), close, None),
        Fitted(im.RegressionMixture(3, random_state=0), A, a),
        Fitted(density, B, b),
        Fitted(im.ActivationSumRegressor(n_components=3, random_state=0), C, c),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.AssumptionWarning)
        for model, rows, labels in models:
            model.fit(rows, labels)
    return {type(each.model).__name__: each for each in models}
