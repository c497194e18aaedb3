"""EM steps of all covariance types: the M-step is the maximum, and EM ends where it should."""

from itertools import pairwise

import numpy as np
import pytest

from implicitmoments.arrays import softmax_rows
from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians, log_joint
from implicitmoments.rows import ArraySource, Rows
from implicitmoments.rows.outliers import standardise_rows
from implicitmoments.search import Budget, run_em

K, D, N = 3, 4, 200
KINDS = ["tied_spherical", "spherical", "tied_diag", "diag", "tied", "full"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, size=N).astype(float)
    return Rows(ArraySource(rng.normal(size=(N, D)), counts=counts), rows_per_block=37).hold()


def start_of(kind):
    means = np.random.default_rng(0).normal(size=(K, D))
    widths = np.ones(K) if kind.tied else np.array([0.5, 1.0, 2.0])
    matrices = widths[:, None, None] * np.eye(D)
    return Gaussians(np.array([0.2, 0.3, 0.5]), means, kind.constrained(matrices))


def settle(rows, mixture, family, steps, tol):
    return run_em(family, rows, mixture, Budget(0, steps, tol))


@pytest.mark.parametrize("name", KINDS)
def test_a_row_of_weight_two_is_a_row_that_is_there_twice(rows, name):
    family = GaussianFamily(CovarianceType(name))
    mixture = start_of(family.kind)
    repeated = Rows.of(np.repeat(rows.points, rows.counts.astype(int), axis=0))
    once, twice = family.e_step(rows, mixture), family.e_step(repeated, mixture)
    np.testing.assert_allclose(once.points, twice.points)
    np.testing.assert_allclose(once.products.sum(axis=0), twice.products.sum(axis=0))
    np.testing.assert_allclose(once.times(2.0).counts, 2 * twice.counts)


@pytest.mark.parametrize("name", KINDS)
def test_no_parameter_near_the_maximum_is_likelier(rows, name):
    """The M-step maximises the expected log-likelihood of the complete data."""
    kind = CovarianceType(name)
    family, mixture = GaussianFamily(kind), start_of(kind)
    shares = softmax_rows(log_joint(rows.points, mixture))[0] * rows.counts[:, None]
    best = family.m_step(family.e_step(rows, mixture), mixture)

    def complete(m):
        return float(np.sum(shares * log_joint(rows.points, m)))

    rng = np.random.default_rng(2)
    for _ in range(20):
        weights = best.weights * np.exp(0.01 * rng.normal(size=K))
        moved = Gaussians(
            weights / weights.sum(),
            best.means + 0.01 * rng.normal(size=(K, D)),
            best.covariances,
        )
        assert complete(moved) < complete(best)
        tilt = np.eye(D) + 0.01 * rng.normal(size=(1 if kind.tied else K, D, D))
        tilted = tilt @ best.expanded().covariances @ tilt.transpose(0, 2, 1)
        other = Gaussians(best.weights, best.means, kind.constrained(tilted))
        assert complete(other) < complete(best)


@pytest.mark.parametrize("name", [*KINDS, "known"])
def test_em_never_falls_and_stops(rows, name):
    known = np.full(D, 0.7) if name == "known" else None
    kind = CovarianceType("tied_spherical" if name == "known" else name)
    family, mixture = GaussianFamily(kind, known=known), start_of(kind)
    levels = [settle(rows, mixture, family, n, 0.0).level for n in (1, 3, 6, 12, 24)]
    assert all(b >= a - 1e-12 for a, b in pairwise(levels))
    done = settle(rows, mixture, family, 2_000, 1e-9)
    assert done.converged
    if known is not None:
        np.testing.assert_array_equal(done.state.covariances, 0.7)


def test_extrapolation_reaches_where_plain_em_goes_in_fewer_iterations():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-0.8, 1, (400, 1)), rng.normal(0.8, 1, (400, 1))])
    family = GaussianFamily(CovarianceType("tied_spherical"), known=np.ones(1))
    rows, start = (
        Rows.of(X),
        Gaussians(np.array([0.5, 0.5]), np.array([[-2.0], [2.5]]), np.ones((2, 1))),
    )
    mixture = start
    for _ in range(3_000):
        mixture = family.m_step(family.e_step(rows, mixture), mixture)
    fast = settle(rows, start, family, 200, 1e-12)
    assert fast.n_iter < 150
    np.testing.assert_allclose(fast.state.means, mixture.means, atol=1e-3)


def test_an_empty_component_stays_where_it_is(rows):
    far = Gaussians(np.array([0.5, 0.5]), np.array([[0.0] * D, [1e3] * D]), np.ones((2, D)))
    family = GaussianFamily(CovarianceType("tied_spherical"))
    settled = settle(rows, far, family, 10, 1e-6).state
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
