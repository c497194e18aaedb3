"""Fits of other libraries that start from `im.start`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

import implicitmoments as im
from support import refuses

SHAPES = {
    "full": lambda k, d: (k, d, d),
    "tied": lambda k, d: (d, d),
    "diag": lambda k, d: (k, d),
    "spherical": lambda k, d: (k,),
}


def make_rows(seed, k, d, n=400):
    """Rows of k elongated components, some of which overlap."""
    rng = np.random.default_rng(seed)
    means = rng.normal(scale=4.0, size=(k, d))
    shapes = np.eye(d) + 0.4 * rng.normal(size=(k, d, d))
    labels = rng.integers(k, size=n)
    return means[labels] + np.einsum("nij,nj->ni", shapes[labels], rng.normal(size=(n, d)))


def as_options(begun):
    return {f"{name}_init": value for name, value in begun._asdict().items()}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("kind", SHAPES)
@settings(max_examples=3)
@given(seed=st.integers(0, 1_000), k=st.integers(1, 4), d=st.integers(1, 3))
def test_scikit_learn_reaches_our_likelihood(kind, seed, k, d):
    X = make_rows(seed, k, d)
    ours = im.GaussianMixture(k, covariance_type=kind, drop_outliers=False, random_state=0).fit(X)
    begun = im.start(X, k, covariance_type=kind, random_state=0)
    assert begun.precisions.shape == SHAPES[kind](k, d)
    theirs = GaussianMixture(k, covariance_type=kind, **as_options(begun)).fit(X)
    assert theirs.score(X) >= ours.score(X) - 1e-3


@pytest.mark.parametrize("kind", SHAPES)
def test_parameters_are_those_of_the_estimator(kind):
    X, counts = make_rows(0, 3, 2), np.arange(400) % 4
    begun = im.start(X, 3, covariance_type=kind, sample_weight=counts, random_state=0)
    model = im.GaussianMixture(3, covariance_type=kind, random_state=0)
    model.fit(X, sample_weight=counts)
    for name, value in begun._asdict().items():
        np.testing.assert_array_equal(value, getattr(model, f"{name}_"))


def test_what_no_other_library_takes_is_refused():
    X = make_rows(0, 2, 2)
    with refuses("invalid_parameter"):
        im.start(X, 2, covariance_type="tied_diag")
    X = np.column_stack([X, np.ones(len(X))])
    with refuses("precisions_infinite", columns=["x2"]):
        im.start(X, 2)
    means, _, precisions = im.start(X, 2, covariance_type="spherical", random_state=0)
    np.testing.assert_allclose(means[:, 2], 1.0)
    assert np.isfinite(precisions).all()
