"""Bounds of Theorems 4.7, 4.16, 4.19 and 4.22: each inequality of the page, numerically."""

import math

import numpy as np
import pytest
from scipy.special import comb, eval_hermitenorm, roots_hermitenorm
from scipy.stats import norm, poisson

from implicitmoments.datasets import Truth
from implicitmoments.problems import cosine, from_function, relu, softplus
from implicitmoments.testing import refuses
from implicitmoments.theory import (
    activation_bound,
    clustering_bound,
    error_bound,
    least_separation,
    mixture_density_bound,
    regression_density_bound,
)
from implicitmoments.theory.applications import activation_second_moment, regression_second_moment


def h(t, x):
    return eval_hermitenorm(t, x) / math.sqrt(math.factorial(t))


def gauss(n=80):
    x, w = roots_hermitenorm(n)
    return x, w / w.sum()


# Theorem 4.7


@pytest.mark.parametrize("t", [1, 2, 4])
def test_the_second_moment_of_an_activation_is_bounded(t):
    # one unit on a line: the estimator is relu(x) Re((x + iy)^t) / (√t! c_t)
    x, w = gauss()
    z = ((x[:, None] + 1j * x) ** t).real / math.sqrt(math.factorial(t))
    second = np.maximum(x, 0.0) ** 2 * w @ z**2 @ w / relu().coefficient(t) ** 2
    bound = math.exp(activation_second_moment(relu())(t))
    assert second <= bound
    assert second > 0.02 * bound


def test_the_degree_and_the_rows_of_activations():
    bounds = [activation_bound(3, 6, epsilon) for epsilon in (0.5, 0.2, 0.1)]
    assert [bound.order for bound in bounds] == [2, 4, 8]
    for bound in bounds:
        assert relu().tail(bound.order) < bound.error**2 / 4 <= relu().tail(bound.order - 2)
    rows = [bound.log10_rows for bound in bounds]
    assert rows[0] < rows[1] < rows[2]
    assert error_bound(activation_bound, 1e6, k=3, d=6) > 1
    with refuses("coefficient_zero", order=2):
        activation_bound(2, 3, 0.3, activation=from_function(np.tanh))
    assert activation_bound(2, 3, 0.3, activation=cosine(0.5, 0.4)).log10_rows > 5
    assert activation_bound(2, 3, 0.3, activation=softplus()).order >= 1


# Theorem 4.16


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_the_degree_of_a_mixture(radius):
    bound = mixture_density_bound(3, 4, 0.1, radius=radius)
    wanted = (0.1 / 6) ** 2 / 4

    def tail(n):  # Σ_{j > n} R^2j / j!
        return math.exp(radius**2) * poisson.sf(n, radius**2)

    assert tail(bound.order) <= wanted
    # the geometric bound of the tail is nearly sharp
    assert bound.order == 1 or tail(bound.order - 2) > wanted


def test_the_clip_of_a_mixture():
    k, radius, epsilon = 4, 1.5, 0.3
    clip = 10 ** mixture_density_bound(k, 4, epsilon, radius=radius).log10_clip
    # E[(max_i e^{μ_i x} − A)₊] ≤ k E[(e^{R g} − A)₊], which is a formula of Black and Scholes
    a = math.log(clip) / radius
    excess = math.exp(radius**2 / 2) * norm.sf(a - radius) - clip * norm.sf(a)
    assert k * excess <= epsilon / 6
    assert k * excess > 0.1 * epsilon / 6


def test_the_rows_are_a_polynomial_of_the_error_at_the_least_degree():
    """Claim 4.18, at the least degree; n!/log(k)^n is none at n₀ = 2 log(k/ε) (docs/theory.md)."""
    k, radius = 10, math.sqrt(math.log(10))
    errors = (10, 20, 40, 80)
    rows = [mixture_density_bound(k, 5, 10.0**-e, radius=radius).log10_rows / e for e in errors]
    assert np.all(np.diff(rows) < 0)  # the exponent of 1/ε does not grow
    degrees = [2 * math.log(k / 10.0**-e) for e in errors]
    factors = [math.lgamma(2 * n + 1) - 2 * n * math.log(math.log(k)) for n in degrees]
    exponents = np.array(factors) / (np.array(errors) * math.log(10))
    assert np.all(np.diff(exponents) > 2)


# Theorem 4.19


def statistics(s, t, k=3, n=100_000, seed=0):
    """P_t of pairs of one and of the two nearest components, for an equilateral mixture."""
    vectors = s / math.sqrt(2) * np.eye(k)
    truth = Truth(np.full(k, 1 / k), vectors).differences()
    noise = np.random.default_rng(seed).normal(size=(n, k))
    apart = (vectors[0] - vectors[1]) / math.sqrt(2)
    return truth.hermite(noise, t), truth.hermite(noise + apart, t)


def test_the_gap_of_the_test_is_as_proved():
    k, s, t = 3, 25.0, 4
    bound = clustering_bound(k, k, 0.1, separation=s, order=t)
    assert math.isfinite(bound.log10_rows)
    same, other = statistics(s, t)
    assert same.max() < other.min()
    # far below the least separation, pairs of one and of two components are mixed up
    same, other = statistics(4.0, t)
    assert same.max() > other.min()
    assert clustering_bound(k, k, 0.1, separation=4.0, order=t).rows == math.inf


def test_the_least_separation_is_a_multiple_of_the_root_of_log_k():
    found = [(k, least_separation(k, k, 0.1)) for k in (10, 1_000)]
    constants = [s / math.sqrt(math.log(k / 0.1)) for k, s in found]
    assert max(constants) / min(constants) < 1.05
    assert 9 < constants[0] < 12
    for k, s in found:
        assert clustering_bound(k, k, 0.1, separation=0.9 * s).rows == math.inf
        assert clustering_bound(k, k, 0.1, separation=1.1 * s).log10_rows < 200
    orders = [clustering_bound(k, k, 0.1, separation=1.1 * s).order for k, s in found]
    assert orders[0] < orders[1]  # t of order log k
    assert least_separation(10, 10, 0.1, ratio=2.0) > found[0][1]
    assert least_separation(10, 10, 0.1, smallest_weight=0.01) > found[0][1]


@pytest.mark.parametrize("t", [6, 12, 32])
def test_erratum_9(t):
    """For pairs of one component P_t grows as s^t, and h_t is not x^t/√t! at x of order √t."""
    x, w = gauss(t + 1)
    assert w @ h(t, x) ** 2 == pytest.approx(1.0)  # so that P_t has the size ‖M_t‖ = w s^t
    at = 2 * math.sqrt(2 * t)
    ratio = h(t, at) * math.sqrt(math.factorial(t)) / at**t
    assert ratio >= (1 - (4 * t + 2) / at**2) ** (t / 2)
    assert ratio == pytest.approx({6: 0.71, 12: 0.47, 32: 0.108}[t], rel=0.03)
    assert h(t, float(t)) * math.sqrt(math.factorial(t)) / float(t) ** t > 0.5


# Theorem 4.22


@pytest.mark.parametrize("t", [1, 2, 4])
def test_the_second_moment_of_a_regression_is_bounded(t):
    # one regressor on a line: y = b x + s e, estimator y^t/√t! Re((x + iu)^t)/√t!
    b, s = 0.4, 0.3
    x, w = gauss(40)
    y = b * x[:, None] + s * x
    z = ((x[:, None] + 1j * x) ** t).real
    labels = (y**t / math.factorial(t)) ** 2 @ w
    second = (w * labels) @ z**2 @ w
    bound = math.exp(regression_second_moment(b * b + s * s)(t))
    assert second <= bound
    assert second > 1e-3 * bound


@pytest.mark.parametrize("n", [2, 4, 6, 10])
def test_the_norm_of_t_n_is_at_most_gamma_to_the_half_n(n):
    """‖T_n‖² ≤ γ^n: the sum of the text, with its prefactor, is 1 at γ₁ = γ₂ = 1."""
    half = n // 2
    a = np.arange(half + 1)
    terms = comb(half, a) ** 2 / comb(n, 2 * a) * comb(n, half) / 2.0**n
    assert np.sum(terms) == pytest.approx(1.0)
    b, s = 0.5, 0.3
    trace = b * b + s * s - 1
    g1, g2 = np.roots([1, -trace, -b * b])
    exact = np.sum(terms * g1 ** (2 * a) * g2 ** (n - 2 * a))
    gamma = 1 - s * s / 2
    assert exact <= gamma**n
    # and it is the sum of squares of E[H_a(x) h_{n−a}(y)]
    x, w = gauss(60)
    labels = b * x[:, None] + s * x
    own = [w @ (h(j, x)[:, None] * h(n - j, labels)) @ w for j in range(n + 1)]
    assert np.sum(np.square(own)) == pytest.approx(exact, rel=1e-8)


def test_the_coefficients_of_the_direct_method():
    """E[H_a(X) h_{n−a}(y)] = κ β^a, with the κ of docs/theory.md."""
    b, s, n = 0.45, 0.4, 6
    x, w = gauss(60)
    labels = b * x[:, None] + s * x
    for a in range(n // 2 + 1):
        mean = w @ (h(a, x)[:, None] * h(n - a, labels)) @ w
        prefactor = math.sqrt(comb(n, n // 2) / 2.0**n)
        kappa = prefactor * comb(n // 2, a) * 2**a * (b * b + s * s - 1) ** (n // 2 - a)
        kappa /= math.sqrt(comb(n, a))
        assert mean == pytest.approx(kappa * b**a, rel=1e-8)


def test_the_direct_method_makes_the_theorem_polynomial_in_d():
    rows = {
        method: [
            regression_density_bound(3, d, 0.2, sigma=1.0, method=method).log10_rows
            for d in (10, 100, 1_000)
        ]
        for method in ("text", "direct")
    }
    # the exponent of d: a small number, and half the degree of the expansion (Erratum 11)
    assert rows["direct"][2] - rows["direct"][1] == pytest.approx(2.0, abs=0.1)
    assert rows["text"][2] - rows["text"][1] > 50
    small = regression_density_bound(3, 10, 0.2, sigma=0.5, method="direct")
    assert small.log10_rows > 3 * rows["direct"][0]  # (1/ε)^O(1/σ²)


def test_large_regressors_are_scaled():
    bound = regression_density_bound(2, 3, 0.5, sigma=2.0, largest_norm=2.0, method="direct")
    same = regression_density_bound(2, 3, 0.5, sigma=0.5, largest_norm=0.5, method="direct")
    assert bound.log10_rows == pytest.approx(same.log10_rows)
    with refuses("unknown_option", name="method"):
        regression_density_bound(2, 3, 0.5, sigma=1.0, method="closed_form")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"separation": 0.0}, "separation"),
        ({"smallest_weight": 0.6}, "smallest_weight"),
        ({"ratio": 0.5}, "ratio"),
        ({"k": 1}, "k"),
        ({"tau": 0.0}, "tau"),
    ],
)
def test_parameters_of_clusters_are_checked(options, name):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        clustering_bound(**({"k": 2, "d": 3, "epsilon": 0.1, "separation": 30.0} | options))
    assert caught.value.values["name"] == name
    with refuses("order_not_even", order=3):
        clustering_bound(2, 3, 0.1, separation=30.0, order=3)
