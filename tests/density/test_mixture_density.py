"""SphericalMixtureDensity: options, and errors and notes."""

import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from implicitmoments import AssumptionWarning, SphericalMixtureDensity, load, save
from implicitmoments.datasets import make_spherical_mixture
from support import refuses

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def rows(n=4_000, k=3, d=5, radius=1.2, seed=0):
    return make_spherical_mixture(n, k, d, radius=radius, random_state=seed)[0]


def test_it_fits_scores_and_samples():
    X = rows()
    model = SphericalMixtureDensity(3, random_state=0).fit(X)
    assert model.center_.shape == (5,)
    assert model.variance_ == pytest.approx(1.0, abs=0.1)
    assert model.degree_ >= 6
    assert list(model.stats_["scores"]) == list(range(2, 25, 2))
    assert model.notes_ == []
    logs = model.score_samples(X[:10])
    assert logs.shape == (10,)
    assert model.score(X[:10]) == pytest.approx(logs.mean())
    drawn = model.sample(321)
    assert drawn.shape == (321, 5)
    rate = model.stats_["acceptance_rate"]
    expected = model.acceptance_rate_
    margin = 5 * math.sqrt(expected * (1 - expected) / model.stats_["proposals"])
    assert abs(rate - expected) < margin
    np.testing.assert_array_equal(drawn, model.sample(321))
    assert not np.array_equal(drawn, model.sample(321, random_state=1))


def test_scores_are_weighted():
    X = rows(500)
    model = SphericalMixtureDensity(3, degree=2, random_state=0).fit(X)
    weights = np.arange(500) % 3
    mean = np.average(model.score_samples(X), weights=weights)
    assert model.score(X, sample_weight=weights) == pytest.approx(mean)
    assert abs(model.score(X) - mean) > 1e-4


def test_units_do_not_matter():
    X = rows()
    model = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    moved = SphericalMixtureDensity(3, degree=4, random_state=0).fit(1e3 * X - 7e3)
    expected = model.score_samples(X[:50]) - 5 * math.log(1e3)
    np.testing.assert_allclose(moved.score_samples(1e3 * X[:50] - 7e3), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_kinds_of_numbers(dtype):
    X = np.round(8 * rows()).astype(dtype)
    model = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    same = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X.astype(float))
    np.testing.assert_allclose(model.score_samples(X), same.score_samples(X), rtol=1e-6)


def test_weights_are_repetitions():
    X = rows(600)
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X, sample_weight=counts)
    repeated = SphericalMixtureDensity(3, degree=4, random_state=0).fit(
        np.repeat(X, counts, axis=0)
    )
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-5)


def test_one_component_is_a_gaussian():
    X = rows(k=1)
    model = SphericalMixtureDensity(1, random_state=0).fit(X)
    squared = np.sum((X - X.mean(axis=0)) ** 2, axis=1) / model.variance_
    expected = -squared / 2 - 2.5 * math.log(2 * math.pi * model.variance_)
    np.testing.assert_allclose(model.score_samples(X), expected, atol=1e-9)
    assert model.sample(10).shape == (10, 5)
    assert model.acceptance_rate_ == 1.0


def test_one_feature_takes_a_known_variance():
    X, truth = make_spherical_mixture(20_000, 2, 1, radius=1.3, random_state=4)
    with refuses("variance_not_estimable", d=1):
        SphericalMixtureDensity(2).fit(X)
    model = SphericalMixtureDensity(2, variance=1.0, random_state=0).fit(X)
    grid = np.linspace(-5, 5, 1001)[:, None]
    density = np.exp(model.score_samples(grid))
    exact = np.exp(-((grid - truth.vectors[:, 0]) ** 2) / 2) @ truth.weights / math.sqrt(2 * np.pi)
    assert np.sum(density) * 0.01 == pytest.approx(1.0, abs=0.01)
    assert np.sum(np.abs(density - exact)) * 0.01 / 2 < 0.03


def test_a_smaller_epsilon_clips_less():
    X = rows(20_000)
    low, high = (
        SphericalMixtureDensity(3, degree=4, epsilon=e, random_state=0).fit(X) for e in (0.3, 0.01)
    )
    assert low.clip_ < high.clip_


def test_epsilon_chooses_the_degree():
    X = rows(20_000)
    fine, coarse = (
        SphericalMixtureDensity(3, epsilon=e, random_state=0).fit(X) for e in (0.05, 1)
    )
    assert coarse.degree_ < fine.degree_
    ratio = np.exp(coarse.score_samples(X) - fine.score_samples(X))
    assert np.maximum(0, 1 - ratio).mean() < 0.02 * 1 + 0.02 * 1  # of the degree and the clip


@quiet
def test_the_degree_chosen_is_high_where_it_must_be():
    # a light far component: the truncation error grows from degree 2 to degree 6, and then falls
    rng = np.random.default_rng(0)

    def draw(n):
        Z = rng.normal(size=(n, 3))
        Z[rng.uniform(size=n) < 0.05, 0] += 3.0
        return Z

    Z, Y = draw(10_000), draw(10_000)
    truth = np.log(0.95 + 0.05 * np.exp(3.0 * Y[:, 0] - 4.5)) - (Y**2).sum(axis=1) / 2

    def distance(**options):
        model = SphericalMixtureDensity(2, random_state=0, **options).fit(Z)
        ratio = np.exp(model.score_samples(Y) + 1.5 * np.log(2 * np.pi) - truth)
        return np.maximum(0, 1 - ratio).mean()

    fixed = {n: distance(degree=n) for n in (2, 6, 12)}
    assert 2 * distance() < min(fixed.values())
    assert fixed[6] > 1.5 * fixed[2]  # the degrees that a search upwards would stop at


def test_findings_do_not_contradict_each_other():
    X = rows(8_000, radius=1.5)
    for epsilon, clip in ((0.05, "auto"), (0.5, 1.5), (0.01, 1.5)):
        model = SphericalMixtureDensity(3, epsilon=epsilon, clip=clip, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            model.fit(X)
        checks = {check.code: check.passed for check in model._checks()}
        if "density_far_from_rows" in model.notes_.codes:
            assert not checks
        elif model.stats_["distance"] < epsilon:
            assert checks["distance"]
    assert "density_far_from_rows" in model.notes_.codes  # of the last, which is clipped far


def test_the_floor_keeps_logarithms_finite():
    X = rows(20_000, k=4, d=10, radius=2.0)
    options = {"degree": 6, "random_state": 0}
    with pytest.warns(AssumptionWarning):
        model = SphericalMixtureDensity(4, **options).fit(X)
    (note,) = model.notes_
    assert note.code == "density_far_from_rows"
    assert note.values["negative_rows"] > 0.01
    assert np.all(np.isfinite(model.score_samples(X)))
    with pytest.warns(AssumptionWarning):
        paper = SphericalMixtureDensity(4, floor=0.0, **options).fit(X)
    assert np.any(np.isneginf(paper.score_samples(X)))


def test_means_that_are_too_long_are_noted():
    for seed in range(2):
        X = rows(8_000, radius=3.0, seed=seed)
        with pytest.warns(AssumptionWarning):
            model = SphericalMixtureDensity(3, degree=6, random_state=0).fit(X)
        assert "density_far_from_rows" in model.notes_.codes
    assert model.stats_["radius"] > 2
    assert model.stats_["distance"] > 0.1


def test_a_far_outlier_is_left_out_and_noted():
    X = rows()
    model = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    X[7] = 1e5
    with pytest.warns(AssumptionWarning):
        other = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    assert (other.stats_["outliers"], other.stats_["rows_used"]) == (1, 3_999)
    assert other.notes_.codes == ["outliers"]
    difference = other.score_samples(X[:7]) - model.score_samples(X[:7])
    assert np.max(np.abs(difference)) < 0.05


@quiet
def test_columns_without_noise_are_noted():
    X = rows()
    double = np.column_stack([X, X[:, 0]])
    model = SphericalMixtureDensity(3, degree=2, random_state=0).fit(double)
    assert model.notes_.codes[0] == "flat_direction"


@quiet
@pytest.mark.parametrize("known", [False, True])
def test_constant_columns_are_left_out(known, tmp_path):
    X = rows()
    wide = np.insert(X, 1, 7.0, axis=1)
    plain, fitted = (
        SphericalMixtureDensity(
            3, degree=2, variance=np.eye(given.shape[1]) if known else None, random_state=0
        ).fit(given)
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


def test_repeated_rows_change_nothing():
    X = rows()
    once = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    thrice = SphericalMixtureDensity(3, degree=4, random_state=0).fit(np.tile(X, (3, 1)))
    np.testing.assert_allclose(once.score_samples(X), thrice.score_samples(X), rtol=1e-6)


def test_equal_rows_are_refused():
    with refuses("rows_do_not_vary"):
        SphericalMixtureDensity(2).fit(np.ones((20, 3)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_entries_are_refused(bad):
    X = rows(100)
    X[3, 1] = bad
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
        SphericalMixtureDensity(2).fit(X)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"n_components": 0}, "invalid_parameter"),
        ({"n_components": 2.5}, "invalid_parameter"),
        ({"variance": -1.0}, "invalid_parameter"),
        ({"variance": 0}, "invalid_parameter"),
        ({"degree": "all"}, "invalid_parameter"),
        ({"degree": 0}, "invalid_parameter"),
        ({"epsilon": 0}, "invalid_parameter"),
        ({"max_degree": 1}, "invalid_parameter"),
        ({"clip": "none"}, "invalid_parameter"),
        ({"clip": 0.5}, "invalid_parameter"),
        ({"floor": 1.0}, "invalid_parameter"),
        ({"degree": "cv"}, "invalid_parameter"),
    ],
)
def test_parameters_are_checked(options, code):
    with refuses(code):
        SphericalMixtureDensity(**options).fit(rows(50))


def test_fewer_rows_than_components_are_refused():
    with refuses("too_few_rows", k=9, n=5):
        SphericalMixtureDensity(9).fit(rows(5))
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own in some versions)
        SphericalMixtureDensity(2).fit(rows(5), sample_weight=np.zeros(5))
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
        SphericalMixtureDensity(2).fit(rows(5), sample_weight=[1, 1, -1, 1, 1])


def test_the_sampler_gives_up_after_its_cap():
    model = SphericalMixtureDensity(3, degree=4, max_proposals=50, random_state=0).fit(rows())
    with refuses("too_few_accepted", max_proposals=50):
        model.sample(1_000)
    with refuses("invalid_parameter"):
        model.sample(0)


def test_it_works_in_pipelines_and_searches():
    X = rows(2_000)
    pipeline = make_pipeline(FunctionTransformer(), SphericalMixtureDensity(3, random_state=0))
    assert math.isfinite(pipeline.fit(X).score(X))
    search = GridSearchCV(
        SphericalMixtureDensity(3, random_state=0), {"degree": [2, 4]}, cv=2, error_score="raise"
    )
    assert search.fit(X).best_params_["degree"] in (2, 4)
    assert clone(search.best_estimator_).n_components == 3
