"""Data that are no good sample of the model: a clear refusal, or the right answer with a note."""

import numpy as np
import pytest

import implicitmoments as im
from support import refuses

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


TYPES = ("full", "tied", "diag", "tied_diag", "spherical", "tied_spherical", "auto")
# what a fit of rows with a constant column at place 1 is asked for, and without that column
ASKED = {
    "starts": ({}, {}),
    "student": ({"noise": "student"}, {"noise": "student"}),
    "given": (
        {"means_init": [[8.0, 99.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]},
        {"means_init": [[8.0, 0.0, 0.0], [0.0, 0.0, 0.0]]},
    ),
    "errors": ({"errors": "observed"}, {"errors": "observed"}),
}
CASES = [("full", "starts", 1e12), *((name, "starts", 3.0) for name in TYPES)]
CASES += [(name, asked, 3.0) for name in ("full", "tied_diag") for asked in list(ASKED)[1:]]


@pytest.mark.parametrize(("kind", "asked", "value"), CASES)
def test_a_constant_column_is_left_out_of_every_fit(rng, kind, asked, value):
    X = groups(rng)
    wide, own = np.insert(X, 1, value, axis=1), [0, 2, 3]
    how, plainly = ASKED[asked]
    common = {"covariance_type": kind, "n_moves": 0, "random_state": 0}
    model = im.GaussianMixture(2, **common, **how).fit(wide)
    plain = im.GaussianMixture(2, **common, **plainly).fit(X)
    assert model.notes_.codes == [*plain.notes_.codes, "columns_left_out"]
    np.testing.assert_allclose(model.means_[:, own], plain.means_)
    np.testing.assert_array_equal(model.means_[:, 1], value)
    assert model.bic(wide) == pytest.approx(plain.bic(X))
    assert model.score(wide) == pytest.approx(plain.score(X)) == pytest.approx(model.lower_bound_)
    np.testing.assert_array_equal(model.predict(wide), plain.predict(X))
    np.testing.assert_array_equal(model.sample(4)[0][:, 1], value)
    assert model.degrees_of_freedom_ == pytest.approx(plain.degrees_of_freedom_)
    found, expected = np.asarray(model.covariances_), np.asarray(plain.covariances_)
    for axis in range(found.ndim):  # shapes with columns have zeros there
        if found.shape[axis] == 4:
            assert not np.take(found, 1, axis=axis).any()
            found = np.take(found, own, axis=axis)
    np.testing.assert_allclose(found, expected)
    if asked == "errors":
        assert not model.mean_errors_[:, 1].any()
        np.testing.assert_allclose(model.mean_errors_[:, own], plain.mean_errors_)


def test_rows_off_a_constant_have_density_zero(rng, tmp_path):
    X = np.insert(groups(rng), 1, 0.1, axis=1)
    fitted = im.GaussianMixture(2, random_state=0).fit(X)
    im.save(fitted, tmp_path / "model.im")
    other = X[:4].copy()
    other[0, 1] = 0.2
    for model in (fitted, im.load(tmp_path / "model.im")):
        logs = model.score_samples(other)
        assert logs[0] == -np.inf
        assert np.isfinite(logs[1:]).all()
        np.testing.assert_array_equal(model.predict(other), model.predict(X[:4]))
        with pytest.warns(im.AssumptionWarning) as caught:
            assert model.score(other) == -np.inf
        assert len(caught) == 1
        # the value is that of the precision of the rows
        single = model.score_samples(X[:4].astype(np.float32))
        np.testing.assert_allclose(single, model.score_samples(X[:4]), rtol=1e-5)
    single = im.GaussianMixture(2, random_state=0).fit(X.astype(np.float32))
    assert np.isfinite(single.score_samples(X)).all()
    assert np.isinf(model.precisions_[:, 1, 1]).all()
    start = {"means_init": fitted.means_, "precisions_init": fitted.precisions_}
    again = im.GaussianMixture(2, **start, random_state=0).fit(X)
    assert again.lower_bound_ == pytest.approx(fitted.lower_bound_)


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


def test_dependent_columns_of_a_regression_share_their_coefficient(rng):
    X, y = lines(rng)
    wide = np.column_stack([X, X[:, 1], np.full(len(X), 5.0)])[:, [0, 1, 4, 2, 3]]
    model = im.RegressionMixture(2, random_state=0).fit(wide, y)
    values = {note.code: note.values for note in model.notes_}
    assert values["columns_left_out"] == {"columns": ["x2"]}
    plain = im.RegressionMixture(2, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_[:, [0, 3]], plain.coef_[:, [0, 2]], atol=1e-6)
    np.testing.assert_allclose(model.coef_[:, 1] + model.coef_[:, 4], plain.coef_[:, 1], atol=1e-6)


@pytest.mark.parametrize("name", FITS)
def test_one_row_and_equal_rows_are_refused_and_a_row_for_each_component_is_noted(rng, name):
    with refuses("too_few_rows", n=1):
        FITS[name](1).fit(np.ones((1, 3)))
    with refuses("rows_all_equal" if "Density" in name else "too_few_distinct_rows"):
        FITS[name](1).fit(np.ones((10, 3)))
    noted = FITS[name](5).fit(rng.normal(size=(5, 3))).notes_.codes
    assert "few_rows" in noted


@pytest.mark.parametrize("width", [1.0, 1e-6])
@pytest.mark.parametrize("name", ["SphericalMixture", "spherical", "GaussianMixture"])
def test_a_narrow_component_beside_a_wide_one_keeps_its_deviation(rng, name, width):
    """Or, if it is narrower than a floor of the pooled deviation, a note says so."""
    X = np.concatenate([rng.normal(0, width, (200, 1)), rng.normal(1e4, 1e3, (200, 1))])
    model = FITS[name](2)
    if name == "SphericalMixture":
        model.set_params(covariance_type="spherical")
    model.fit(X)
    variances = model.variance_ if name == "SphericalMixture" else model.covariances_
    if width == 1.0:
        assert np.sqrt(np.min(variances)) == pytest.approx(X[:200].std(), rel=1e-3)
    assert model.notes_.codes == ([] if width == 1.0 else ["at_floor"])
    assert model.score(X) == pytest.approx(model.lower_bound_, abs=1e-6)
