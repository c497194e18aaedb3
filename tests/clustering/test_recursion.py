"""Means at distances that are not comparable, under the pairwise test."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from implicitmoments import SphericalMixtureClusterer
from implicitmoments.clustering.pair_test import Landmarks
from implicitmoments.rows import Rows

S, D = 8.0, 6  # the smallest distance of two means; features


def means_of(name, rng):
    def simplex(k):
        return S / np.sqrt(2) * np.linalg.qr(rng.normal(size=(D, D)))[0][:k]

    def direction():
        v = rng.normal(size=D)
        return v / np.linalg.norm(v)

    if name == "two groups":
        return np.vstack([simplex(3), simplex(3) + 100 * S * direction()])
    if name == "three scales":
        pairs = [
            a * 1_000 * S * np.eye(D)[0] + b * 10 * S * np.eye(D)[1]
            for a in range(2)
            for b in range(2)
        ]
        return np.vstack([simplex(2) + shift for shift in pairs])
    return np.vstack([np.zeros(D), *(S * 10.0**j * direction() for j in range(4))])


def rows_of(means, n, rng, weights=None):
    labels = rng.choice(len(means), size=n, p=weights)
    return means[labels] + rng.normal(size=(n, D)), labels


@pytest.mark.parametrize("seed", [50, 51])
@pytest.mark.parametrize("name", ["two groups", "three scales", "powers of ten"])
def test_means_at_any_distances_are_found(name, seed):
    rng = np.random.default_rng(seed)
    means = means_of(name, rng)
    X, labels = rows_of(means, 4_000, rng)
    model = SphericalMixtureClusterer(len(means), variance=1.0, order=2, random_state=seed).fit(X)
    assert adjusted_rand_score(labels, model.labels_) > 0.99
    apart = np.linalg.norm(means[:, None] - model.means_, axis=2)
    assert np.max(np.min(apart, axis=1)) < 0.5
    assert model.notes_ == []


def test_one_test_does_not_find_them():
    """The recursion is needed: the test of all rows separates the groups and nothing else."""
    rng = np.random.default_rng(50)
    means = means_of("two groups", rng)
    X, _ = rows_of(means, 4_000, rng)
    model = SphericalMixtureClusterer(6, variance=1.0, order=2, random_state=0).fit(X)
    assert model.stats_["n_tests"] >= 3
    assert model.stats_["merge_rate"] < 0.05  # of the last tests
    comparable, _ = rows_of(S / np.sqrt(2) * np.eye(D)[:4], 4_000, rng)
    flat = SphericalMixtureClusterer(4, variance=1.0, order=2, random_state=0).fit(comparable)
    assert flat.stats_["n_tests"] == 1


def test_light_components_of_a_far_group_are_found():
    rng = np.random.default_rng(3)
    means = means_of("two groups", rng)
    X, _ = rows_of(means, 6_000, rng, [0.3, 0.3, 0.3, 0.06, 0.02, 0.02])
    model = SphericalMixtureClusterer(6, variance=1.0, order=2, random_state=0).fit(X)
    apart = np.linalg.norm(means[:, None] - model.means_, axis=2)
    assert np.max(np.min(apart, axis=1)) < 0.8


def test_rows_go_to_the_part_of_the_nearest_landmark():
    """A cluster of two unresolved components may reach as far as another one."""
    rng = np.random.default_rng(0)
    ends = np.array([[0.0, -40.0], [0.0, 40.0]])[rng.integers(2, size=300)]
    labels = np.repeat([0, 1], [300, 100])
    points = np.vstack([ends, np.tile([12.0, 40.0], (100, 1))]) + rng.normal(size=(400, 2))
    places = rng.permutation(400)[:100]
    same = labels[places, None] == labels[None, places]
    parts = Landmarks(Rows.of(points), places, same).parts(2)
    assert sorted(part.n for part in parts) == [100, 300]
    centres = np.stack([points[labels == c].mean(axis=0) for c in range(2)])
    nearest = np.argmin(np.linalg.norm(points[:, None] - centres, axis=2), axis=1)
    assert np.mean(nearest != labels) > 0.2
