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
from support import match_rows

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


def on_a_line(k, d, seed, n=10_000, gap=4.0):
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=d)
    along = gap * (np.arange(k) - (k - 1) / 2)
    means = rng.normal(size=d) + along[:, None] * direction / np.linalg.norm(direction)
    return means[rng.integers(k, size=n)] + rng.normal(size=(n, d)), means


def in_general(k, d, seed, n=10_000):
    X, truth = datasets.make_spherical_mixture(
        n, k, d, radius=5.0, separation=3.0, random_state=seed
    )
    return X, truth.vectors


def decoded(X, k):
    return implicit_moments(SphericalMixtureProblem(X), n_components=k, order=1).components()


@pytest.mark.parametrize(
    ("draw", "k", "d"),
    [(in_general, 3, 2), (in_general, 6, 3), (on_a_line, 3, 2), (on_a_line, 3, 3)],
)
def test_errors_of_components_in_few_features(draw, k, d):
    """Two halves have two or three degrees of freedom: ratios of 10 are then not rare."""
    ratios = []
    for seed in range(15):
        X, means = draw(k, d, seed)
        found = decoded(X, k)
        rows, apart = match_rows(found.guesses, means)
        ratios += list((apart / found.errors[rows])[found.resolved[rows]])
    assert len(ratios) > 12 * k
    assert 0.75 < np.sqrt(np.mean(np.square(ratios))) < 1.35
    assert max(ratios) < 5


@pytest.mark.parametrize(("k", "d"), [(5, 2), (5, 3), (6, 10)])
def test_powers_of_too_many_vectors_on_a_line_are_dependent(k, d):
    """Cubes of vectors on a line have four dimensions, in any number of features."""
    wrong = 0
    for seed in range(3):
        X, means = on_a_line(k, d, seed, n=20_000)
        found = decoded(X, k)
        assert "too_many_components_to_decode" in found.notes.codes
        wrong += int(found.resolved.sum())
        assert np.isfinite(found.guesses).all()
    assert wrong == 0
    # as many as there is room for are resolved: the negative control
    X, means = on_a_line(4, d, 0, n=20_000)
    four = decoded(X, 4)
    assert four.identified
    assert match_rows(four.vectors, means)[1].max() < 0.5


def test_a_wrong_variance_shows_in_the_errors():
    """Both halves share the bias, but components are no longer powers of one vector."""
    ratios, short = [], []
    for seed in range(6):
        X, means = in_general(6, 5, seed, n=30_000)
        found = decoded(1.2 * X, 6)
        rows, apart = match_rows(found.guesses, 1.2 * means)
        ratios += list(apart / found.errors[rows])
        noise = np.sqrt(np.sum(found.decoded.deviations[:-1] ** 2, axis=(0, 2)))
        short += list(apart / noise[rows])
    assert 0.5 < np.sqrt(np.mean(np.square(ratios))) < 2.5
    assert np.median(short) > 2  # without it the errors would be far too small
