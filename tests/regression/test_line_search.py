"""Search for lines: products that trials share, and lines that are settled."""

import numpy as np
import pytest
from sklearn.base import clone

from implicitmoments import RegressionMixture
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression import LineFamily, Lines, Model, design_rows, least_ratio
from implicitmoments.regression.line_search import (
    SAMPLE_ROWS,
    Found,
    check_larger,
    local_budget,
    one_line,
    some_of,
)
from implicitmoments.regression.products import (
    columns_of,
    lift_design,
    share_products,
    weighted_products,
)
from implicitmoments.rows import ArraySource, MemoryBudget, Rows
from implicitmoments.search import WHOLE, cross_fresh, grow, run_em

FAMILY = LineFamily(Model())


def drawn(n, k, d, seed=0, **how):
    """Rows of lines in standard units, and the lines."""
    X, y, truth = make_regression_mixture(n, k, d, noise=0.3, random_state=seed, **how)
    scale = y.std()
    coef = np.column_stack([np.zeros(k), truth.vectors / scale])
    lines = Lines(truth.weights, coef, np.full(k, (0.3 / scale) ** 2))
    return design_rows(Rows.of(X, y=y / scale)), lines


@pytest.mark.parametrize(("k", "d"), [(2, 1), (5, 6), (18, 20)])
def test_products_that_trials_share_are_those_of_each_line(k, d):
    rows, _ = drawn(500, 2, d)
    shares = np.random.default_rng(0).uniform(size=(k, 500))
    plain = weighted_products(shares, columns_of(rows.block))
    assert lift_design(rows) is lift_design(rows)
    np.testing.assert_allclose(share_products(rows, shares), plain, rtol=1e-12, atol=1e-9)


def test_many_columns_are_not_lifted():
    rows, _ = drawn(100, 2, 60)
    assert lift_design(rows) is None
    assert share_products(rows, np.ones((1, 100))).shape == (1, 62, 62)


def test_lines_are_settled_unless_one_of_them_is_superfluous():
    """A line that is there twice, and another that is missing."""
    rows, lines = drawn(6_000, 4, 5)
    rng = np.random.default_rng(0)
    right = Found.best_of(FAMILY, rows, [lines], rng)
    assert right.settled
    twice = lines.take(np.array([0, 0, 1, 2]))
    wrong = Found.best_of(FAMILY, rows, [twice], rng)
    assert wrong.level < right.level - 0.01
    assert not wrong.settled
    found, apart = wrong.cross(few=False, trusted=True)
    assert apart == 0
    assert found.level == pytest.approx(right.level, abs=1e-4)


def test_a_superfluous_line_moves_to_the_peak_of_the_residual():
    rows, lines = drawn(6_000, 4, 5)
    rng = np.random.default_rng(0)
    right = Found.best_of(FAMILY, rows, [lines], rng)
    wrong = Found.best_of(FAMILY, rows, [lines.take(np.array([0, 0, 1, 2]))], rng)
    assert wrong.level < right.level - 0.01
    assert wrong.relocate(rows).level == pytest.approx(right.level, abs=1e-4)
    assert right.relocate(rows).state is right.state


def test_false_peaks_are_reduced_to_the_lines():
    rows, lines = drawn(6_000, 4, 5)
    rng = np.random.default_rng(0)
    right = Found.best_of(FAMILY, rows, [lines], rng)
    false = Lines(np.ones(4), rng.normal(size=lines.coef.shape), lines.variances)
    many = Found.best_of(FAMILY, rows, [lines.add(false, 0.5)], rng)
    assert many.state.k == 8
    reduced = many.reduced()
    assert reduced.state.k == 4
    assert reduced.level == pytest.approx(right.level, abs=1e-3)


def test_the_number_of_lines_includes_light_ones():
    """Weights 10:1: growth by splits alone stopped at seven lines, whose BIC is 223 higher."""
    X, y, _ = make_regression_mixture(
        20_000, 8, 20, noise=0.3, weights=np.geomspace(10, 1, 8), random_state=9200
    )
    model = RegressionMixture("auto", random_state=9200).fit(X, y)
    assert model.n_components_ == 8
    assert model.converged_
    scores = model.stats_["bic_by_n_components"]
    assert min(scores, key=scores.get) == 8
    assert {7, 9} <= set(scores)


def test_crossings_end_when_lines_are_settled():
    rows, lines = drawn(3_000, 3, 4)
    rng, calls = np.random.default_rng(0), []

    def fresh():
        calls.append(1)
        return FAMILY.random_lines(rows, lines, rng)

    twice = lines.take(np.array([0, 0, 1]))
    cross_fresh(FAMILY, rows, twice, fresh, 5, lambda _: True)
    assert len(calls) <= 5
    calls.clear()
    cross_fresh(FAMILY, rows, lines, fresh, 2, lambda _: True)
    assert len(calls) == 2  # neither raises the likelihood


def test_a_right_fit_of_overlapping_lines_has_no_note():
    """As much noise as signal: a sample tells lines apart only if both fits are of its rows."""
    X, y, _ = make_regression_mixture(20_000, 4, 20, noise=1.0, random_state=400)
    assert RegressionMixture(4, random_state=400).fit(X, y).notes_ == []


def test_numbers_beside_the_best_come_from_it():
    """More rows than a sample: only the best number is fitted from its own start."""
    X, y, _ = make_regression_mixture(24_000, 3, 2, noise=0.3, random_state=0)
    auto = RegressionMixture("auto", random_state=0).fit(X, y)
    criteria = auto.stats_["bic_by_n_components"]
    assert set(criteria) == {2, 3, 4}
    assert min(criteria, key=criteria.get) == auto.n_components_ == 3
    direct = RegressionMixture(3, random_state=0).fit(X, y)
    assert auto.bic(X, y) == pytest.approx(direct.bic(X, y), abs=0.1)


INTERCEPTS = np.array([0.0, 0.0, 2.0, 4.0])
SLOPES = np.array([[1.0, 0.5], [-1.0, 1.0], [0.5, -1.0], [-0.5, -0.2]])
NOISE = np.array([0.1, 0.2, 0.4, 0.05])


def drawn_light(n, light, *, missed):
    """Rows of four lines of different noise at discrete inputs, the last with few rows.

    None of these is in a sample of 5,000 where it is to be ``missed``.
    """
    rng = np.random.default_rng(0)
    X, lines = rng.integers(0, 6, (n, 2)) / 2, rng.integers(0, 3, n)
    numbers = Rows.of(np.arange(n, dtype=float)[:, None])
    sampled = some_of(numbers, SAMPLE_ROWS).block["x"][:, 0].astype(int)
    free = np.setdiff1d(np.arange(n), sampled) if missed else np.arange(n)
    lines[rng.choice(free, light, replace=False)] = 3
    means = INTERCEPTS[lines] + np.sum(X * SLOPES[lines], axis=1)
    return X, means + NOISE[lines] * rng.normal(size=n)


@pytest.mark.parametrize("missed", [True, False])
def test_lines_in_doubt_are_searched_on_more_rows(missed):
    """Without a doubt EM on all rows ends at the lines of the sample."""
    X, y = drawn_light(8_000, 60, missed=missed)
    rows = design_rows(Rows.of(X, y=y))
    some, family = (
        some_of(rows, SAMPLE_ROWS),
        LineFamily(Model(shared=False), least_ratio(5_000, 3)),
    )
    assert some.n == SAMPLE_ROWS

    def below_truth(doubt):
        rng = np.random.default_rng(0)
        grown = grow(family, some, one_line(family, some), 4, rng, local=local_budget(some)).state
        found = Found.best_of(family, some, [grown], rng).move()
        _, checked = check_larger(rows, found, doubt=doubt)
        return (best.level - run_em(family, rows, checked.state, WHOLE).level) * rows.total

    weights = np.array([*[1 / 3 - 0.0025] * 3, 0.0075])
    truth = Lines(weights, np.column_stack([INTERCEPTS, SLOPES]), NOISE**2)
    best = run_em(family, rows, truth, WHOLE)
    assert below_truth(doubt=True) < 2
    assert (below_truth(doubt=False) > 100) == missed


def test_a_light_line_that_a_sample_misses_is_found():
    X, y = drawn_light(8_000, 60, missed=True)
    model = RegressionMixture(4, noise_type="separate", drop_outliers=False, random_state=0)
    model.fit(X, y)
    np.testing.assert_allclose(model.coef_[-1], SLOPES[-1], atol=0.1)
    blocks = ((X[at : at + 700], y[at : at + 700]) for at in range(0, len(y), 700))
    in_blocks = clone(model).fit(blocks)
    assert in_blocks.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-6)


def test_growth_ends_where_memory_holds_no_more_rows():
    """Rows that do not count make a sample a few rows smaller than those that are held."""
    rng, n = np.random.default_rng(0), 24_000
    X, line = rng.integers(0, 3, size=(n, 4)).astype(float), rng.integers(2, size=n)
    y = np.sum(X * rng.normal(size=(2, 4))[line], axis=1) + 0.3 * rng.normal(size=n)
    counts = (rng.random(n) < 0.5).astype(float)
    rows = Rows(ArraySource(X, y=y, counts=counts), budget=MemoryBudget(held=60_000))
    assert RegressionMixture("auto", random_state=0).fit(rows).n_components_ == 2
