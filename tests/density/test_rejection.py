"""Rejection sampling: exact counts, keyed draws, a cap, and the right distribution."""

import numpy as np
import pytest
from scipy import stats

from implicitmoments.density import rejection_sample
from implicitmoments.testing import refuses


def sample(n, *, seed=0, bound=2.0, cap=10**6, **how):
    """Density 2x on [0, 1]."""
    return rejection_sample(
        lambda rng: rng.uniform(1),
        lambda x: 2.0 * x[:, 0],
        bound,
        n,
        seed=seed,
        max_proposals=cap,
        **how,
    )


def test_the_law_is_that_of_the_ratio_and_no_other():
    drawn = sample(20_000).points[:, 0]
    assert stats.kstest(drawn, stats.beta(2, 1).cdf).pvalue > 0.001
    assert stats.kstest(drawn, stats.uniform().cdf).pvalue < 1e-10


@pytest.mark.parametrize("n", [1, 7, 5_000])
def test_the_count_is_exact_and_the_rate_is_reported(n):
    accepted = sample(n)
    assert accepted.points.shape == (n, 1)
    assert accepted.acceptance_rate == n / accepted.n_proposals


def test_the_rate_is_that_of_the_bound():
    # 1/A of the proposals, within five standard errors
    accepted = sample(20_000, bound=4.0)
    assert abs(accepted.acceptance_rate - 0.25) < 5 * np.sqrt(0.25 * 0.75 / accepted.n_proposals)


def test_draws_do_not_depend_on_the_batches():
    whole, parts = sample(3_000), sample(3_000, batch=(17, 101))
    np.testing.assert_array_equal(whole.points, parts.points)
    assert whole.n_proposals == parts.n_proposals


def test_fewer_draws_are_the_beginning_of_more():
    np.testing.assert_array_equal(sample(50).points, sample(500).points[:50])
    assert not np.array_equal(sample(50).points, sample(50, seed=1).points)


def test_the_cap_is_kept():
    with refuses("too_few_accepted", n=5_000, max_proposals=1_000):
        sample(5_000, cap=1_000)


def test_ratios_beyond_the_bound_are_refused():
    with refuses("ratio_out_of_bounds", bound=1.5):
        sample(100, bound=1.5)
