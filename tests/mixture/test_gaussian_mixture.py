"""GaussianMixture finds the components; scikit-learn from one start does not always."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from sklearn import datasets as sklearn_datasets
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as OneStart
from sklearn.preprocessing import StandardScaler

import implicitmoments as im
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES
from support import refuses

TYPES = ("full", "tied", "diag", "spherical")


class Truth(NamedTuple):
    """The mixture from which rows were drawn, with covariances (k, d, d)."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def draw(name, k, d, n, separation, seed, zipf=0.0):
    """Rows of a mixture with covariances of a type, means apart in Mahalanobis units; truth."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(k, d, d)))[0]
    values = np.exp(rng.uniform(-1, 1, size=(k, d)))
    if name.startswith("tied"):
        axes, values = np.repeat(axes[:1], k, axis=0), np.repeat(values[:1], k, axis=0)
    if name.endswith("spherical"):
        values[:] = values.mean(axis=1, keepdims=True)
    if name not in ("full", "tied"):
        axes = np.repeat(np.eye(d)[None], k, axis=0)
    covariances = (axes * values[:, None, :]) @ axes.transpose(0, 2, 1)
    means, radius = [], 0.6 * separation * k ** (1 / d)
    while len(means) < k:
        radius *= 1.001
        at = radius * rng.normal(size=d)
        within = [(covariances[len(means)] + C) / 2 for C in covariances]
        if all(
            (at - m) @ np.linalg.solve(C, at - m) > separation**2
            for m, C in zip(means, within, strict=False)
        ):
            means.append(at)
    weights = np.arange(1, k + 1) ** -zipf
    labels = rng.choice(k, n, p=weights / weights.sum())
    roots = np.linalg.cholesky(covariances)
    X = np.array(means)[labels] + np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(n, d)))
    return X, labels, Truth(weights / weights.sum(), np.array(means), covariances)


def from_truth(X, truth, name):
    """Log-likelihood of scikit-learn's EM from the truth."""
    precisions = np.linalg.inv(truth.covariances)
    given = {
        "full": precisions,
        "tied": precisions[0],
        "diag": np.diagonal(precisions, axis1=1, axis2=2),
        "spherical": precisions[:, 0, 0],
    }[name]
    model = OneStart(
        len(truth.weights),
        covariance_type=name,
        weights_init=truth.weights,
        means_init=truth.means,
        precisions_init=given,
        tol=1e-6,
        max_iter=500,
    )
    return model.fit(X).score(X) * len(X)


@pytest.mark.parametrize("name", TYPES)
def test_it_reaches_em_from_the_truth_where_one_start_does_not(name):
    ours, theirs = [], []
    for seed in range(3):
        X, _, truth = draw(name, 15, 4, 6_000, 3.0, seed)
        reference = from_truth(X, truth, name)
        model = im.GaussianMixture(15, covariance_type=name, random_state=0).fit(X)
        ours.append(model.score(X) * len(X) - reference)
        one = OneStart(15, covariance_type=name, random_state=seed).fit(X)
        theirs.append(one.score(X) * len(X) - reference)
    assert min(ours) > -2.0
    assert min(theirs) < -100.0  # negative control: the data are not easy


def test_the_number_and_the_type_are_found():
    for name in ("full", "tied", "diag", "tied_spherical"):
        X, _, _ = draw(name, 4, 3, 3_000, 5.0, 1)
        model = im.GaussianMixture("auto", covariance_type="auto", random_state=0).fit(X)
        assert (model.covariance_type_, model.n_components_) == (name, 4)
        assert set(model.stats_["bic_by_covariance_type"]) == set(COVARIANCE_TYPES)


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("name", TYPES)
def test_real_rows_are_at_least_as_likely_as_from_twenty_starts(name):
    X = StandardScaler().fit_transform(sklearn_datasets.load_iris().data)
    theirs = OneStart(3, covariance_type=name, n_init=20, random_state=0, tol=1e-6).fit(X)
    model = im.GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    assert model.score(X) * len(X) > theirs.score(X) * len(X) - 0.1


def test_the_type_and_the_number_of_iris_have_the_least_criterion():
    """Of mclust's models of these six types, VVV with two components."""
    X = sklearn_datasets.load_iris().data
    model = im.GaussianMixture("auto", covariance_type="auto", random_state=0).fit(X)
    assert (model.covariance_type_, model.n_components_) == ("full", 2)
    assert model.bic(X) == pytest.approx(574.0, abs=0.1)


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_components_do_not_collapse():
    """Likelihood is not bought with components of a row or two."""
    X = sklearn_datasets.load_iris().data
    model = im.GaussianMixture("auto", covariance_type="spherical", random_state=0).fit(X)
    assert model.n_components_ < 12
    assert model.weights_.min() * len(X) > 3


@pytest.mark.parametrize("name", TYPES)
def test_attributes_have_the_shapes_and_meaning_of_scikit_learn(name):
    X, _, _ = draw(name, 3, 4, 1_000, 5.0, 0)
    ours = im.GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    theirs = OneStart(3, covariance_type=name, n_init=5, random_state=0, tol=1e-9).fit(X)
    order = np.argsort(-theirs.weights_)
    assert ours.lower_bound_ == pytest.approx(ours.score(X), rel=1e-9)
    for attribute in ("covariances_", "precisions_", "precisions_cholesky_", "means_"):
        expected = getattr(theirs, attribute)
        expected = expected if name == "tied" and attribute != "means_" else expected[order]
        assert getattr(ours, attribute).shape == expected.shape
        np.testing.assert_allclose(getattr(ours, attribute), expected, rtol=0.02, atol=0.02)
    # the same parameters give the same answers
    theirs.weights_, theirs.means_ = ours.weights_, ours.means_
    theirs.precisions_cholesky_ = ours.precisions_cholesky_
    theirs.covariances_ = ours.covariances_
    for method in ("score_samples", "predict_proba", "predict", "bic", "aic"):
        np.testing.assert_allclose(
            getattr(ours, method)(X), getattr(theirs, method)(X), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("name", COVARIANCE_TYPES)
def test_samples_have_the_covariances(name):
    X, _, _ = draw(name, 3, 3, 3_000, 6.0, 0)
    model = im.GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    rows, labels = model.sample(60_000, 1)
    np.testing.assert_allclose(np.bincount(labels) / 60_000, model.weights_, atol=0.01)
    for i in range(3):
        whole = model._covariances()[i]
        whole = whole if whole.ndim == 2 else np.diag(whole)
        np.testing.assert_allclose(np.cov(rows[labels == i].T), whole, atol=0.15)
    assert (
        np.shape(model.covariances_)
        == {
            "tied_spherical": (),
            "spherical": (3,),
            "tied_diag": (3,),
            "diag": (3, 3),
            "tied": (3, 3),
            "full": (3, 3, 3),
        }[name]
    )


def test_icl_charges_for_overlap():
    apart, _, _ = draw("full", 3, 2, 2_000, 9.0, 0)
    model = im.GaussianMixture(3, random_state=0).fit(apart)
    assert model.icl(apart) == pytest.approx(model.bic(apart), rel=1e-4)
    near, _, _ = draw("full", 3, 2, 2_000, 1.0, 0)
    model = im.GaussianMixture(3, random_state=0).fit(near)
    assert model.icl(near) > model.bic(near) + 100


def test_repeated_rows_are_weights(rng):
    X, _, _ = draw("full", 4, 3, 800, 4.0, 2)
    times = rng.integers(0, 4, size=len(X))
    weighted = im.GaussianMixture(4, random_state=0).fit(X, sample_weight=times)
    repeated = im.GaussianMixture(4, random_state=0).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighted.means_, repeated.means_, rtol=1e-6)
    np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-5, atol=1e-8)


def test_starts_that_the_user_gives():
    X, _, truth = draw("full", 4, 2, 2_000, 4.0, 0)
    precisions = np.linalg.inv(truth.covariances)
    how = {"weights_init": truth.weights, "means_init": truth.means}
    model = im.GaussianMixture(4, precisions_init=precisions, n_moves=0, **how).fit(X)
    assert model.stats_["start"] == "given"
    np.testing.assert_allclose(model.means_, truth.means, atol=0.3)  # in the order given
    only = im.GaussianMixture(4, means_init=truth.means, n_moves=0).fit(X)
    np.testing.assert_allclose(only.means_, model.means_, atol=0.01)


def test_a_warm_start_goes_on_from_the_last_fit():
    X, _, _ = draw("full", 4, 2, 2_000, 3.0, 0)
    model = im.GaussianMixture(4, warm_start=True, random_state=0).fit(X)
    assert model.stats_["start"] != "given"
    before = model.lower_bound_
    assert model.fit(X).stats_["start"] == "given"
    assert model.lower_bound_ == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize(("which", "start"), [("auto", "merge"), ("k-means++", "k-means++")])
def test_where_a_search_starts(which, start):
    X, _, _ = draw("full", 4, 2, 1_000, 4.0, 0)
    model = im.GaussianMixture(4, init_params=which, random_state=0).fit(X)
    assert model.stats_["start"] == start
    alone = im.GaussianMixture(4, init_params=which, n_moves=0, random_state=0).fit(X)
    assert alone.lower_bound_ <= model.lower_bound_ + 1e-6


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"means_init": np.zeros((3, 2))}, "init_of_wrong_shape"),
        ({"weights_init": np.ones(3) / 3}, "init_of_wrong_shape"),
        ({"weights_init": np.full(2, 0.6)}, "weights_not_a_distribution"),
        ({"weights_init": [1.5, -0.5]}, "weights_not_a_distribution"),
        ({"precisions_init": -np.ones((2, 2, 2))}, "precisions_not_positive"),
        ({"precisions_init": [[[1.0, 0.5], [0.0, 1.0]]] * 2}, "precisions_not_positive"),
        ({"precisions_init": np.eye(3), "covariance_type": "tied"}, "init_of_wrong_shape"),
        (
            {"precisions_init": [1.0, 0.0], "covariance_type": "tied_diag"},
            "precisions_not_positive",
        ),
        (
            {"precisions_init": -1.0, "covariance_type": "tied_spherical"},
            "precisions_not_positive",
        ),
        ({"precisions_init": np.eye(2), "covariance_type": "auto"}, "init_with_auto"),
        ({"n_components": "auto", "means_init": np.zeros((2, 2))}, "init_with_auto"),
        ({"covariance_type": "round"}, "invalid_parameter"),
        ({"init_params": "kmeans", "n_components": "auto"}, "init_with_auto"),
        ({"reg_covar": -1.0}, "invalid_parameter"),
        ({"warm_start": "yes"}, "invalid_parameter"),
    ],
)
def test_parameters_that_cannot_be_used(how, code):
    X = np.random.default_rng(0).normal(size=(50, 2))
    with refuses(code):
        im.GaussianMixture(**{"n_components": 2, **how}).fit(X)


@pytest.mark.parametrize("means", [[[0.0, np.nan]] * 2, [["a", "b"]] * 2, [[0.0], [1.0, 2.0]]])
def test_starts_that_are_no_numbers_are_refused(means):
    with pytest.raises(ValueError, match=r"."):  # of NumPy or scikit-learn
        im.GaussianMixture(2, means_init=means).fit(np.zeros((50, 2)) + np.arange(50)[:, None])


MODELS = [
    *(partial(im.GaussianMixture, covariance_type=name) for name in (*COVARIANCE_TYPES, "auto")),
    *(partial(im.SphericalMixture, covariance_type=name) for name in COVARIANCE_TYPES[-2:]),
]
NAMES = [f"{model.func.__name__}-{model.keywords['covariance_type']}" for model in MODELS]
each_model = pytest.mark.parametrize("model", MODELS, ids=NAMES)


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@each_model
def test_few_rows_are_fitted_with_a_note(rng, model):
    X = rng.normal(size=(8, 3))
    found = model(4, random_state=0).fit(X)  # two rows per component
    assert "few_rows" in found.notes_.codes
    assert np.isfinite(found.score(X))
    assert model(8, random_state=0).fit(X).means_.shape == (8, 3)
    wide = rng.normal(size=(6, 12))  # fewer rows than parameters of a component
    found = model(2, random_state=0).fit(wide)
    assert "few_rows" in found.notes_.codes
    assert np.isfinite(found.score(rng.normal(size=(6, 12))))


def test_many_columns_with_diagonal_covariances(rng):
    X = np.vstack([rng.normal(m, 1.0, size=(300, 300)) for m in (-0.5, 0.0, 0.5)])
    model = im.GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)
    labels = np.repeat(np.arange(3), 300)
    assert adjusted_rand_score(labels, model.predict(X)) == 1.0
