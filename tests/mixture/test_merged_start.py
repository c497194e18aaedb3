"""Micro-components are merged by the likelihood of the type of covariance."""

from itertools import combinations

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.mixture.gaussian_family import GaussianFamily
from implicitmoments.mixture.gaussian_initialisation import Groups, TiedAgglomeration
from implicitmoments.mixture.gaussians import CovarianceType


@pytest.mark.parametrize("known", [None, 0.7])
@pytest.mark.parametrize("name", ["tied", "tied_spherical"])
def test_the_merge_is_that_of_the_least_cost(name, known, rng):
    kind, d = CovarianceType(name), 3
    x = rng.normal(size=(12, 5, d)) + 2 * rng.normal(size=(12, 1, d))
    means = x.mean(axis=1)
    inside = np.array(
        [kind.products(part - m).sum(axis=0) for part, m in zip(x, means, strict=True)]
    )
    groups = Groups(np.full(12, 5.0), means, inside)
    if known is not None:
        known = known * (np.eye(d) if kind.shape == "full" else np.ones(d))
    family = GaussianFamily(kind, least=1e-9, known=known)
    costs = [
        TiedAgglomeration(groups.joined(a, b, kind), family).cost
        for a, b in combinations(range(12), 2)
    ]
    joined = TiedAgglomeration(groups, family)
    joined.merge()
    np.testing.assert_allclose(joined.cost, min(costs))
    assert sorted(costs)[1] > joined.cost + 0.01  # the second best pair is another


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_a_light_group_beside_long_ones_is_a_start_of_its_own(rng):
    """It is near in the columns, and far in the covariance that all share."""
    long = np.array([[3.0, 0.0], [2.9, 0.1]])
    sizes, centers = (300, 300, 8), np.array([[0.0, 0.0], [8.0, 0.0], [2.0, 4.0]])
    X = np.vstack(
        [c + rng.normal(size=(n, 2)) @ long.T for n, c in zip(sizes, centers, strict=True)]
    )
    how = {"init_params": "merge", "n_moves": 0, "drop_outliers": False, "random_state": 0}
    model = im.GaussianMixture(3, covariance_type="tied", **how).fit(X)
    assert np.round(model.weights_ * len(X))[-1] == 8
