"""What users of scikit-learn do with every estimator: copies, pipelines, searches, data frames."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import implicitmoments as im
from implicitmoments.datasets import (
    make_activation_sum,
    make_regression_mixture,
    make_spherical_mixture,
)
from support import refuses

NAMES = ["height", "width", "depth", "weight"]
# an estimator, a parameter to search through, and its values: the first fits the data better
MANNERS = {
    "SphericalMixture": (im.SphericalMixture(2), "n_components", [3, 1]),
    "GaussianMixture": (im.GaussianMixture(2), "n_components", [3, 1]),
    "TableMixture": (im.TableMixture(2), "n_components", [3, 1]),
    "SphericalMixtureDensity": (im.SphericalMixtureDensity(3, degree=2), "degree", [4, 2]),
    "SphericalMixtureClusterer": (im.SphericalMixtureClusterer(2), "n_components", [3, 2]),
    "ActivationSumRegressor": (im.ActivationSumRegressor(n_components=2), "n_components", [2, 1]),
    "RegressionMixture": (im.RegressionMixture(1), "n_components", [2, 1]),
    "RegressionMixtureDensity": (im.RegressionMixtureDensity(2, degree=2), "degree", [4, 2]),
}
pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")


def rows(name):
    """Rows that suit the estimator, as a data frame, with labels where it takes them."""
    d, seed = len(NAMES), {"random_state": 0}
    if name == "ActivationSumRegressor":
        X, y, _ = make_activation_sum(1_500, 2, d, noise=0.05, **seed)
    elif name.startswith("Regression"):
        radius = 0.8 if name.endswith("Density") else 2.0
        X, y, _ = make_regression_mixture(1_500, 2, d, radius=radius, noise=0.5, **seed)
    else:
        radius = 1.5 if name.endswith("Density") else 8.0
        X, _ = make_spherical_mixture(1_500, 3, d, radius=radius, separation=radius, **seed)
        y = None
    return pd.DataFrame(X, columns=NAMES), y


@pytest.fixture(params=MANNERS)
def case(request):
    estimator, parameter, values = MANNERS[request.param]
    X, y = rows(request.param)
    return clone(estimator).set_params(random_state=0), parameter, values, X, y


def test_every_estimator_is_here():
    public = {
        name
        for name in im.__all__
        if inspect.isclass(found := getattr(im, name)) and issubclass(found, BaseEstimator)
    }
    assert public == set(MANNERS)


def test_copies_have_the_parameters_and_nothing_of_the_fit(case):
    estimator, *_, X, y = case
    copied = clone(estimator.fit(X, y))
    assert repr(copied.get_params()) == repr(estimator.get_params())
    assert {name for name in vars(copied) if name.endswith("_")} == set()
    with pytest.raises(NotFittedError):
        (copied.predict if hasattr(copied, "predict") else copied.score_samples)(X)


def test_pipelines_give_what_their_steps_give(case):
    estimator, *_, X, y = case
    scaler = StandardScaler(with_std=False)
    pipeline = make_pipeline(scaler, estimator).fit(X, y)
    moved = scaler.fit_transform(X)
    alone = clone(estimator).fit(moved, y)
    asked = "predict" if hasattr(alone, "predict") else "score_samples"
    np.testing.assert_array_equal(
        getattr(pipeline, asked)(X), getattr(alone, asked)(moved), strict=True
    )


def test_set_output_brings_data_frames_and_names_to_the_estimator(case):
    estimator, *_, X, y = case
    chosen = make_column_transformer(
        (StandardScaler(with_std=False), NAMES[1:]), verbose_feature_names_out=False
    )
    pipeline = make_pipeline(chosen, estimator).set_output(transform="pandas").fit(X, y)
    assert list(pipeline[-1].feature_names_in_) == NAMES[1:]
    plain = make_pipeline(clone(chosen).set_output(transform="default"), clone(estimator))
    plain.fit(X, y)
    asked = "predict" if hasattr(estimator, "predict") else "score_samples"
    # frames and arrays lie in memory in other orders, by which products round
    found, expected = (getattr(each, asked)(X) for each in (pipeline, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_only_transformers_have_set_output_of_their_own():
    having = {name for name, (each, *_) in MANNERS.items() if hasattr(each, "set_output")}
    assert having == {"SphericalMixtureClusterer"}


def test_a_fit_that_raised_an_error_leaves_no_fitted_model():
    model = im.SphericalMixtureClusterer(60)
    X = np.random.default_rng(0).normal(size=(50, 2))
    with refuses("too_few_rows"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.predict(X)
