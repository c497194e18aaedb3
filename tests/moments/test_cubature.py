"""Exact means over Gaussian inputs: the rule itself, and step 7 of the box."""

import math

import numpy as np
import pytest

from implicitmoments import implicit_moments
from implicitmoments.circuits import hermite, power, vector
from implicitmoments.datasets import Truth
from implicitmoments.moments.cubature import Cubature
from implicitmoments.problems import PopulationProblem

x, y, z = vector("x"), vector("y"), vector("z")


@pytest.mark.parametrize(
    ("n", "degree"), [(1, 9), (2, 0), (2, 3), (3, 4), (4, 8), (6, 6), (30, 2), (12, 5)]
)
def test_powers_of_linear_forms_have_their_means(n, degree, rng):
    """(a · y)^j spans all polynomials of degree j, and has mean (j − 1)!! ‖a‖^j, or 0."""
    rule = Cubature(n, degree)
    nodes, weights = rule.rule
    assert nodes.shape == (rule.size, n)
    assert len(np.unique(nodes, axis=0)) == rule.size
    for a in rng.normal(size=(5, n)) / math.sqrt(n) / 2:
        for j in range(degree + 1):
            mean = 0.0 if j % 2 else math.prod(range(j - 1, 0, -2)) * np.linalg.norm(a) ** j
            assert weights @ (nodes @ a) ** j == pytest.approx(mean, rel=1e-10, abs=1e-9)


def test_a_higher_degree_is_not_exact():
    """Negative control: the rule of degree 5 is wrong at degree 6 and more."""
    nodes, weights = Cubature(3, 5).rule
    assert abs(weights @ np.prod(nodes, axis=1) ** 2 - 1) > 0.1


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, 8])
def test_step_7_is_exact_with_exact_moments(order, rng):
    vectors = rng.normal(size=(3, 5))
    truth = Truth([0.2, 0.3, 0.5], vectors / np.linalg.norm(vectors, axis=1)[:, None])
    points = rng.normal(size=(40, 5))
    m = implicit_moments(PopulationProblem(truth), n_components=3, order=order, n_samples=3)
    exact = truth.hermite(points, order)
    np.testing.assert_allclose(m.hermite(points), exact, atol=1e-10)
    if order > 1:  # negative control: a few draws are not exact
        assert np.abs(m.hermite(points, n_draws=100) - exact).max() > 1e-3


def test_two_auxiliary_inputs_are_integrated_together(rng):
    """E[y ⊗ z ⊗ z ⊗ y] is the identity on slots 1, 4 and 2, 3."""
    truth = Truth([0.4, 0.6], rng.normal(size=(2, 3)))
    m = implicit_moments(PopulationProblem(truth), n_components=2, order=4, n_samples=2)
    answer = m.inner(y.append(z).append(z).append(y), {}, auxiliary=("y", "z"))
    np.testing.assert_allclose(answer, truth.weights @ np.sum(truth.vectors**2, axis=1) ** 2)


def test_where_the_rule_is_too_large_the_draws_of_the_box_are_taken(rng):
    """Order 8 in 13 features has more than 10,000 nodes: N draws, which a seed changes."""
    assert Cubature(13, 8).size > 10_000 > Cubature(11, 8).size
    truth = Truth([1.0], np.eye(13)[:1])
    m = implicit_moments(PopulationProblem(truth), n_components=1, order=8, n_samples=400)
    points = rng.normal(size=(2, 13))
    drawn = m.hermite(points, random_state=1)
    np.testing.assert_allclose(m.hermite(points, n_draws=400, random_state=1), drawn, rtol=1e-12)
    assert np.all(m.hermite(points, random_state=2) != drawn)


def test_a_power_needs_no_draws(rng):
    truth = Truth([1.0], np.ones((1, 2)))
    m = implicit_moments(PopulationProblem(truth), n_components=1, order=3, n_samples=1)
    points = rng.normal(size=(5, 2))
    np.testing.assert_allclose(m.inner(power(x, 3), {"x": points}), truth.power(points, 3))
    np.testing.assert_allclose(
        m.inner(hermite(x, y, 3), {"x": points}, auxiliary=("y",)), m.hermite(points)
    )
