"""What is missing is found, and what is there is left alone."""

import numpy as np
import pytest
from implicitmoments.regression.candidate_gains import audition
from implicitmoments.regression.em import Model, climb
from implicitmoments.regression.repair import prune, repair
from implicitmoments.regression.splits import looks_double, split, split_steps

from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression.characteristic_function import WaveRows
from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.likelihood import Lines, expect
from implicitmoments.rows import ArraySource

N, K, D = 20_000, 5, 6
MODEL = Model()


def rows_of(X, y):
    return FeatureRows.of(ArraySource(X, y=y))


@pytest.fixture(scope="module")
def fitted():
    """Rows, and the lines of EM from the truth."""
    X, y, truth = make_regression_mixture(N, K, D, noise=0.3, random_state=0)
    scale = y.std()
    rows = rows_of(X, y / scale)
    coef = np.column_stack([np.zeros(K), truth.vectors / scale])
    start = Lines(truth.weights, coef, np.full(K, (0.3 / scale) ** 2))
    return rows, climb(rows, start, MODEL, max_iter=100, tol=1e-8).lines


def farthest(found, lines):
    return np.linalg.norm(lines.coef[:, None] - found.coef, axis=2).min(axis=1).max()


@pytest.mark.parametrize("damage", ["two in one place", "one on the way", "a pair turned"])
def test_a_fit_that_em_does_not_leave_is_repaired(fitted, damage):
    rows, lines = fitted
    coef = lines.coef.copy()
    if damage == "two in one place":
        coef[1] = coef[0] + 0.05
    elif damage == "one on the way":
        coef[1] = -coef[0]
    else:
        coef[0], coef[1] = (coef[0] + coef[1]) / 2 + 0.01, (coef[0] + coef[1]) / 2 - 0.01
    start = Lines(lines.weights, coef, np.full(K, 0.3))
    stuck = climb(rows, start, MODEL, max_iter=40, tol=1e-5)
    mended = repair(rows, WaveRows.of(rows), stuck, MODEL, np.random.default_rng(0))
    best = expect(rows, lines).mean_log_likelihood
    assert mended.climb.mean_log_likelihood > best - 1e-4
    assert farthest(mended.climb.lines, lines) < 0.05


def test_a_right_fit_is_left_alone(fitted):
    rows, lines = fitted
    found = climb(rows, lines, MODEL, max_iter=10, tol=1e-7)
    mended = repair(rows, WaveRows.of(rows), found, MODEL, np.random.default_rng(0))
    assert mended.accepted == 0
    assert mended.climb is found


def test_a_candidate_that_is_missing_gains_and_one_that_is_there_does_not(fitted):
    rows, lines = fitted
    without = climb(rows, lines.keep(np.arange(K) != 2), MODEL, max_iter=30, tol=1e-6).lines
    near = lines.coef[2:3] + 0.1
    heard = audition(rows, without, near, MODEL)
    np.testing.assert_allclose(heard.points[0], lines.coef[2], atol=0.1)
    assert heard.gains[0] > 0.02
    assert audition(rows, lines, near, MODEL).gains[0] < 0.001


def test_a_line_for_two_is_split_between_them(fitted):
    rows, lines = fitted
    delta = np.zeros(D + 1)
    delta[1] = 0.3
    X = np.random.default_rng(1).normal(size=(N, D))
    side = np.random.default_rng(2).choice([-1.0, 1.0], size=N)
    y = side * 0.3 * X[:, 0] + 0.3 * np.random.default_rng(3).normal(size=N)
    one = Lines(np.ones(1), np.zeros((1, D + 1)), np.full(1, np.var(y)))
    scores, away = split_steps(rows_of(X, y), one, MODEL)
    assert abs(away[0] @ delta) > 0.95 * np.linalg.norm(away[0]) * np.linalg.norm(delta)
    assert scores[0] > 10
    two = split(one, 0, away[0])
    np.testing.assert_allclose(two.coef.sum(axis=0), 0, atol=1e-12)
    # negative control: lines that are right have no direction to be split in
    assert not looks_double(rows, lines, MODEL)
    assert split_steps(rows, lines, MODEL)[0].max() < 2


def test_intercepts_are_split_too(rng):
    X = rng.normal(size=(N, 2))
    y = rng.choice([-1.0, 1.0], size=N) + 0.3 * rng.normal(size=N)
    one = Lines(np.ones(1), np.zeros((1, 3)), np.full(1, np.var(y)))
    _, away = split_steps(rows_of(X, y), one, MODEL)
    np.testing.assert_allclose(np.abs(away[0]), [1, 0, 0], atol=0.05)
    _, flat = split_steps(rows_of(X, y), one, Model(intercept=False))
    assert flat[0, 0] == 0


def test_of_too_many_lines_the_ones_that_matter_stay(fitted):
    rows, lines = fitted
    halves = split(lines, 0, np.eye(D + 1)[1] * 0.02)
    idle = halves.add(np.full((1, D + 1), 3.0), np.array([1e-4]))
    left = prune(rows, idle, K)
    assert left.k == K
    assert farthest(left, lines) < 0.05
