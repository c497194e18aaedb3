"""The error of moments falls as N^(-1/2), and a wrong weight does not pass the same test."""

import numpy as np
import pytest

from implicitmoments import datasets, implicit_moments
from implicitmoments.moments import (
    ActivationSumProblem,
    HermiteProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    cosine,
)

SIZES = (8_000, 128_000)  # 16 times the rows: N^(-1/2) is a factor of 4
SEEDS = range(6)


def mixture(n, seed):
    X, truth = datasets.make_spherical_mixture(n, 3, 5, random_state=seed)
    return SphericalMixtureProblem(X), truth


def differences(n, seed):
    X, truth = datasets.make_spherical_mixture(2 * n, 2, 5, random_state=seed)
    return PairwiseDifferenceProblem(X), truth.differences()


def regressions(n, seed):
    X, y, truth = datasets.make_regression_mixture(4 * n, 2, 5, random_state=seed)
    return RegressionMixtureProblem(X, y), truth


def relus(n, seed):
    X, y, truth = datasets.make_activation_sum(n, 3, 5, noise=0.1, random_state=seed)
    return ActivationSumProblem(X, y, "relu"), truth


def cosines(n, seed):
    sigma = cosine(1.5)
    X, y, truth = datasets.make_activation_sum(n, 3, 5, activation=sigma, random_state=seed)
    return ActivationSumProblem(X, y, sigma), truth


def wrong_differences(n, seed):
    """Erratum 4: hidden vectors stated without the root of two."""
    X, truth = datasets.make_spherical_mixture(2 * n, 2, 5, random_state=seed)
    return HermiteProblem(X[::2] - X[1::2]), truth.differences()


def wrong_regressions(n, seed):
    X, y, truth = datasets.make_regression_mixture(4 * n, 2, 5, random_state=seed)
    return HermiteProblem(X, lambda order, rows: rows["y"] ** order, y=y), truth


def wrong_relus(n, seed):
    """The sign that Corollary 4.9 would give at order 4 (erratum 1)."""
    X, y, truth = datasets.make_activation_sum(n, 3, 5, noise=0.1, random_state=seed)
    right = ActivationSumProblem(X, y, "relu")
    flip = {4: -1.0}
    weighted = HermiteProblem(X, lambda t, rows: flip.get(t, 1.0) * right.weigh(t, rows), y=y)
    weighted.has_order = right.has_order
    return weighted, truth


def errors(make, order):
    medians = []
    for n in SIZES:
        found = []
        for seed in SEEDS:
            problem, truth = make(n, seed)
            k = min(len(truth.weights), 4)
            m = implicit_moments(problem, n_components=k, order=order)
            queries = np.random.default_rng(seed).normal(size=(300, 5))
            exact = truth.hermite(queries, order)
            found.append(np.mean((m.hermite(queries) - exact) ** 2) / np.mean(exact**2))
        medians.append(np.sqrt(np.median(found)))
    return medians


@pytest.mark.parametrize(
    ("make", "order"),
    [
        *[(make, 2) for make in (mixture, differences, regressions, relus, cosines)],
        *[(make, 4) for make in (mixture, differences, relus, cosines)],
        pytest.param(regressions, 4, marks=pytest.mark.slow),
    ],
)
def test_error_falls_with_the_root_of_the_rows(make, order):
    small, large = errors(make, order)
    # medians of six seeds scatter by about 30 %
    assert 2.0 < small / large < 9.0
    assert large < 0.25


@pytest.mark.parametrize(
    ("make", "order"), [(wrong_differences, 2), (wrong_regressions, 2), (wrong_relus, 4)]
)
@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")  # a negative moment
def test_a_wrong_weight_does_not_pass(make, order):
    small, large = errors(make, order)
    assert small / large < 2.0 or large > 0.25
