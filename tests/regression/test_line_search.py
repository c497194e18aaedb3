"""Search for lines: products that trials share, and lines that are settled."""

import numpy as np
import pytest

from implicitmoments import RegressionMixture
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.regression import LineFamily, Lines, Model, design_rows
from implicitmoments.regression.line_search import Found
from implicitmoments.regression.products import (
    columns_of,
    lift_design,
    share_products,
    weighted_products,
)
from implicitmoments.rows import Rows
from implicitmoments.search import cross_fresh

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
