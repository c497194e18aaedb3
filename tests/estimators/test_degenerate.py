"""Data that are no good sample of the model: a clear refusal, or the right answer with a note."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.testing import refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
FITS = {
    "SphericalMixture": lambda k: im.SphericalMixture(k, random_state=0),
    "GaussianMixture": lambda k: im.GaussianMixture(k, random_state=0),
    "spherical": lambda k: im.GaussianMixture(k, covariance_type="spherical", random_state=0),
}


def groups(rng, n=300):
    X = rng.normal(size=(n, 3))
    X[: n // 2, 0] += 8.0
    return X


def lines(rng, n=300):
    X, labels = rng.normal(size=(n, 3)), rng.integers(2, size=n)
    y = np.where(labels, 2 + X @ [1.0, 0.0, 0.5], -2 - X @ [0.5, 1.0, 0.0])
    return X, y + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("name", ["SphericalMixture", "spherical"])
@pytest.mark.parametrize("value", [3.0, 1e12])
def test_a_constant_column_is_left_out_where_all_have_one_variance(rng, name, value):
    X = groups(rng)
    wide, own = np.insert(X, 1, value, axis=1), [0, 2, 3]
    plain, model = FITS[name](2).fit(X), FITS[name](2).fit(wide)
    assert model.notes_.codes == [*plain.notes_.codes, "columns_left_out"]
    (note,) = (note for note in model.notes_ if note.code == "columns_left_out")
    assert note.values["columns"] == ["x1"]
    np.testing.assert_allclose(model.means_[:, own], plain.means_)
    np.testing.assert_array_equal(model.means_[:, 1], value)
    assert model.score(wide) == pytest.approx(plain.score(X)) == pytest.approx(model.lower_bound_)
    assert model.bic(wide) == pytest.approx(plain.bic(X))
    np.testing.assert_array_equal(model.predict(wide), plain.predict(X))
    np.testing.assert_array_equal(model.sample(4)[0][:, 1], value)


@pytest.mark.parametrize("units", [[1e-8, 1.0, 1e8], [3e5, 1.0, 1.0]])
def test_lines_and_activations_do_not_depend_on_the_units_of_columns(rng, units):
    X, y = lines(rng)
    plain = im.RegressionMixture(2, random_state=0).fit(X, y)
    model = im.RegressionMixture(2, random_state=0).fit(X * units, y)
    np.testing.assert_allclose(model.coef_ * units, plain.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.noise_, plain.noise_, rtol=1e-6)
    y = np.maximum(X @ [1.0, 0.0, 0.5], 0) + np.maximum(X @ [0.0, 1.0, -0.5], 0)
    sums = im.ActivationSumRegressor("relu", n_components=2, random_state=0)
    assert sums.fit(X * units, y).score(X * units, y) > 0.98


def test_dependent_columns_of_a_regression_are_named(rng):
    X, y = lines(rng)
    wide = np.column_stack([X, X[:, 1], np.full(len(X), 5.0)])[:, [0, 1, 4, 2, 3]]
    model = im.RegressionMixture(2, random_state=0).fit(wide, y)
    values = {note.code: note.values for note in model.notes_}
    assert values["columns_left_out"] == {"columns": [2]}
    assert values["inputs_dependent"]["columns"] == [1, 4]
    plain = im.RegressionMixture(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_[:, [0, 3]], plain.coef_[:, [0, 2]], atol=1e-6)
    np.testing.assert_allclose(model.coef_[:, 1] + model.coef_[:, 4], plain.coef_[:, 1], atol=1e-6)


@pytest.mark.parametrize("name", FITS)
def test_one_row_and_equal_rows_are_refused_and_a_row_for_each_component_is_noted(rng, name):
    with refuses("too_few_rows", n=1):
        FITS[name](1).fit(np.ones((1, 3)))
    with refuses("rows_all_equal"):
        FITS[name](1).fit(np.ones((10, 3)))
    noted = FITS[name](5).fit(rng.normal(size=(5, 3))).notes_.codes
    assert {"few_rows_per_component", "components_borrow"} & set(noted)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("step", [0.5, 1.0])
def test_rounded_rows_buy_no_components(rng, name, step):
    X = np.round(groups(rng, 600) / step) * step
    model = FITS[name]("auto").fit(X)
    assert (model.n_components_, model.stats_["outliers"]) == (2, 0)


@pytest.mark.parametrize("name", ["SphericalMixture", "spherical", "GaussianMixture"])
def test_a_variance_at_its_floor_is_noted(rng, name):
    X = np.concatenate([rng.normal(0, 1, (200, 1)), rng.normal(1e4, 1e3, (200, 1))])
    model = FITS[name](2)
    if name == "SphericalMixture":
        model.set_params(covariance_type="spherical")
    (note,) = (note for note in model.fit(X).notes_ if note.code == "variance_at_floor")
    assert note.values["which"] == [int(np.argmin(np.abs(model.means_[:, 0])))]
    if name != "SphericalMixture":
        model.set_params(reg_covar=1e-9).fit(X)
        assert model.covariances_.min() == pytest.approx(1.0, rel=0.3)
        assert "variance_at_floor" not in model.notes_.codes


def test_a_wild_cell_of_a_constant_column_is_an_outlier(rng):
    X = groups(rng)
    X[:, 1] = 5.0
    X[0, 1] = 1e5
    model = im.SphericalMixture(2, random_state=0).fit(X)
    assert model.stats_["outliers"] == 1
    assert model.weights_.min() > 0.4


def test_lines_through_the_origin_of_constant_features(rng):
    y = rng.choice([-3.0, 3.0], size=300) + 0.1 * rng.normal(size=300)
    model = im.RegressionMixture(2, fit_intercept=False, random_state=0).fit(np.ones((300, 1)), y)
    np.testing.assert_allclose(np.sort(model.coef_.ravel()), [-3, 3], atol=0.1)


@pytest.mark.parametrize("X", [[], [[1, 2], [3]], [[[1, 2], [3, 4]]]])
def test_what_is_no_table_is_refused_by_its_shape(X):
    with pytest.raises(ValueError):  # noqa: PT011 (of NumPy and scikit-learn)
        im.SphericalMixture(1).fit(X)


def test_robust_errors_of_proportions(rng):
    """Weights that are no counts add to the spread of the estimates, which the sandwich sees."""
    found = []
    for _ in range(60):
        X, w = rng.normal(size=(300, 1)), rng.lognormal(0, 1.2, size=300)
        y = 2 * X[:, 0] + rng.normal(size=300)
        model = im.RegressionMixture(1, errors="robust", drop_outliers=False, random_state=0)
        model.fit(X, y, sample_weight=w)
        found.append((model.coef_[0, 0], model.coef_errors_[0, 0]))
    coefficients, errors = np.array(found).T
    assert 0.75 < errors.mean() / coefficients.std() < 1.4  # as counts 0.6
