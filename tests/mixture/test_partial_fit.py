"""Batches of rows end near one fit of all rows."""

from functools import partial

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_regression_mixture
from support import match_rows, refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")

K, D, N, BATCH = 5, 3, 48_000, 8_000
TYPES = ("full", "tied", "diag", "tied_diag", "spherical", "tied_spherical")


def draw(name, seed=0, apart=5.0):
    """Rows of K components with covariances of a type; their means and labels."""
    rng = np.random.default_rng(seed)
    means = []
    while len(means) < K:
        at = apart * rng.normal(size=D)
        if all(np.linalg.norm(at - mean) > apart for mean in means):
            means.append(at)
    scales = rng.uniform(0.5, 1.5, size=(K, D))
    roots = scales[:, :, None] * np.linalg.qr(rng.normal(size=(K, D, D)))[0]
    if name.endswith("diag"):
        roots = scales[:, :, None] * np.eye(D)
    elif name.endswith("spherical"):
        roots = scales[:, :1, None] * np.eye(D)
    if name.startswith("tied"):
        roots = np.repeat(roots[:1], K, axis=0)
    labels = rng.choice(K, N, p=np.arange(K, 0, -1) / (K * (K + 1) / 2))
    noise = np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(N, D)))
    return np.array(means)[labels] + noise, np.array(means), labels


def in_batches(X, size=BATCH, counts=None, **options):
    model = im.GaussianMixture(**{"n_components": K, "random_state": 0} | options)
    for first in range(0, len(X), size):
        rows = slice(first, first + size)
        model.partial_fit(X[rows], sample_weight=None if counts is None else counts[rows])
    return model


def furthest(found, means):
    return match_rows(found.means_, means)[1].max()


@pytest.mark.parametrize("name", TYPES)
def test_batches_end_near_one_fit(name):
    X, _, _ = draw(name)
    whole = im.GaussianMixture(K, covariance_type=name, random_state=0).fit(X)
    batches = in_batches(X, covariance_type=name)
    assert furthest(batches, whole.means_) < 0.06
    assert batches.score(X) > whole.score(X) - 2e-3
    assert batches.lower_bound_ == pytest.approx(batches.score(X[-BATCH:]), abs=2e-3)
    assert batches.stats_["rows_seen"] == N
    assert batches.notes_ == []
    # and nearer than the first batch alone
    assert batches.score(X) > in_batches(X[:BATCH], covariance_type=name).score(X)
    assert furthest(in_batches(X[::-1], covariance_type=name), batches.means_) < 0.1


@pytest.mark.parametrize("noise", ["gaussian", "student"])
@pytest.mark.parametrize("noise_type", ["shared", "separate"])
def test_batches_of_lines(noise, noise_type):
    X, y, truth = make_regression_mixture(12_000, 3, 4, noise=0.3, random_state=0)
    how = {"noise": noise, "noise_type": noise_type, "random_state": 0}
    whole, batches = (im.RegressionMixture(3, **how) for _ in range(2))
    whole.fit(X, y)
    for first in range(0, len(y), 3_000):
        batches.partial_fit(X[first : first + 3_000], y[first : first + 3_000])
    assert match_rows(batches.coef_, truth.vectors)[1].max() < 0.05
    assert batches.score(X, y) > whole.score(X, y) - 2e-3
    assert batches.stats_["rows_seen"] == len(y)
    assert batches.coef_errors_ is None


MODELS = {
    **{name: partial(im.GaussianMixture, K, covariance_type=name) for name in TYPES},
    "student": partial(im.GaussianMixture, K, noise="student"),
    "SphericalMixture": partial(im.SphericalMixture, K),
    "RegressionMixture": partial(im.RegressionMixture, 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_saved_between_batches_goes_on(name, tmp_path):
    X, _, _ = draw(name if name in TYPES else "full")
    labels = (X @ [1.0, 2.0, 0.0] * np.sign(X[:, 1]),) if name == "RegressionMixture" else ()
    if name == "student":
        X /= np.sqrt(np.random.default_rng(0).chisquare(4, size=(N, 1)) / 4)
    model = MODELS[name](random_state=0)
    model.partial_fit(X[:3_000], *(y[:3_000] for y in labels))
    im.save(model, tmp_path / "model.safetensors")
    loaded = im.load(tmp_path / "model.safetensors")
    for each in (model, loaded):
        each.partial_fit(X[3_000:6_000], *(y[3_000:6_000] for y in labels))
    np.testing.assert_allclose(loaded.weights_, model.weights_, rtol=1e-9)
    found = loaded.score_samples(X[:9], *(y[:9] for y in labels))
    np.testing.assert_allclose(found, model.score_samples(X[:9], *(y[:9] for y in labels)))
    assert loaded.stats_["rows_seen"] == 6_000


def test_the_first_batch_chooses_the_number_and_the_type():
    X, means, _ = draw("diag")
    how = {"n_components": "auto", "covariance_type": "auto", "max_components": K + 1}
    model = in_batches(X, 24_000, **how)
    assert (model.covariance_type_, model.n_components_) == ("diag", K)
    assert furthest(model, means) < 0.1


@pytest.mark.parametrize("name", ["full", "tied"])
def test_batches_from_means_that_are_given(name):
    X, means, _ = draw(name)
    model = in_batches(X, means_init=means[::-1] + 0.3, covariance_type=name)
    np.testing.assert_allclose(model.means_, means[::-1], atol=0.1)  # in the order given
    assert model.stats_["start"] == "given"
    with refuses("init_of_wrong_shape"):
        in_batches(X, means_init=means[:2])


def test_a_fit_begins_anew():
    X, _, _ = draw("full")
    model = in_batches(X[:2_000], 1_000).fit(X[:5_000])
    again = im.GaussianMixture(K, random_state=0).fit(X[:5_000])
    np.testing.assert_array_equal(model.means_, again.means_)
    model.partial_fit(X[:3_000])
    assert model.stats_["rows_seen"] == 3_000


def test_outliers_of_later_batches_are_counted(rng):
    X = rng.normal(size=(1_000, 2))
    X[::2] += 8
    X[900] = 1e7
    model = im.GaussianMixture(2, random_state=0).partial_fit(X[:800]).partial_fit(X[800:])
    assert (model.stats_["outliers"], model.stats_["rows_used"]) == (1, 999)
    (note,) = (note for note in model.notes_ if note.code == "outliers")
    assert note.values["n"] == 1
