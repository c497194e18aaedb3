"""Theorem 4.7 with Corollaries 4.9 and 4.10: coefficients, degrees, and the error against N."""

import math
from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.paper import cosine, learn_activation_sum, relu
from implicitmoments.paper.activation_sums import degree_for, smallest_coefficient
from implicitmoments.paper.projections import hermite_dense


def cos(u):
    return np.cos(1.3 * u + 0.4)


def ramp(u):
    return np.maximum(u, 0)


FUNCTIONS = {"relu": (relu(), ramp), "cosine": (cosine(1.3, 0.4), cos)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_coefficients_are_the_integrals(name):
    """By the midpoint rule on a grid with the kink at 0 between two cells."""
    activation, function = FUNCTIONS[name]
    step = 1e-4
    u = (np.arange(-120_000, 120_000) + 0.5) * step
    weight = np.exp(-(u**2) / 2) * step / math.sqrt(2 * math.pi)
    for t in range(9):
        h = np.polynomial.hermite_e.hermeval(u, np.eye(9)[t]) / math.sqrt(math.factorial(t))
        assert activation.coefficient(t) == pytest.approx(weight @ (function(u) * h), abs=1e-7)
    assert activation.mean_square == pytest.approx(weight @ function(u) ** 2, abs=1e-7)


def test_coefficients_of_erratum_1():
    found = [relu().coefficient(t) for t in (2, 4, 6, 8)]
    np.testing.assert_allclose(found, [0.28209, -0.08143, 0.04460, -0.02980], atol=5e-6)


def test_the_tail_of_relu_is_of_order_three_halves():
    """Erratum 2: n = Θ(ε^(−4/3)); the text's ε^(−2/3) would be a tail of order n^(−3)."""

    def tail(n):
        return 0.5 - sum(relu().coefficient(t) ** 2 for t in range(n + 1))

    slope = math.log(tail(80) / tail(20)) / math.log(4)
    assert -1.6 < slope < -1.4


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_the_tail_of_a_cosine_is_poisson(gamma):
    """Erratum 3: the degree grows with the frequency."""
    squares = [cosine(gamma).coefficient(t) ** 2 for t in range(0, 40, 2)]
    poisson = [
        math.exp(-(gamma**2)) * gamma ** (2 * t) / math.factorial(t) for t in range(0, 40, 2)
    ]
    np.testing.assert_allclose(squares, poisson, atol=1e-15)
    degrees = [degree_for(cosine(frequency), 0.1) for frequency in (0.5, 1.0, 2.0)]
    assert degrees == sorted(degrees)


@pytest.mark.parametrize("activation", [relu(), cosine(1.0), cosine(1.3, 0.4)])
def test_the_degree_is_the_least_that_truncates_to_half_of_epsilon(activation):
    for epsilon in (0.3, 0.15, 0.1):
        n = degree_for(activation, epsilon)
        squares = [activation.coefficient(t) ** 2 for t in range(150)]
        assert sum(squares[n + 1 :]) < epsilon**2 / 4
        assert n == 1 or sum(squares[n:]) >= 0.9 * epsilon**2 / 4


def test_delta_is_the_smallest_coefficient_that_is_used():
    assert smallest_coefficient(relu(), 4) == pytest.approx(0.02980, abs=5e-6)


def test_activations_beyond_the_theorem_are_refused(rng):
    sine = cosine(1.0, math.pi / 2)
    with pytest.raises(ValueError, match="odd activations"):
        smallest_coefficient(sine, 2)
    with pytest.raises(ValueError, match="epsilon=1e-06 needs a degree above"):
        degree_for(relu(), 1e-6)
    with pytest.raises(ValueError, match="epsilon=-1; expected a positive number"):
        learn_activation_sum(np.ones((9, 2)), np.ones(9), 1, -1, relu(), rng)


def error(n, seed, epsilon, function, activation, eigenvalues=False, shuffled=False):
    """Return the L2 distance of the hypothesis from three units in four features."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(3, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x, points = rng.normal(size=(n, 4)), rng.normal(size=(500, 4))
    labels, truth = (function(rows @ directions.T).mean(axis=1) for rows in (x, points))
    if shuffled:
        rng.shuffle(labels)
    found = learn_activation_sum(x, labels, 3, epsilon, activation, rng, eigenvalues=eigenvalues)
    found = replace(found, draws=found.draws[:1_000])
    return math.sqrt(np.mean((found(points) - truth) ** 2))


def median_error(*args, **options):
    return np.median([error(args[0], seed, *args[1:], **options) for seed in range(3)])


@pytest.mark.parametrize("eigenvalues", [False, True])
def test_the_error_falls_to_epsilon(eigenvalues):
    epsilon, options = 0.25, {"eigenvalues": eigenvalues}
    small = median_error(2_000, epsilon, ramp, relu(), **options)
    large = median_error(128_000, epsilon, ramp, relu(), **options)
    assert large < epsilon / 2
    assert large < small / 1.5  # the truncation error, up to epsilon/2, does not fall


def test_cosines_are_learned():
    assert median_error(128_000, 0.3, np.cos, cosine(1.0)) < 0.15


def test_labels_of_other_rows_do_not_pass():
    assert median_error(128_000, 0.25, ramp, relu(), shuffled=True) > 0.25


def test_the_hypothesis_is_the_sum_of_its_dense_terms(rng):
    """Lemma 4.12, with the means over the same draws of y."""
    x, points = rng.normal(size=(6_000, 3)), rng.normal(size=(5, 3))
    labels = ramp(x @ np.array([0.6, 0.8, 0.0]))
    found = learn_activation_sum(x, labels, 2, 0.25, relu(), rng)
    assert (found.degree, sorted(found.moments)) == (2, [1, 2])
    many = replace(found, draws=rng.normal(size=(200_000, 3)))
    expected = np.full(5, relu().coefficient(0))
    for order, moment in found.moments.items():
        dense = moment.coordinates  # Φᵀ A, from the last step to the first
        for step in reversed(moment.projection.steps):
            dense = np.tensordot(step.phi.T, dense.reshape(len(step.phi), -1), 1)
            dense = dense.reshape(-1, 3 * dense.shape[1])
        terms = hermite_dense(points, order).reshape(5, -1) @ dense.ravel()
        expected = expected + relu().coefficient(order) * terms
    np.testing.assert_allclose(many(points), expected, atol=0.02)
