"""Groups far apart, constant, rounded and repeated columns, few rows: variances stay right."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import implicitmoments as im
from implicitmoments.testing import refuses

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
    warm = im.GaussianMixture(2, warm_start=True, random_state=0, verbose=0).fit(far)
    before = warm.lower_bound_
    assert warm.fit(far).lower_bound_ == pytest.approx(before, abs=1e-5)


def test_pieces_of_far_groups_keep_their_variance(far):
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
    assert max(model.stats_["width_by_component"]) < 1.3
    assert model.notes_ == []


def test_the_covariance_type_of_far_groups_is_chosen(far):
    model = im.GaussianMixture(2, covariance_type="auto", random_state=0).fit(far * [1.0, 3.0])
    assert model.covariance_type_ == "tied_diag"
    scores = model.stats_["bic_by_covariance_type"]
    assert min(scores, key=scores.get) == "tied_diag"
    np.testing.assert_allclose(model.covariances_, [1.0, 9.0], rtol=0.3)


def test_verbose_fits_of_far_groups_say_what_they_did(far, capsys):
    im.GaussianMixture(2, verbose=1, random_state=0).fit(far)
    assert capsys.readouterr().out


@pytest.mark.parametrize("constant", [1.0, 0.1])
def test_a_constant_column_has_no_variance_whatever_its_value(rng, constant):
    X = np.column_stack([rng.normal(size=(500, 2)), np.full(500, constant)])
    X[250:, :2] += 9
    model = im.GaussianMixture(2, random_state=0).fit(X)
    np.testing.assert_array_equal(model.covariances_[:, 2], 0.0)
    assert model.score(X) == pytest.approx(model.lower_bound_)


@pytest.mark.parametrize("name", ["full", "diag"])
def test_units_of_a_column_of_two_values_do_not_matter(rng, name):
    X = np.vstack([rng.normal(size=(200, 2)) + 2 * i for i in range(3)])
    two = (rng.uniform(size=600) < 0.5).astype(float)
    levels = []
    for unit in (1.0, 10.0, 1e3, 1e5):
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
    with refuses("rows_all_equal"):
        im.GaussianMixture(3).fit(tmp_path / "equal.npy")


@pytest.mark.parametrize("seed", range(3))
def test_em_with_borrowed_rows_ends_at_its_best(seed):
    X = np.random.default_rng(seed).normal(size=(60, 4))
    model = im.GaussianMixture(10, means_init=X[:10], drop_outliers=False).fit(X)
    assert model.lower_bound_ >= max(model.lower_bounds_) - 1e-5


def test_starts_that_are_asked_for_are_used_or_refused(rng):
    X = np.vstack([rng.normal(size=(200, 2)) + 2 * i for i in range(3)])
    with refuses("init_with_auto", name="init_params"):
        im.GaussianMixture("auto", init_params="k-means++").fit(X)
    how = {"weights_init": np.full(6, 1 / 6), "n_moves": 0}
    found = {im.GaussianMixture(6, random_state=s, **how).fit(X).lower_bound_ for s in range(4)}
    assert len(found) > 1


def test_outliers_of_later_pieces_are_counted(rng):
    X = rng.normal(size=(1_000, 2))
    X[::2] += 8
    X[900] = 1e7
    model = im.GaussianMixture(2, random_state=0).partial_fit(X[:800]).partial_fit(X[800:])
    assert model.stats_["outliers"] == 1
    assert model.stats_["rows_used"] == 999
    assert "outliers_dropped" in model.notes_.codes


@pytest.fixture
def coded(rng):
    """Three groups, and one row in twenty with a code for missing numbers in all columns."""
    labels = rng.integers(3, size=1_500)
    X = rng.normal(size=(1_500, 3)) + 8 * np.eye(3)[labels]
    labels[rng.uniform(size=1_500) < 0.05] = 3
    return X, labels


@pytest.mark.parametrize("value", [-1e3, -1e10])
@pytest.mark.parametrize(
    "model", [im.SphericalMixture(4, random_state=0), im.GaussianMixture(4, random_state=0)]
)
@pytest.mark.filterwarnings("ignore::implicitmoments.FitWarning")
def test_rows_that_are_one_point_far_away_are_a_component(coded, model, value):
    X, labels = coded
    X[labels == 3] = value
    model.fit(X)
    assert adjusted_rand_score(labels, model.predict(X)) > 0.99
    np.testing.assert_allclose(model.means_[np.argmin(model.weights_)], value, rtol=1e-12)


@pytest.mark.parametrize(("k", "code"), [(3, "component_missing"), (5, "bic_prefers_fewer")])
def test_another_number_of_components_beside_a_far_point_is_noted(coded, k, code):
    X, labels = coded
    X[labels == 3] = -1e10
    with pytest.warns(im.FitWarning):
        model = im.SphericalMixture(k, random_state=0).fit(X)
    (note,) = (note for note in model.notes_ if note.code == code)
    if k == 3:
        assert note.values["more"] == 4
        assert note.values["which"] == [0]  # the heaviest, which is two of them


@pytest.mark.parametrize("name", ["diag", "tied", "full"])
def test_units_of_columns_do_not_matter_at_the_default_tolerance(name):
    """Starts are spherical in standardised columns: both fits end at the same iteration."""
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
    assert abs(apart) < 1e-11  # 7e-9 with spherical starts in the units of the columns
