"""Groups far apart, constant, rounded and repeated columns, few rows: variances stay right."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import implicitmoments as im
from implicitmoments.mixture.em import Sample
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.mixture.starts import other_starts
from implicitmoments.rows import Rows
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


def test_given_and_warm_starts_of_far_groups(far):
    given = im.GaussianMixture(2, means_init=[[0, 0], [1e5, 1e5]]).fit(far)
    np.testing.assert_allclose(given.covariances_[:, 0, 0], 1.0, atol=0.4)
    assert given.notes_ == []
    warm = im.GaussianMixture(2, warm_start=True, random_state=0).fit(far)
    before = warm.lower_bound_
    assert warm.fit(far).lower_bound_ == pytest.approx(before, abs=1e-4)


def test_batches_of_far_groups_keep_their_variance(far):
    known = im.SphericalMixture(2, variance=4.0, random_state=0)
    known.partial_fit(far[:300]).partial_fit(far[300:])
    assert known.variance_ == pytest.approx(4.0)
    free = im.SphericalMixture(2, random_state=0)
    free.partial_fit(far[:300]).partial_fit(far[300:])
    assert free.variance_ == pytest.approx(1.0, abs=0.2)


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


def test_the_covariance_type_of_far_groups_is_chosen(far):
    model = im.GaussianMixture(2, covariance_type="auto", random_state=0).fit(far * [1.0, 3.0])
    assert model.covariance_type_ == "tied_diag"
    np.testing.assert_allclose(model.covariances_, [1.0, 9.0], rtol=0.3)


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


@pytest.mark.parametrize("constant", [1.0, 0.1])
def test_a_constant_column_has_no_variance_whatever_its_value(rng, constant):
    X = np.column_stack([rng.normal(size=(500, 2)), np.full(500, constant)])
    X[250:, :2] += 9
    model = im.GaussianMixture(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.covariances_[:, 2], 0.0)
    assert model.score(X) == pytest.approx(model.lower_bound_)


@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical"])
def test_a_column_that_is_there_twice(rng, name):
    X = rng.normal(size=(300, 2))
    X[150:] += 9
    model = im.GaussianMixture(2, covariance_type=name, random_state=0)
    labels = model.fit(np.column_stack([X, X[:, 0]])).predict(np.column_stack([X, X[:, 0]]))
    assert adjusted_rand_score(np.repeat([0, 1], 150), labels) == 1.0
    assert np.isfinite(model.precisions_cholesky_).all()


@pytest.mark.parametrize("name", ["full", "diag"])
def test_units_of_a_column_of_two_values_do_not_matter(rng, name):
    X = np.vstack([rng.normal(size=(200, 2)) + 2 * i for i in range(3)])
    two = (rng.uniform(size=600) < 0.5).astype(float)
    levels = []
    for unit in (1.0, 10.0, 1e5):
        model = im.GaussianMixture(6, covariance_type=name, random_state=0)
        model.fit(np.column_stack([X, unit * two]))
        levels.append(model.lower_bound_ + np.log(unit))
    np.testing.assert_allclose(levels, levels[0], atol=1e-6)


def test_whole_numbers_are_not_a_component_each():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=1_500)
    whole = np.round(rng.normal(3 + 6 * labels, 1.0))
    X = np.column_stack([rng.normal(size=1_500) + 12 * labels, whole])
    model = im.GaussianMixture("auto", covariance_type="diag", random_state=0).fit(X)
    assert model.n_components_ == 3


@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 4), (8, 4)])
def test_few_rows_are_not_a_component_each(rng, n, d):
    model = im.GaussianMixture("auto", covariance_type="auto", random_state=0)
    assert model.fit(rng.normal(size=(n, d))).n_components_ <= 2


def test_files_with_few_distinct_rows_are_refused(rng, tmp_path):
    np.save(tmp_path / "rows.npy", np.repeat(rng.normal(size=(5, 2)), 6_000, axis=0))
    with refuses("too_few_distinct_rows", k=10, n=5):
        im.GaussianMixture(10).fit(tmp_path / "rows.npy")
    np.save(tmp_path / "equal.npy", np.ones((30_000, 2)))
    with refuses("too_few_distinct_rows"):
        im.GaussianMixture(3).fit(tmp_path / "equal.npy")


@pytest.mark.parametrize("name", ["diag", "tied", "full"])
def test_units_of_columns_do_not_matter(name):
    rng = np.random.default_rng([19, 5])
    k, d, n = (int(rng.integers(*limits)) for limits in ((2, 6), (2, 6), (300, 1_500)))
    means = rng.normal(size=(k, d)) * rng.uniform(1.5, 4)
    shapes, labels = rng.normal(size=(k, d, d)) * 0.3 + np.eye(d), rng.integers(k, size=n)
    X = np.einsum("nij,nj->ni", shapes[labels], rng.normal(size=(n, d))) + means[labels]
    units = 10 ** rng.uniform(-8, 8, size=d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.FitWarning)
        one, other = (
            im.GaussianMixture(k, covariance_type=name, random_state=0).fit(x)
            for x in (X, X * units)
        )
    apart = other.score(X * units) + np.log(units).sum() - one.score(X)
    assert abs(apart) < 1e-9


def test_starts_have_as_many_components_as_are_asked_for(rng):
    """k-means loses a group where few values occur many times."""
    values = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [9.0, 0.0]])
    rows = Rows.of(values[rng.integers(4, size=200)] + 1e-9 * rng.normal(size=(200, 2)))
    family = Gaussians("tied_spherical").prepare(rows)
    sample = Sample.of(family, rows)
    for k in (5, 9):
        assert other_starts(sample, k, 4, rng).shape == (4, k, family.n_own)
