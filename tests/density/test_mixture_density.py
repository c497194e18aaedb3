"""SphericalMixtureDensity: scikit-learn's contract, options, and what it refuses or says."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from implicitmoments import AssumptionWarning, SphericalMixtureDensity
from implicitmoments.datasets import make_spherical_mixture

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def rows(n=4_000, k=3, d=5, radius=1.2, seed=0):
    return make_spherical_mixture(n, k, d, radius=radius, random_state=seed)[0]


@quiet
@parametrize_with_checks([SphericalMixtureDensity(), SphericalMixtureDensity(n_components=1)])
def test_it_keeps_the_contract(estimator, check):
    check(estimator)


def test_it_fits_scores_and_samples():
    X = rows()
    model = SphericalMixtureDensity(3, random_state=0).fit(X)
    assert model.center_.shape == (5,)
    assert model.variance_ == pytest.approx(1.0, abs=0.1)
    assert model.degree_ in (2, 4, 6, 8)
    assert set(model.stats_["scores"]) >= {2, 4}
    assert model.stats_["notes"] == []
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
    with pytest.raises(ValueError, match=r"n_features=1; give variance"):
        SphericalMixtureDensity(2).fit(X)
    model = SphericalMixtureDensity(2, variance=1.0, random_state=0).fit(X)
    grid = np.linspace(-5, 5, 1001)[:, None]
    density = np.exp(model.score_samples(grid))
    exact = np.exp(-((grid - truth.vectors[:, 0]) ** 2) / 2) @ truth.weights / math.sqrt(2 * np.pi)
    assert np.sum(density) * 0.01 == pytest.approx(1.0, abs=0.01)
    assert np.sum(np.abs(density - exact)) * 0.01 / 2 < 0.03


def test_degree_comes_from_epsilon():
    X = rows(20_000)
    low, high = (
        SphericalMixtureDensity(3, degree="auto", epsilon=e, random_state=0).fit(X)
        for e in (0.3, 0.01)
    )
    assert low.degree_ < high.degree_
    assert high.stats_["truncation_error"] < 0.005 < low.stats_["truncation_error"] < 0.15
    assert low.clip_ < high.clip_


def test_the_floor_keeps_logarithms_finite():
    X = rows(20_000, k=4, d=10, radius=2.0)
    options = {"degree": 6, "random_state": 0}
    with pytest.warns(AssumptionWarning, match="negative at"):
        model = SphericalMixtureDensity(4, **options).fit(X)
    assert np.all(np.isfinite(model.score_samples(X)))
    with pytest.warns(AssumptionWarning, match="negative at"):
        paper = SphericalMixtureDensity(4, floor=0.0, **options).fit(X)
    assert np.any(np.isneginf(paper.score_samples(X)))


def test_outside_its_regime_it_says_so():
    X = rows(20_000, radius=4.0)
    with pytest.warns(AssumptionWarning, match=r"SphericalMixture or SphericalMixtureClusterer"):
        model = SphericalMixtureDensity(3, random_state=0).fit(X)
    assert model.stats_["radius"] > 2
    assert model.stats_["distance"] > 0.1


def test_a_far_outlier_is_left_out_and_said():
    X = rows()
    model = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    X[7] = 1e5
    with pytest.warns(AssumptionWarning, match="1 row"):
        other = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    assert other.stats_["outliers"] == 1
    difference = other.score_samples(X[:7]) - model.score_samples(X[:7])
    assert np.max(np.abs(difference)) < 0.05


@quiet
@pytest.mark.parametrize("spoil", ["constant", "twice"])
def test_columns_without_noise_are_said(spoil):
    X = rows()
    if spoil == "constant":
        X[:, 1] = 3.0
    else:
        X = np.column_stack([X, X[:, 0]])
    model = SphericalMixtureDensity(3, degree=2, random_state=0).fit(X)
    assert "constant or dependent columns" in model.stats_["notes"][0]


def test_repeated_rows_change_nothing():
    X = rows()
    once = SphericalMixtureDensity(3, degree=4, random_state=0).fit(X)
    thrice = SphericalMixtureDensity(3, degree=4, random_state=0).fit(np.tile(X, (3, 1)))
    np.testing.assert_allclose(once.score_samples(X), thrice.score_samples(X), rtol=1e-6)


def test_equal_rows_are_refused():
    with pytest.raises(ValueError, match="do not vary"):
        SphericalMixtureDensity(2).fit(np.ones((20, 3)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_entries_are_refused(bad):
    X = rows(100)
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        SphericalMixtureDensity(2).fit(X)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components is at least 1, got 0"),
        ({"n_components": 2.5}, TypeError, "whole number"),
        ({"variance": -1.0}, ValueError, "variance is a positive number"),
        ({"variance": 0}, ValueError, "variance is a positive number"),
        ({"degree": "all"}, ValueError, "'auto' or 'cv', got 'all'"),
        ({"degree": 0}, ValueError, "degree is at least 1"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"max_degree": 1}, ValueError, "max_degree"),
        ({"clip": "none"}, ValueError, "clip is a number or 'auto'"),
        ({"clip": 0.5}, ValueError, "clip"),
        ({"floor": 1.0}, ValueError, "floor"),
        ({"method": "exact"}, ValueError, "'closed_form' or 'paper', got 'exact'"),
        ({"n_draws": 0}, ValueError, "n_draws"),
        ({"random_state": -1}, ValueError, "random_state"),
    ],
)
def test_parameters_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        SphericalMixtureDensity(**options).fit(rows(50))


def test_fewer_rows_than_components_are_refused():
    with pytest.raises(ValueError, match=r"n_components=9 and n_samples=5"):
        SphericalMixtureDensity(9).fit(rows(5))
    with pytest.raises(ValueError, match=r"non-zero|n_samples=0"):
        SphericalMixtureDensity(2).fit(rows(5), sample_weight=np.zeros(5))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        SphericalMixtureDensity(2).fit(rows(5), sample_weight=[1, 1, -1, 1, 1])


def test_the_sampler_gives_up_after_its_cap():
    model = SphericalMixtureDensity(3, degree=4, max_proposals=50, random_state=0).fit(rows())
    with pytest.raises(ValueError, match="max_proposals=50"):
        model.sample(1_000)
    with pytest.raises(ValueError, match="n_samples is at least 1"):
        model.sample(0)


def test_the_paper_is_there_for_comparison():
    X = rows(20_000, k=2, d=3)
    model = SphericalMixtureDensity(2, method="paper", degree=2, n_draws=50, random_state=0).fit(X)
    assert model.stats_["method"] == "paper"
    assert model.stats_["distance"] < 0.1
    assert model.sample(50).shape == (50, 3)


def test_it_works_in_pipelines_and_searches():
    X = rows(2_000)
    pipeline = make_pipeline(FunctionTransformer(), SphericalMixtureDensity(3, random_state=0))
    assert math.isfinite(pipeline.fit(X).score(X))
    search = GridSearchCV(
        SphericalMixtureDensity(3, random_state=0), {"degree": [2, 4]}, cv=2, error_score="raise"
    )
    assert search.fit(X).best_params_["degree"] in (2, 4)
    assert clone(search.best_estimator_).n_components == 3
