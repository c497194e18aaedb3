"""Repairs find what is missing, leave what is right, and never lower the likelihood."""

import numpy as np
import pytest
from implicitmoments.mixture.candidates import (
    best_insertions,
    merge_losses,
    merged,
)
from implicitmoments.mixture.em import VarianceModel, polish
from implicitmoments.mixture.held_rows import Sample
from implicitmoments.mixture.outliers import leave_out
from implicitmoments.mixture.repair import prune, repair
from implicitmoments.mixture.standard_rows import Rows

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture.far_groups import Group, far_groups
from implicitmoments.mixture.likelihood import Mixture, log_densities, responsibilities
from implicitmoments.rows import ArraySource

K, D = 8, 6
MODEL = VarianceModel()


@pytest.fixture(scope="module")
def data():
    X, truth = make_spherical_mixture(4_000, K, D, radius=10.0, separation=8.0, random_state=0)
    return Sample(X), truth.vectors


def mixture_at(means):
    return Mixture(np.full(len(means), 1 / len(means)), means.copy(), np.ones(len(means)))


def nearest(found, means):
    return np.linalg.norm(found[:, None] - means, axis=2).min(axis=0)


@pytest.fixture(scope="module")
def spoilt(data):
    """A rest point of EM with two components on one mean and none on another."""
    rows, means = data
    wrong = means.copy()
    wrong[0] = wrong[1] + 0.3
    return polish(rows, mixture_at(wrong), MODEL, 60, 1e-6).mixture


def test_a_missing_component_is_the_best_insertion(data, spoilt):
    rows, means = data
    shares, densities = responsibilities(rows, spoilt)
    found = best_insertions(rows, spoilt, shares, densities, np.random.default_rng(0))
    assert np.linalg.norm(found.means[0] - means[0]) < 0.5
    assert found.gains[0] > 50


def test_nothing_is_missing_from_the_truth(data):
    rows, means = data
    right = polish(rows, mixture_at(means), MODEL, 60, 1e-6).mixture
    shares, densities = responsibilities(rows, right)
    found = best_insertions(rows, right, shares, densities, np.random.default_rng(0))
    assert found.gains.max() < 0
    done = repair(rows, right, MODEL, 10, np.random.default_rng(0))
    assert done.accepted == 0
    assert done.mixture is right


def test_merging_costs_what_the_likelihood_falls_by(data, spoilt):
    rows, _ = data
    shares, densities = responsibilities(rows, spoilt)
    losses, partners = merge_losses(rows, spoilt, shares, densities)
    for i in (int(losses.argmin()), int(losses.argmax())):
        after = log_densities(rows.X, merged(spoilt, i, int(partners[i])))
        assert losses[i] == pytest.approx((densities - after).sum(), rel=1e-3, abs=1e-6)
    assert {int(losses.argmin()), int(partners[losses.argmin()])} == {0, 1}


def test_repair_finds_the_missing_mean(data, spoilt):
    rows, means = data
    assert nearest(spoilt.means, means).max() > 1
    done = repair(rows, spoilt, MODEL, 10, np.random.default_rng(0))
    assert done.accepted >= 1
    assert nearest(done.mixture.means, means).max() < 0.5
    before, after = (log_densities(rows.X, m).sum() for m in (spoilt, done.mixture))
    assert done.gain == pytest.approx(after - before)
    assert done.gain > 100


def test_a_component_behind_others_is_found():
    """A mean at the centre of a ring has no rows of low density around it."""
    ring = 2.6 * np.vstack([np.eye(4), -np.eye(4)])
    means = np.vstack([ring, np.zeros((1, 4))])
    rng = np.random.default_rng(0)
    rows = Sample(means[rng.integers(9, size=9_000)] + rng.normal(size=(9_000, 4)))
    wrong = means.copy()
    wrong[8] = ring[0] + 0.2
    start = polish(rows, mixture_at(wrong), MODEL, 20, 1e-5).mixture
    assert nearest(start.means, means)[8] > 0.9
    done = repair(rows, start, MODEL, 10, np.random.default_rng(0))
    assert nearest(done.mixture.means, means)[8] < 0.6


def test_pruning_merges_duplicates_first(data):
    rows, means = data
    doubled = polish(rows, mixture_at(np.vstack([means, means[:2] + 0.2])), MODEL, 5, 0.0).mixture
    left = prune(rows, doubled, K, MODEL)
    assert left.k == K
    assert nearest(left.means, means).max() < 0.5


def test_lonely_far_rows_are_left_out_and_groups_are_not(data):
    rows, _ = data
    X = rows.X.copy()
    X[:3] = [[1e6] * D, [-1e6] * D, [40] * D]
    kept, n_out = leave_out(Rows(ArraySource(X)), K)
    assert n_out == 3
    assert kept.total == kept.census.there == len(X) - 3
    assert not kept.take(np.arange(5)).counts[:3].any()
    np.testing.assert_array_equal(kept.held().X, X[3:].astype(np.float32))
    X[:100] = 60 + np.random.default_rng(0).normal(size=(100, D))
    assert leave_out(Rows(ArraySource(X)), K)[1] == 0
    X[100] = -1e6
    kept, n_out = leave_out(Rows(ArraySource(X)), K)
    assert n_out == 1
    assert kept.near.company.shape == (100, D)
    assert leave_out(Rows(ArraySource(rows.X)), K)[1] == 0


def test_groups_at_another_scale_are_told_apart(data):
    rows, _ = data
    rng = np.random.default_rng(0)
    assert far_groups(Rows(ArraySource(rows.X)), K, rng) is None
    X = rows.X.copy()
    X[::2] += 1e5
    groups = far_groups(Rows(ArraySource(X)), K, rng)
    assert groups.n == len(groups.points) == 2
    for g in range(2):
        places = Group(groups, g).keep(X)
        assert len(places) == len(X) // 2
        assert len(set(places % 2)) == 1
