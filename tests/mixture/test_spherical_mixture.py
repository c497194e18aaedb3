"""SphericalMixture as a user sees it, and on what it should refuse."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

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


def test_weights_come_sorted_and_sum_to_one(fitted):
    assert np.all(np.diff(fitted.weights_) <= 0)
    assert fitted.weights_.sum() == pytest.approx(1)


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


def test_draws_have_a_seed_of_their_own(fitted):
    one, other = fitted.sample(9, random_state=5), fitted.sample(9, random_state=6)
    np.testing.assert_array_equal(one[0], fitted.sample(9, random_state=5)[0])
    assert not np.array_equal(one[0], other[0])
    np.testing.assert_array_equal(
        fitted.sample(9)[0], fitted.sample(9, random_state=fitted.random_state)[0]
    )


def test_more_components_than_features():
    X, truth = make_spherical_mixture(20_000, 12, 6, radius=5.0, separation=3.5, random_state=1)
    model = im.SphericalMixture(12, order=4, random_state=0).fit(X)
    assert model.decoded_components_ is not None
    assert match_rows(model.means_, truth.vectors)[1].max() < 0.25
    assert model.variance_ == pytest.approx(1, abs=0.02)


def test_weights_of_rows_count(data):
    X, truth = data
    counts = (truth.labels != 0).astype(float)
    without = im.SphericalMixture(K - 1, random_state=0).fit(X, sample_weight=counts)
    assert match_rows(without.means_, truth.vectors[1:])[1].max() < 0.2
    scaled = im.SphericalMixture(K - 1, random_state=0).fit(X, sample_weight=1e-3 * counts)
    np.testing.assert_allclose(scaled.means_, without.means_, atol=1e-4)


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


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_is_no_worse_than_one_start_of_scikit_learn(seed):
    """On rows of no mixture at all, with as many free variances as scikit-learn has."""
    X = np.random.default_rng(seed).uniform(-1, 1, (1_500, 3)) ** 3
    peer = GaussianMixture(5, covariance_type="spherical", random_state=seed, tol=1e-5)
    peer.set_params(max_iter=500).fit(X)
    model = im.SphericalMixture(5, covariance_type="spherical", random_state=seed).fit(X)
    assert model.score(X) > peer.score(X) - 0.01


def test_it_works_in_pipelines_and_searches(data):
    X, _ = data
    pipe = make_pipeline(PCA(3), im.SphericalMixture(K, random_state=0))
    assert len(set(pipe.fit(X).predict(X))) == K
    search = GridSearchCV(im.SphericalMixture(random_state=0), {"n_components": [2, K]}, cv=2)
    assert search.fit(X).best_params_ == {"n_components": K}


def test_one_seed_one_fit(data):
    X, _ = data
    first, second = (im.SphericalMixture(K, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.means_, second.means_)


def test_blocks_do_not_matter(data, fitted):
    X, _ = data
    other = im.SphericalMixture(K, random_state=0, rows_per_block=100).fit(X)
    np.testing.assert_allclose(other.means_, fitted.means_, atol=1e-5)


def test_precision_and_integers(data):
    X, truth = data
    single = im.SphericalMixture(K, random_state=0).fit(X.astype(np.float32))
    assert match_rows(single.means_, truth.vectors)[1].max() < 0.2
    assert np.isfinite(single.score_samples(X.astype(np.float32))).all()
    whole = im.SphericalMixture(K, random_state=0).fit(np.round(100 * X).astype(int))
    assert match_rows(whole.means_ / 100, truth.vectors)[1].max() < 0.2


@pytest.mark.parametrize(("factor", "shift"), [(1e-20, 0.0), (1e100, 0.0), (1.0, 1e7)])
def test_units_and_origin_do_not_matter(data, fitted, factor, shift):
    X, _ = data
    moved = im.SphericalMixture(K, random_state=0).fit(factor * X + shift)
    back = (moved.means_ - shift) / factor
    assert match_rows(back, fitted.means_)[1].max() < 1e-3
    assert moved.variance_ / factor**2 == pytest.approx(fitted.variance_, rel=1e-3)


def test_one_far_row_is_left_out_and_counted(data):
    X, truth = data
    X = X.copy()
    X[7] = 1e6
    model = im.SphericalMixture(K, random_state=0).fit(X)
    assert model.stats_["outliers"] == 1
    assert model.notes_.codes == ["outliers"]
    assert match_rows(model.means_, truth.vectors)[1].max() < 0.2
    # with it, the likelihood spends a component on one row
    kept = im.SphericalMixture(K, drop_outliers=False, random_state=0).fit(X)
    assert match_rows(kept.means_, truth.vectors)[1].max() > 1e5


def test_groups_at_very_different_distances():
    rng = np.random.default_rng(0)
    near, truth = make_spherical_mixture(6_000, 6, 8, radius=5.0, separation=4.0, random_state=3)
    shift = np.where(rng.uniform(size=6_000) < 0.5, 1e6, 0.0)[:, None]
    model = im.SphericalMixture(12, random_state=0).fit(near + shift)
    means = np.vstack([truth.vectors, truth.vectors + 1e6])
    assert match_rows(model.means_, means)[1].max() < 0.5


def test_columns_and_rows_that_say_nothing(data):
    X, truth = data
    constant = im.SphericalMixture(K, random_state=0).fit(
        np.hstack([X, np.full((len(X), 1), 7.0)])
    )
    assert match_rows(constant.means_[:, :D], truth.vectors)[1].max() < 0.2
    np.testing.assert_allclose(constant.means_[:, D], 7.0)
    copied = im.SphericalMixture(K, random_state=0).fit(np.hstack([X, X[:, :1]]))
    assert match_rows(copied.means_[:, :D], truth.vectors)[1].max() < 0.2
    tripled = im.SphericalMixture(K, random_state=0).fit(np.vstack([X, X, X]))
    assert match_rows(tripled.means_, truth.vectors)[1].max() < 0.2


def test_the_smallest_cases(data):
    X, _ = data
    one = im.SphericalMixture(1, random_state=0).fit(X)
    np.testing.assert_allclose(one.means_[0], X.mean(axis=0))
    assert one.variance_ == pytest.approx(X.var(axis=0).mean())
    line = im.SphericalMixture(2, random_state=0).fit(np.array([[-1.0], [-1.1], [5.0], [5.1]]))
    np.testing.assert_allclose(np.sort(line.means_.ravel()), [-1.05, 5.05], atol=1e-3)
    with refuses("too_few_distinct_rows", n=1, total=10):
        im.SphericalMixture(3).fit(np.ones((10, 2)))
    assert im.SphericalMixture(2, random_state=0).fit(X[:2]).means_.shape == (2, D)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"n_components": 0}, "invalid_parameter"),
        ({"n_components": 2.5}, "invalid_parameter"),
        ({"n_components": "many"}, "invalid_parameter"),
        ({"variance": 0.0}, "invalid_parameter"),
        ({"variance": "one"}, "invalid_parameter"),
        ({"covariance_type": "full"}, "invalid_parameter"),
        ({"variance": 1.0, "covariance_type": "spherical"}, "variance_known_and_estimated"),
        ({"order": 8}, "invalid_parameter"),
        ({"order": 3}, "invalid_parameter"),
        ({"tol": -1.0}, "invalid_parameter"),
        ({"max_iter": 0}, "invalid_parameter"),
        ({"n_moves": -1}, "invalid_parameter"),
        ({"rows_per_block": 0}, "invalid_parameter"),
    ],
)
def test_parameters_that_cannot_be(data, options, code):
    with refuses(code):
        im.SphericalMixture(**options).fit(data[0])


def test_rows_that_cannot_be(data):
    X, _ = data
    with refuses("too_few_rows", k=K, n=3):
        im.SphericalMixture(K).fit(X[:3])
    with pytest.raises(ValueError):  # noqa: PT011 (the code is that of every estimator)
        im.SphericalMixture(K).fit(X, sample_weight=np.zeros(len(X)))
    with refuses("too_few_rows", k=K, n=1):
        im.SphericalMixture(K).fit(X, sample_weight=np.eye(len(X))[0])
    with refuses("entries_too_large"):
        im.SphericalMixture(K).fit(X * 1e200)
    for bad in (np.nan, np.inf):
        spoilt = X.copy()
        spoilt[3, 2] = bad
        with pytest.raises(ValueError):  # noqa: PT011 (the code is that of every estimator)
            im.SphericalMixture(K).fit(spoilt)
    with pytest.raises(NotFittedError):
        im.SphericalMixture(K).predict(X)


def test_too_few_iterations_are_told(data):
    with pytest.warns(ConvergenceWarning) as caught:
        model = im.SphericalMixture(K, max_iter=1, tol=0.0, random_state=0).fit(data[0])
    assert caught[0].filename == __file__
    assert model.notes_[-1].code == "not_converged"
    assert model.notes_[-1].values == {"max_iter": 1}


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
