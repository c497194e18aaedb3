"""SphericalMixture as a user sees it, and on what it should refuse."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.mixture import GaussianMixture

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from support import match_rows, refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")

K, D = 4, 5


@pytest.fixture(scope="module")
def data():
    return make_spherical_mixture(3_000, K, D, radius=5.0, separation=4.0, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    return im.SphericalMixture(K, order=4, random_state=0).fit(data[0])


def test_it_finds_the_mixture(data, fitted):
    _, truth = data
    assert match_rows(fitted.means_, truth.vectors)[1].max() < 0.2
    np.testing.assert_allclose(fitted.weights_, 1 / K, atol=0.03)
    assert fitted.variance_ == pytest.approx(1, abs=0.03)
    assert fitted.stats_["start"] == "moments"
    assert fitted.notes_ == []
    assert fitted.decoded_components_.identified
    assert fitted.converged_


def test_answers_agree_with_each_other(data, fitted):
    X, truth = data
    shares = fitted.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), fitted.predict(X))
    assert fitted.score(X) == pytest.approx(fitted.score_samples(X).mean())
    assert fitted.lower_bound_ == pytest.approx(fitted.score(X), abs=1e-6)
    labels = fitted.predict(X)
    agreement = [np.bincount(labels[truth.labels == i]).max() for i in range(K)]
    assert sum(agreement) > 0.98 * len(X)


def test_density_is_that_of_scikit_learn(data, fitted):
    X, _ = data
    twin = GaussianMixture(K, covariance_type="spherical")
    twin.weights_, twin.means_ = fitted.weights_, fitted.means_
    twin.covariances_ = np.full(K, fitted.variance_)
    twin.precisions_cholesky_ = 1 / np.sqrt(twin.covariances_)
    twin.n_features_in_ = D
    np.testing.assert_allclose(fitted.score_samples(X), twin.score_samples(X))
    # scikit-learn counts k variances where one is shared
    n, fewer = len(X), K - 1
    assert fitted.bic(X) == pytest.approx(twin.bic(X) - fewer * np.log(n))
    assert fitted.aic(X) == pytest.approx(twin.aic(X) - 2 * fewer)


def test_parameters_are_counted(data):
    X, _ = data
    n = {}
    for name, options in {
        "shared": {},
        "separate": {"covariance_type": "spherical"},
        "known": {"variance": 1.0},
    }.items():
        model = im.SphericalMixture(K, random_state=0, **options).fit(X)
        n[name] = (model.aic(X) + 2 * len(X) * model.score(X)) / 2
    assert n["shared"] == pytest.approx(K * D + K - 1 + 1)
    assert n["separate"] == pytest.approx(K * D + K - 1 + K)
    assert n["known"] == pytest.approx(K * D + K - 1)


def test_samples_have_the_moments_of_the_mixture(fitted):
    X, labels = clone(fitted).set_params(random_state=1).fit(fitted.sample(4_000)[0]).sample(9)
    assert X.shape == (9, D)
    assert np.all(np.diff(labels) >= 0)
    X, labels = fitted.sample(40_000)
    np.testing.assert_allclose(np.bincount(labels) / len(X), fitted.weights_, atol=0.02)
    for i, mean in enumerate(fitted.means_):
        np.testing.assert_allclose(X[labels == i].mean(axis=0), mean, atol=0.06)
    with refuses("invalid_parameter"):
        fitted.sample(0)


def test_more_components_than_features():
    X, truth = make_spherical_mixture(20_000, 12, 6, radius=5.0, separation=3.5, random_state=1)
    model = im.SphericalMixture(12, order=4, random_state=0).fit(X)
    assert model.decoded_components_ is not None
    assert match_rows(model.means_, truth.vectors)[1].max() < 0.25
    assert model.variance_ == pytest.approx(1, abs=0.02)


def test_separate_variances_are_found():
    rng = np.random.default_rng(0)
    means, variances = 6 * np.eye(5)[:4], np.array([0.3, 0.8, 1.5, 2.5])
    labels = rng.integers(4, size=6_000)
    X = means[labels] + np.sqrt(variances[labels])[:, None] * rng.normal(size=(6_000, 5))
    model = im.SphericalMixture(4, covariance_type="spherical", random_state=0).fit(X)
    np.testing.assert_allclose(np.sort(model.variance_), variances, rtol=0.08)
    shared = im.SphericalMixture(4, random_state=0).fit(X)
    assert model.score(X) > shared.score(X) + 0.1


def test_the_number_of_components_is_found(data):
    X, truth = data
    model = im.SphericalMixture("auto", random_state=0).fit(X)
    assert model.n_components_ == K
    assert match_rows(model.means_, truth.vectors)[1].max() < 0.2
    bics = model.stats_["bic_by_n_components"]
    assert min(bics, key=bics.get) == K
    noise = np.random.default_rng(0).normal(size=(2_000, 3))
    assert im.SphericalMixture("auto", random_state=0).fit(noise).n_components_ == 1


def test_known_variance_is_kept(data):
    X, _ = data
    assert im.SphericalMixture(K, variance=1.2, random_state=0).fit(X).variance_ == 1.2


def test_moments_that_resolve_nothing_do_not_spoil_the_fit():
    X, _ = make_spherical_mixture(8_000, 8, 1, radius=(0, 10.0), separation=2.2, random_state=0)
    decoded, plain = (
        im.SphericalMixture(8, order=order, random_state=0).fit(X) for order in (4, "auto")
    )
    assert decoded.stats_["start"] == "k-means++"
    assert decoded.lower_bound_ == pytest.approx(plain.lower_bound_, abs=2 / len(X))


def test_moments_are_decoded_where_they_are_asked_for():
    X, _ = make_spherical_mixture(4_000, 6, 4, radius=8.0, separation=6.0, random_state=0)
    model = im.SphericalMixture(6, random_state=0).fit(X)
    assert model.decoded_components_ is None
    asked = im.SphericalMixture(6, order=4, random_state=0).fit(X)
    assert asked.decoded_components_.identified
    assert (asked.stats_["start"], asked.stats_["resolved"]) == ("moments", 6)
    assert asked.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-6)
    with refuses("order_needs_number"):
        im.SphericalMixture("auto", order=4).fit(X)
