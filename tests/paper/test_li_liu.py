"""Li and Liu's estimator, the naive average, and Lemma 4.3 in exact form."""

import itertools
import math

import numpy as np
import pytest

from implicitmoments.paper import (
    hermite,
    hermite_problem,
    naive_average,
    rows_in_turn,
    vector,
)
from implicitmoments.paper.li_liu import hermite_second_moment, li_liu_hermite
from implicitmoments.paper.projections import evaluate_dense, hermite_dense

x, y = vector("x"), vector("y")


def double_factorial(n):
    return math.prod(range(n, 0, -2))


def li_liu_second_moment(order):
    """Along a direction, for x ~ N(0, I): the second moment of the sum over partitions.

    A partition with b pairs is (−1)^b x^(t−2b) z_1² ⋯ z_b², and E x^2n = (2n − 1)!!, E z⁴ = 3.
    """
    count = [
        (-1) ** b * math.comb(order, 2 * b) * double_factorial(2 * b - 1)
        for b in range(order // 2 + 1)
    ]
    return sum(
        count[b] * count[c] * double_factorial(2 * (order - b - c) - 1) * 3 ** min(b, c)
        for b, c in itertools.product(range(order // 2 + 1), repeat=2)
    ) / math.factorial(order)


def draw(rng, n, d, order):
    names = ["x", "y", *(f"z{j}" for j in range(1, order // 2 + 1))]
    return {name: rng.normal(size=(n, d)) for name in names}


@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
def test_the_mean_of_li_liu_is_the_hermite_tensor(order, gauss_nodes):
    """Exactly, with Gauss-Hermite nodes in place of each z in one dimension."""
    nodes, weights = gauss_nodes(2, order // 2)  # every z appears twice
    inputs = {f"z{j + 1}": nodes[:, [j]] for j in range(order // 2)}
    tensors = evaluate_dense(li_liu_hermite(order), {"x": np.full((len(nodes), 1), 0.8), **inputs})
    expected = hermite_dense(np.array([[0.8]]), order).ravel()[0]
    assert weights @ tensors.ravel() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_variances_are_as_computed(order):
    rng = np.random.default_rng(order)
    inputs = draw(rng, 400_000, 1, order)
    paper = evaluate_dense(hermite(x, y, order), inputs).ravel()
    li_liu = evaluate_dense(li_liu_hermite(order), inputs).ravel()
    exact = (hermite_second_moment(order), li_liu_second_moment(order))
    for sample, moment in zip((paper, li_liu), exact, strict=True):
        error = np.std(sample**2) / math.sqrt(len(sample))
        assert abs(np.mean(sample**2) - moment) < 5 * error
    # negative control: the next order fails the same test
    error = np.std(paper**2) / math.sqrt(len(paper))
    assert abs(np.mean(paper**2) - hermite_second_moment(order + 1)) > 5 * error


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("mu", [0.0, 0.7, 2.5])
def test_the_second_moment_of_lemma_4_3_is_exact(n, mu, gauss_nodes):
    points, weights = gauss_nodes(n + 1, 2)
    z = (mu + points[:, 0] + 1j * points[:, 1]) ** n
    exact = weights @ (z.real**2) / math.factorial(n)
    assert hermite_second_moment(n, mu) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("mu", [0.0, 1.3])
def test_no_direction_has_a_larger_second_moment(mu, gauss_nodes):
    """Lemma 4.3 is about all directions; the largest is that of the mean."""
    points, weights = gauss_nodes(4, 4)
    inputs = {"x": points[:, :2] + np.array([mu, 0.0]), "y": points[:, 2:]}
    tensors = evaluate_dense(hermite(x, y, 3), inputs).reshape(-1, 8)
    largest = np.linalg.eigvalsh((tensors.T * weights) @ tensors)[-1]
    assert largest == pytest.approx(hermite_second_moment(3, mu), rel=1e-10)


def test_the_constant_of_lemma_4_3():
    """O(r²/n + 1)^n with the constant 2e."""
    for n in (1, 3, 10, 40):
        for radius in (0.1, 1.0, 5.0):
            assert (
                hermite_second_moment(n, radius) <= (2 * math.e * (1 + radius**2 / (2 * n))) ** n
            )


def means_and_rows(n, seed):
    rng = np.random.default_rng(seed)
    means = np.array([[1.5, 0.0, 0.0], [0.0, 1.2, 0.9]])
    return means, rows_in_turn(
        {"x": means[rng.integers(2, size=n)] + rng.normal(size=(n, 3))}, rng
    )


def test_the_naive_average_is_the_mean_of_dense_tensors(rng):
    """It agrees with the moment, and its error is that of the variance of one row."""
    n = 40_000
    means, take = means_and_rows(n, 0)
    problem = hermite_problem(take, 3, lambda t, rows: np.full(len(rows["x"]), math.sqrt(2)))
    second = naive_average(problem, 2, n, rng)
    error = np.abs(second - means.T @ means / 2).max()
    one_row = math.sqrt(2 * hermite_second_moment(2, 1.5))
    assert error < 5 * one_row / math.sqrt(n)
    assert np.abs(second).max() > 50 * one_row / math.sqrt(n)  # a mean of zero would not pass
