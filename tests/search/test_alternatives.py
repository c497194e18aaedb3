"""Comparisons of a fit with other fits end where nothing is to be gained."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians
from implicitmoments.rows import Rows
from implicitmoments.search import (
    SEARCH,
    add_components,
    alternatives,
    one_more,
    rank_moves,
    run_em,
    tails,
)
from implicitmoments.search.trials import Merges

FAMILY = GaussianFamily(CovarianceType("tied_spherical"))
FREE = GaussianFamily(CovarianceType("spherical"))
N = 1_000


def components(k):
    means = np.arange(2.0 * k).reshape(k, 2)
    return Gaussians(np.full(k, 1 / k), means, np.ones((k, 2)))


@pytest.mark.parametrize(("k", "left"), [(4, 3), (8, 7), (32, 28), (64, 56)])
def test_one_in_eight_components_is_merged_at_a_time(monkeypatch, k, left):
    """Where a merge may pay but none is known to; with few components one by one."""
    state, penalty = components(k), 1.5 * math.log(N)
    pairs = np.arange(k).reshape(-1, 2)
    for factor, expected in ((2.0, left), (0.5, k // 2), (10.0, None)):
        losses = np.full(len(pairs), factor * penalty)
        merges = Merges(losses, pairs, state.take(pairs[:, 0]))
        monkeypatch.setattr(tails.trials, "merges_of", lambda *_, merges=merges: merges)
        found = tails._merged(FAMILY, None, state, N)
        assert (None if found is None else found.k) == expected


def test_components_are_added_while_a_rival_may_be_surpassed(monkeypatch):
    """Six groups, two of them with their own components and four that share one.

    More are added, unless another way gains far more: then none is tried.
    """
    rng = np.random.default_rng(0)
    centers = 8.0 * np.array([[0, 9], [9, 9], [0, 0], [1, 0], [2, 0], [3, 0]])
    rows = Rows.of(np.repeat(centers, 200, axis=0) + rng.normal(size=(1_200, 2))).hold()
    means = np.vstack([centers[:2], centers[2:].mean(axis=0)])
    state = run_em(FAMILY, rows, Gaussians(np.ones(3) / 3, means, np.ones((3, 2))), SEARCH)
    fit, level = state.state, state.level
    ranking, rounds = rank_moves(FAMILY, rows, fit, rng), []

    def counted(*arguments):
        rounds.append(arguments)
        return one_more(*arguments)

    one_more = alternatives.one_more
    monkeypatch.setattr(alternatives, "one_more", counted)
    assert add_components(FAMILY, fit, ranking, rows, level, rng, 1e9) is None
    assert not rounds
    gain = add_components(FAMILY, fit, ranking, rows, level, rng, 0.0).gain
    assert len(rounds) == 1
    assert gain > 0
    rounds.clear()
    add_components(FAMILY, fit, ranking, rows, level, rng, 1.01 * gain)
    assert len(rounds) > 1


def test_ways_that_will_not_surpass_a_rival_are_not_tried(monkeypatch):
    """Two groups for each of three components: all splits reach further than the best alone."""
    rng = np.random.default_rng(0)
    centers = 10.0 * np.array([[0, 0], [1, 0], [0, 9], [1, 9], [9, 0], [10, 0]])
    rows = Rows.of(np.repeat(centers, 200, axis=0) + rng.normal(size=(1_200, 2))).hold()
    means = centers.reshape(3, 2, 2).mean(axis=1)
    start = Gaussians(np.ones(3) / 3, means, np.full((3, 2), 20.0))
    fitted = run_em(FAMILY, rows, start, SEARCH)
    ranking, sizes = rank_moves(FAMILY, rows, fitted.state, rng), []

    def counted(family, fit, other, *rest, **options):
        sizes.append(other.k)
        return prefer(family, fit, other, *rest, **options)

    prefer = alternatives.prefer
    monkeypatch.setattr(alternatives, "prefer", counted)
    more = partial(one_more, FAMILY, fitted.state, ranking, rows, fitted.level)
    gain = more().gain
    assert sizes == [4, 6]
    charge = alternatives._charge(FAMILY, fitted.state, 1_200)
    reach = partial(alternatives._within_reach, ranking, charge)
    alone, together = reach(alone=True), reach(alone=False)
    assert gain < together
    assert alone < together
    sizes.clear()
    between = 0.5 * (alone + together)
    assert gain < between < 4 * gain
    assert more(rival=between, needed=between / 4).gain == gain
    assert more(rival=between, needed=between) is None
    assert sizes == [6, 6]
    assert more(rival=1.01 * together) is None
    assert sizes == [6, 6]


def test_em_of_a_state_that_will_not_be_preferred_ends_early(rng):
    """One component for two groups that overlap: another one gains, and not by any amount."""
    rows = Rows.of(rng.normal(size=(2_000, 2)) + 3.0 * (np.arange(2_000) % 2)[:, None]).hold()
    passes = list[int]()

    class Counted(type(FREE)):
        def e_step(self, rows, state):
            passes.append(state.k)
            return super().e_step(rows, state)

    family = Counted(FREE.kind)
    one = run_em(
        family, rows, Gaussians(np.ones(1), np.full((1, 2), 1.5), np.ones((1, 2))), SEARCH
    )
    start = Gaussians(np.ones(2) / 2, np.array([[1.0, 1.0], [2.0, 2.0]]), np.full((2, 2), 3.0))
    found, used = [], []
    for needed in (0.0, 300.0, 30_000.0):
        passes.clear()
        found.append(
            alternatives.prefer(family, one.state, start, [(rows, one.level)], needed=needed)
        )
        used.append(len(passes))
    assert found[0].gain == found[1].gain > 300
    assert found[2] is None
    assert used[2] < used[1] == used[0]


def test_a_law_that_will_not_surpass_a_rival_is_left_early():
    """Student's noise is clearly better, unless something else gains far more."""
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [12.0, 0.0]])
    noise = rng.standard_t(4, size=(2_000, 2))
    rows = Rows.of(np.repeat(means, 1_000, axis=0) + noise).hold()
    fit = run_em(FREE, rows, Gaussians(np.ones(2) / 2, means, np.ones((2, 2))), SEARCH).state
    compare = partial(tails.compare_laws, FREE, replace(FREE, student=True), rows, fit, 2)
    found = compare()
    assert found.clear
    assert found.misfit < found.own_misfit
    assert compare(needed=0.5 * found.gain).clear
    beaten = compare(needed=100 * found.gain)
    assert not beaten.clear
    assert beaten.gain < found.gain  # its EM has not ended
    assert math.isnan(beaten.misfit)
