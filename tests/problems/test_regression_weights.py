"""Fourier weights have the same regressors with other weights, the same at every order."""

import math

import numpy as np
import pytest

from implicitmoments import implicit_moments
from implicitmoments.datasets import make_regression_mixture
from implicitmoments.problems import RegressionMixtureProblem
from implicitmoments.projections import hermite_dense
from implicitmoments.rows import ArrayTable, RowDraws, Whitening
from support import refuses


def moment(problem, order, n):
    """E[c_t He_t(x)] and its standard error, by the problem's own points and weights."""
    block = problem.draw(order, range(n), RowDraws(0, range(n)))
    terms = hermite_dense(block["x"], order) * math.sqrt(math.factorial(order))
    terms = block["c"].reshape(-1, *[1] * order) * terms
    return terms.mean(axis=0), terms.std(axis=0) / math.sqrt(n)


def rewritten(truth, omega):
    """The weights that Fourier moments have."""
    squares = np.sum(truth.vectors**2, axis=1)
    return truth.weights * np.exp(-0.5 * omega**2 * (squares + truth.noise**2))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_moments_are_those_of_the_truth_with_other_weights(order):
    n = 40_000
    X, y, truth = make_regression_mixture(
        n, 3, 3, noise=0.4, radius=(0.5, 1.5), weights=[1, 2, 3], random_state=0
    )
    problem = RegressionMixtureProblem(X, y, weights="fourier", omega=1.5)
    mean, error = moment(problem, order, n)
    exact = np.zeros_like(mean)
    for w, v in zip(rewritten(truth, 1.5), truth.vectors, strict=True):
        power = np.array(w)
        for _ in range(order):
            power = np.multiply.outer(power, v)
        exact += power
    assert np.all(np.abs(mean - exact) < 5 * error)
    assert np.any(np.abs(mean - 2 * exact) > 5 * error)


def test_order_zero_is_the_sum_of_the_weights():
    n = 40_000
    X, y, truth = make_regression_mixture(n, 3, 3, noise=0.4, random_state=0)
    problem = RegressionMixtureProblem(X, y, weights="fourier", omega=1.5)
    c = problem.draw(0, range(n), RowDraws(0, range(n)))["c"]
    assert abs(c.mean() - rewritten(truth, 1.5).sum()) < 5 * c.std() / math.sqrt(n)


def test_the_frequency_follows_the_labels():
    X, y, _ = make_regression_mixture(5_000, 2, 3, random_state=0)
    plain = RegressionMixtureProblem(X, y, weights="fourier").omega
    np.testing.assert_allclose(plain, 2 / np.sqrt(np.mean(y**2)))
    larger = RegressionMixtureProblem(X, 10 * y, weights="fourier").omega
    np.testing.assert_allclose(larger, plain / 10)
    counts = np.full(5_000, 3.0)
    counted = RegressionMixtureProblem(X, y, weights="fourier", sample_weight=counts).omega
    np.testing.assert_allclose(counted, plain)
    assert RegressionMixtureProblem(X, 0 * y, weights="fourier").omega > 0


def test_components_and_mixing_weights_come_back_in_the_users_coordinates():
    X, y, truth = make_regression_mixture(
        100_000, 3, 4, noise=0.3, weights=[2, 3, 5], radius=(0.7, 1.3), random_state=1
    )
    A = np.array([[2.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 3, 0], [0, 0, 1, 1]])
    problem = RegressionMixtureProblem(X @ A.T, y, weights="fourier", whiten=True)
    found = implicit_moments(problem, n_components=3, order=4).components()
    assert found.identified
    exact = truth.vectors @ np.linalg.inv(A)
    match = np.argmin(np.linalg.norm(found.vectors[:, None] - exact, axis=2), axis=1)
    assert sorted(match) == [0, 1, 2]
    assert np.linalg.norm(found.vectors - exact[match], axis=1).max() < 0.1
    mixing = problem.mixing_weights(found.weights, found.vectors)
    np.testing.assert_allclose(mixing, truth.weights[match], atol=0.05)
    # negative control: the moments' own weights are not those of the mixture
    own = found.weights / found.weights.sum()
    assert np.abs(own - truth.weights[match]).max() > 0.1


def test_they_leave_less_noise_than_polynomials():
    X, y, truth = make_regression_mixture(10_000, 6, 5, noise=0.3, random_state=0)
    ratios = {}
    for weights in ("fourier", "orthogonal", "monomial"):
        problem = RegressionMixtureProblem(X, y, weights=weights)
        mean, error = moment(problem, 4, 10_000)
        v = truth.vectors[0]
        ratios[weights] = np.linalg.norm(error) / np.einsum("abcd,a,b,c,d->", mean, v, v, v, v)
    assert ratios["fourier"] < 0.6 * ratios["orthogonal"] < 0.6 * ratios["monomial"]


def test_a_whitening_may_be_given():
    X, y, _ = make_regression_mixture(2_000, 2, 3, random_state=0)
    whitening = Whitening.of(ArrayTable(X))
    given = RegressionMixtureProblem(X, y, whiten=whitening)
    estimated = RegressionMixtureProblem(X, y, whiten=True)
    np.testing.assert_array_equal(moment(given, 2, 2_000)[0], moment(estimated, 2, 2_000)[0])


def test_polynomial_weights_sum_to_one():
    X, y, _ = make_regression_mixture(100, 2, 3, random_state=0)
    problem = RegressionMixtureProblem(X, y)
    np.testing.assert_allclose(problem.mixing_weights(np.array([1.0, 3.0]), X[:2]), [0.25, 0.75])


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"weights": "wavelet"}, "unknown_option"),
        ({"weights": "orthogonal", "omega": 1.0}, "option_of_other_method"),
        ({"weights": "fourier", "omega": -1.0}, "not_positive"),
        ({"weights": "fourier", "omega": math.nan}, "out_of_range"),
    ],
)
def test_bad_parameters_are_refused(how, code):
    with refuses(code):
        RegressionMixtureProblem(np.ones((5, 2)), np.ones(5), **how)
