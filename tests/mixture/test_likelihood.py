"""Densities, responsibilities and sums against SciPy and against formulas written out."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from implicitmoments.arrays import softmax_rows
from implicitmoments.mixture import (
    Mixture,
    SphericalFamily,
    log_densities,
    log_joint,
    without_outliers,
)
from implicitmoments.rows import ArraySource, Rows
from implicitmoments.rows.outliers import standardise_rows
from implicitmoments.search import Budget, run_em

K, D, N = 3, 4, 200


@pytest.fixture
def mixture():
    rng = np.random.default_rng(0)
    return Mixture(np.array([0.2, 0.3, 0.5]), rng.normal(size=(K, D)), np.array([0.5, 1.0, 2.0]))


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, size=N).astype(float)
    return Rows(ArraySource(rng.normal(size=(N, D)), counts=counts), rows_per_block=37).hold()


def responsibilities(rows, mixture):
    return softmax_rows(log_joint(rows.points, mixture))


def settle(rows, mixture, family, steps, tol):
    return run_em(family, rows, mixture, Budget(0, steps, tol))


def e_step(rows, mixture):
    return SphericalFamily().e_step(rows, mixture)


def standard_rows(X, **columns):
    """Centred, scaled and counted, every row kept."""
    rows = replace(Rows.of(X, **columns), rows_per_block=64)
    return without_outliers(standardise_rows(rows), 1, drop=False)[0]


def dense_joint(X, mixture):
    columns = [
        np.log(w) + multivariate_normal(m, v * np.eye(D)).logpdf(X)
        for w, m, v in zip(mixture.weights, mixture.means, mixture.variances, strict=True)
    ]
    return np.column_stack(columns)


def test_log_joint_is_that_of_scipy(rows, mixture):
    np.testing.assert_allclose(log_joint(rows.points, mixture), dense_joint(rows.points, mixture))


def test_densities_and_shares_come_from_the_joint(rows, mixture):
    joint = np.exp(dense_joint(rows.points, mixture))
    shares, densities = responsibilities(rows, mixture)
    np.testing.assert_allclose(np.exp(densities), joint.sum(axis=1))
    np.testing.assert_allclose(shares, joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(log_densities(rows.points, mixture), densities)


def test_sums_are_weighted_sums_over_rows_whatever_the_blocks(rows, mixture):
    shares, densities = responsibilities(rows, mixture)
    weighted = shares * rows.counts[:, None]
    sums = e_step(rows, mixture)
    np.testing.assert_allclose(sums.counts, weighted.sum(axis=0))
    np.testing.assert_allclose(sums.points, weighted.T @ rows.points)
    np.testing.assert_allclose(sums.squares, weighted.T @ np.sum(rows.points**2, axis=1))
    assert sums.log_likelihood == pytest.approx(densities @ rows.counts)
    assert sums.total == rows.counts.sum()


def test_sums_of_two_halves_are_sums_of_the_whole(rows, mixture):
    first, second = rows.points[:80], rows.points[80:]
    counts = rows.counts
    halves = e_step(Rows.of(first, counts=counts[:80]), mixture) + e_step(
        Rows.of(second, counts=counts[80:]), mixture
    )
    whole = e_step(rows, mixture)
    np.testing.assert_allclose(halves.points, whole.points)
    assert halves.log_likelihood == pytest.approx(whole.log_likelihood)
    np.testing.assert_allclose(whole.times(2.0).counts, 2 * whole.counts)


def test_a_row_of_weight_two_is_a_row_that_is_there_twice(rows, mixture):
    repeated = Rows.of(np.repeat(rows.points, rows.counts.astype(int), axis=0))
    np.testing.assert_allclose(e_step(rows, mixture).points, e_step(repeated, mixture).points)


@pytest.mark.parametrize("shared", [True, False])
def test_no_parameter_near_the_maximum_is_likelier(rows, mixture, shared):
    """The M-step maximises the expected log-likelihood of the complete data."""
    shares = responsibilities(rows, mixture)[0] * rows.counts[:, None]
    best = SphericalFamily(shared=shared).m_step(e_step(rows, mixture), mixture)

    def complete(m):
        return float(np.sum(shares * log_joint(rows.points, m)))

    rng = np.random.default_rng(2)
    for _ in range(20):
        factor = np.exp(0.01 * rng.normal(size=1 if shared else K))
        weights = best.weights * np.exp(0.01 * rng.normal(size=K))
        moved = Mixture(
            weights / weights.sum(),
            best.means + 0.01 * rng.normal(size=(K, D)),
            best.variances * factor,
        )
        assert complete(moved) < complete(best)


@pytest.mark.parametrize(
    "family", [SphericalFamily(), SphericalFamily(shared=False), SphericalFamily(known=0.7)]
)
def test_em_never_falls_and_stops(rows, mixture, family):
    levels = [settle(rows, mixture, family, n, 0.0).level for n in (1, 3, 6, 12, 24)]
    assert all(b >= a - 1e-12 for a, b in pairwise(levels))
    done = settle(rows, mixture, family, 2_000, 1e-9)
    assert done.converged
    if family.known is not None:
        np.testing.assert_array_equal(done.state.variances, 0.7)


def test_extrapolation_reaches_where_plain_em_goes_in_fewer_iterations():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-0.8, 1, (400, 1)), rng.normal(0.8, 1, (400, 1))])
    rows, family = Rows.of(X), SphericalFamily(known=1.0)
    start = mixture = Mixture(np.array([0.5, 0.5]), np.array([[-2.0], [2.5]]), np.ones(2))
    for _ in range(3_000):
        mixture = family.m_step(e_step(rows, mixture), mixture)
    fast = settle(rows, start, family, 200, 1e-12)
    assert fast.n_iter < 150
    np.testing.assert_allclose(fast.state.means, mixture.means, atol=1e-3)


def test_an_empty_component_stays_where_it_is(rows):
    far = Mixture(np.array([0.5, 0.5]), np.array([[0.0] * D, [1e3] * D]), np.ones(2))
    settled = settle(rows, far, SphericalFamily(), 10, 1e-6).state
    np.testing.assert_array_equal(settled.means[1], far.means[1])
    assert settled.weights[1] < 1e-9


def test_rows_are_placed_by_medians():
    rng = np.random.default_rng(4)
    X = 3 * rng.normal(size=(1_000, 5)) + 100
    plain = standardise_rows(Rows.of(X))
    X[0] = 1e12
    wild = standardise_rows(Rows.of(X))
    assert wild.unit == pytest.approx(plain.unit, rel=0.02)
    np.testing.assert_allclose(wild.center, plain.center, atol=0.05)
    assert standardise_rows(Rows.of(np.full((5, 2), 7.0))).unit == pytest.approx(7.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shift", [0.0, 300.0, 1e5])
def test_rows_as_they_are_have_the_sums_of_lifted_ones(rng, weighted, shift):
    X = 2.0 * rng.normal(size=(500, D)) + shift
    counts = {"counts": rng.integers(0, 4, size=500).astype(float)} if weighted else {}
    rows = standard_rows(X, **counts)
    mixture = Mixture(np.array([0.2, 0.3, 0.5]), rng.normal(size=(K, D)), np.full(K, 0.7))
    found, expected = (
        e_step(rows, mixture),
        e_step(rows.hold(single=True), mixture),
    )
    for name in ("counts", "points", "log_likelihood", "total"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-3, err_msg=name
        )
    lifted = e_step(replace(rows, wide=True), mixture)  # which is read in full, and so lifted
    for name in ("counts", "points", "log_likelihood", "total"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(lifted, name), rtol=1e-11, atol=1e-9, err_msg=name
        )
    assert found.squares.sum() == pytest.approx(lifted.squares.sum(), rel=1e-12)
    after, expected = (SphericalFamily().m_step(sums, mixture) for sums in (found, lifted))
    np.testing.assert_allclose(after.means, expected.means, atol=1e-11)
    np.testing.assert_allclose(after.variances, expected.variances, rtol=1e-11)


def test_components_of_different_widths_are_not_taken_for_alike(rng, mixture):
    rows = standard_rows(rng.normal(size=(200, D)))
    found, lifted = e_step(rows, mixture), e_step(replace(rows, wide=True), mixture)
    np.testing.assert_allclose(found.squares, lifted.squares, rtol=1e-12)
