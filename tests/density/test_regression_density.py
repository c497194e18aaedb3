"""RegressionMixtureDensity: options, and errors and notes."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from implicitmoments import AssumptionWarning, RegressionMixtureDensity
from implicitmoments.datasets import make_regression_mixture
from support import refuses

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def rows(n=4_000, k=3, d=4, seed=0, **options):
    return make_regression_mixture(
        n, k, d, **{"radius": 0.8, "noise": 1.0, "random_state": seed, **options}
    )[:2]


def model_of(k=3, **options):
    return RegressionMixtureDensity(k, **{"degree": 4, "random_state": 0, **options})


def test_it_fits_scores_and_samples():
    X, y = rows()
    model = model_of(degree="auto").fit(X, y)
    assert model.coef_.shape == (4,)
    assert model.noise_ == pytest.approx(1.0, abs=0.15)
    assert set(model.stats_["scores"]) >= {2, 4}
    assert model.notes_ == []
    logs = model.score_samples(X[:10], y[:10])
    assert logs.shape == (10,)
    assert model.score(X[:10], y[:10]) == pytest.approx(logs.mean())
    Z, labels = model.sample(321)
    assert Z.shape == (321, 4)
    assert labels.shape == (321,)
    expected = model.acceptance_rate_
    margin = 5 * math.sqrt(expected * (1 - expected) / model.stats_["proposals"])
    assert abs(model.stats_["acceptance_rate"] - expected) < margin
    np.testing.assert_array_equal(labels, model.sample(321)[1])
    assert not np.array_equal(labels, model.sample(321, random_state=1)[1])
    assert model.sample_y(X[:7], 5).shape == (7, 5)


def test_the_slope_is_that_of_least_squares():
    X, y = rows()
    X = X @ np.array([[2.0, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.3], [0, 0, 0, 0.1]]) + 5
    model = model_of(degree=2).fit(X, y)
    A = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_and_shapes_of_the_design_do_not_matter(fit_intercept, rng):
    """Another Gaussian design gives the same density, times the Jacobian."""
    X, y = rows()
    A = rng.normal(size=(4, 4)) + 3 * np.eye(4)
    moved, labels = X @ A - 70.0, 1e3 * y - 7e3
    model = model_of(fit_intercept=fit_intercept).fit(X, y)
    other = model_of(fit_intercept=fit_intercept).fit(moved, labels)
    expected = model.score_samples(X, y) - np.linalg.slogdet(A)[1] - math.log(1e3)
    np.testing.assert_allclose(other.score_samples(moved, labels), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_kinds_of_numbers(dtype):
    X, y = (np.round(8 * a).astype(dtype) for a in rows())
    model = model_of().fit(X, y)
    same = model_of().fit(X.astype(float), y.astype(float))
    expected = same.score_samples(X.astype(float), y.astype(float))
    rtol = 1e-4 if dtype == np.float32 else 1e-9  # products are in the precision of the rows
    np.testing.assert_allclose(model.score_samples(X, y), expected, rtol=rtol)


def test_weights_are_repetitions():
    X, y = rows(600)
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = model_of().fit(X, y, sample_weight=counts)
    repeated = model_of().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    expected = repeated.score_samples(X, y)
    np.testing.assert_allclose(weighted.score_samples(X, y), expected, rtol=1e-5)


def test_one_component_is_the_gaussian_of_least_squares():
    X, y = rows(k=1)
    model = model_of(1, degree="auto").fit(X, y)
    table = np.column_stack([X, y])
    expected = stats.multivariate_normal(
        table.mean(axis=0), np.cov(table, rowvar=False, bias=True)
    ).logpdf(table)
    np.testing.assert_allclose(model.score_samples(X, y), expected, atol=1e-8)
    assert model.acceptance_rate_ == 1.0
    assert model.sample(10)[0].shape == (10, 4)


def test_one_feature_against_the_truth():
    X, y, truth = make_regression_mixture(
        30_000, 2, 1, radius=0.8, noise=1.0, weights=[0.7, 0.3], random_state=4
    )
    model = model_of(2, degree="auto").fit(X, y)
    a, b = (grid.ravel() for grid in np.meshgrid(np.linspace(-5, 5, 201), np.linspace(-8, 8, 321)))
    density = np.exp(model.score_samples(a[:, None], b))
    apart = b[:, None] - a[:, None] * truth.vectors[:, 0]
    exact = np.exp(-(apart**2) / 2 - a[:, None] ** 2 / 2) @ truth.weights / (2 * math.pi)
    cell = 0.05**2
    assert np.sum(density) * cell == pytest.approx(1.0, abs=0.01)
    assert np.sum(np.abs(density - exact)) * cell / 2 < 0.03


def test_the_marginal_is_the_integral_over_labels():
    X, y = rows()
    model = model_of().fit(X, y)
    grid = np.linspace(-15, 15, 6_001)
    for x in X[:3]:
        density = np.exp(model.score_samples(np.tile(x, (len(grid), 1)), grid))
        expected = math.log(np.trapezoid(density, grid))
        assert model.score_samples(x[None])[0] == pytest.approx(expected, abs=1e-5)


def test_conditional_draws_follow_the_conditional_law():
    X, y = rows()
    model = model_of().fit(X, y)
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


@quiet
def test_intercepts_of_their_own():
    X, y, truth = make_regression_mixture(30_000, 2, 3, radius=0.6, noise=1.0, random_state=0)
    y = y + np.where(truth.labels == 0, 0.7, -0.7)
    r = y[:, None] - X @ truth.vectors.T - np.array([0.7, -0.7])
    exact = np.log(np.exp(-(r**2) / 2) @ truth.weights) - np.sum(X**2, axis=1) / 2
    exact -= 2 * math.log(2 * math.pi)
    each, common = (
        model_of(2, degree=6, fit_intercept=own).fit(X, y).score_samples(X, y)
        for own in (True, False)
    )
    short = [np.maximum(0, 1 - np.exp(logs - exact)).mean() for logs in (each, common)]
    assert short[0] < 0.03
    assert short[1] > 2 * short[0]


def lines_with_intercepts(n, c, seed=0):
    """Return rows, labels, and the logarithm of their density: lines ±(c + x/2)."""
    rng = np.random.default_rng(seed)
    sign = np.where(rng.integers(0, 2, n), 1.0, -1.0)
    X = rng.normal(size=(n, 2))
    y = sign * (c + X[:, 0] / 2) + rng.normal(size=n)
    middle = c + X[:, 0] / 2
    logs = np.logaddexp(-((y - middle) ** 2) / 2, -((y + middle) ** 2) / 2) - np.log(2)
    return X, y, logs - (X**2).sum(axis=1) / 2 - 1.5 * np.log(2 * np.pi)


def distance(model, X, y, exact):
    return np.maximum(0, 1 - np.exp(model.score_samples(X, y) - exact)).mean()


@quiet
def test_the_scale_follows_the_lines():
    """Far intercepts need a narrower G, a steep light line a wider one."""
    X, y, _ = lines_with_intercepts(20_000, 2.5)
    fresh = lines_with_intercepts(20_000, 2.5, seed=1)
    narrow, fixed = (model_of(2, degree=8, label_scale=s).fit(X, y) for s in ("auto", 1.0))
    assert narrow.stats_["label_scale"] < 0.85
    assert 2 * distance(narrow, *fresh) < distance(fixed, *fresh)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = np.where(rng.uniform(size=len(X)) < 0.05, X[:, 0], 0.0) + 0.5 * rng.normal(size=len(X))
    wide, fixed = (model_of(2, degree=8, label_scale=s).fit(X, y) for s in ("auto", 1.0))
    assert wide.stats_["label_scale"] > 1.2
    assert wide.score(X, y) > fixed.score(X, y) + 0.05
    assert fixed.stats_["label_scale"] == pytest.approx(1.0)


def test_the_setting_of_the_paper():
    X, y = rows(20_000)
    model = model_of(fit_intercept=False, whiten=False).fit(X, y)
    assert model.intercept_ == 0.0
    assert model.noise_ == pytest.approx(1.0, abs=0.05)
    assert model.notes_ == []
    whitened = model_of(fit_intercept=False).fit(X, y)
    assert np.abs(model.score_samples(X, y) - whitened.score_samples(X, y)).mean() < 0.05


@quiet
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_small_noise_is_noted(noise):
    X, y = rows(20_000, noise=noise, radius=1.0)
    model = model_of(degree=8).fit(X, y)
    assert "density_far_from_rows" in model.notes_.codes
    assert model.stats_["noise_share"] < 0.1


@quiet
def test_no_noise_at_all():
    X, y = rows(20_000, noise=0.0)
    assert "density_far_from_rows" in model_of(degree=8).fit(X, y).notes_.codes
    with refuses("labels_on_a_line"):
        model_of().fit(X, X @ np.arange(4.0))


@pytest.mark.parametrize("k", [1, 2])
def test_constant_labels_are_refused(k):
    X, _ = rows(200)
    with refuses("labels_on_a_line"):
        model_of(k).fit(X, np.full(len(X), 3.0))


@pytest.mark.parametrize("spoil", ["constant", "twice"])
def test_columns_that_are_constant_or_collinear_are_refused(spoil):
    X, y = rows(500)
    if spoil == "constant":
        X[:, 1] = 3.0
    else:
        X = np.column_stack([X, X[:, 0]])
    with refuses("columns_collinear"):
        model_of().fit(X, y)


@quiet
def test_inputs_that_are_not_gaussian_are_noted():
    X, y = rows(5_000)
    shifted = model_of(whiten=False).fit(2 * X, y)
    assert "inputs_not_standard" in shifted.notes_.codes
    X[:, 1] = np.exp(X[:, 1])
    skewed = model_of().fit(X, y)
    assert skewed.notes_.codes[0] == "inputs_not_gaussian"


def test_a_far_outlier_is_left_out_and_noted():
    X, y = rows()
    model = model_of().fit(X, y)
    y[7] = 1e4
    with pytest.warns(AssumptionWarning):
        other = model_of().fit(X, y)
    assert [(n.code, n.values["n"]) for n in other.notes_] == [("outliers", 1)]
    difference = other.score_samples(X[:7], y[:7]) - model.score_samples(X[:7], y[:7])
    assert np.max(np.abs(difference)) < 0.05


def test_fewer_rows_than_a_line_needs():
    X, y = rows(40)
    with refuses("too_few_rows", n=5, least=6):
        model_of(2).fit(X[:5], y[:5])
    with refuses("too_few_rows", least=9):
        model_of(9).fit(X[:8], y[:8])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_entries_are_refused(bad):
    X, y = rows(100)
    spoiled = y.copy()
    spoiled[3] = bad
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
        model_of().fit(X, spoiled)
    X[3, 1] = bad
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
        model_of().fit(X, y)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("n_components", 0, "invalid_parameter"),
        ("fit_intercept", "yes", "invalid_parameter"),
        ("whiten", 1, "invalid_parameter"),
        ("label_scale", 0.1, "invalid_parameter"),
        ("degree", "all", "invalid_parameter"),
        ("degree", 0, "invalid_parameter"),
        ("degree", 99, "invalid_parameter"),
        ("epsilon", 0, "invalid_parameter"),
        ("max_degree", 1, "invalid_parameter"),
        ("clip", "none", "invalid_parameter"),
        ("floor", 1.0, "invalid_parameter"),
    ],
)
def test_parameters_are_checked(name, value, code):
    with refuses(code):
        RegressionMixtureDensity(**{name: value}).fit(*rows(50))


def test_weights_are_checked():
    X, y = rows(50)
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
        model_of(2).fit(X, y, sample_weight=np.append(np.ones(49), -1))
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own in some versions)
        model_of(2).fit(X, y, sample_weight=np.zeros(50))


def test_the_sampler_gives_up_after_its_cap():
    model = model_of(max_proposals=50).fit(*rows())
    with refuses("too_few_accepted", max_proposals=50):
        model.sample(1_000)
    with refuses("invalid_parameter"):
        model.sample(0)
    with refuses("invalid_parameter"):
        model.sample_y(rows()[0][:2], 0)


def test_without_a_floor_logarithms_may_be_infinite():
    X, y = rows(20_000)
    model = model_of(degree=8, floor=0.0).fit(X, y)
    far = np.tile(X[0], (400, 1))
    labels = np.linspace(-30, 30, 400)
    assert np.any(np.isneginf(model.score_samples(far, labels)))
    assert np.all(np.isfinite(model_of(degree=8).fit(X, y).score_samples(far, labels)))
    assert np.all(np.isfinite(model.sample_y(30 * X[:5], 3)))


def test_it_works_in_pipelines_and_searches():
    X, y = rows(2_000)
    pipeline = make_pipeline(FunctionTransformer(), model_of())
    assert math.isfinite(pipeline.fit(X, y).score(X, y))
    search = GridSearchCV(model_of(), {"degree": [2, 4]}, cv=2, error_score="raise")
    assert search.fit(X, y).best_params_["degree"] in (2, 4)
    assert clone(search.best_estimator_).n_components == 3
