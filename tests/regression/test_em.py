"""EM: its maximum, its acceleration, and what keeps it from falling apart."""

import numpy as np

from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression import LineFamily, Lines, Model, design_rows, least_ratio
from implicitmoments.rows import Rows
from implicitmoments.search import Budget, run_em


def rows_of(X, y, counts=None):
    columns = {} if counts is None else {"counts": counts}
    return design_rows(Rows.of(X, y=y, **columns))


def climb(rows, lines, model, *, max_iter, tol):
    return run_em(LineFamily(model), rows, lines, Budget(rows.n, max_iter, tol))


def start(truth, variance=1.0):
    k = len(truth.weights)
    coef = np.column_stack([np.zeros(k), truth.vectors])
    return Lines(np.full(k, 1 / k), coef, np.full(k, variance))


def test_one_line_is_least_squares(rng):
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, 2.0, 3.0] + 4 + rng.normal(size=200)
    lines = Lines(np.ones(1), np.zeros((1, 4)), np.ones(1))
    found = climb(rows_of(X, y), lines, Model(), max_iter=20, tol=1e-12).state
    exact = np.linalg.lstsq(np.column_stack([np.ones(200), X]), y, rcond=None)[0]
    np.testing.assert_allclose(found.coef[0], exact, rtol=1e-6)


def test_without_intercepts_they_stay_zero(rng):
    X, y = rng.normal(size=(200, 2)) + 1, rng.normal(size=200) + 3
    lines = Lines(np.ones(1), np.zeros((1, 3)), np.ones(1))
    found = climb(rows_of(X, y), lines, Model(intercept=False), max_iter=20, tol=1e-12).state
    assert found.coef[0, 0] == 0
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(found.coef[0, 1:], exact, rtol=1e-6)


def test_acceleration_ends_where_plain_em_does_in_fewer_passes():
    X, y, truth = make_regression_mixture(3_000, 3, 4, noise=0.8, random_state=0)
    rows, model, family = rows_of(X, y), Model(), LineFamily(Model())
    lines, plain, before = start(truth), 0, -np.inf
    while plain < 3_000:
        expected = family.e_step(rows, lines)
        lines, plain = family.m_step(expected, lines), plain + 1
        if expected.level - before < 1e-12:
            break
        before = expected.level
    fast = climb(rows, start(truth), model, max_iter=500, tol=1e-10)
    assert fast.converged
    assert abs(fast.level - before) < 1e-8
    np.testing.assert_allclose(fast.state.coef, lines.coef, atol=1e-3)
    assert len(fast.history) < plain / 2


def test_the_likelihood_is_that_of_the_lines_returned():
    X, y, truth = make_regression_mixture(2_000, 2, 3, noise=0.5, random_state=1)
    rows = rows_of(X, y)
    for passes in (1, 3, 5, 50):
        found = climb(rows, start(truth), Model(), max_iter=passes, tol=1e-9)
        again = LineFamily(Model()).e_step(rows, found.state).level
        assert again == found.level == max(found.history)


def test_separate_noise_is_estimated_and_shared_is_equal(rng):
    X, labels = rng.normal(size=(4_000, 3)), rng.integers(2, size=4_000)
    vectors = np.array([[1.0, 0, 0], [-1.0, 1, 0]])
    y = np.sum(X * vectors[labels], axis=1)
    y += np.where(labels == 0, 0.1, 0.6) * rng.normal(size=4_000)
    lines = Lines(np.full(2, 0.5), np.column_stack([np.zeros(2), vectors]), np.full(2, 0.2))
    separate = climb(rows_of(X, y), lines, Model(shared=False), max_iter=200, tol=1e-9)
    np.testing.assert_allclose(np.sqrt(separate.state.variances), [0.1, 0.6], rtol=0.1)
    shared = climb(rows_of(X, y), lines, Model(), max_iter=200, tol=1e-9)
    assert shared.state.variances[0] == shared.state.variances[1]
    assert separate.level > shared.level + 0.1


def test_a_line_on_few_rows_does_not_run_off_to_noise_zero(rng):
    """Without a floor the likelihood has no maximum."""
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    y[:2] = 50.0
    lines = Lines(np.array([0.9, 0.1]), np.array([[0.0, 0, 0], [50.0, 0, 0]]), np.ones(2))
    family = LineFamily(Model(shared=False), least_ratio(100, 3))
    found = run_em(family, rows_of(X, y), lines, Budget(100, 200, 1e-9)).state
    pooled = found.weights @ found.variances
    ratio = least_ratio(100, 3) / (found.weights @ found.weights)
    np.testing.assert_allclose(found.variances[1], ratio**2 * pooled, rtol=1e-3)
    assert family.at_floor(found).tolist() == [1]


def test_a_line_on_many_rows_may_have_little_noise(rng):
    X, noise = rng.normal(size=(200, 2)), np.repeat([1e-3, 1.0], 100)
    y = X @ [1.0, 2.0] + noise * rng.normal(size=200)
    lines = Lines(np.full(2, 0.5), np.array([[0.0, 1, 2], [0.0, 1, 2]]), np.array([1e-4, 1.0]))
    family = LineFamily(Model(shared=False), least_ratio(200, 3))
    found = run_em(family, rows_of(X, y), lines, Budget(200, 200, 1e-9)).state
    np.testing.assert_allclose(np.sqrt(found.variances[0]), 1e-3, rtol=0.2)
    assert len(family.at_floor(found)) == 0


def test_a_line_without_rows_stays_where_it_is(rng):
    X = rng.normal(size=(100, 2))
    lines = Lines(np.array([1.0, 0.0]), np.array([[0.0, 0, 0], [1e3, 0, 0]]), np.ones(2))
    found = climb(rows_of(X, X[:, 0]), lines, Model(), max_iter=10, tol=1e-9).state
    assert np.all(np.isfinite(found.coef))
    assert found.weights[1] < 1e-6


def test_counts_are_rows_that_are_there_more_than_once():
    X, y, truth = make_regression_mixture(500, 2, 3, noise=0.5, random_state=1)
    counts = np.random.default_rng(0).integers(0, 3, 500)
    twice = np.repeat(np.arange(500), counts)
    weighted = rows_of(X, y, counts.astype(float))
    found = climb(weighted, start(truth), Model(), max_iter=50, tol=1e-9)
    repeated = climb(rows_of(X[twice], y[twice]), start(truth), Model(), max_iter=50, tol=1e-9)
    np.testing.assert_allclose(found.state.coef, repeated.state.coef, rtol=1e-6)
