"""Theorem 4.22: the expansion through moments, truncation, clipping, error and sampler."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.paper import implicit_moment_estimation, learn_regression_density
from implicitmoments.paper.circuits import vector
from implicitmoments.paper.estimation import lower_order
from implicitmoments.paper.projections import evaluate_dense, hermite_dense
from implicitmoments.paper.regression_density import (
    RegressionRatio,
    append_identity,
    component_eigenvalues,
    degree_for_regressions,
    tail_norm,
)

BETAS = np.array([[0.4, 0.1], [-0.2, 0.3]])
WEIGHTS = np.array([0.3, 0.7])


def covariance(beta, sigma):
    """Return the covariance of (x, y) for one component."""
    d = len(beta)
    joined = np.eye(d + 1)
    joined[d, :d] = joined[:d, d] = beta
    joined[d, d] = beta @ beta + sigma**2
    return joined


def ratio(points, betas, weights, sigma):
    """Return F/G exactly at points (n, d + 1)."""
    x, y = points[:, :-1], points[:, -1]
    densities = np.exp(-((y[:, None] - x @ betas.T) ** 2) / (2 * sigma**2)) / sigma
    return densities @ weights / np.exp(-(y**2) / 2)


def expansion(points, degree, sigma, gauss_nodes, betas=BETAS, weights=WEIGHTS):
    """Return Σ ⟨T_n, H_n⟩ with T_n = E_F[H_n], dense and by its definition."""
    nodes, node_weights = gauss_nodes(degree // 2 + 1, points.shape[1])
    total = np.zeros(len(points))
    for weight, beta in zip(weights, betas, strict=True):
        drawn = nodes @ np.linalg.cholesky(covariance(beta, sigma)).T
        for n in range(degree + 1):
            T = np.tensordot(node_weights, hermite_dense(drawn, n), 1)
            total += weight * hermite_dense(points, n).reshape(len(points), -1) @ T.ravel()
    return total


def exact_ratio(population, degree, sigma, draws):
    rng = np.random.default_rng(0)
    problem = population(WEIGHTS, BETAS)
    top = implicit_moment_estimation(problem, 2, degree, 2, rng)
    lower = {m: lower_order(top, problem, m, 2, rng) for m in range(degree)}
    return RegressionRatio(degree, sigma, {**lower, degree: top}, draws)


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_exact_moments_give_the_dense_expansion(population, gauss_nodes, sigma, rng):
    """The double sum of the proof is Σ ⟨T_n, H_n⟩, exactly, with nodes in place of draws.

    The factor (n − 1)!! of Erratum 5 and the b identities of Erratum 7 are in it.
    """
    points = rng.normal(size=(6, 3))
    nodes, weights = gauss_nodes(3, 3)
    found = sum(
        weight * exact_ratio(population, 4, sigma, node[None])(points)
        for node, weight in zip(nodes, weights, strict=True)
    )
    expected = expansion(points, 4, sigma, gauss_nodes)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert np.ptp(expected) > 0.5


@pytest.mark.parametrize(("beta", "sigma"), [(0.5, 0.5), (0.0, 0.5), (0.3, 0.4)])
def test_eigenvalues_are_those_of_the_covariance(beta, sigma):
    matrix = covariance(np.array([beta]), sigma) - np.eye(2)
    np.testing.assert_allclose(
        component_eigenvalues(beta, sigma), np.linalg.eigvalsh(matrix)[::-1]
    )
    assert max(map(abs, component_eigenvalues(beta, sigma))) <= 1 - sigma**2 / 2


def test_the_degree_is_the_least_that_truncates_to_half_of_epsilon():
    for epsilon in (1.0, 0.5):
        degree = degree_for_regressions(0.5, 0.5, epsilon)
        norms = np.linspace(0, 0.5, 101)
        assert max(tail_norm(beta, 0.5, degree) for beta in norms) <= 1.001 * epsilon / 2
        assert max(tail_norm(beta, 0.5, degree - 2) for beta in norms) > epsilon / 2
    with pytest.raises(ValueError, match="degree above"):
        degree_for_regressions(0.5, 0.05, 0.1)


@pytest.mark.parametrize(("d", "b"), [(2, 1), (3, 1), (2, 2)])
def test_identities_multiply_the_second_moment(d, b, gauss_nodes):
    """Erratum 11: the query x ⊗ I^b has a second moment of d^b, not O(1).

    Erratum 7: contracted with β^2b, the b identities are ‖β‖^2b, without a factor (2b − 1)!!.
    """
    nodes, weights = gauss_nodes(2, d)
    tensor = vector("x")
    for _ in range(b):
        tensor = append_identity(tensor, d)
    basis = {f"e{j}": np.tile(e, (len(nodes), 1)) for j, e in enumerate(np.eye(d))}
    queries = evaluate_dense(tensor, {"x": nodes, **basis}).reshape(len(nodes), -1)
    second = (queries.T * weights) @ queries
    assert np.linalg.eigvalsh(second)[-1] == pytest.approx(d**b)
    beta = np.arange(1.0, d + 1)
    powers = functools.reduce(np.multiply.outer, [beta] * (1 + 2 * b)).ravel()
    np.testing.assert_allclose(queries @ powers, nodes @ beta * (beta @ beta) ** b, rtol=1e-10)


SLOPES = np.array([[1.0, 0.0], [0.0, -0.8]])


def fit(n, seed, shuffled=False, n_draws=1_000):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.sum(x * SLOPES[rng.integers(2, size=n)], axis=1) + rng.normal(size=n)
    if shuffled:
        rng.shuffle(y)
    found = learn_regression_density(x, y, 2, 1.0, 1.0, 1.0, rng)
    return replace(found, ratio=replace(found.ratio, draws=found.ratio.draws[:n_draws]))


def distance(found, slopes=SLOPES):
    """Return the total variation distance from F, as a mean over points from G."""
    standard = np.random.default_rng(5).normal(size=(1_000, 3))
    truth = ratio(standard, slopes / 2, np.full(2, 0.5), 0.5)
    mine = found.clipped_ratio(standard * found.scale)
    return np.abs(mine / mine.mean() - truth / truth.mean()).mean() / 2


@pytest.fixture(scope="module")
def fitted():
    return fit(200_000, 0)


def test_the_error_falls_with_the_rows(gauss_nodes):
    """The error of the truncated expansion; 400 times the rows, a factor 4.5 at N^(-1/4)."""
    points = np.random.default_rng(6).normal(size=(100, 3))
    truncated = expansion(points, 4, 0.5, gauss_nodes, SLOPES / 2, np.full(2, 0.5))

    def median_error(n):
        found = [fit(n, seed).ratio(points) for seed in range(5)]
        return np.median([math.sqrt(np.mean((values - truncated) ** 2)) for values in found])

    assert median_error(160_000) < median_error(400) / 2


def test_it_is_near_the_truth_and_not_near_another_mixture(fitted):
    assert distance(fitted) < 0.15
    assert distance(fitted, -SLOPES) > 0.25


def test_labels_of_other_rows_do_not_pass():
    assert distance(fit(200_000, 0, shuffled=True)) > 0.15


def test_the_sampler_passes_against_the_truth_and_fails_against_another_mixture(fitted):
    """The mean of y x is the mean slope; the truncated expansion has it exactly."""
    n = 500
    drawn = fitted.sample(n, np.random.default_rng(7))
    products = drawn[:, :2] * drawn[:, 2:]
    error = products.std(axis=0) / math.sqrt(n)
    slope = SLOPES.mean(axis=0)
    assert np.all(np.abs(products.mean(axis=0) - slope) < 5 * error)
    assert np.all(np.abs(products.mean(axis=0) + slope) > 5 * error)
