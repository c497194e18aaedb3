"""Bounds of what richer types of covariance gain, and equal values of columns."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.arrays import softmax_rows
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, CovarianceType, Gaussians
from implicitmoments.mixture.least_variances import any_thrice
from implicitmoments.mixture.shape_gains import most_gains, spread_within
from implicitmoments.mixture.starts import with_poorer
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, run_em

K, D = 4, 3


def fitted(rng, apart, name, n=2_000):
    """Return rows, a family, its fit to them, and responsibilities."""
    kind = CovarianceType(name)
    means = apart * rng.normal(size=(K, D))
    X = means[rng.integers(K, size=n)] + rng.normal(size=(n, D))
    rows, family = Rows.of(X), GaussianFamily(kind)
    start = Gaussians(np.full(K, 1 / K), means, kind.constrained(np.array([np.eye(D)] * K)))
    state = run_em(family, rows, start, SEARCH).state
    return rows, family, state, softmax_rows(family.log_joint(rows, state))[0]


def gain(family, other, rows, shares):
    """Return what one M-step of another type gains above that of a family, in nats."""
    levels = (each.e_step(rows, each.from_shares(rows, shares)) for each in (other, family))
    richer, own = (sums.log_likelihood for sums in levels)
    return richer - own


@pytest.mark.parametrize("name", COVARIANCE_TYPES[:-1])
@pytest.mark.parametrize("apart", [1.0, 6.0])
def test_gains_of_richer_types_are_below_their_bounds(rng, apart, name):
    rows, family, state, shares = fitted(rng, apart, name)
    richer = [each for each in COVARIANCE_TYPES if name in with_poorer(each)[:-1]]
    others = [replace(family, kind=CovarianceType(each)) for each in richer]
    bounds = most_gains(family, others, rows, state)
    gains = [gain(family, other, rows, shares) for other in others]
    assert all(one < bound for one, bound in zip(gains, bounds, strict=True))
    if apart > 1:  # responsibilities are 0 or 1: what is expected is what is gained
        np.testing.assert_allclose(gains, np.array(bounds) / 2, rtol=0.05, atol=0.05)
    else:  # half of the bound, the gain for given responsibilities, is not one
        assert any(one > 1.1 * bound / 2 for one, bound in zip(gains, bounds, strict=True))


def test_bounds_show_components_that_are_not_round(rng):
    rows, family, _, _ = fitted(rng, 6.0, "tied_spherical")
    stretched = Rows.of(rows.points * np.array([1.0, 1.0, 2.0]))
    start = family.from_shares(stretched, np.eye(K)[rng.integers(K, size=2_000)])
    state = run_em(family, stretched, start, SEARCH).state
    full = replace(family, kind=CovarianceType("full"))
    (bound,) = most_gains(family, [full], stretched, state)
    assert bound > 0.5 * full.n_parameters(state) * np.log(2_000)


@pytest.mark.parametrize("name", ["tied_spherical", "full"])
def test_spread_within_components_is_that_of_the_m_step(rng, name):
    rows, family, state, shares = fitted(rng, 3.0, name)
    kind = CovarianceType("full")
    within = spread_within(family, rows, state, kind)
    expected = GaussianFamily(kind).from_shares(rows, shares)
    np.testing.assert_allclose(within.weights / within.weights.sum(), expected.weights, atol=1e-3)
    np.testing.assert_allclose(within.means, expected.means, atol=0.02)
    np.testing.assert_allclose(within.covariances, expected.covariances, atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_component_that_holds_a_part_of_one_row_has_a_bound(seed):
    """Its covariance is a difference of equal numbers, and was not positive definite."""
    rng = np.random.default_rng(seed)
    X = np.vstack([1e-3 * rng.normal(size=(1, 20)), 100 + rng.normal(size=(499, 20))])
    family = GaussianFamily(CovarianceType("tied_spherical"), least=1e-36)
    means = np.vstack([np.full(20, 100.0), X[0], X[0] + 0.5 * rng.normal(size=20)])
    state = Gaussians(np.array([0.9, 0.09, 0.01]), means, np.ones((3, 20)))
    others = [replace(family, kind=CovarianceType(name)) for name in COVARIANCE_TYPES[1:]]
    rows = Rows.of(X)
    assert 0 < spread_within(family, rows, state, CovarianceType("full")).weights[2] < 1
    assert np.all(np.isfinite(most_gains(family, others, rows, state)))


def test_numbers_that_are_there_three_times(rng):
    for n in (1, 2, 3, 50, 400):
        for values in (
            rng.normal(size=n),
            rng.integers(n, size=n) / 2,
            np.round(rng.normal(size=n), 2),
        ):
            ordered = np.sort(values)
            assert any_thrice(values) == bool(np.any(ordered[2:] == ordered[:-2]))
    assert any_thrice(np.array([0.0, -0.0, 1.0, 0.0]))
