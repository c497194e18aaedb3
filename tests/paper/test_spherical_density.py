"""Theorem 4.16: truncation, clipping, the error against N, and the sampler."""

import math
from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.paper import learn_spherical_density
from implicitmoments.paper.estimation import estimate_series
from implicitmoments.paper.spherical_density import (
    clip_for_radius,
    degree_for_radius,
)

MEANS = np.array([[1.2, 0.0, 0.0], [-1.2, 0.0, 0.0]])
TURNED = MEANS[:, [1, 0, 2]]


def ratio(points, means=MEANS):
    """Return F/G exactly."""
    return np.mean(np.exp(points @ means.T - np.sum(means**2, axis=1) / 2), axis=1)


def distance(found, points, means=MEANS):
    """Return the total variation distance from F, as a mean over points from G."""
    mine, truth = found.clipped_ratio(points + found.center), ratio(points, means)
    return np.abs(mine / mine.mean() - truth / truth.mean()).mean() / 2


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0])
def test_the_degree_is_the_least_that_truncates_to_half_of_epsilon(radius):
    for epsilon in (0.5, 0.1, 0.01):
        n0 = degree_for_radius(radius, epsilon)
        squares = [radius ** (2 * n) / math.factorial(n) for n in range(80)]
        assert sum(squares[n0 + 1 :]) <= epsilon**2 / 4
        assert n0 == 1 or sum(squares[n0:]) > epsilon**2 / 4


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0])
def test_the_clip_costs_less_than_epsilon(radius):
    """E_G[max(F/G − A, 0)], on a grid, for one component, which is the worst case."""
    g = np.linspace(-12, 12, 240_001)
    weight = np.exp(-(g**2) / 2) * (g[1] - g[0]) / math.sqrt(2 * math.pi)
    for epsilon in (0.2, 0.01):
        clip = clip_for_radius(radius, epsilon)
        cost = weight @ np.maximum(np.exp(radius * g - radius**2 / 2) - clip, 0)
        assert 0.05 * epsilon < cost <= epsilon


def test_exact_moments_give_the_expansion(population, gauss_nodes, rng):
    """F/G to degree 3, exactly: Gauss-Hermite nodes in place of the draws of y."""
    factors = {n: 1 / math.sqrt(math.factorial(n)) for n in range(1, 4)}
    problem, points = population(np.full(2, 1 / 2), MEANS), rng.normal(size=(20, 3))
    series = estimate_series(problem, 2, factors, 1.0, 2, rng, False)
    nodes, weights = gauss_nodes(2, 3)
    found = sum(
        weight * replace(series, draws=y[None])(points)
        for y, weight in zip(nodes, weights, strict=True)
    )
    along, norms = points @ MEANS.T, np.sum(MEANS**2, axis=1)
    second, third = (along**2 - norms) / 2, (along**3 - 3 * along * norms) / 6
    np.testing.assert_allclose(found, np.mean(1 + along + second + third, axis=1), atol=1e-10)


def fit(n, seed, epsilon=1.0, means=MEANS):
    rng = np.random.default_rng(seed)
    rows = means[rng.integers(2, size=n)] + rng.normal(size=(n, 3)) + 5.0
    found = learn_spherical_density(rows, 2, epsilon, rng, radius=1.2)
    return replace(found, ratio=replace(found.ratio, draws=found.ratio.draws[:300]))


@pytest.fixture(scope="module")
def fitted():
    return fit(240_000, 0)


def test_the_error_falls_with_the_rows(fitted):
    points = np.random.default_rng(5).normal(size=(1_000, 3))
    small = np.median([distance(fit(4_000, seed), points) for seed in range(3)])
    large = distance(fitted, points)
    assert large < 0.7 * small
    assert large < 0.1
    assert fitted.degree == degree_for_radius(1.2, 1 / 6)
    np.testing.assert_allclose(fitted.center, 5.0, atol=0.02)


def test_it_is_near_the_truth_and_not_near_another_mixture(fitted):
    points = np.random.default_rng(6).normal(size=(1_000, 3))
    assert distance(fitted, points, TURNED) > 3 * distance(fitted, points)


def test_the_sampler_passes_against_the_truth_and_fails_against_another_mixture(fitted):
    n = 500
    drawn = fitted.sample(n, np.random.default_rng(7)) - fitted.center
    assert drawn.shape == (n, 3)
    squares = drawn[:, :2] ** 2
    error = squares.std(axis=0) / math.sqrt(n)
    exact = 1 + np.mean(MEANS[:, :2] ** 2, axis=0)
    assert np.all(np.abs(squares.mean(axis=0) - exact) < 5 * error)
    assert np.all(np.abs(squares.mean(axis=0) - exact[::-1]) > 5 * error)


def test_parameters_are_checked(rng):
    rows = rng.normal(size=(50, 2))
    for epsilon in (0, 2.0, math.nan):
        with pytest.raises(ValueError, match=f"epsilon={epsilon}; expected a total variation"):
            learn_spherical_density(rows, 2, epsilon, rng)
    with pytest.raises(ValueError, match="degree above"):
        learn_spherical_density(rows, 2, 0.1, rng, radius=9.0)
    with pytest.raises(ValueError, match="n_samples=0"):
        learn_spherical_density(rows[:4], 2, 0.5, rng)
