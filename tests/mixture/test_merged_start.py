"""Micro-components are merged by the likelihood of the type of covariance."""

from itertools import combinations

import numpy as np
import pytest

from implicitmoments.mixture.agglomeration import (
    FreeAgglomeration,
    GroupSums,
    TiedAgglomeration,
)
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType
from implicitmoments.mixture.initialisation import scattered_places
from implicitmoments.mixture.starts import HEAT, race
from implicitmoments.rows import Rows
from implicitmoments.search import bic


@pytest.mark.parametrize("known", [None, 0.7])
@pytest.mark.parametrize("name", ["tied", "tied_spherical"])
def test_the_merge_is_that_of_the_least_cost(name, known, rng):
    kind, d = CovarianceType(name), 3
    x = rng.normal(size=(12, 5, d)) + 2 * rng.normal(size=(12, 1, d))
    means = x.mean(axis=1)
    inside = np.array(
        [kind.products(part - m).sum(axis=0) for part, m in zip(x, means, strict=True)]
    )
    groups = GroupSums(np.full(12, 5.0), means, inside)
    if known is not None:
        known = known * (np.eye(d) if kind.shape == "full" else np.ones(d))
    family = GaussianFamily(kind, least=1e-9, known=known)
    costs = [
        TiedAgglomeration(groups.joined(np.array([a]), np.array([b]), kind), family).cost
        for a, b in combinations(range(12), 2)
    ]
    joined = TiedAgglomeration(groups, family)
    joined.merge()
    np.testing.assert_allclose(joined.cost, min(costs))
    assert sorted(costs)[1] > joined.cost + 0.01  # the second best pair is another


@pytest.mark.parametrize("name", ["full", "spherical", "tied", "tied_spherical"])
def test_many_merges_at_once_are_those_made_one_by_one(name, rng):
    kind, d, k = CovarianceType(name), 3, 8
    centers = np.repeat(6 * rng.normal(size=(k, d)), 6, axis=0)
    x = rng.normal(size=(6 * k, 20, d)) + (centers + rng.normal(size=(6 * k, d)))[:, None, :]
    means = x.mean(axis=1)
    inside = np.concatenate(
        [kind.scatter(part - m, np.ones(20)) for part, m in zip(x, means, strict=True)]
    )
    groups = GroupSums(np.full(6 * k, 20.0), means, inside)
    how = TiedAgglomeration if kind.tied else FreeAgglomeration
    one_by_one, at_once = (how(groups, GaussianFamily(kind)) for _ in range(2))
    while one_by_one.k > k:
        one_by_one.merge()
    rounds = []
    while at_once.k > k:
        rounds.append(at_once.k)
        at_once.merge(max(1, (at_once.k - k) // 4))
    np.testing.assert_allclose(
        np.sort(at_once.groups.means, axis=0), np.sort(one_by_one.groups.means, axis=0)
    )
    assert at_once.cost == pytest.approx(one_by_one.cost)
    assert len(rounds) < 0.5 * (6 * k - k)


def test_seeds_are_scattered_over_groups(rng):
    """Batches of seeds leave out no group that seeds drawn by weight alone leave out."""
    k, d = 40, 5
    labels = np.repeat(np.arange(k), 50)
    x = 20 * rng.normal(size=(k, d))[labels] + rng.normal(size=(50 * k, d))
    scattered = scattered_places(x, np.ones(len(x)), 3 * k, rng)
    by_weight = rng.choice(len(x), 3 * k, replace=False)
    assert len(np.unique(labels[scattered])) == k
    assert len(np.unique(labels[by_weight])) < k


def test_a_start_behind_its_rival_ends_early(rng):
    family = GaussianFamily(CovarianceType("tied_spherical"))
    means = 6.0 * rng.normal(size=(12, 2))
    rows = Rows.of(means[rng.integers(12, size=3_000)] + rng.normal(size=(3_000, 2)))
    start = family.from_shares(rows, rng.dirichlet(np.ones(12), 3_000))
    alone = race(family, rows, [("k-means++", start)])[1]
    rival = bic((alone.level + 1) * rows.total, family.n_parameters(start), rows.total)
    behind = race(family, rows, [("k-means++", start)], rival)[1]
    assert behind.n_iter <= HEAT.steps < alone.n_iter
