"""EM, trials, moves and the choice of k on the smallest family."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from implicitmoments.search import (
    SEARCH,
    WHOLE,
    Budget,
    Expectations,
    State,
    bic,
    choose_k,
    cross,
    cross_populations,
    insertion_gains,
    merge_losses,
    responsibilities,
    run_em,
    search_moves,
    split_gains,
)
from implicitmoments.search.splits import fit_pairs, gain_needed


@dataclass(frozen=True, eq=False)
class Line(State):
    means: np.ndarray
    variances: np.ndarray


@dataclass(frozen=True, eq=False)
class Sums(Expectations):
    counts: np.ndarray
    points: np.ndarray
    squares: np.ndarray


@dataclass(frozen=True, eq=False)
class Rows:
    x: np.ndarray
    counts: np.ndarray


def rows_of(x):
    return Rows(x, np.ones(len(x)))


def line(weights, means, variance=1.0):
    return Line(np.array(weights), np.array(means, dtype=float), np.full(len(means), variance))


class ToyFamily:
    """Gaussians on a line with one shared variance: every method, without regard for speed."""

    def e_step(self, rows, state):
        joint = self.log_joint(rows, state)
        top = np.logaddexp.reduce(joint, axis=1)
        sums = self.expect(rows, np.exp(joint - top[:, None]) * rows.counts[:, None], state)
        return Sums(float(rows.counts @ top), sums.total, sums.counts, sums.points, sums.squares)

    def m_step(self, sums, before):
        means = sums.points / sums.counts
        inside = sums.squares - sums.counts * means**2
        variance = inside.sum() / sums.total
        return Line(sums.counts / sums.total, means, np.full(before.k, variance))

    def pack(self, state):
        return np.concatenate([np.log(state.weights), state.means, np.log(state.variances)])

    def unpack(self, packed, like):
        weights, means, variances = packed.reshape(3, like.k)
        weights = np.exp(weights - weights.max())
        return Line(weights / weights.sum(), means, np.exp(variances))

    def scale(self, state):
        root = np.sqrt(state.weights)
        return np.concatenate([root, root / np.sqrt(state.variances), root / np.sqrt(2)])

    def n_parameters(self, state):
        return 2 * state.k

    def log_joint(self, rows, state):
        v = state.variances
        apart = (rows.x[:, None] - state.means) ** 2
        return np.log(state.weights) - 0.5 * (apart / v + np.log(2 * np.pi * v))

    def counts(self, rows):
        return rows.counts

    def part(self, rows, places, counts):
        return Rows(rows.x[places], counts)

    def expect(self, rows, shares, state):
        x = rows.x
        return Sums(0.0, rows.counts.sum(), shares.sum(axis=0), shares.T @ x, shares.T @ x**2)

    def pool(self, sums, state):
        return np.column_stack([sums.counts, sums.squares - sums.points**2 / sums.counts])

    def fit_trials(self, sums, before, size, rest, like=None):
        means = sums.points / sums.counts
        weights = sums.counts / sums.total
        variances = before.variances
        if rest is not None:
            inside = (sums.squares - sums.counts * means**2).reshape(-1, size).sum(axis=1)
            n = sums.counts.reshape(-1, size).sum(axis=1)
            variances = np.repeat((inside + rest[1]) / (n + rest[0]), size)
        if size > 1:
            weights = weights / np.repeat(weights.reshape(-1, size).sum(axis=1), size)
        return Line(weights, means, variances)

    def rest_bound(self, rest, trials, size):
        v = trials.variances[::size]
        return -0.5 * rest[0] * np.log(v) - 0.5 * rest[1] / v

    def fit_pairs(self, parts, alone, pairs, rest, steps):
        return fit_pairs(self, parts, alone, pairs, rest, steps)

    def split_starts(self, part, state, i, rng):
        mean, spread = state.means[i], np.sqrt(state.variances[i])
        far = part.x[np.abs(part.x - mean).argmax()]
        means = [mean - spread, mean + spread, mean, far]
        return Line(np.array([0.5, 0.5, 0.98, 0.02]), np.array(means), np.full(4, spread**2))

    def candidates(self, rows, state, log_density, rng):
        worst = rows.x[np.argsort(log_density)[:2]]
        return Line(np.full(2, 0.01), worst, np.repeat(state.variances[:1], 2))


FAMILY = ToyFamily()
MEANS = np.array([0.0, 6.0, 12.0, 19.0])
SIZES = (500, 400, 300, 8)
EXACT = Budget(0, 500, 1e-12)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = np.concatenate([m + rng.normal(size=n) for m, n in zip(MEANS, SIZES, strict=True)])
    return rows_of(rng.permutation(x))


@pytest.fixture(scope="module")
def truth(rows):
    return run_em(FAMILY, rows, line(np.array(SIZES) / sum(SIZES), MEANS), EXACT)


@pytest.fixture(scope="module")
def spoilt(rows):
    """Two components on one mean, and none for the light one."""
    return run_em(FAMILY, rows, line([0.25] * 4, [-0.5, 0.5, 6.0, 12.0]), SEARCH).state


def plain_em(rows, state, steps):
    for _ in range(steps):
        state = FAMILY.m_step(FAMILY.e_step(rows, state), state)
    return state


def test_accelerated_em_has_the_fixed_point_of_plain_em():
    rng = np.random.default_rng(1)
    near = rows_of(np.concatenate([rng.normal(size=600), 2.2 + rng.normal(size=400)]))
    start = line([0.5, 0.5], [-1.0, 3.0])
    fast = run_em(FAMILY, near, start, EXACT)
    slow = plain_em(near, start, 3_000)
    np.testing.assert_allclose(fast.state.means, slow.means, atol=1e-4)
    assert fast.converged
    assert fast.n_iter < 100
    assert fast.level == pytest.approx(FAMILY.e_step(near, fast.state).level)


@pytest.mark.parametrize(("moved", "passes"), [(0.0, 2), (0.1, 3)])
def test_em_of_groups_apart_makes_few_passes(rows, truth, moved, passes):
    near = replace(truth.state, means=truth.state.means + moved * np.array([1, -1, 1, -1]))
    fitted = run_em(FAMILY, rows, near, WHOLE)
    assert (fitted.n_iter, fitted.converged) == (passes, True)
    assert truth.level - fitted.level < WHOLE.tol


@pytest.mark.parametrize("apart", [2.0, 2.5, 3.0])
def test_em_of_groups_that_overlap_ends_where_little_can_be_gained(apart):
    rng = np.random.default_rng(round(10 * apart))
    near = rows_of(np.concatenate([rng.normal(size=1200), apart + rng.normal(size=800)]))
    start = line([0.5, 0.5], [-1.0, apart + 1.0])
    fitted, best = (run_em(FAMILY, near, start, budget) for budget in (WHOLE, EXACT))
    assert fitted.converged
    assert best.level - fitted.level < 10 * WHOLE.tol


def test_em_stops_at_its_budget(rows):
    fitted = run_em(FAMILY, rows, line([0.5, 0.5], [0.0, 1.0]), replace(EXACT, steps=4))
    assert (fitted.n_iter, fitted.converged) == (4, False)


def test_em_ends_where_it_cannot_reach_what_is_asked_for(rows, spoilt):
    """And goes on, to the same end as without, where it can."""
    whole = run_em(FAMILY, rows, spoilt, EXACT)
    above, below = (run_em(FAMILY, rows, spoilt, EXACT, whole.level + d) for d in (10.0, -0.1))
    assert above.n_iter < whole.n_iter
    assert not above.converged
    assert below.history == whole.history


def test_a_merge_loses_what_the_likelihood_falls_by(rows, spoilt):
    found, sums = responsibilities(FAMILY, rows, spoilt), FAMILY.e_step(rows, spoilt)
    merges = merge_losses(FAMILY, rows, spoilt, found, sums)
    for at in range(len(merges.losses)):
        after = FAMILY.e_step(rows, merges.apply(spoilt, at)).log_likelihood
        fall = sums.log_likelihood - after
        assert merges.losses[at] == pytest.approx(fall, rel=1e-3, abs=1e-2)
    assert set(merges.pairs[0]) == {0, 1}


def test_some_of_many_rows_show_which_merges_are_not_the_cheapest():
    """Losses near the least are exact; the others are estimates from a sample."""
    rng = np.random.default_rng(2)
    means = np.array([0.0, 1.5, 8.0, 12.0, 25.0])
    many = rows_of(np.concatenate([m + rng.normal(size=6_000) for m in means]))
    assert len(many.x) > SEARCH.rows
    state = run_em(FAMILY, many, line(np.full(5, 0.2), means), SEARCH).state
    found, sums = responsibilities(FAMILY, many, state), FAMILY.e_step(many, state)
    merges = merge_losses(FAMILY, many, state, found, sums)
    falls = [
        sums.log_likelihood - FAMILY.e_step(many, merges.apply(state, at)).log_likelihood
        for at in range(len(merges.losses))
    ]
    assert set(merges.pairs[0]) == {0, 1}
    assert merges.losses[0] == pytest.approx(falls[0], rel=1e-3)
    np.testing.assert_allclose(merges.losses, falls, rtol=0.1)


def test_a_split_gains_at_least_what_it_predicts(rows):
    state = run_em(FAMILY, rows, line([0.5, 0.3, 0.2], [0.0, 9.0, 19.0]), SEARCH).state
    found, sums = responsibilities(FAMILY, rows, state), FAMILY.e_step(rows, state)
    pool = FAMILY.pool(sums, state)
    rng = np.random.default_rng(0)
    splits = split_gains(FAMILY, rows, state, found, pool, np.arange(3), rng)
    best = int(np.argmax([splits[i][0] for i in range(3)]))
    gain, parts = splits[best]
    reached = run_em(FAMILY, rows, state.split(best, parts), SEARCH)
    np.testing.assert_allclose(np.sort(reached.state.means), MEANS, atol=0.5)
    assert 5 < gain <= reached.level * sums.total - sums.log_likelihood + 1e-6


def test_a_gain_by_chance_makes_up_for_no_loss():
    chance = 100.0
    losses = np.array([40.0, 120.0, 1_000.0, 5_000.0])
    needed = gain_needed(losses, chance)
    np.testing.assert_allclose(needed[:2], losses[:2] / 4)  # chance may make up for these
    assert np.all(needed[2:] > losses[2:] / 4)
    assert np.all(needed[2:] > chance)  # and what is beyond it may grow fourfold
    assert needed[3] - needed[2] == pytest.approx(1_000.0)


def test_an_insertion_finds_a_light_component(rows, spoilt):
    found = responsibilities(FAMILY, rows, spoilt)
    candidates = FAMILY.candidates(rows, spoilt, found.log_density, None)
    gains, inserted = insertion_gains(FAMILY, rows, found, candidates)
    assert inserted.means[0] == pytest.approx(19.0, abs=1.0)
    added = spoilt.add(inserted.take(np.array([0])), float(inserted.weights[0]))
    rise = FAMILY.e_step(rows, added).log_likelihood - found.log_likelihood
    assert gains[0] == pytest.approx(rise, rel=1e-6)


def test_moves_reach_em_from_the_truth(rows, spoilt, truth):
    found = search_moves(FAMILY, rows, spoilt, 10, np.random.default_rng(0))
    assert found.accepted >= 1
    assert found.log_likelihood == pytest.approx(truth.level * sum(SIZES), abs=0.1)
    again = search_moves(FAMILY, rows, found.state, 10, np.random.default_rng(0))
    assert again.accepted == 0


def test_a_crossing_has_what_either_fit_has_found(rows, spoilt, truth):
    other = run_em(FAMILY, rows, line([0.25] * 4, [5.5, 6.5, 12.0, 19.0]), SEARCH).state
    found = cross(FAMILY, rows, spoilt, other)
    assert found.state.k == 4
    assert found.level == pytest.approx(truth.level, abs=1e-4)


def test_populations_that_end_apart_say_so(rows, truth):
    """One start that is good, and others from which EM finds nothing."""
    rng, wrong = np.random.default_rng(0), line([0.25] * 4, [0.0, 0.0, 0.0, 0.0])
    found = cross_populations(FAMILY, rows, [truth.state] * 2, lambda: wrong, 4, rng)
    assert found.apart > 100  # the second population knows nothing of the starts of the first
    np.testing.assert_allclose(np.sort(found.state.means), MEANS, atol=0.5)
    agreed = cross_populations(FAMILY, rows, [truth.state], lambda: truth.state, 4, rng)
    assert agreed.apart < 0.1


def test_no_moves_are_tried_where_none_are_allowed(rows, spoilt):
    assert search_moves(FAMILY, rows, spoilt, 0, np.random.default_rng(0)).tried == 0


@pytest.mark.parametrize("start", [[0.0], [0.0, 1.0, 5.0, 6.0, 7.0, 12.0, 13.0, 18.0, 19.0]])
def test_the_number_of_components_has_the_least_criterion(rows, truth, start):
    state = line(np.full(len(start), 1 / len(start)), start)
    chosen = choose_k(FAMILY, rows, state, 12, 10, np.random.default_rng(0))
    assert chosen.searched.state.k == min(chosen.scores, key=chosen.scores.get) == 4
    assert {3, 4, 5} <= set(chosen.scores)
    total = sum(SIZES)
    assert chosen.scores[4] == pytest.approx(bic(truth.level * total, 8, total), abs=0.5)


def test_the_number_of_components_stays_within_its_bound(rows):
    chosen = choose_k(FAMILY, rows, line([1.0], [0.0]), 2, 10, np.random.default_rng(0))
    assert chosen.searched.state.k == max(chosen.scores) == 2
