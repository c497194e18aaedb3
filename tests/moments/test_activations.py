"""Activations by name, and their Hermite coefficients by quadrature."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from implicitmoments.moments import Activation, as_activation, cosine, leaky_relu
from implicitmoments.moments.activations import NAMED, integrate, largest_degree
from support import refuses

NOISE = np.random.default_rng(0)


def by_quadrature(function, t):
    series = np.zeros(t + 1)
    series[t] = 1 / math.sqrt(math.factorial(t))

    def integrand(u):
        weight = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        hermite = np.polynomial.hermite_e.hermeval(u, series)
        return float(function(np.array([u]))[0]) * hermite * weight

    return sum(quad(integrand, a, b, limit=200)[0] for a, b in ((-14, 0), (0, 14)))


@pytest.mark.parametrize(
    "activation",
    [*map(as_activation, sorted(NAMED)), leaky_relu(0.2), cosine(1.3, 0.4), cosine(0.5, math.pi)],
    ids=repr,
)
def test_coefficients_are_the_integrals(activation):
    for t in range(11):
        assert activation.coefficient(t) == pytest.approx(by_quadrature(activation, t), abs=1e-9)


def test_relu_has_the_coefficients_of_erratum_1():
    relu = as_activation("relu")
    values = [relu.coefficient(t) for t in (2, 4, 6, 8)]
    np.testing.assert_allclose(values, [0.28209, -0.08143, 0.04460, -0.02980], atol=5e-6)
    assert [t for t in range(12) if relu.has_order(t)] == [0, 1, 2, 4, 6, 8, 10]


def test_cosine_tail_is_poisson():
    """Erratum 3: the squares of a cosine's coefficients are Poisson weights of mean γ²."""
    squares = [cosine(1.7).coefficient(t) ** 2 for t in range(0, 30, 2)]
    weights = [math.exp(-(1.7**2)) * 1.7 ** (2 * t) / math.factorial(t) for t in range(0, 30, 2)]
    np.testing.assert_allclose(squares, weights, rtol=1e-6, atol=1e-15)
    with refuses("invalid_parameter"):
        cosine(-1)


def test_functions_work_on_any_library(xp):
    u = xp.asarray([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(np.asarray(as_activation("relu")(u)), [0, 0, 2])
    np.testing.assert_allclose(np.asarray(cosine(2.0, 0.5)(u)), np.cos([-1.5, 0.5, 4.5]))


@pytest.mark.parametrize("name", sorted(NAMED))
def test_slopes_are_those_of_the_function(name):
    activation = as_activation(name)
    u = np.linspace(-3, 3, 40)  # no point at a kink
    quotient = (activation(u + 1e-5) - activation(u - 1e-5)) / 2e-5
    np.testing.assert_allclose(activation.slope(u), quotient, atol=1e-7)
    assert as_activation(activation) is activation


@pytest.mark.parametrize("kinks", [(0.0,), (0.3,), (-1.3, 0.7)])
def test_quadrature_finds_kinks(kinks):
    found = integrate(lambda u: sum(abs(u - kink) for kink in kinks), 20)
    # E|G − a| = 2 φ(a) + a (2 Φ(a) − 1)
    mean = sum(2 * norm.pdf(a) + a * (2 * norm.cdf(a) - 1) for a in kinks)
    assert found[0] == pytest.approx(mean, abs=1e-12)


def test_quadrature_of_a_jump_against_the_integral():
    found = integrate(lambda u: (u > 0.4).astype(float), 12)
    for t in range(1, 13):  # ∫ h_t φ from a on is h_{t−1}(a) φ(a) / √t
        series = np.zeros(t)
        series[-1] = 1 / math.sqrt(math.factorial(t - 1))
        density = math.exp(-0.08) / math.sqrt(2 * math.pi)
        exact = np.polynomial.hermite_e.hermeval(0.4, series) * density / math.sqrt(t)
        assert found[t] == pytest.approx(exact, abs=1e-12)


def test_quadrature_of_many_jumps():
    """A staircase of steps 1/4 is nearly the line 4u - 1/2."""
    np.testing.assert_allclose(integrate(lambda u: np.floor(4 * u), 3), [-0.5, 4, 0, 0], atol=1e-9)


def test_coefficients_of_high_orders_are_integrals():
    made = Activation("bump", lambda u: np.exp(-(u**2) / 4))
    assert made.coefficient(60) == pytest.approx(by_quadrature(made, 60), abs=1e-9)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (lambda u: np.exp(np.minimum(u * u, 700)), "function_not_integrable"),
        (lambda u: NOISE.random(len(u)), "function_not_integrable"),
        (lambda u: np.where(u > 3, np.inf, u), "function_not_integrable"),
        (lambda u: 1.0, "function_not_integrable"),
        (math.exp, "function_not_integrable"),
        ("swish", "unknown_activation"),
        (3, "unknown_activation"),
    ],
)
def test_what_is_no_activation(given, code):
    with refuses(code):
        as_activation(given)


def test_degrees_that_the_coefficients_allow():
    assert largest_degree(as_activation("relu"), 10) == 10
    assert largest_degree(as_activation("square"), 10) == 2
    assert largest_degree(as_activation("tanh"), 10) == 10  # odd orders replace even ones
    assert largest_degree(as_activation("square"), 10, biased=True) == 10
    with refuses("coefficient_zero", largest=2):
        largest_degree(as_activation("square"), 4, 4)
    with refuses("activation_linear"):
        largest_degree(Activation("line", lambda u: 2 * u + 1), 4)
