import math
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad

from implicitmoments import implicit_moments
from implicitmoments.datasets import make_activation_sum
from implicitmoments.models import ActivationSumProblem, cosine, relu

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
    "activation", [relu(), cosine(), cosine(2.0), cosine(1.3, 0.4), cosine(0.5, math.pi)]
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
    with pytest.raises(ValueError, match="coefficient of order 3 of relu is zero"):
        paper_moments(ActivationSumProblem(X, y, relu()), n_components=2, order=3)
    with pytest.raises(ValueError, match="frequency is a positive number, got -1"):
        cosine(-1)


def test_functions_work_on_any_library(xp):
    u = xp.asarray([-1.0, 0.0, 2.0])
    np.testing.assert_allclose(np.asarray(relu()(u)), [0, 0, 2])
    np.testing.assert_allclose(np.asarray(cosine(2.0, 0.5)(u)), np.cos([-1.5, 0.5, 4.5]))
