"""RegressionMixture: estimates, notes and errors."""

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, RegressionMixture
from implicitmoments.datasets import make_regression_mixture
from support import match_rows


def match(model, vectors):
    """Return fitted lines in the order of the true ones, and the largest error."""
    order, distances = match_rows(model.coef_, vectors)
    return order, distances.max()


@pytest.fixture(scope="module")
def data():
    return make_regression_mixture(6_000, 4, 5, noise=0.3, weights=[1, 2, 3, 4], random_state=0)


@pytest.fixture(scope="module")
def model(data):
    X, y, _ = data
    return RegressionMixture(4, random_state=0).fit(X, y)


def test_it_finds_lines_weights_and_noise(data, model):
    _, _, truth = data
    order, error = match(model, truth.vectors)
    assert error < 0.1
    np.testing.assert_allclose(model.weights_[order], truth.weights, atol=0.03)
    np.testing.assert_allclose(model.noise_, 0.3, rtol=0.05)
    assert np.abs(model.intercept_).max() < 0.1
    assert model.converged_
    assert np.all(np.diff(model.weights_) <= 0)
    assert model.coef_errors_.shape == model.coef_.shape
    assert np.all(np.abs(model.coef_[order] - truth.vectors) < 6 * model.coef_errors_[order])


def test_parallel_lines(rng):
    X, labels = rng.normal(size=(1_000, 2)), rng.integers(2, size=1_000)
    y = X @ [1.0, 2.0] + 2.0 * labels + 0.3 * rng.normal(size=1_000)
    for k in (2, "auto"):
        found = RegressionMixture(k, random_state=0).fit(X, y)
        np.testing.assert_allclose(np.sort(found.intercept_), [0, 2], atol=0.1)
        np.testing.assert_allclose(found.coef_, [[1, 2], [1, 2]], atol=0.1)


def test_without_intercepts(rng):
    X, labels = rng.normal(size=(2_000, 2)) + 3, rng.integers(2, size=2_000)
    vectors = np.array([[1.0, 2.0], [-1.0, 0.5]])
    y = np.sum(X * vectors[labels], axis=1) + 0.2 * rng.normal(size=2_000)
    found = RegressionMixture(2, fit_intercept=False, random_state=0).fit(X, y)
    assert match(found, vectors)[1] < 0.05
    np.testing.assert_array_equal(found.intercept_, 0)
    np.testing.assert_array_equal(found.intercept_errors_, 0)


def test_separate_noise(rng):
    X, labels = rng.normal(size=(4_000, 3)), rng.integers(2, size=4_000)
    vectors, noise = np.array([[1.0, 0, 0], [0, 1.0, 1.0]]), np.array([0.1, 0.6])
    y = np.sum(X * vectors[labels], axis=1) + noise[labels] * rng.normal(size=4_000)
    found = RegressionMixture(2, noise_type="separate", random_state=0).fit(X, y)
    order, error = match(found, vectors)
    assert error < 0.1
    np.testing.assert_allclose(found.noise_[order], noise, rtol=0.1)


def test_more_lines_than_features():
    X, y, truth = make_regression_mixture(20_000, 6, 3, noise=0.2, random_state=1)
    assert match(RegressionMixture(6, random_state=0).fit(X, y), truth.vectors)[1] < 0.1


@pytest.mark.parametrize("d", [20, 60])
def test_more_features_than_lines(d):
    X, y, truth = make_regression_mixture(12_000, 3, d, noise=0.3, random_state=1)
    assert match(RegressionMixture(3, random_state=0).fit(X, y), truth.vectors)[1] < 0.25


def test_one_component_is_least_squares(data):
    X, y, _ = data
    found = RegressionMixture(1).fit(X, y)
    exact = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
    np.testing.assert_allclose(found.coef_[0], exact[1:], rtol=1e-6)
    np.testing.assert_allclose(found.intercept_[0], exact[0], atol=1e-8)


def test_the_number_of_lines_is_found(data):
    X, y, truth = data
    found = RegressionMixture("auto", random_state=0).fit(X, y)
    assert found.n_components_ == 4
    assert match(found, truth.vectors)[1] < 0.1
    scores = found.stats_["bic_by_n_components"]
    assert min(scores, key=scores.get) == 4
    np.testing.assert_allclose(scores[4], found.bic(X, y), rtol=1e-5)
    with pytest.warns(AssumptionWarning):
        few = RegressionMixture("auto", max_components=2, random_state=0).fit(X, y)
    assert few.n_components_ == 2


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("k", [1, 2])
def test_outliers_do_not_move_the_lines(k):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(600, 1)), rng.integers(k, size=600)
    y = np.where(labels, -2.0, 1.0) * X[:, 0] + 0.1 * rng.normal(size=600)
    y[:10] += 1e3 * rng.normal(size=10)
    y[10] = 1e9
    found = RegressionMixture(k, random_state=0).fit(X, y)
    assert 9 <= found.stats_["outliers"] <= 11
    assert "outliers" in found.notes_.codes
    np.testing.assert_allclose(np.sort(found.coef_[:, 0]), [-2.0, 1.0][2 - k :], atol=0.05)
    kept = RegressionMixture(k, drop_outliers=False, random_state=0).fit(X, y)
    assert kept.stats_["outliers"] == 0


def test_inputs_are_drawn_with_their_second_moments_where_lines_have_no_intercepts(rng):
    X = np.column_stack([5 + 0.5 * rng.normal(size=400), np.ones(400)])
    found = RegressionMixture(1, fit_intercept=False, random_state=0).fit(X, X @ [2.0, 1.0])
    drawn, y, _ = found.sample(4_000)
    np.testing.assert_allclose(drawn.T @ drawn / 4_000, X.T @ X / 400, rtol=0.2)
    np.testing.assert_allclose(y, drawn @ [2.0, 1.0], atol=0.01)


def test_noise_at_its_floor_is_noted(rng):
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 0.5] + rng.normal(size=60)
    y[:6] = 3.0  # no noise at all
    found = RegressionMixture(2, noise_type="separate", random_state=0).fit(X, y)
    (note,) = (note for note in found.notes_ if note.code == "at_floor")
    assert note.values["which"] == [1]
    assert "at_floor" not in RegressionMixture(2, random_state=0).fit(X, y).notes_.codes


def test_predictions(data, model):
    X, y, truth = data
    expected = (X @ model.coef_.T + model.intercept_) @ model.weights_
    np.testing.assert_allclose(model.predict(X), expected)
    chances = model.predict_proba(X, y)
    assert chances.shape == (len(y), 4)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    labels = model.predict_component(X, y)
    np.testing.assert_array_equal(labels, chances.argmax(axis=1))
    order, _ = match(model, truth.vectors)
    assert np.mean(order[truth.labels] == labels) > 0.7
    np.testing.assert_allclose(model.predict_proba(X[:2]), [model.weights_] * 2)


def test_likelihoods_and_criteria(data, model):
    X, y, _ = data
    scores = model.score_samples(X, y)
    np.testing.assert_allclose(scores.mean(), model.lower_bound_)
    np.testing.assert_allclose(scores.mean(), model.lower_bound_)
    np.testing.assert_allclose(model.score(X, y), scores.mean())
    n = 4 * 6 + 3 + 1
    np.testing.assert_allclose(model.aic(X, y), -2 * scores.sum() + 2 * n)
    np.testing.assert_allclose(model.bic(X, y), -2 * scores.sum() + n * np.log(len(y)))
    grid = np.linspace(-8, 8, 4_001)
    density = np.exp(model.score_samples(np.tile(X[0], (len(grid), 1)), grid))
    np.testing.assert_allclose(np.trapezoid(density, grid), 1, atol=1e-6)


def test_samples_have_the_law_of_the_model(data, model):
    X, y, labels = model.sample(20_000, random_state=0)
    assert X.shape == (20_000, 5)
    np.testing.assert_allclose(X.mean(axis=0), data[0].mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.bincount(labels) / 20_000, model.weights_, atol=0.02)
    left = y - np.sum(X * model.coef_[labels], axis=1) - model.intercept_[labels]
    np.testing.assert_allclose(left.std(), model.noise_[0], rtol=0.03)
    again, same, _ = model.sample(X=X[:5], random_state=0)
    np.testing.assert_array_equal(again, X[:5])
    assert len(same) == 5
    assert np.all(model.sample(3, random_state=1)[1] == model.sample(3, random_state=1)[1])


def test_inputs_need_not_be_gaussian(rng):
    X, labels = rng.exponential(size=(5_000, 3)), rng.integers(3, size=5_000)
    vectors = np.array([[1.0, 0, 0], [0, 1.0, -1.0], [-1.0, 1.0, 0]])
    y = np.sum(X * vectors[labels], axis=1) + 0.2 * rng.normal(size=5_000)
    found = RegressionMixture(3, random_state=0).fit(X, y)
    assert match(found, vectors)[1] < 0.1
    assert found.notes_ == []


def test_a_missing_line_is_noted(data):
    X, y, _ = data
    assert RegressionMixture(4, random_state=0).fit(X, y).notes_ == []
    for k in (1, 2, 3):
        found = RegressionMixture(k, random_state=0).fit(X, y)
        assert "component_missing" in found.notes_.codes


def test_a_superfluous_line_is_noted(data):
    X, y, _ = data
    found = RegressionMixture(5, random_state=0).fit(X, y)
    assert "components_are_one" in found.notes_.codes
