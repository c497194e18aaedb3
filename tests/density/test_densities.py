"""Both densities: what a fit answers, its options, and its errors and notes."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from implicitmoments import (
    RegressionMixtureDensity,
    SphericalMixtureDensity,
    load,
    save,
)
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from support import refuses

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def points(n=4_000, k=3, d=5, radius=1.2, seed=0):
    return make_spherical_mixture(n, k, d, radius=radius, random_state=seed)[0]


def lines(n=4_000, k=3, d=4, seed=0, **options):
    return make_regression_mixture(
        n, k, d, **{"radius": 0.8, "noise": 1.0, "random_state": seed, **options}
    )[:2]


def spheres_of(k=3, **options):
    return SphericalMixtureDensity(k, **{"degree": 4, "random_state": 0, **options})


def lines_of(k=3, **options):
    return RegressionMixtureDensity(k, **{"degree": 4, "random_state": 0, **options})


def as_pair(drawn):
    return drawn if isinstance(drawn, tuple) else (drawn,)


@pytest.fixture(params=["spheres", "lines"])
def both(request):
    """A function that makes a density, and one that draws its rows as a tuple."""
    if request.param == "spheres":
        return spheres_of, lambda *args, **options: (points(*args, **options),)
    return lines_of, lines


def test_it_fits_scores_and_samples(both):
    make, draw = both
    data = draw()
    model = make(degree="auto").fit(*data)
    assert model.notes_ == []
    assert set(model.stats_["scores"]) >= {2, 4}
    logs = model.score_samples(*(column[:500] for column in data))
    counts = np.arange(500) % 3
    some = tuple(column[:500] for column in data)
    mean = np.average(logs, weights=counts)
    assert model.score(*some, sample_weight=counts) == pytest.approx(mean)
    assert abs(model.score(*some) - mean) > 1e-4
    drawn, again, other = (np.column_stack(as_pair(model.sample(321, s))) for s in (0, 0, 1))
    assert drawn.shape == (321, 5)
    expected = model.acceptance_rate_
    margin = 5 * math.sqrt(expected * (1 - expected) / model.stats_["proposals"])
    assert abs(model.stats_["acceptance_rate"] - expected) < margin
    np.testing.assert_array_equal(drawn, again)
    assert not np.array_equal(drawn, other)


def test_weights_are_repetitions(both):
    make, draw = both
    data = draw(600)
    counts = np.random.default_rng(0).integers(0, 3, 600)
    weighted = make().fit(*data, sample_weight=counts)
    repeated = make().fit(*(np.repeat(column, counts, axis=0) for column in data))
    expected = repeated.score_samples(*data)
    np.testing.assert_allclose(weighted.score_samples(*data), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_kinds_of_numbers(dtype, both):
    make, draw = both
    data = [np.round(8 * column).astype(dtype) for column in draw()]
    same = [column.astype(float) for column in data]
    expected = make().fit(*same).score_samples(*same)
    rtol = 1e-4 if dtype == np.float32 else 1e-6  # products are in the precision of the rows
    np.testing.assert_allclose(make().fit(*data).score_samples(*data), expected, rtol=rtol)


def test_units_and_shapes_do_not_matter(rng):
    X = points()
    expected = spheres_of().fit(X).score_samples(X[:50]) - 5 * math.log(1e3)
    moved = spheres_of().fit(1e3 * X - 7e3).score_samples(1e3 * X[:50] - 7e3)
    np.testing.assert_allclose(moved, expected, rtol=1e-5)
    # another Gaussian design gives the same density, times the Jacobian
    X, y = lines()
    A = rng.normal(size=(4, 4)) + 3 * np.eye(4)
    moved, labels = X @ A - 70.0, 1e3 * y - 7e3
    expected = lines_of().fit(X, y).score_samples(X, y)
    expected -= np.linalg.slogdet(A)[1] + math.log(1e3)
    found = lines_of().fit(moved, labels).score_samples(moved, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_one_component_is_a_gaussian():
    X = points(k=1)
    model = spheres_of(1, degree="auto").fit(X)
    squared = np.sum((X - X.mean(axis=0)) ** 2, axis=1) / model.variance_
    expected = -squared / 2 - 2.5 * math.log(2 * math.pi * model.variance_)
    np.testing.assert_allclose(model.score_samples(X), expected, atol=1e-9)
    X, y = lines(k=1)
    labelled = lines_of(1, degree="auto").fit(X, y)
    table = np.column_stack([X, y])
    law = stats.multivariate_normal(table.mean(axis=0), np.cov(table, rowvar=False, bias=True))
    np.testing.assert_allclose(labelled.score_samples(X, y), law.logpdf(table), atol=1e-8)
    assert model.acceptance_rate_ == labelled.acceptance_rate_ == 1.0


def test_means_on_a_line_against_the_truth():
    X, truth = make_spherical_mixture(20_000, 2, 1, radius=1.3, random_state=4)
    with refuses("variance_not_estimable", d=1):
        SphericalMixtureDensity(2).fit(X)
    model = spheres_of(2, degree="auto", variance=1.0).fit(X)
    grid = np.linspace(-5, 5, 1001)[:, None]
    density = np.exp(model.score_samples(grid))
    exact = np.exp(-((grid - truth.vectors[:, 0]) ** 2) / 2) @ truth.weights / math.sqrt(2 * np.pi)
    assert np.sum(density) * 0.01 == pytest.approx(1.0, abs=0.01)
    assert np.sum(np.abs(density - exact)) * 0.01 / 2 < 0.03


def test_lines_in_the_plane_against_the_truth():
    X, y, truth = make_regression_mixture(
        30_000, 2, 1, radius=0.8, noise=1.0, weights=[0.7, 0.3], random_state=4
    )
    model = lines_of(2, degree="auto").fit(X, y)
    a, b = (grid.ravel() for grid in np.meshgrid(np.linspace(-5, 5, 201), np.linspace(-8, 8, 321)))
    density = np.exp(model.score_samples(a[:, None], b))
    apart = b[:, None] - a[:, None] * truth.vectors[:, 0]
    exact = np.exp(-(apart**2) / 2 - a[:, None] ** 2 / 2) @ truth.weights / (2 * math.pi)
    cell = 0.05**2
    assert np.sum(density) * cell == pytest.approx(1.0, abs=0.01)
    assert np.sum(np.abs(density - exact)) * cell / 2 < 0.03


def test_epsilon_chooses_the_degree_and_the_clip():
    X = points(20_000)
    fine, coarse = (spheres_of(degree="auto", epsilon=e).fit(X) for e in (0.05, 1))
    assert coarse.degree_ < fine.degree_
    assert coarse.clip_ < fine.clip_
    ratio = np.exp(coarse.score_samples(X) - fine.score_samples(X))
    assert np.maximum(0, 1 - ratio).mean() < 0.02 * 1 + 0.02 * 1  # of the degree and the clip


@quiet
def test_the_degree_is_high_where_it_must_be():
    # a light far component: the truncation error grows from degree 2 to degree 6, and then falls
    rng = np.random.default_rng(0)

    def draw(n):
        Z = rng.normal(size=(n, 3))
        Z[rng.uniform(size=n) < 0.05, 0] += 3.0
        return Z

    Z, Y = draw(10_000), draw(10_000)
    truth = np.log(0.95 + 0.05 * np.exp(3.0 * Y[:, 0] - 4.5)) - (Y**2).sum(axis=1) / 2

    def distance(degree):
        model = spheres_of(2, degree=degree).fit(Z)
        ratio = np.exp(model.score_samples(Y) + 1.5 * np.log(2 * np.pi) - truth)
        return np.maximum(0, 1 - ratio).mean()

    fixed = {n: distance(n) for n in (2, 6, 12)}
    assert 2 * distance("auto") < min(fixed.values())
    assert fixed[6] > 1.5 * fixed[2]  # the degrees that a search upwards would stop at


@quiet
def test_the_scale_follows_the_lines():
    """Far intercepts need a narrower G, a steep light line a wider one."""
    rng = np.random.default_rng(0)
    X, sign = rng.normal(size=(20_000, 2)), rng.choice([-1.0, 1.0], 20_000)
    middle = 2.5 + X[:, 0] / 2
    y = sign * middle + rng.normal(size=20_000)
    exact = np.logaddexp(-((y - middle) ** 2) / 2, -((y + middle) ** 2) / 2) - np.log(2)
    exact -= (X**2).sum(axis=1) / 2 + 1.5 * np.log(2 * np.pi)
    narrow, fixed = (lines_of(2, degree=8, label_scale=s).fit(X, y) for s in ("auto", 1.0))
    assert narrow.stats_["label_scale"] < 0.85
    gaps = (np.exp(model.score_samples(X, y) - exact) for model in (narrow, fixed))
    near, far = (np.maximum(0, 1 - gap).mean() for gap in gaps)
    assert 2 * near < far
    y = np.where(rng.uniform(size=len(X)) < 0.05, X[:, 0], 0.0) + 0.5 * rng.normal(size=len(X))
    wide, fixed = (lines_of(2, degree=8, label_scale=s).fit(X, y) for s in ("auto", 1.0))
    assert wide.stats_["label_scale"] > 1.2
    assert wide.score(X, y) > fixed.score(X, y) + 0.05
    assert fixed.stats_["label_scale"] == pytest.approx(1.0)


def test_the_line_and_the_inputs_are_those_of_least_squares():
    X, y = lines()
    X = X @ np.array([[2.0, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.3], [0, 0, 0, 0.1]]) + 5
    model = lines_of(degree=2).fit(X, y)
    A = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-6)
    inputs = stats.multivariate_normal(X.mean(axis=0), np.cov(X, rowvar=False, bias=True))
    np.testing.assert_allclose(model.score_samples(X), inputs.logpdf(X), atol=1e-8)


def test_conditional_draws_follow_the_conditional_law():
    X, y = lines()
    model = lines_of().fit(X, y)
    grid = np.linspace(-15, 15, 6_001)
    laws = []
    for x in (X[0], -X[0], 2 * X[1]):
        density = np.exp(model.score_samples(np.tile(x, (len(grid), 1)), grid))
        laws.append(np.cumsum(density) / np.sum(density))
        drawn = model.sample_y(x[None], 5_000)[0]
        p = [
            stats.kstest(drawn, lambda u, law=law: np.interp(u, grid, law)).pvalue for law in laws
        ]
        assert p[-1] > 0.001
        assert max(p[:-1], default=0.0) < 1e-6  # that at another point


# ---- notes


@quiet
@pytest.mark.parametrize(
    ("make", "data"),
    [
        (spheres_of, (points(8_000, radius=3.0),)),
        (lines_of, lines(20_000, noise=0.1, radius=1.0)),
        (lines_of, lines(20_000, noise=0.0)),
    ],
)
def test_what_the_degree_cannot_express_is_noted(make, data):
    model = make(degree=8).fit(*data)
    assert "density_far_from_rows" in model.notes_.codes
    assert model.stats_["distance"] > 0.05
    assert np.all(np.isfinite(model.score_samples(*data)))


@quiet
def test_notes_and_checks_do_not_contradict_each_other():
    X = points(8_000, radius=1.5)
    for epsilon, clip in ((0.05, "auto"), (0.5, 1.5), (0.01, 1.5)):
        model = spheres_of(degree="auto", epsilon=epsilon, clip=clip).fit(X)
        checks = {check.code: check.passed for check in model._checks()}
        if "density_far_from_rows" in model.notes_.codes:
            assert not checks
        elif model.stats_["distance"] < epsilon:
            assert checks["distance"]
    assert "density_far_from_rows" in model.notes_.codes  # of the last, which is clipped far


@quiet
def test_a_far_outlier_is_left_out_and_noted(both):
    make, draw = both
    data = draw()
    model = make().fit(*data)
    data[-1][7] = 1e5
    other = make().fit(*data)
    assert (other.stats_["outliers"], other.stats_["rows_used"]) == (1, 3_999)
    assert other.notes_.codes == ["outliers"]
    some = [column[:7] for column in data]
    assert np.max(np.abs(other.score_samples(*some) - model.score_samples(*some))) < 0.05


@quiet
@pytest.mark.parametrize("known", [False, True])
def test_constant_columns_are_left_out(known, tmp_path):
    X = points()
    wide = np.insert(X, 1, 7.0, axis=1)
    plain, fitted = (
        spheres_of(degree=2, variance=np.eye(given.shape[1]) if known else None).fit(given)
        for given in (X, wide)
    )
    assert "columns_left_out" in fitted.notes_.codes
    save(fitted, tmp_path / "model.im")
    other = wide[:2] + np.array([[0.0], [1.0]]) * np.eye(wide.shape[1])[1]
    for model in (fitted, load(tmp_path / "model.im")):
        assert model.score(wide) == pytest.approx(plain.score(X))
        np.testing.assert_array_equal(np.isfinite(model.score_samples(other)), [True, False])
        np.testing.assert_array_equal(model.sample(5, random_state=0)[:, 1], 7.0)
        assert model.center_[1] == 7.0


# ---- errors


def test_rows_without_a_density_are_refused():
    with refuses("rows_do_not_vary"):
        spheres_of().fit(np.ones((20, 3)))
    X, y = lines(500)
    for labels in (np.full(500, 3.0), X @ np.arange(4.0)):
        with refuses("labels_on_a_line"):
            lines_of().fit(X, labels)
    for inputs in (np.column_stack([X, X[:, 0]]), X * np.array([1.0, 0, 1, 1])):
        with refuses("columns_collinear"):
            lines_of().fit(inputs, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_entries_are_refused(bad, both):
    make, draw = both
    for column in range(len(draw(10))):
        data = draw(100)
        data[column][3] = bad
        with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
            make().fit(*data)


@pytest.mark.parametrize(
    "options",
    [
        *({"n_components": 0}, {"n_components": 2.5}, {"degree": "cv"}, {"degree": 0}),
        *({"degree": 99}, {"epsilon": 0}, {"max_degree": 1}, {"clip": "none"}, {"clip": 0.5}),
    ],
)
def test_parameters_are_checked(options, both):
    make, draw = both
    with refuses("invalid_parameter"):
        make().set_params(**options).fit(*draw(50))


def test_parameters_of_one_of_them_are_checked():
    for variance in (-1.0, 0):
        with refuses("invalid_parameter"):
            spheres_of(variance=variance).fit(points(50))
    with refuses("invalid_parameter"):
        lines_of(label_scale=0.1).fit(*lines(50))


def test_too_few_rows_and_wrong_weights_are_refused(both):
    make, draw = both
    with refuses("too_few_rows", n=5):
        make(9).fit(*draw(5))
    for weights in (np.zeros(50), np.append(np.ones(49), -1)):
        with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own in some versions)
            make(2).fit(*draw(50), sample_weight=weights)


def test_what_cannot_be_sampled_is_refused(both):
    make, draw = both
    data = draw()
    model = make(max_proposals=50).fit(*data)
    with refuses("too_few_accepted", max_proposals=50):
        model.sample(1_000)
    for method in [model.sample] + [lambda n: model.sample_y(data[0][:2], n)] * (len(data) - 1):
        with refuses("invalid_parameter"):
            method(0)


def test_it_works_in_pipelines_and_searches(both):
    make, draw = both
    data = draw(2_000)
    pipeline = make_pipeline(FunctionTransformer(), make())
    assert math.isfinite(pipeline.fit(*data).score(*data))
    search = GridSearchCV(make(), {"degree": [2, 4]}, cv=2, error_score="raise")
    assert search.fit(*data).best_params_["degree"] in (2, 4)
