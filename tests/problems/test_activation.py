import math
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad

from implicitmoments import implicit_moments
from implicitmoments.datasets import make_activation_sum
from implicitmoments.problems import (
    NAMED,
    Activation,
    ActivationSumProblem,
    absolute,
    as_activation,
    cosine,
    from_function,
    gelu,
    hermite_coefficients,
    leaky_relu,
    relu,
    softplus,
    square,
)
from support import refuses

paper_moments = partial(implicit_moments, method="paper")


def by_quadrature(function, t):
    series = np.zeros(t + 1)
    series[t] = 1 / math.sqrt(math.factorial(t))

    def integrand(u):
        weight = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        return (
            float(function(np.array([u]))[0])
            * np.polynomial.hermite_e.hermeval(u, series)
            * weight
        )

    return sum(quad(integrand, a, b, limit=200)[0] for a, b in ((-14, 0), (0, 14)))


@pytest.mark.parametrize(
    "activation",
    [
        relu(),
        leaky_relu(0.2),
        absolute(),
        square(),
        softplus(),
        gelu(),
        cosine(),
        cosine(2.0),
        cosine(1.3, 0.4),
        cosine(0.5, math.pi),
    ],
)
def test_coefficients_are_the_integrals(activation):
    for t in range(11):
        assert activation.coefficient(t) == pytest.approx(by_quadrature(activation, t), abs=1e-9)


def test_relu_coefficients_of_erratum_1():
    values = [relu().coefficient(t) for t in (2, 4, 6, 8)]
    np.testing.assert_allclose(values, [0.28209, -0.08143, 0.04460, -0.02980], atol=5e-6)


def test_relu_tail_is_of_order_three_halves():
    """Erratum 2: the tail of the squares falls as n^(−3/2), so n grows as ε^(−4/3)."""
    squares = [relu().coefficient(t) ** 2 for t in range(401)]
    tail = 0.5 - np.cumsum(squares)  # E[relu(G)²] = 1/2
    assert np.log(tail[400] / tail[100]) / np.log(4) == pytest.approx(-1.5, abs=0.03)


def test_cosine_tail_is_poisson():
    """Erratum 3: the squares of a cosine's coefficients are Poisson weights of mean γ²."""
    gamma = 1.7
    squares = [cosine(gamma).coefficient(t) ** 2 for t in range(0, 30, 2)]
    weights = [
        math.exp(-(gamma**2)) * gamma ** (2 * t) / math.factorial(t) for t in range(0, 30, 2)
    ]
    np.testing.assert_allclose(squares, weights, rtol=1e-12)


def test_orders_that_labels_say_nothing_about_are_refused():
    X, y, _ = make_activation_sum(100, 2, 3, random_state=0)
    with refuses("order_without_data"):
        paper_moments(ActivationSumProblem(X, y, relu()), n_components=2, order=3)
    with refuses("not_positive"):
        cosine(-1)


def test_functions_work_on_any_library(xp):
    u = xp.asarray([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(np.asarray(relu()(u)), [0, 0, 2])
    np.testing.assert_allclose(np.asarray(cosine(2.0, 0.5)(u)), np.cos([-1.5, 0.5, 4.5]))


@pytest.mark.parametrize("name", sorted(NAMED))
def test_slopes_and_squares_are_those_of_the_function(name):
    activation = as_activation(name)
    u = np.linspace(-3, 3, 40)  # no point at a kink
    quotient = (activation(u + 1e-6) - activation(u - 1e-6)) / 2e-6
    np.testing.assert_allclose(activation.slope(u), quotient, atol=1e-8)
    plain = Activation(name, activation.function, activation.coefficient)
    np.testing.assert_allclose(plain.slope(u), quotient, atol=1e-12)
    assert plain.tail(4) == pytest.approx(activation.tail(4), abs=1e-12)
    # Parseval: nothing is left of a square summable function
    assert activation.tail(60) < 0.01 * activation.tail(0)


@pytest.mark.parametrize("kinks", [(0.0,), (0.3,), (-1.3, 0.7)])
def test_quadrature_finds_kinks(kinks):
    found = hermite_coefficients(lambda u: sum(abs(u - kink) for kink in kinks), 20)
    assert found.kinks == pytest.approx(kinks, abs=1e-3)
    assert found.error < 1e-12


def test_quadrature_of_a_jump_against_the_integral():
    found = hermite_coefficients(lambda u: (u > 0.4).astype(float), 12)
    for t in range(1, 13):  # ∫ h_t φ from a on is h_{t−1}(a) φ(a) / √t
        series = np.zeros(t)
        series[-1] = 1 / math.sqrt(math.factorial(t - 1))
        density = math.exp(-0.08) / math.sqrt(2 * math.pi)
        exact = np.polynomial.hermite_e.hermeval(0.4, series) * density / math.sqrt(t)
        assert found.coefficients[t] == pytest.approx(exact, abs=1e-12)


def test_coefficients_beyond_the_table_are_integrated():
    made = from_function(relu().function)
    assert made.coefficient(60) == pytest.approx(relu().coefficient(60), abs=1e-13)
    assert made.name == relu().function.__name__


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda u: np.exp(np.minimum(u * u, 700)), "function_not_integrable"),
        (lambda u: np.random.default_rng(0).random(len(u)), "function_not_integrable"),
        (lambda u: 1.0, "function_wrong_shape"),
        (lambda u: np.where(u > 3, np.inf, u), "function_not_finite"),
    ],
)
def test_functions_that_quadrature_cannot_take(function, code):
    with refuses(code):
        from_function(function, "it")
