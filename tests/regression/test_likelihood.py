"""Responsibilities and sums are those of the definition; both ways to sum agree."""

import numpy as np
import pytest
from scipy.stats import norm

from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.likelihood import Lines, expect, losses, responsibilities
from implicitmoments.rows import ArraySource


def rows_of(X, y, counts=None):
    columns = {} if counts is None else {"counts": counts}
    return FeatureRows.of(ArraySource(X, y=y, **columns))


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
    (block,) = rows_of(X, y).held
    shares, logs = responsibilities(lines, block)
    joint = dense(lines, X, y)
    np.testing.assert_allclose(shares.T, joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(logs, np.log(joint.sum(axis=1)))


@pytest.mark.parametrize(("k", "d"), [(3, 4), (13, 4), (3, 70)])
def test_sums_are_those_of_the_definition(rng, k, d):
    """With few lines, with many, and with many features: three ways to add."""
    n = 1500  # more than a block
    X, y, counts = rng.normal(size=(n, d)), rng.normal(size=n), rng.uniform(0, 2, size=n)
    lines = some_lines(rng, k, d + 1)
    expected = expect(rows_of(X, y, counts), lines)
    joint = dense(lines, X, y)
    shares = joint / joint.sum(axis=1, keepdims=True) * counts[:, None]
    U = np.column_stack([np.ones(n), X, y])
    np.testing.assert_allclose(expected.products, np.einsum("nk,na,nb->kab", shares, U, U))
    mean = counts @ np.log(joint.sum(axis=1)) / counts.sum()
    np.testing.assert_allclose(expected.mean_log_likelihood, mean)


def test_losses_are_what_leaving_a_line_out_costs(rng):
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    lines = some_lines(rng, 3, 3)
    rows = rows_of(X, y)
    whole = expect(rows, lines).mean_log_likelihood
    without = [expect(rows, lines.keep(np.arange(3) != j)).mean_log_likelihood for j in range(3)]
    np.testing.assert_allclose(losses(rows, lines), whole - np.array(without))


def test_rows_far_from_every_line_do_not_overflow():
    X, y = np.zeros((3, 1)), np.array([1e8, -1e8, 0.0])
    lines = Lines(np.array([0.5, 0.5]), np.zeros((2, 2)), np.array([1e-12, 1e-12]))
    rows = rows_of(X, y)
    assert np.isfinite(expect(rows, lines).mean_log_likelihood)
    assert np.all(np.isfinite(losses(rows, lines)))


def test_some_rows_are_spread_over_all(rng):
    X, y = rng.normal(size=(10_000, 2)), np.arange(10_000.0)
    few = rows_of(X, y).about(100)
    seen = np.concatenate([block.y for block in few.held])
    assert 90 <= len(seen) <= 110
    assert seen[0] < 200
    assert seen[-1] > 9_800
