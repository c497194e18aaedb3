"""Responsibilities and sums are those of the definition; both ways to sum agree."""

import numpy as np
import pytest
from scipy.stats import norm

from implicitmoments.regression import LineFamily, Lines, Model, design_rows, responsibilities
from implicitmoments.rows import Rows

FAMILY = LineFamily(Model())


def rows_of(X, y, counts=None):
    columns = {} if counts is None else {"counts": counts}
    return design_rows(Rows.of(X, y=y, **columns))


def some_lines(rng, k, q):
    weights = rng.dirichlet(np.ones(k))
    return Lines(weights, rng.normal(size=(k, q)), rng.uniform(0.2, 1.0, size=k))


def dense(lines, X, y):
    """Joint densities (n, k) by the definition."""
    Z = np.column_stack([np.ones(len(X)), X])
    return lines.weights * norm.pdf(y[:, None], Z @ lines.coef.T, np.sqrt(lines.variances))


def test_responsibilities_are_those_of_the_definition(rng):
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    lines = some_lines(rng, 4, 4)
    shares, logs = responsibilities(lines, rows_of(X, y).points.T)
    joint = dense(lines, X, y)
    np.testing.assert_allclose(shares.T, joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(logs, np.log(joint.sum(axis=1)))


@pytest.mark.parametrize(("k", "d"), [(3, 4), (13, 4), (3, 70)])
def test_sums_are_those_of_the_definition(rng, k, d):
    """With few lines, with many, and with many features: three ways to add."""
    n = 9_000  # more than a block
    X, y, counts = rng.normal(size=(n, d)), rng.normal(size=n), rng.uniform(0, 2, size=n)
    lines = some_lines(rng, k, d + 1)
    expected = FAMILY.e_step(rows_of(X, y, counts), lines)
    joint = dense(lines, X, y)
    shares = joint / joint.sum(axis=1, keepdims=True) * counts[:, None]
    U = np.column_stack([np.ones(n), X, y])
    np.testing.assert_allclose(expected.products, np.einsum("nk,na,nb->kab", shares, U, U))
    mean = counts @ np.log(joint.sum(axis=1)) / counts.sum()
    np.testing.assert_allclose(expected.level, mean)


def test_rows_far_from_every_line_do_not_overflow():
    X, y = np.zeros((3, 1)), np.array([1e8, -1e8, 0.0])
    lines = Lines(np.array([0.5, 0.5]), np.zeros((2, 2)), np.array([1e-12, 1e-12]))
    rows = rows_of(X, y)
    assert np.isfinite(FAMILY.e_step(rows, lines).level)


def test_a_sample_is_random_and_spread_over_all_rows(rng):
    X, y = rng.normal(size=(10_000, 2)), np.arange(10_000.0)
    seen = rows_of(X, y).sample(500).points[:, -1]
    assert len(seen) == 500
    assert seen[0] < 200
    assert seen[-1] > 9_800
    assert len(np.unique(np.diff(seen))) > 10  # no even stride


def test_parts_are_the_rows_at_their_places(rng):
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    part = rows_of(X, y).take(np.array([3, 7]), np.array([1.0, 0.5]))
    np.testing.assert_array_equal(part.points[:, -1], y[[3, 7]])
    assert part.total == 1.5
