"""Data sets that ship with scikit-learn: likelihoods beside its own, and classes that are found.

``benchmarks/real_data.py`` compares more sets, and with mclust.
"""

import warnings
from functools import cache

import pytest
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
# least adjusted Rand index of full covariances, with as many components as classes
CLASSES = {"iris": 0.85, "wine": 0.3, "breast_cancer": 0.5, "digits": 0.6}
# types with fewer parameters that each contains
CONTAINS = {
    "spherical": ["tied_spherical"],
    "tied_diag": ["tied_spherical"],
    "diag": ["spherical", "tied_diag"],
    "tied": ["tied_diag"],
    "full": ["diag", "tied"],
}
STARTS = 5  # of scikit-learn
AS_GOOD = 2.0  # nats


@cache
def rows(name):
    """Standardised columns, and classes."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":
        X = PCA(10, random_state=0).fit_transform(X)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@cache
def fit(name, kind, **how):
    X, y = rows(name)
    how = {"covariance_type": kind, "drop_outliers": False, "random_state": 0} | how
    return im.GaussianMixture(len(set(y)), **how).fit(X)


def log_likelihood(model, name):
    X, _ = rows(name)
    return model.score(X) * len(X)


@cache
def peer_level(name, kind):
    """Log-likelihood of scikit-learn's best start, after EM has converged."""
    X, y = rows(name)
    model = Peer(len(set(y)), covariance_type=kind, n_init=STARTS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X).set_params(warm_start=True, tol=1e-6, max_iter=1000).fit(X)
    return log_likelihood(model, name)


@pytest.mark.parametrize("kind", ["spherical", "diag", "tied", "full"])
@pytest.mark.parametrize("name", CLASSES)
def test_the_likelihood_is_that_of_several_starts_or_higher(name, kind):
    assert log_likelihood(fit(name, kind), name) > peer_level(name, kind) - AS_GOOD


def test_em_from_one_start_without_moves_is_noticed():
    alone = fit("digits", "full", init_params="k-means++", n_moves=0)
    assert log_likelihood(alone, "digits") < peer_level("digits", "full") - AS_GOOD


@pytest.mark.parametrize("name", CLASSES)
def test_a_type_that_contains_another_has_no_lower_likelihood(name):
    levels = {kind: log_likelihood(fit(name, kind), name) for kind in COVARIANCE_TYPES}
    for kind, others in CONTAINS.items():
        assert all(levels[kind] >= levels[other] for other in others), kind


@pytest.mark.parametrize("name", CLASSES)
def test_full_components_are_classes(name, rng):
    X, y = rows(name)
    found = fit(name, "full").predict(X)
    assert adjusted_rand_score(y, found) > CLASSES[name]
    assert abs(adjusted_rand_score(rng.permutation(y), found)) < 0.1


@pytest.mark.parametrize("name", CLASSES)
def test_no_component_collapses(name):
    X, _ = rows(name)
    model = fit(name, "full")
    assert model.weights_.min() * len(X) > X.shape[1] + 1
