"""Moves of lines: splits find what is missing, merges what is there twice."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression import LineFamily, Lines, Model, design_rows
from implicitmoments.rows import Rows
from implicitmoments.search import (
    LOCAL,
    SEARCH,
    WHOLE,
    Budget,
    grow,
    merge_cheapest,
    rank_moves,
    run_em,
    search_moves,
)
from implicitmoments.search.em import concatenate
from implicitmoments.search.splits import fit_pairs

N, K, D = 20_000, 5, 6
FAMILY = LineFamily(Model())


def rows_of(X, y):
    return design_rows(Rows.of(X, y=y))


def one_line(y, q):
    return Lines(np.ones(1), np.zeros((1, q)), np.full(1, np.var(y)))


@pytest.fixture(scope="module")
def fitted():
    """Rows, and the lines of EM from the truth."""
    X, y, truth = make_regression_mixture(N, K, D, noise=0.3, random_state=0)
    scale = y.std()
    rows = rows_of(X, y / scale)
    coef = np.column_stack([np.zeros(K), truth.vectors / scale])
    start = Lines(truth.weights, coef, np.full(K, (0.3 / scale) ** 2))
    return rows, run_em(FAMILY, rows, start, Budget(N, 100, 1e-8)).state


def farthest(found, lines):
    return np.linalg.norm(lines.coef[:, None] - found.coef, axis=2).min(axis=1).max()


@pytest.mark.parametrize("damage", ["two in one place", "one on the way", "a pair turned"])
def test_moves_leave_a_local_optimum_of_em(fitted, damage):
    rows, lines = fitted
    coef = lines.coef.copy()
    if damage == "two in one place":
        coef[1] = coef[0] + 0.05
    elif damage == "one on the way":
        coef[1] = -coef[0]
    else:
        coef[0], coef[1] = (coef[0] + coef[1]) / 2 + 0.01, (coef[0] + coef[1]) / 2 - 0.01
    start = Lines(lines.weights, coef, lines.variances)
    found = search_moves(FAMILY, rows, start, 8, np.random.default_rng(0))
    best = run_em(FAMILY, rows, found.state, WHOLE)
    assert best.level > FAMILY.e_step(rows, lines).level - 1e-6
    assert farthest(best.state, lines) < 1e-3


def test_a_right_fit_is_left_alone(fitted):
    rows, lines = fitted
    found = search_moves(FAMILY, rows, lines, 8, np.random.default_rng(0))
    assert found.accepted == 0
    assert farthest(found.state, lines) < 1e-3


def test_lines_are_grown_from_one(fitted):
    rows, lines = fitted
    one = Lines(np.ones(1), np.zeros((1, D + 1)), np.ones(1))
    grown = grow(FAMILY, rows, one, K, np.random.default_rng(0))
    found = search_moves(FAMILY, rows, grown.state, 8, np.random.default_rng(0))
    assert farthest(found.state, lines) < 0.05


@pytest.mark.parametrize("direction", ["slope", "intercept"])
def test_a_line_for_two_is_split_between_them(rng, direction):
    X, side = rng.normal(size=(4_000, D)), rng.choice([-1.0, 1.0], size=4_000)
    delta = np.eye(D + 1)[1 if direction == "slope" else 0]
    y = side * (np.column_stack([np.ones(4_000), X]) @ delta) + 0.3 * rng.normal(size=4_000)
    ranking = rank_moves(FAMILY, rows_of(X, y), one_line(y, D + 1), rng)
    assert ranking.gains[0] > 1_000
    apart = ranking.parts[0].coef[0] - ranking.parts[0].coef[1]
    assert abs(apart @ delta) > 0.95 * np.linalg.norm(apart)


def test_without_intercepts_parts_have_none(rng):
    X, side = rng.normal(size=(2_000, 2)), rng.choice([-1.0, 1.0], size=2_000)
    y = side * X[:, 0] + 0.3 * rng.normal(size=2_000)
    family = LineFamily(Model(intercept=False))
    ranking = rank_moves(family, rows_of(X, y), one_line(y, 3), rng)
    np.testing.assert_array_equal(ranking.parts[0].coef[:, 0], 0)


@pytest.mark.parametrize("model", [Model(), Model(shared=False)])
def test_the_gain_of_a_split_is_a_lower_bound_of_that_of_em(rng, model):
    X, labels = rng.normal(size=(3_000, 2)), rng.integers(3, size=3_000)
    y = np.array([0.0, 3.0, 9.0])[labels] + 0.3 * rng.normal(size=3_000)
    rows, family = rows_of(X, (y - y.mean()) / y.std()), LineFamily(model)
    start = Lines(np.full(2, 0.5), np.array([[-0.7, 0, 0], [1.3, 0, 0]]), np.full(2, 0.1))
    two = run_em(family, rows, start, SEARCH)
    ranking = rank_moves(family, rows, two.state, rng, LOCAL)
    three = run_em(family, rows, ranking.apply(two.state, np.array([0])), SEARCH)
    rise = (three.level - two.level) * rows.total
    assert 0.5 * rise < ranking.gains[0] <= rise + 1e-6


def test_the_merge_that_costs_least_joins_what_is_there_twice(fitted):
    rows, lines = fitted
    halves = lines.split(0, lines.take(np.array([0, 0])))
    found = merge_cheapest(FAMILY, rows, halves)
    assert found.k == K
    assert farthest(found, lines) < 1e-3


@pytest.mark.parametrize("model", [Model(), Model(shared=False), Model(intercept=False)])
def test_pairs_of_lines_have_the_products_of_the_plain_twin(fitted, model, rng):
    """The sums of one part as those of the line less the other's, against both by themselves."""
    rows, lines = fitted
    family, some = LineFamily(model), rows.sample(600)
    shares = np.repeat(np.eye(K), 120, axis=0)
    pool = family.pool(family.expect(some, shares, lines), lines)
    parts = [some.take(np.flatnonzero(own), rng.uniform(1, 2, 120)) for own in shares.T]
    starts = [family.split_starts(part, lines, i, rng) for i, part in enumerate(parts)]
    alone = replace(lines, weights=np.ones(K))
    given = parts, alone, concatenate(starts), pool.sum(0) - pool
    (found, gains), (plain, expected) = family.fit_pairs(*given, 4), fit_pairs(family, *given, 4)
    np.testing.assert_allclose(gains, expected, rtol=1e-6, atol=1e-6)
    for one, other in zip(vars(found).values(), vars(plain).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
