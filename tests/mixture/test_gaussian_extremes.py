"""Groups far apart, constant, rounded and repeated columns, few rows: variances stay right."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import implicitmoments as im
from support import refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")


@pytest.fixture
def far(rng):
    """Two groups of unit variance, 100,000 deviations apart, in random order."""
    X = rng.normal(size=(400, 2))
    X[200:] += 1e5
    return X[rng.permutation(400)]


def test_groups_far_apart_in_one_of_many_columns_keep_their_variance(rng):
    X = rng.normal(size=(2_000, 20))
    X[1_000:, 0] += 2_200
    model = im.GaussianMixture(2, random_state=0).fit(X)
    np.testing.assert_allclose(model.covariances_[:, 0, 0], 1.0, atol=0.2)


def test_far_groups_do_not_overlap(rng):
    X = rng.normal(size=(2_000, 3))
    X[::2] += 8
    X[:1_000] += 1e5
    model = im.SphericalMixture(4, random_state=0).fit(X)
    assert model.stats_["misclassification_rate"] < 1e-3
    assert model.variance_ == pytest.approx(1.0, abs=0.1)
    assert model.notes_ == []


@pytest.mark.parametrize("distance", [1e7, 1e9])
def test_distances_beyond_double_precision_are_noted(rng, distance):
    X = rng.normal(size=(400, 2))
    X[200:] += distance
    assert "at_floor" in im.GaussianMixture(2, random_state=0).fit(X).notes_.codes


@pytest.mark.parametrize("value", [-1e3, -1e5])
@pytest.mark.parametrize("estimator", [im.SphericalMixture, im.GaussianMixture])
def test_rows_that_are_one_point_far_away_are_a_component(rng, estimator, value):
    """A code for missing numbers, in all columns of one row in twenty."""
    labels = rng.integers(3, size=1_500)
    X = rng.normal(size=(1_500, 3)) + 8 * np.eye(3)[labels]
    labels[rng.uniform(size=1_500) < 0.05] = 3
    X[labels == 3] = value
    model = estimator(4, random_state=0).fit(X)
    assert adjusted_rand_score(labels, model.predict(X)) > 0.99
    np.testing.assert_allclose(model.means_[np.argmin(model.weights_)], value, rtol=1e-9)


def test_files_with_few_distinct_rows_are_refused(rng, tmp_path):
    np.save(tmp_path / "rows.npy", np.repeat(rng.normal(size=(5, 2)), 6_000, axis=0))
    with refuses("too_few_distinct_rows", k=10, n=5):
        im.GaussianMixture(10).fit(tmp_path / "rows.npy")
    np.save(tmp_path / "equal.npy", np.ones((30_000, 2)))
    with refuses("too_few_distinct_rows"):
        im.GaussianMixture(3).fit(tmp_path / "equal.npy")
