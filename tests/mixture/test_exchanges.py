"""Components are exchanged many at a time, then one at a time, and no swap is tried twice."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, moves, rank_moves, run_em, search_moves
from implicitmoments.search.moves import SETTLED

TIED = CovarianceType("tied_spherical")
FAMILY = GaussianFamily(TIED)
KNOWN = GaussianFamily(TIED, known=np.ones(2))


@dataclass(frozen=True)
class CountedFamily(GaussianFamily):
    """Spherical Gaussians that note the number of components of every E-step."""

    sizes: list[int] = field(default_factory=list)

    def e_step(self, rows, state):
        self.sizes.append(state.k)
        return super().e_step(rows, state)


def mixture_at(means):
    return Gaussians(np.full(len(means), 1 / len(means)), means.copy(), np.ones(means.shape))


def furthest(found, means):
    """Return the largest distance of a mean from those found."""
    return np.linalg.norm(found[:, None] - means, axis=2).min(axis=0).max()


@pytest.fixture
def grid(rng):
    """Rows of 24 groups, their means, and a start without components on six of them."""
    means = 8.0 * np.stack(np.meshgrid(range(6), range(4)), axis=-1).reshape(-1, 2)
    rows = Rows.of(np.repeat(means, 100, axis=0) + rng.normal(size=(2_400, 2)))
    there = np.arange(24) % 4 > 0
    return rows, means, mixture_at(np.vstack([means[there], means[there][::3]]))


def test_many_components_are_exchanged_at_a_time(grid, monkeypatch):
    """Six of 24 are missing: two rounds find them, or more rounds of two at a time."""
    (rows, means, start), accepted = grid, []
    for at_once in (moves.AT_ONCE, 100):
        monkeypatch.setattr(moves, "AT_ONCE", at_once)
        done = search_moves(KNOWN, rows, start, 40, np.random.default_rng(0))
        assert furthest(done.state.means, means) < 0.5
        accepted.append(done.accepted)
    many, two = accepted
    assert many <= 2 < two


def test_a_target_that_changes_reach_together_is_reached(grid):
    rows, means, start = grid
    target = run_em(KNOWN, rows, mixture_at(means), SEARCH).level * rows.total - 50
    done = search_moves(KNOWN, rows, start, 40, np.random.default_rng(0), target=target)
    assert furthest(done.state.means, means) < 0.5
    # one beyond reach: what is sure to pay is still done, and nothing else
    far = search_moves(KNOWN, rows, start, 40, np.random.default_rng(0), target=1e9)
    ranking = rank_moves(KNOWN, rows, far.state, np.random.default_rng(0))
    assert far.accepted > 0
    assert len(ranking.sure()) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_swap_is_not_tried_again_from_the_same_prediction(monkeypatch, seed):
    """Unless another one was kept since."""
    X, truth = make_spherical_mixture(800, 4, 2, radius=2.0, separation=1.2, random_state=seed)
    rows, seen, kept = Rows.of(np.asarray(X)), list[int](), list[object]()
    state, tried = mixture_at(np.asarray(truth.vectors)), moves._try

    def recorded(family, rows, best, swaps, *rest):
        swaps = list(swaps)
        parts = [id(part) for parts, _ in swaps for part in parts if len(parts) == 1]
        outcome = tried(family, rows, best, swaps, *rest)
        assert not set(parts) & set(seen)
        kept.append(swaps)  # so that numbers stay those of one object
        seen.extend(parts)
        if outcome.kept is not None:
            seen.clear()
        return outcome

    monkeypatch.setattr(moves, "_try", recorded)
    search_moves(FAMILY, rows, state, 100, np.random.default_rng(0))
    assert kept


@pytest.mark.parametrize(
    ("pairs", "n_splits", "k", "undone"),
    [
        ([[8, 9]], 1, 9, True),
        ([[0, 9]], 1, 9, False),
        ([[8, 9], [6, 7], [10, 11]], 3, 9, True),
        ([[8, 9], [6, 7], [2, 5]], 3, 9, False),
        ([[6, 8], [7, 9]], 2, 8, False),
        ([[3, 3]], 1, 9, False),
        ([[2, 3], [8, 9]], 1, 9, False),  # a split and an insertion
    ],
)
def test_splits_are_undone_by_merges_of_their_parts_alone(pairs, n_splits, k, undone):
    """After splits of k components their parts are the last, two by two."""
    assert moves._undo(np.array(pairs), n_splits, k) == undone


def test_a_batch_whose_splits_are_undone_is_not_followed_by_em(grid):
    """The right fit: each of the splits tried together is merged again."""
    rows, means, wrong = grid
    for start, kept in ((mixture_at(means), False), (wrong, True)):
        state = run_em(KNOWN, rows, start, SEARCH).state
        ranking = rank_moves(KNOWN, rows, state, np.random.default_rng(0))
        group = np.flatnonzero(ranking.origins >= 0)[:3]
        ((parts, swapped),) = moves._swaps(KNOWN, rows, state, ranking, [group], SEARCH)
        assert parts == [ranking.parts[at] for at in group]
        assert (swapped is not None) == kept
        assert swapped is None or swapped.k == state.k


@pytest.mark.parametrize("n_doubled", [0, 3])
def test_moves_begin_before_em_has_converged_where_components_are_spare(rng, n_doubled):
    means = 6.0 * np.stack(np.meshgrid(range(4), range(3)), axis=-1).reshape(-1, 2)
    X = Rows.of(np.repeat(means, 200, axis=0) + rng.normal(size=(2_400, 2)))
    # of three groups, no component is there, and two of each of three others
    start = np.vstack([means[n_doubled:], means[len(means) - n_doubled :] + 0.1])
    family = CountedFamily(TIED)
    state = Gaussians(np.full(12, 1 / 12), start, np.ones((12, 2)))
    alone = run_em(family, X, state, SEARCH)
    family.sizes.clear()
    found = search_moves(family, X, state, 20, np.random.default_rng(0))
    larger = [at for at, k in enumerate(family.sizes) if k > 12]
    apart = np.sum((means[:, None] - found.state.means) ** 2, axis=2)
    assert np.all(apart.min(axis=1) < 0.1)
    if n_doubled:
        assert larger[0] <= SETTLED < alone.n_iter
        assert found.accepted == 1
    else:
        assert not larger
        assert found.tried == 0


def test_moves_that_lead_back_to_the_same_likelihood_do_not_fail():
    X, truth = make_spherical_mixture(
        1_500, 8, 4, radius=(1.5, 3.5), separation=2.2, random_state=0
    )
    rows, means = Rows.of(np.asarray(X)), np.asarray(truth.vectors)
    state = Gaussians(np.full(8, 1 / 8), means, np.ones((8, 4)))
    found = search_moves(FAMILY, rows, state, 20, np.random.default_rng(0))
    assert found.tried > found.accepted == 0
    assert found.failed == 0
