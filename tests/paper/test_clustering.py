"""Theorem 4.19: the test of pairs, and clusters by it."""

import math

import numpy as np
import pytest

from implicitmoments.paper import (
    cluster_spherical,
    hermite,
    implicit_moment_estimation,
    learn_pair_test,
    rows_in_turn,
    vector,
)
from implicitmoments.paper.clustering import (
    PairTest,
)
from implicitmoments.paper.projections import evaluate_dense

TRIANGLE = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) / math.sqrt(2)  # sides 1


def mixture(n, side, rng):
    labels = rng.integers(3, size=n)
    return side * TRIANGLE[labels] + rng.normal(size=(n, 3)), labels


def test_the_statistic_is_that_of_dense_tensors(population, rng):
    """P_t = ⟨H_t((x − x′)/√2), M_t⟩, with the hidden vectors of Erratum 4."""
    differences = np.array([[1.0, 2.0], [0.5, -1.0]])
    moment = implicit_moment_estimation(
        population(np.array([0.2, 0.1]), differences), 2, 4, 2, rng
    )
    draws = rng.normal(size=(7, 2))
    test = PairTest(4, moment, 0.0, draws)
    left, right = rng.normal(size=(2, 5, 2))
    query = hermite(vector("x"), vector("y"), 4)
    expected = np.zeros(5)
    for y in draws:
        inputs = {"x": (left - right) / math.sqrt(2), "y": np.tile(y, (5, 1))}
        tensors = evaluate_dense(query, inputs)
        for weight, v in zip((0.2, 0.1), differences, strict=True):
            expected += weight * np.einsum("nabcd,a,b,c,d->n", tensors, v, v, v, v) / 7
    np.testing.assert_allclose(test.statistic(left, right), expected, rtol=1e-9)


def test_the_hidden_vectors_of_differences_have_the_root_of_two():
    """Erratum 4, at order 2: √2! E[H_2(X′)] = Σ w_i w_j ((μ_i − μ_j)/√2)^⊗2."""
    rng = np.random.default_rng(0)
    rows, _ = mixture(120_000, 6.0, rng)
    take = rows_in_turn({"x": rows}, rng)
    test = learn_pair_test(take, 3, 3, 0.4, 6.0, 20_000, rng)
    pairs = (TRIANGLE[:, None] - TRIANGLE).reshape(-1, 3) * 6.0
    expected = pairs.T @ pairs / 9 / 2
    assert test.order == 2
    A = test.moment.steps[0].A
    assert np.linalg.norm(A - expected) < 0.02 * np.linalg.norm(expected)
    assert np.linalg.norm(A - 2 * expected) > 0.4 * np.linalg.norm(expected)  # as printed


@pytest.mark.parametrize(("t", "expected"), [(6, 0.71), (12, 0.47), (32, 0.108)])
def test_h_is_not_its_leading_term_at_the_root_of_t(t, expected, gauss_nodes):
    """Erratum 9: h_t(x) ≥ x^t/(2√t!) holds at |x| = t, and is used at |x| of order √t."""

    def ratio_to_leading_term(x):
        return float(np.polynomial.hermite_e.hermeval(x, np.eye(t + 1)[t]) / x**t)

    assert ratio_to_leading_term(float(t)) > 0.5
    assert ratio_to_leading_term(2 * math.sqrt(2 * t)) == pytest.approx(expected, rel=0.03)
    # for a pair of one component P_t has mean square ‖M_t‖², which is w² s^2t for one difference
    nodes, weights = gauss_nodes(t + 1, 1)
    h = np.polynomial.hermite_e.hermeval(nodes[:, 0], np.eye(t + 1)[t])
    assert weights @ h**2 == pytest.approx(math.factorial(t))


@pytest.fixture(scope="module")
def learned():
    rng = np.random.default_rng(1)
    rows, _ = mixture(30_000, 10.0, rng)
    return learn_pair_test(rows_in_turn({"x": rows}, rng), 3, 3, 0.3, 10.0, 3_000, rng)


def error_rates(test, side):
    """Return the rates of wrong answers for pairs of one and of two components."""
    rng = np.random.default_rng(2)
    (left, i), (right, j) = mixture(400, side, rng), mixture(400, side, rng)
    same = test.same_component(left, right)
    return 1 - same[i == j].mean(), same[i != j].mean()


def test_pairs_are_told_apart(learned):
    assert learned.order == 4
    assert max(error_rates(learned, 10.0)) < 0.02


def test_pairs_of_close_components_are_not(learned):
    """The theorem supposes a separation: at distance 3 the answers are wrong."""
    assert max(error_rates(learned, 3.0)) > 0.5


def test_clusters_are_components():
    rng = np.random.default_rng(3)
    rows, _ = mixture(20_000, 12.0, rng)
    rows = np.hstack([rows, rng.normal(size=(20_000, 2))]) + 7.0  # two features of noise
    found = cluster_spherical(rows, 3, 0.3, 0.5, 12.0, rng)
    truth = np.hstack([12.0 * TRIANGLE, np.zeros((3, 2))]) + 7.0
    distances = np.linalg.norm(found.means[:, None] - truth, axis=2)
    assert sorted(distances.argmin(axis=1)) == [0, 1, 2]
    assert distances.min(axis=1).max() < 0.5
    assert np.abs(found.weights - 1 / 3).max() < 0.2
    assert len(found.rows) == len(found.labels) == math.ceil(12 / (0.3 * 0.25))
    nearest = np.linalg.norm(found.rows[:, None] - truth, axis=2).argmin(axis=1)
    assert np.mean(distances.argmin(axis=1)[np.minimum(found.labels, 2)] == nearest) > 0.97


def test_the_error_falls_with_the_accuracy():
    """alpha chooses the number of rows that are clustered: the error is about alpha/2."""
    errors = []
    for alpha in (1.0, 0.25):
        rng = np.random.default_rng(4)
        rows, _ = mixture(20_000, 12.0, rng)
        found = cluster_spherical(rows, 3, 0.3, alpha, 12.0, rng)
        distances = np.linalg.norm(found.means[:, None] - 12.0 * TRIANGLE, axis=2)
        errors.append(distances.min(axis=1).max())
        assert errors[-1] < alpha
    assert errors[1] < errors[0] / 2
