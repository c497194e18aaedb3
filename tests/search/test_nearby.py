"""A split with EM of the components around it, beside EM of all components."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians
from implicitmoments.regression import LineFamily, Lines, Model, design_rows
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, merges_of, rank_moves, run_em
from implicitmoments.search.nearby import split_nearby

FREE = GaussianFamily(CovarianceType("diag"))
TIED = GaussianFamily(CovarianceType("tied_diag"))
BUDGET = replace(SEARCH, steps=10)


def grid_state(rows, apart, family):
    means = apart * np.stack(np.meshgrid(range(5), range(4)), axis=-1).reshape(-1, 2)
    start = family.adopt(Gaussians(np.full(20, 1 / 20), means, np.ones((20, 2))))
    return run_em(family, rows, start, SEARCH).state


def grid_rows(apart, rng):
    """Groups on a grid, and one more beside the corner."""
    means = apart * np.stack(np.meshgrid(range(5), range(4)), axis=-1).reshape(-1, 2)
    noise = rng.normal(size=(20, 200, 2))
    noise[0, ::2] -= 5.0
    return Rows.of((means[:, None] + noise).reshape(-1, 2)).hold()


def best_split(family, rows, state):
    """Return the moves, the best split, and the components around it."""
    ranking = rank_moves(family, rows, state, np.random.default_rng(0))
    at = int(np.flatnonzero(ranking.origins >= 0)[0])
    return ranking, at, ranking.merges.around(int(ranking.origins[at]))


def sorted_means(state):
    return state.means[np.lexsort(state.means.T)]


def test_where_groups_are_apart_it_is_em_of_all_components(rng):
    rows = grid_rows(12.0, rng)
    state = grid_state(rows, 12.0, FREE)
    ranking, at, near = best_split(FREE, rows, state)
    assert 0 in near
    assert len(near) < state.k
    larger, merges = split_nearby(FREE, state, ranking, at, near, BUDGET)
    every = run_em(FREE, rows, ranking.apply(state, np.array([at])), BUDGET).state
    assert larger.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(sorted_means(larger), sorted_means(every), atol=1e-3)
    direct = merges_of(FREE, rows, larger)
    assert merges.losses[0] == pytest.approx(direct.losses[0], rel=1e-3)
    np.testing.assert_array_equal(np.sort(merges.pairs[0]), np.sort(direct.pairs[0]))
    np.testing.assert_array_equal(np.sort(merges.pairs[0]), [19, 20])  # the parts come last


@pytest.mark.parametrize("family", [FREE, TIED, replace(FREE, student=True)])
def test_all_components_rise_at_least_as_much_as_those_around_the_split(rng, family):
    """Rows count there as much as these components hold of them; the others stay."""
    rows = grid_rows(6.0, rng)
    state = grid_state(rows, 6.0, family)
    ranking, at, near = best_split(family, rows, state)
    assert ranking.gains[at] > 100
    assert 2 < len(near) < state.k
    larger, _ = split_nearby(family, state, ranking, at, near, BUDGET)
    others = np.setdiff1d(np.arange(20), near)
    inside = larger.take(np.arange(len(others), 21))
    np.testing.assert_array_equal(larger.means[: len(others)], state.means[others])

    held = np.asarray(ranking.shares.columns(near)).sum(axis=1)
    part = family.part(rows, np.arange(rows.n), held)
    before, after = (
        family.e_step(part, each.keep(np.arange(each.k))).log_likelihood
        for each in (state.take(near), inside)
    )
    level = family.e_step(rows, state).log_likelihood
    # rows of which they hold less than a thousandth did not take part
    assert family.e_step(rows, larger).log_likelihood - level > after - before - 0.1
    assert after - before > 100
    moved = replace(larger, means=larger.means + np.where(np.arange(21) > 18, 1.0, 0.0)[:, None])
    assert family.e_step(rows, moved).log_likelihood - level < after - before - 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", [TIED, replace(FREE, student=True)])
def test_what_all_components_share_stays(family, seed):
    """Parts of a split have a covariance, and perhaps degrees of freedom, of their trial."""
    rows = grid_rows(6.0, np.random.default_rng(seed))
    state = grid_state(rows, 6.0, family)
    ranking, at, near = best_split(family, rows, state)
    older = replace(ranking.parts[at], freedom=ranking.parts[at].freedom * 0.9)
    ranking = replace(ranking, parts=[*ranking.parts[:at], older, *ranking.parts[at + 1 :]])
    larger, _ = split_nearby(family, state, ranking, at, near, BUDGET)
    np.testing.assert_allclose(larger.freedom, state.freedom[0], rtol=1e-12)
    if family is TIED:
        assert not np.allclose(older.covariances, state.covariances[0])
        np.testing.assert_allclose(larger.covariances, state.covariances[[0] * 21], rtol=1e-12)


def test_lines_keep_the_variance_that_they_share(rng):
    coef = np.column_stack([np.zeros(16), 3.0 * np.arange(16)])
    x, labels = rng.normal(size=(6_400, 1)), np.arange(6_400) % 16
    double = (labels == 0) & (np.arange(6_400) % 32 == 0)
    y = x[:, 0] * coef[labels, 1] + 4.0 * double + 0.3 * rng.normal(size=6_400)
    rows, family = design_rows(Rows.of(x, y=y)), LineFamily(Model(shared=True))
    start = Lines(np.full(16, 1 / 16), coef, np.full(16, 0.1))
    state = run_em(family, rows, start, SEARCH).state
    ranking = rank_moves(family, rows, state, np.random.default_rng(0))
    at = int(np.flatnonzero(ranking.origins >= 0)[0])
    near = ranking.merges.around(int(ranking.origins[at]))
    assert len(near) < 16
    larger, merges = split_nearby(family, state, ranking, at, near, BUDGET)
    np.testing.assert_allclose(larger.variances, state.variances[0], rtol=1e-12)
    assert merges.pairs.max() == 16
