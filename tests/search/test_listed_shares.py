"""Lists of responsibilities tell what a matrix of them does."""

import numpy as np
import pytest

from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians
from implicitmoments.rows import MemoryBudget, Rows
from implicitmoments.search import (
    SEARCH,
    list_shares,
    matrix_shares,
    merge_losses,
    rank_moves,
    responsibilities,
    run_em,
    search_moves,
)

K, D, N = 60, 20, 6_000
FAMILY = GaussianFamily(CovarianceType("tied_spherical"))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    means = 7 / np.sqrt(2 * D) * rng.normal(size=(K, D))
    X = means[rng.integers(K, size=N)] + rng.normal(size=(N, D))
    return Rows.of(X).take(np.arange(N), rng.integers(1, 4, size=N) + 0.0), means


def settled(rows, means):
    start = Gaussians(np.full(len(means), 1 / len(means)), means.copy(), np.ones(means.shape))
    return run_em(FAMILY, rows, start, SEARCH).state


@pytest.fixture(scope="module")
def spoilt(data):
    """Three components beside others, and none at three of the means."""
    rows, means = data
    wrong = means.copy()
    wrong[:3] = means[3:6] + 0.3
    return settled(rows, wrong)


def test_they_equal_the_matrix_in_rows_that_are_held(data, spoilt):
    rows, _ = data
    listed, sums = list_shares(FAMILY, rows, spoilt)
    matrix = responsibilities(FAMILY, rows, spoilt)
    assert listed.k == matrix.k == K
    np.testing.assert_allclose(listed.log_density, matrix.log_density)
    for i in range(K):
        for one, other in zip(listed.held_by(i), matrix.held_by(i), strict=True):
            np.testing.assert_allclose(one, other)
    expected = FAMILY.expect(rows, matrix.shares * matrix.counts[:, None], spoilt)
    assert sums.total == expected.total
    np.testing.assert_allclose(sums.products, expected.products)
    np.testing.assert_allclose(listed.totals(), matrix.totals(), rtol=0.01)
    np.testing.assert_allclose(listed.common(listed), matrix.common(matrix), atol=0.1)
    values = np.random.default_rng(0).random((N, 2))
    np.testing.assert_allclose(listed.weighted(values), matrix.weighted(values), rtol=0.01)


def test_they_tell_which_components_have_moved(data, spoilt):
    rows, _ = data
    after = FAMILY.m_step(FAMILY.e_step(rows, spoilt), spoilt).take(np.arange(K)[::-1])
    which = np.arange(K)[::-1]
    listed = [list_shares(FAMILY, rows, state)[0] for state in (spoilt, after)]
    matrix = [responsibilities(FAMILY, rows, state) for state in (spoilt, after)]
    for at in (which, np.roll(which, 1)):
        moved = listed[1].moved(listed[0], at)
        np.testing.assert_allclose(moved, matrix[1].moved(matrix[0], at), atol=2.0)


def test_merges_lose_the_same(data, spoilt):
    """A nat is less than what rounding and EM leave open: moves have to gain two."""
    rows, _ = data
    listed, sums = list_shares(FAMILY, rows, spoilt)
    matrix = merge_losses(FAMILY, rows, spoilt, responsibilities(FAMILY, rows, spoilt), sums)
    found = merge_losses(FAMILY, rows, spoilt, listed, sums)
    np.testing.assert_allclose(found.losses[:10], matrix.losses[:10], atol=1.0)
    pairs = [{frozenset(pair) for pair in each.pairs[:3].tolist()} for each in (found, matrix)]
    assert pairs[0] == pairs[1]


def test_components_that_share_no_held_row_have_their_nearest_as_partners():
    rng = np.random.default_rng(1)
    means = 16 / np.sqrt(2 * D) * rng.normal(size=(K, D))
    rows = Rows.of(means[rng.integers(K, size=N)] + rng.normal(size=(N, D)))
    state = settled(rows, means)
    listed, sums = list_shares(FAMILY, rows, state)
    shared = [len(np.intersect1d(listed.held_by(0)[0], listed.held_by(i)[0])) for i in range(1, K)]
    assert max(shared) == 0
    matrix = merge_losses(FAMILY, rows, state, responsibilities(FAMILY, rows, state), sums)
    found = merge_losses(FAMILY, rows, state, listed, sums)
    assert set(found.pairs[0]) == set(matrix.pairs[0])
    np.testing.assert_allclose(found.losses[0], matrix.losses[0], rtol=0.01)


def test_lists_end_where_later_rows_overlap(data):
    """Rows may be in the order of their components: the first block does not tell."""
    rng = np.random.default_rng(0)
    means = np.vstack([200 + 20 * rng.normal(size=(100, D)), 0.1 * rng.normal(size=(100, D))])
    X = np.repeat(means, 200, axis=0) + rng.normal(size=(40_000, D))
    for order in (slice(None), slice(None, None, -1)):
        rows = Rows.of(X[order])
        assert list_shares(FAMILY, rows, settled(rows, means)) is None
    apart = Rows.of(X[:20_000])
    assert list_shares(FAMILY, apart, settled(apart, means[:100])) is not None


def test_components_that_overlap_are_not_listed(data):
    rows, means = data
    wide = Gaussians(np.full(K, 1 / K), means, np.full(means.shape, 9.0))
    assert list_shares(FAMILY, rows, wide) is None
    assert list_shares(FAMILY, rows, settled(rows, means[:8])) is None


def test_all_rows_are_ranked_where_lists_fit_into_memory(data, spoilt, monkeypatch):
    """As with a matrix, and the search finds the components that are missing."""
    rows, means = data
    whole = rank_moves(FAMILY, rows, spoilt, np.random.default_rng(0))
    monkeypatch.setattr(matrix_shares, "DEFAULT_BUDGET", MemoryBudget(held=K * N // 3))
    ranking = rank_moves(FAMILY, rows, spoilt, np.random.default_rng(0))
    assert (ranking.unit, ranking.rows) == (1.0, rows)
    np.testing.assert_allclose(ranking.gains[:3], whole.gains[:3], atol=1.0)
    done = search_moves(FAMILY, rows, spoilt, 10, np.random.default_rng(0))
    truth = run_em(FAMILY, rows, settled(rows, means), SEARCH)
    assert done.log_likelihood == pytest.approx(truth.level * rows.total, abs=2.0)
