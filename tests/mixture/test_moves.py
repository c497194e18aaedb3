"""The families in the search: moves find what is missing and leave what is right."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import (
    CovarianceType,
    GaussianFamily,
    Gaussians,
    far_groups,
    log_densities,
)
from implicitmoments.rows import MemoryBudget, Rows
from implicitmoments.rows.outliers import leave_out_outliers
from implicitmoments.search import (
    SEARCH,
    insertion_gains,
    matrix_shares,
    merge_cheapest,
    merge_losses,
    rank_moves,
    responsibilities,
    run_em,
    search_moves,
    worth_of_component,
)
from implicitmoments.search.em import most_rows
from implicitmoments.search.ranking import OVERLAP

K, D = 8, 6
TIED = CovarianceType("tied_spherical")
FAMILY = GaussianFamily(TIED)


@pytest.fixture(scope="module")
def data():
    X, truth = make_spherical_mixture(4_000, K, D, radius=10.0, separation=8.0, random_state=0)
    return Rows.of(X), truth.vectors


def mixture_at(means):
    return Gaussians(np.full(len(means), 1 / len(means)), means.copy(), np.ones(means.shape))


def settled(rows, means, family=FAMILY):
    return run_em(family, rows, mixture_at(means), SEARCH).state


def nearest(found, means):
    return np.linalg.norm(found[:, None] - means, axis=2).min(axis=0)


@pytest.fixture(scope="module")
def spoilt(data):
    """A fixed point of EM with two components on one mean and none on another."""
    rows, means = data
    wrong = means.copy()
    wrong[0] = wrong[1] + 0.3
    return settled(rows, wrong)


def test_the_best_split_finds_a_missing_component(data, spoilt):
    rows, means = data
    ranking = rank_moves(FAMILY, rows, spoilt, np.random.default_rng(0))
    larger = run_em(FAMILY, rows, ranking.apply(spoilt, np.array([0])), SEARCH).state
    assert nearest(larger.means, means).max() < 0.5
    assert ranking.gains[0] > 50
    assert set(ranking.merges.pairs[0]) == {0, 1}


def test_nothing_is_missing_from_the_truth(data):
    rows, means = data
    right = settled(rows, means)
    ranking = rank_moves(FAMILY, rows, right, np.random.default_rng(0))
    # two parameters' worth of overfitting for each feature of the second part
    assert ranking.gains.max() < 4 * D
    done = search_moves(FAMILY, rows, right, 10, np.random.default_rng(0))
    assert done.tried == 0


def test_merging_costs_what_the_likelihood_falls_by(data, spoilt):
    rows, _ = data
    found, sums = responsibilities(FAMILY, rows, spoilt), FAMILY.e_step(rows, spoilt)
    merges = merge_losses(FAMILY, rows, spoilt, found, sums)
    for at in (0, K, -1):
        after = log_densities(rows.points, merges.apply(spoilt, at)).sum()
        fall = found.log_likelihood - after
        assert merges.losses[at] == pytest.approx(fall, rel=1e-3, abs=0.05)


@pytest.mark.parametrize(
    "family",
    [
        FAMILY,
        GaussianFamily(CovarianceType("spherical")),
        GaussianFamily(CovarianceType("diag")),
        GaussianFamily(TIED, known=np.ones(D)),
    ],
)
def test_moves_find_the_missing_mean(data, family):
    rows, means = data
    wrong = means.copy()
    wrong[0] = wrong[1] + 0.3
    start = settled(rows, wrong, family)
    assert nearest(start.means, means).max() > 1
    done = search_moves(family, rows, start, 10, np.random.default_rng(0))
    assert done.accepted >= 1
    assert nearest(done.state.means, means).max() < 0.5
    after = log_densities(rows.points, done.state).sum()
    assert done.log_likelihood == pytest.approx(after)
    assert after > log_densities(rows.points, start).sum() + 100


def test_several_components_move_at_once(data):
    """Components on means that others have need fewer rounds than there are."""
    rows, means = data
    wrong = means.copy()
    wrong[:3] = wrong[3:6] + 0.3
    start = settled(rows, wrong)
    missing = np.sum(nearest(start.means, means) > 1)
    assert missing >= 3
    ranking = rank_moves(FAMILY, rows, start, np.random.default_rng(0))
    sure = ranking.sure()
    assert len(sure) >= 2
    assert len(np.unique(ranking.origins[sure])) == len(sure)
    done = search_moves(FAMILY, rows, start, 10, np.random.default_rng(0))
    assert done.tried < missing
    assert nearest(done.state.means, means).max() < 0.5


def test_no_move_from_the_truth_is_sure(data):
    rows, means = data
    ranking = rank_moves(FAMILY, rows, settled(rows, means), np.random.default_rng(0))
    assert len(ranking.sure()) == 0


def test_insertions_at_one_place_are_one(data):
    rows, means = data
    state = settled(rows, means[2:])
    found = responsibilities(FAMILY, rows, state)
    places = np.vstack([means[:2], means[:2] + 0.2, means[:1] - 0.2])
    candidates = Gaussians(np.full(5, 0.1), places, np.ones(places.shape))
    gains, inserted = insertion_gains(FAMILY, rows, found, candidates)
    assert len(gains) == 2  # and two places are two
    assert nearest(inserted.means, means[:2]).max() < 0.5


class Unpooled(GaussianFamily):
    """Insertions that borrow no rows."""

    def fit_trials(self, sums, before, size, rest, like=None):
        return super().fit_trials(sums, before, size, rest)


@pytest.mark.parametrize("name", ["full", "diag"])
def test_insertions_do_not_collapse_on_a_few_rows(name):
    rng, kind, k, d, n = np.random.default_rng(0), CovarianceType(name), 6, 20, 2_400
    means = rng.normal(size=(k, d))
    rows = Rows.of(means[rng.integers(k, size=n)] + 0.5 * rng.normal(size=(n, d))).hold()
    start = Gaussians(np.full(k, 1 / k), means, np.stack([kind.ridge(d, 0.25)] * k))
    best, least = [], []
    for family in (GaussianFamily(kind, 1e-10), Unpooled(kind, 1e-10)):
        state = run_em(family, rows, start, SEARCH).state
        found = responsibilities(family, rows, state)
        candidates = family.candidates(rows, state, found.log_density, np.random.default_rng(0))
        gains, inserted = insertion_gains(family, rows, found, candidates)
        best.append(gains[0])
        least.append(np.linalg.eigvalsh(inserted.expanded().covariances).min())
    assert least[0] > 1e-4
    assert least[1] < 1e-8
    assert best[0] < 0.6 * best[1]  # which is 79 nats for each row


def test_what_is_gained_by_chance_follows_the_columns_of_the_rows(data):
    """In the span of the means criteria count the parameters of all columns, and EM fits fewer."""
    rows, means = data
    family, state = replace(FAMILY, columns=100), settled(rows, means)
    assert rank_moves(family, rows, state, np.random.default_rng(0)).chance == D + 1
    more, less = (worth_of_component(each, rows, state) for each in (family, FAMILY))
    assert more > 2 * less


def test_a_component_behind_others_is_found():
    """A mean at the centre of a ring has no rows of low density around it."""
    ring = 2.6 * np.vstack([np.eye(4), -np.eye(4)])
    means = np.vstack([ring, np.zeros((1, 4))])
    rng = np.random.default_rng(0)
    rows = Rows.of(means[rng.integers(9, size=9_000)] + rng.normal(size=(9_000, 4)))
    wrong = means.copy()
    wrong[8] = ring[0] + 0.2
    done = search_moves(FAMILY, rows, mixture_at(wrong), 10, np.random.default_rng(0))
    assert nearest(done.state.means, means)[8] < 0.6


@pytest.mark.parametrize("seed", range(2))
def test_a_light_component_is_found(seed):
    """Forty rows of 20,000, which one start of EM gives to a neighbour."""
    rng = np.random.default_rng(seed)
    means = 6.0 * np.array([(i, j) for i in range(4) for j in range(3)], dtype=float)
    weights = np.append(0.002, np.full(11, 0.998 / 11))
    labels = rng.choice(12, 20_000, p=weights)
    rows = Rows.of(means[labels] + rng.normal(size=(20_000, 2)))
    best = run_em(FAMILY, rows, Gaussians(weights, means, np.ones((12, 2))), SEARCH)
    wrong = np.vstack([means[1] + 0.2, means[1:]])
    done = search_moves(FAMILY, rows, mixture_at(wrong), 10, rng)
    assert done.log_likelihood == pytest.approx(best.level * rows.total, abs=1.0)


def test_the_cheapest_merges_are_those_of_duplicates(data):
    rows, means = data
    state = mixture_at(np.vstack([means, means[:2] + 0.2]))
    while state.k > K:
        state = merge_cheapest(FAMILY, rows, state)
    assert nearest(state.means, means).max() < 0.5


def test_lonely_far_rows_are_left_out_and_groups_are_not(data):
    rows, _ = data
    X = rows.points.copy()
    X[:3] = [[1e6] * D, [-1e6] * D, [60] * D]
    kept, n_out, _ = leave_out_outliers(Rows.of(X), K)
    assert n_out == 3
    assert kept.total == kept.kept == len(X) - 3
    np.testing.assert_array_equal(kept.points, X[3:])
    assert leave_out_outliers(Rows.of(X), K, drop=False)[1] == 0
    X[:100] = 60 + np.random.default_rng(0).normal(size=(100, D))
    assert leave_out_outliers(Rows.of(X), K)[1] == 0


def test_groups_at_another_scale_are_found(data):
    rows, _ = data
    rng = np.random.default_rng(0)
    assert far_groups(Rows.of(rows.points), K, rng) is None
    # more components than rows are linked
    assert far_groups(Rows.of(rng.normal(size=(4_100, 2))), 2_001, rng) is None
    X = rows.points.copy()
    X[::2] += 1e5
    groups = far_groups(Rows.of(X), K, rng)
    assert groups.n == len(groups.points) == 2
    for g in range(2):
        places = np.flatnonzero(groups.holds(g, {"x": X}))
        assert len(places) == len(X) // 2
        assert len(set(places % 2)) == 1


@pytest.fixture(scope="module")
def few_rows():
    """Rows of 30 components in 64 features, 60 of each, and their means."""
    rng, k, d = np.random.default_rng(3), 30, 64
    means = 5 / np.sqrt(2 * d) * rng.normal(size=(k, d))
    return Rows.of(np.repeat(means, 60, axis=0) + rng.normal(size=(60 * k, d))), means


def test_insertions_are_tried_where_chance_pays_for_a_merge(few_rows):
    """Two means for 60 rows in 64 features gain what a merge would lose, and more than a nat each.

    The rows of the component that is missing are held by several others.
    """
    rows, means = few_rows
    wrong = means.copy()
    wrong[0] = wrong[1] + 0.3
    state = settled(rows, wrong)
    ranking = rank_moves(FAMILY, rows, state, np.random.default_rng(0))
    assert ranking.merges.losses[0] > OVERLAP * 60
    assert ranking.overlap
    assert ranking.origins[0] == -1
    done = search_moves(FAMILY, rows, state, 10, np.random.default_rng(0))
    truth = run_em(FAMILY, rows, mixture_at(means), SEARCH)
    assert done.log_likelihood == pytest.approx(truth.level * rows.total, abs=2.0)
    # without the component too many no merge is cheap
    assert not rank_moves(FAMILY, rows, truth.state, np.random.default_rng(0)).overlap


def test_moves_are_ranked_on_as_many_rows_as_fit_into_memory(data, spoilt, monkeypatch):
    """A third of the rows show the same splits, in units of all rows; EM has all of them."""
    rows, means = data
    whole = rank_moves(FAMILY, rows, spoilt, np.random.default_rng(0))
    monkeypatch.setattr(matrix_shares, "DEFAULT_BUDGET", MemoryBudget(held=K * rows.n // 3))
    part = rank_moves(FAMILY, rows, spoilt, np.random.default_rng(0))
    assert part.shares.shares.shape == (rows.n // 3, K)
    assert part.unit == pytest.approx(3.0, abs=0.01)
    assert part.origins[0] == whole.origins[0]
    # 500 rows of the component, a third of them: a deviation of 4 %
    assert part.gains[0] == pytest.approx(whole.gains[0], rel=0.2)
    assert part.needed(0.0) == 0.0
    assert part.by_chance == pytest.approx(3 * whole.by_chance, rel=0.01)
    done = search_moves(FAMILY, rows, spoilt, 10, np.random.default_rng(0))
    assert nearest(done.state.means, means).max() < 0.5
    assert done.log_likelihood == pytest.approx(
        run_em(FAMILY, rows, mixture_at(means), SEARCH).level * rows.total, abs=2.0
    )


def test_gains_that_chance_explains_are_not_sure(few_rows):
    rows, means = few_rows
    ranking = rank_moves(FAMILY, rows, settled(rows, means), np.random.default_rng(0))
    merges = replace(ranking.merges, losses=ranking.merges.losses - ranking.merges.losses[0])
    assert len(replace(ranking, merges=merges).sure()) == 0
    assert len(replace(ranking, merges=merges, chance=1.0).sure()) > 0


def test_samples_of_many_components_have_enough_rows_for_each():
    held = 2**25
    assert most_rows(400, held) == held // 400
    assert most_rows(1_000, held) == 100_000


def test_an_infinite_target_leaves_the_sure_moves(data, spoilt, few_rows):
    rows, means = data
    done = search_moves(FAMILY, rows, spoilt, 10, np.random.default_rng(0), target=np.inf)
    assert (done.accepted, done.tried) == (1, 1)
    assert nearest(done.state.means, means).max() < 0.5
    # 60 rows in 64 features leave moves open that chance may pay for
    rows, means = few_rows
    right = settled(rows, means)
    ranking = rank_moves(FAMILY, rows, right, np.random.default_rng(0))
    assert next(ranking.promising(), None) is not None
    done = search_moves(FAMILY, rows, right, 10, np.random.default_rng(0), target=np.inf)
    assert done.tried == 0
