"""Rows in pieces end near one fit of all rows, for every type of covariance."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.testing import match_rows, refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")

K, D, N, PIECE = 5, 3, 48_000, 8_000
TYPES = ("full", "tied", "diag", "spherical")


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
    if name == "tied":
        roots = np.repeat(roots[:1], K, axis=0)
    elif name == "diag":
        roots = scales[:, :, None] * np.eye(D)
    elif name == "spherical":
        roots = scales[:, :1, None] * np.eye(D)
    labels = rng.choice(K, N, p=np.arange(K, 0, -1) / (K * (K + 1) / 2))
    noise = np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(N, D)))
    return np.array(means)[labels] + noise, np.array(means), labels


def in_pieces(X, size=PIECE, counts=None, **options):
    options = {"n_components": K, "random_state": 0} | options
    model = im.GaussianMixture(**options)
    for first in range(0, len(X), size):
        rows = slice(first, first + size)
        model.partial_fit(X[rows], sample_weight=None if counts is None else counts[rows])
    return model


def furthest(found, means):
    return match_rows(found.means_, means)[1].max()


@pytest.mark.parametrize("name", TYPES)
def test_pieces_end_near_one_fit(name):
    X, _, _ = draw(name)
    whole = im.GaussianMixture(K, covariance_type=name, random_state=0).fit(X)
    pieces = in_pieces(X, covariance_type=name)
    assert furthest(pieces, whole.means_) < 0.03
    np.testing.assert_allclose(pieces.covariances_, whole.covariances_, atol=0.03)
    assert pieces.score(X) > whole.score(X) - 1e-3
    assert pieces.stats_["rows_seen"] == N
    assert pieces.notes_ == []
    back = in_pieces(X[::-1], covariance_type=name)
    assert furthest(back, pieces.means_) < 0.04


@pytest.mark.parametrize("name", TYPES)
def test_weighted_pieces(name):
    X, means, labels = draw(name)
    counts = np.where(labels == 0, 0.0, 0.5)
    model = in_pieces(X, counts=counts, n_components=K - 1, covariance_type=name)
    assert furthest(model, means[1:]) < 0.1
    assert model.stats_["rows_seen"] == pytest.approx(counts.sum())


@pytest.mark.parametrize("name", TYPES)
def test_a_component_that_comes_later_is_found(name):
    X, means, labels = draw(name, seed=1, apart=8.0)
    late = labels == K - 1
    rest = np.vstack([X[~late][24_000:], X[late]])
    rest = rest[np.random.default_rng(0).permutation(len(rest))]
    model = in_pieces(np.vstack([X[~late][:24_000], rest]), covariance_type=name)
    assert model.stats_["corrections"] > 0
    assert furthest(model, means) < 0.2


@pytest.mark.parametrize("n_first", [3_000, 24_000])
@pytest.mark.parametrize("name", TYPES)
def test_a_model_that_is_saved_between_pieces_goes_on(name, n_first, tmp_path):
    X, _, _ = draw(name)
    model = in_pieces(X[:n_first], covariance_type=name)
    im.save(model, tmp_path / "model.safetensors")
    loaded = im.load(tmp_path / "model.safetensors")
    for each in (model, loaded):
        each.partial_fit(X[n_first : n_first + PIECE])
    np.testing.assert_allclose(loaded.means_, model.means_, rtol=1e-9)
    np.testing.assert_allclose(loaded.covariances_, model.covariances_, rtol=1e-9)


def test_the_first_rows_choose_the_number_and_the_type():
    X, means, _ = draw("diag")
    how = {"n_components": "auto", "covariance_type": "auto", "max_components": K + 1}
    model = in_pieces(X, 24_000, **how)
    assert (model.covariance_type_, model.n_components_) == ("diag", K)
    assert furthest(model, means) < 0.05


def test_pieces_from_means_that_are_given():
    X, means, _ = draw("full")
    given = means[::-1] + 0.3
    model = in_pieces(X, means_init=given)
    np.testing.assert_allclose(model.means_, means[::-1], atol=0.1)  # in the order given
    assert model.stats_["start"] == "given"
    bad = np.tile(means[:1], (K, 1)) + 1e-3 * given  # all in one component: no other start helps
    assert furthest(in_pieces(X, means_init=bad), means) > 0.5
    with refuses("init_of_wrong_shape"):
        in_pieces(X, means_init=given[:2])


def test_a_warm_start_is_one_of_fit():
    """Pieces go on by themselves; the first one starts from the last fit."""
    X, means, _ = draw("full")
    cold, warm = (in_pieces(X[:3_000], 1_000, warm_start=warm) for warm in (False, True))
    np.testing.assert_allclose(warm.means_, cold.means_)
    assert warm.stats_["start"] != "given"
    assert warm.fit(X).stats_["start"] == "given"
    assert warm.partial_fit(X[:1_000]).stats_["start"] == "given"
    assert furthest(warm, means) < 0.5
