"""Each problem's weighted Hermite moment has the hidden vectors it claims."""

import math

import numpy as np
import pytest

from implicitmoments import datasets
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import KeyedPermutation, RowDraws


def second_moment(problem, n):
    """E[c_2 He_2(x)] and its standard error, by the problem's own points and weights."""
    rows = range(n)
    block = problem.draw(2, rows, RowDraws(0, rows))
    terms = block["c"][:, None, None] * hermite_dense(block["x"], 2) * math.sqrt(2)
    return terms.mean(0), terms.std(0) / math.sqrt(n)


def cases():
    n = 50_000
    X, mixture = datasets.make_spherical_mixture(n, 3, 4, weights=[1, 2, 3], random_state=0)
    yield "mixture", SphericalMixtureProblem(X), mixture, n
    yield "pairs", PairwiseDifferenceProblem(X), mixture.differences(), n // 2
    X, y, truth = datasets.make_regression_mixture(n, 3, 4, weights=[1, 2, 3], random_state=0)
    yield "regressions", RegressionMixtureProblem(X, y), truth, n
    X, y, truth = datasets.make_activation_sum(n, 3, 4, noise=0.1, random_state=0)
    yield "activations", ActivationSumProblem(X, y, relu()), truth, n


CASES = list(cases())


@pytest.mark.parametrize(("name", "problem", "truth", "n"), CASES, ids=[c[0] for c in CASES])
def test_second_moment_is_that_of_the_truth(name, problem, truth, n):
    mean, standard_error = second_moment(problem, n)
    expected = (truth.vectors * truth.weights[:, None]).T @ truth.vectors
    assert np.all(np.abs(mean - expected) < 5 * standard_error)
    # negative control: a moment twice as large fails the same test
    assert np.any(np.abs(mean - 2 * expected) > 5 * standard_error)


def test_mixtures_are_measured_from_their_centre_in_units_of_their_noise():
    X, _ = datasets.make_spherical_mixture(50_000, 2, 3, random_state=0)
    moved = SphericalMixtureProblem(5 + 3 * X, variance=9.0, center=[5.0, 5.0, 5.0])
    plain = SphericalMixtureProblem(X)
    np.testing.assert_allclose(second_moment(moved, 1000)[0], second_moment(plain, 1000)[0])


def test_differences_count_as_often_as_both_of_their_rows(rng):
    X, counts = rng.normal(size=(41, 3)), rng.integers(0, 3, 41).astype(float)
    problem = PairwiseDifferenceProblem(X, sample_weight=counts)
    found = problem.rows.read(range(20))["counts"]
    shuffled = counts[np.argsort(KeyedPermutation(41).places(range(41)))]
    products = shuffled[0:40:2] * shuffled[1:40:2]
    np.testing.assert_allclose(found, products)
    plain = PairwiseDifferenceProblem(X).rows.read(range(20))
    assert "counts" not in plain
