import numpy as np
import pytest

from implicitmoments import datasets
from implicitmoments.datasets import Truth, random_directions
from implicitmoments.paper.projections import hermite_dense
from support import refuses


@pytest.mark.parametrize(
    "make",
    [
        datasets.make_spherical_mixture,
        datasets.make_pairwise_differences,
        datasets.make_regression_mixture,
        datasets.make_activation_sum,
    ],
)
def test_shorter_data_sets_are_beginnings_of_longer_ones(make):
    short, long = make(50, 3, 4, random_state=1), make(80, 3, 4, random_state=1)
    for a, b in zip(short[:-1], long[:-1], strict=True):
        np.testing.assert_array_equal(a, b[:50])
    np.testing.assert_array_equal(short[-1].vectors, long[-1].vectors)


def test_mixture_rows_sit_at_their_means():
    X, truth = datasets.make_spherical_mixture(
        40_000, 3, 4, radius=(1, 6), separation=2, weights=[1, 2, 5], random_state=0
    )
    for i, (w, mean) in enumerate(zip(truth.weights, truth.vectors, strict=True)):
        mine = X[truth.labels == i]
        assert abs(len(mine) / 40_000 - w) < 5 * 0.5 / 200
        assert np.abs(mine.mean(0) - mean).max() < 5 / np.sqrt(len(mine))
    assert np.linalg.norm(truth.vectors, axis=1).min() >= 1


def test_differences_have_the_root_of_two():
    X, truth = datasets.make_pairwise_differences(60_000, 2, 3, radius=3.0, random_state=0)
    second = X.T @ X / len(X) - np.eye(3)
    expected = (truth.vectors * truth.weights[:, None]).T @ truth.vectors
    assert np.abs(second - expected).max() < 0.15
    assert truth.weights.sum() == pytest.approx(1)
    assert np.sum(np.all(truth.vectors == 0, axis=1)) == 2


def test_regression_rows_follow_their_line():
    X, y, truth = datasets.make_regression_mixture(20_000, 3, 4, noise=0.1, random_state=0)
    left = y - np.sum(X * truth.vectors[truth.labels], axis=1)
    assert left.std() == pytest.approx(0.1, rel=0.05)


def test_activation_sums_are_sums_of_activations():
    for cosine in (np.cos, "cos"):  # names are those of the estimator
        X, y, truth = datasets.make_activation_sum(
            100, 3, 4, activation=cosine, weights=[1, 1, 2], random_state=0
        )
        np.testing.assert_allclose(y, np.cos(X @ truth.vectors.T) @ truth.weights)
    X, y, truth = datasets.make_activation_sum(100, 3, 4, random_state=0)
    np.testing.assert_allclose(y, np.maximum(X @ truth.vectors.T, 0) @ truth.weights)
    np.testing.assert_allclose(np.linalg.norm(truth.vectors, axis=1), 1)


def test_separation_is_kept_or_refused():
    V = random_directions(8, 3, radius=2.0, separation=1.0, random_state=0)
    apart = np.linalg.norm(V[:, None] - V[None], axis=2) + 9 * np.eye(8)
    assert apart.min() >= 1
    with refuses("separation_not_reached"):
        random_directions(8, 2, radius=1.0, separation=1.5, random_state=0)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"n_samples": 0}, "invalid_parameter"),
        ({"n_components": 0}, "invalid_parameter"),
        ({"n_features": 0}, "invalid_parameter"),
        ({"weights": [1, 2]}, "wrong_shape"),
        ({"weights": [1, -2, 3]}, "weights_invalid"),
        ({"radius": (2, 1)}, "radius_invalid"),
    ],
)
def test_options_that_do_not_fit(options, code):
    settings = {"n_samples": 5, "n_components": 3, "n_features": 4, **options}
    with refuses(code):
        datasets.make_spherical_mixture(**settings, random_state=0)


def test_truth_knows_its_moments(rng):
    truth = Truth([0.2, 0.8, 0.5], [[1.0, 2.0], [0.0, 0.0], [-0.3, 0.4]])
    points = rng.normal(size=(5, 2))
    for order in range(6):
        letters = "abcde"[:order]
        powers = [truth.vectors] * order
        moment = np.einsum(
            ",".join(["n"] + ["n" + s for s in letters]) + "->" + letters, truth.weights, *powers
        )
        dense = hermite_dense(points, order).reshape(5, -1) @ moment.ravel()
        np.testing.assert_allclose(truth.hermite(points, order), dense, atol=1e-12)
    np.testing.assert_allclose(
        truth.power(points, 2), (points @ truth.vectors.T) ** 2 @ truth.weights
    )
    with refuses("weights_invalid"):
        Truth([-1.0], [[1.0]])
    with refuses("wrong_shape"):
        Truth([1.0], [[1.0], [2.0]])
