"""Reported errors are as large as the true ones, with the error of the subspaces in them."""

import pickle

import numpy as np
import pytest

from implicitmoments import datasets, implicit_moments
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)

N, D = 6_000, 8
POINTS = np.random.default_rng(1).normal(size=(4_000, D))


def mixture(seed):
    X, truth = datasets.make_spherical_mixture(N, 3, D, random_state=seed)
    return SphericalMixtureProblem(X), truth, 3


def differences(seed):
    X, truth = datasets.make_spherical_mixture(2 * N, 3, D, random_state=seed)
    return PairwiseDifferenceProblem(X), truth.differences(), 7


def activations(seed):
    X, y, truth = datasets.make_activation_sum(N, 3, D, random_state=seed)
    return ActivationSumProblem(X, y, relu()), truth, 3


def regressions(seed):
    X, y, truth = datasets.make_regression_mixture(N, 3, D, random_state=seed)
    return RegressionMixtureProblem(X, y), truth, 3


def true_over_reported(m, truth, order):
    found, exact = m.hermite(POINTS, order), truth.hermite(POINTS, order)
    true = np.linalg.norm(found - exact) / np.linalg.norm(found)
    return true / m.stats["relative_errors"][order]


@pytest.mark.parametrize("pose", [mixture, differences, activations, regressions])
def test_errors_of_answers_contain_those_of_the_subspaces(pose):
    """Ratios have a spread of about 40 %: 24 of them give a median within 10 %."""
    ratios, wrong = [], []
    for seed in range(12):
        problem, truth, k = pose(seed)
        m = implicit_moments(problem, n_components=k, order=4)
        ratios += [true_over_reported(m, truth, order) for order in (2, 4)]
        # other vectors, so that the truth is far beyond the reported error: the negative control
        other = datasets.Truth(truth.weights, 1.3 * truth.vectors)
        wrong.append(true_over_reported(m, other, 2))
    assert 0.75 < np.median(ratios) < 1.35
    assert np.median(wrong) > 2


@pytest.mark.parametrize("sampling", ["cross_fit", "fresh"])
def test_errors_of_other_ways_to_share_the_rows(sampling):
    ratios = []
    for seed in range(8):
        problem, truth, k = mixture(seed)
        m = implicit_moments(problem, n_components=k, order=4, sampling=sampling)
        ratios += [true_over_reported(m, truth, order) for order in (2, 3, 4)]
    assert 0.7 < np.median(ratios) < 1.4


def test_errors_are_computed_when_they_are_read():
    problem, _, _ = mixture(0)
    passes = []
    m = implicit_moments(
        problem, n_components=3, order=4, progress=lambda what, *_: passes.append(what)
    )
    before = len(passes)
    assert "relative_errors" in m.stats
    assert len(m.stats) == len(list(m.stats))
    assert "relative_errors" in repr(m.stats)
    assert len(passes) == before  # none of this reads a row
    errors = m.stats["relative_errors"]
    assert len(passes) == 3 * before  # every pass again for each half
    assert m.stats["relative_errors"] is errors
    assert len(passes) == 3 * before
    with pytest.raises(KeyError):
        m.stats["other"]


def test_moments_are_pickled_with_the_errors_to_come():
    problem, _, _ = mixture(0)
    m = implicit_moments(problem, n_components=3, order=2)
    copy = pickle.loads(pickle.dumps(m))
    assert copy.stats["relative_errors"] == m.stats["relative_errors"]


def test_errors_without_enough_rows_are_infinite():
    """Equal rows are all in one half, and the other half has none."""
    for sampling in ("reuse", "cross_fit"):
        m = implicit_moments(
            SphericalMixtureProblem(np.ones((10, 3))),
            n_components=1,
            order=2,
            sampling=sampling,
        )
        assert set(m.stats["relative_errors"].values()) == {np.inf}
