"""Data that are no good sample of the model: a clear refusal, or the right answer with a note."""

import numpy as np
import pytest

import implicitmoments as im
from support import match_rows, refuses

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


def test_the_paper_s_mixture_leaves_a_constant_column_out(rng):
    X = groups(rng)
    wide = np.insert(X, 1, 1e12, axis=1)
    plain, model = (
        im.SphericalMixture(2, order=4, random_state=0).fit(rows) for rows in (X, wide)
    )
    (note,) = (note for note in model.notes_ if note.code == "columns_left_out")
    assert note.values["columns"] == ["x1"]
    assert model.variance_ == pytest.approx(plain.variance_)
    decoded = model.decoded_components_
    assert decoded.vectors.shape == decoded.guesses.shape == (2, 4)


def test_decoded_components_have_all_columns():
    X, _ = im.datasets.make_spherical_mixture(2_000, 3, 12, radius=6.0, random_state=0)
    model = im.SphericalMixture(3, order=4, random_state=0).fit(np.insert(X, 1, 5.0, axis=1))
    own = np.delete(np.arange(13), 1)
    scale = np.sqrt(X.var(axis=0).mean())
    expected = (model.means_[:, own] - X.mean(axis=0)) / scale
    vectors = model.decoded_components_.vectors
    assert match_rows(vectors[:, own], expected)[1].max() < 0.1
    assert not vectors[:, 1].any()


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


def test_warm_starts_with_columns_that_begin_or_cease_to_vary(rng):
    X = np.insert(groups(rng), 1, 5.0, axis=1)
    varied = X + np.eye(4)[1] * rng.normal(size=(len(X), 1))
    model = im.GaussianMixture(2, warm_start=True, random_state=0)
    assert model.fit(X).fit(X).stats_["start"] == "given"
    assert model.fit(varied).stats_["start"] != "given"
    assert model.covariances_[:, 1, 1].min() > 0.5
    assert model.fit(X).stats_["start"] == "given"
    assert not model.covariances_[:, 1].any()


def test_batches_leave_out_columns_that_do_not_vary_in_the_first(rng):
    n = 21_000
    X = np.insert(groups(rng, n), 1, 5.0, axis=1)
    X = X[rng.permutation(n)]
    model = im.GaussianMixture(2, random_state=0, n_moves=0)
    model.partial_fit(X[:300]).partial_fit(X[300:400])
    assert "columns_left_out" in model.notes_.codes
    model.partial_fit(X[400:])
    assert not model.covariances_[:, 1].any()
    assert np.isfinite(model.score(X))
    assert model.stats_["rows_seen"] == pytest.approx(n)


def test_far_groups_beside_a_constant_column(rng):
    X = groups(rng)
    X[150:] = 1e6 + 1e-2 * X[150:]
    model = im.GaussianMixture(2, random_state=0).fit(np.insert(X, 1, 5.0, axis=1))
    np.testing.assert_allclose(np.sort(model.weights_), 0.5)


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


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("step", [0.5, 1.0])
def test_rounded_rows_buy_no_components(rng, name, step):
    X = np.round(groups(rng, 600) / step) * step
    model = FITS[name]("auto").fit(X)
    assert (model.n_components_, model.stats_["outliers"]) == (2, 0)


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


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("value", [-999.0, -1e10])
def test_a_variance_at_its_floor_is_noted(rng, value, unit):
    """A value that stands for missing ones has no variance, and labels and scores are right."""
    X = groups(rng, 400)
    missing = rng.uniform(size=400) < 0.1
    X[missing, 1] = value
    X *= unit
    with pytest.warns(im.FitWarning):
        model = im.GaussianMixture(3, random_state=0).fit(X)
    (note,) = (note for note in model.notes_ if note.code == "at_floor")
    labels = model.predict(X)
    (at,) = np.unique(labels[missing])
    assert at in note.values["which"]
    assert model.score(X) == pytest.approx(model.lower_bound_, abs=1e-2)


def test_values_that_repeat_in_some_rows_buy_few_components():
    """A column that is 0 in some rows has one component more; equal values of three, none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 2))
    X[:300, 1] = 0.0
    model = im.GaussianMixture("auto", covariance_type="diag", random_state=0).fit(X)
    assert model.n_components_ == 2
    X[:, 1] = rng.normal(size=1_000)
    X[:500, 1] = np.repeat(X[500:750, 1], 2)
    model = im.GaussianMixture("auto", covariance_type="diag", random_state=0).fit(X)
    assert model.n_components_ == 1


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
