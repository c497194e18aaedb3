"""Least squares of a network, and the moves of its search."""

import math
from collections import Counter

import numpy as np
import pytest

from implicitmoments.activation import Network, fit_network
from implicitmoments.activation.network import (
    jacobian,
    mean_curvature,
    measure_slope,
    off_directions,
    sample_for,
    standard_errors,
    unit_rows,
)
from implicitmoments.activation.search import candidate_gains, drop, grow, improve
from implicitmoments.datasets import make_activation_sum
from implicitmoments.moments import as_activation
from implicitmoments.rows import ArrayTable, Rows

D, K = 6, 3


def _truth(activation="relu", n=4_000, k=K, biased=True, noise=0.0):
    rng = np.random.default_rng(0)
    weights = np.where(np.arange(k) % 2, -1.0, 1.0) * rng.uniform(0.5, 1.5, k)
    V, biases = unit_rows(rng.standard_normal((k, D))), rng.uniform(-1, 1, k)
    network = Network(
        weights, V, as_activation(activation), biases if biased else None, positive=False
    )
    X = rng.standard_normal((n, D))
    return network, Rows.of(X, y=network(X) + noise * rng.standard_normal(n))


def _jacobian(network, x):
    plain = np.hstack(jacobian(network, {"x": x}))
    return plain @ off_directions(np.eye(plain.shape[1]), network)


@pytest.mark.parametrize("biased", [False, True])
def test_derivatives_are_difference_quotients_along_the_sphere(biased):
    network, rows = _truth("softplus", 20, biased=biased)
    x, step = rows.points, 1e-6
    found = _jacobian(network, x)
    for j in range(found.shape[1]):
        move = step * np.eye(found.shape[1])[j]
        quotient = (network.moved(move)(x) - network.moved(-move)(x)) / (2 * step)
        np.testing.assert_allclose(found[:, j], quotient, atol=1e-7)


def test_slope_and_curvature_are_means_of_the_jacobian():
    network, rows = _truth(n=500, noise=0.3)
    counts = np.random.default_rng(1).integers(1, 4, 500).astype(float)
    rows = Rows.of(rows.points, y=rows.block["y"], counts=counts)
    moved = network.moved(0.1 * np.ones(K * (D + 2)))
    J, residual = _jacobian(moved, rows.points), rows.block["y"] - moved(rows.points)
    fitted, slope = measure_slope(rows, moved)
    total = counts.sum()
    assert fitted.loss == pytest.approx(counts @ residual**2 / total)
    np.testing.assert_allclose(slope, (counts * residual) @ J / total, atol=1e-12)
    exact = (J * counts[:, None]).T @ J / total
    np.testing.assert_allclose(mean_curvature(rows, moved), exact, atol=1e-12)
    single = mean_curvature(rows, moved, single=True)
    np.testing.assert_allclose(single, exact, atol=1e-5 * np.abs(exact).max())


def test_steps_take_the_slope_of_all_rows_and_the_curvature_of_a_sample():
    n = 40_000
    X, y, _ = make_activation_sum(n, K, D, activation="softplus", random_state=0)
    rng, passes = np.random.default_rng(1), Counter()
    y = y + 0.3 * y.std() * rng.standard_normal(n)
    rows = Rows(ArrayTable(X, y=y), progress=lambda what, *_: passes.update([what]))
    start = Network(np.ones(K), unit_rows(rng.standard_normal((K, D))), as_activation("softplus"))
    found = fit_network(rows, start, tol=1e-10)
    assert sample_for(rows, start.units.size).n < n / 2
    # several steps for each pass of curvature, which is of the sample alone
    assert passes["slope of the error"] > len(found.history) - 1
    assert "curvature of the error" not in passes
    assert np.all(np.diff(found.history) < 0)
    # the minimum of all rows, by the plain Gauss-Newton method
    network = found.network
    for _ in range(20):
        slope = measure_slope(rows, network)[1]
        network = network.moved(np.linalg.pinv(mean_curvature(rows, network)) @ slope)
    np.testing.assert_allclose(network.units, found.network.units, atol=1e-4)


def test_standard_errors_are_those_of_linear_least_squares():
    network, rows = _truth("softplus", noise=0.1)
    fitted = fit_network(rows, network)
    J = _jacobian(fitted.network, rows.points)
    covariance = fitted.loss * np.linalg.pinv(J.T @ J)
    weights, directions, biases = standard_errors(rows, fitted)
    by_unit = np.diag(covariance)[K:].reshape(K, D + 1)
    np.testing.assert_allclose(weights**2, np.diag(covariance)[:K], rtol=0.02)
    np.testing.assert_allclose(directions**2, by_unit[:, :D].sum(axis=1), rtol=0.02)
    np.testing.assert_allclose(biases**2, by_unit[:, D], rtol=0.02)
    assert np.isfinite(directions).all()


def test_gains_of_candidates_have_the_square_of_the_units_of_labels():
    rng = np.random.default_rng(0)
    X, y, _ = make_activation_sum(300, 3, 4, random_state=0)
    units, further = (unit_rows(rng.standard_normal((n, 4))) for n in (2, 20))
    expected = candidate_gains(
        Rows.of(X, y=y), Network(np.ones(2), units, as_activation("relu")), further
    )
    for unit in (2.0**-10, 2.0**10):
        network = Network(np.full(2, unit), units, as_activation("relu"))
        found = candidate_gains(Rows.of(X, y=unit * y), network, further)
        np.testing.assert_allclose(found, unit**2 * expected, rtol=1e-5)


def test_an_exchange_finds_the_component_that_was_lost():
    network, rows = _truth()
    # two components at one place, and none at the third
    lost = network.with_units(network.weights, network.units[[0, 1, 1]] + np.eye(7)[[6, 0, 1]] / 9)
    stuck = fit_network(rows, lost, max_iter=0)
    rng = np.random.default_rng(0)
    found = improve(rows, stuck, K, rng)
    assert found.network.k == K
    assert fit_network(rows, found.network).loss < 1e-12
    # from the truth there is nothing to exchange
    whole = fit_network(rows, network)
    assert improve(rows, whole, K, rng) is whole
    assert grow(rows, whole, rng, 7 * math.log(4_000)) is None


def test_components_that_are_equal_or_zero_are_dropped():
    network, rows = _truth("tanh", k=2, biased=False, noise=0.1)
    twice = np.vstack([network.units, -network.units[0]])
    price = D * math.log(4_000)
    for weights in ([*network.weights, -0.3], [*network.weights, 1e-3]):
        fitted = fit_network(rows, network.with_units(np.array(weights), twice), max_iter=3)
        fewer = drop(rows, fitted, price)
        assert fewer is not None
        assert fewer.network.k == 2
        assert math.isclose(fewer.loss, 0.01, rel_tol=0.1)
    # the control: both of the truth are needed
    assert drop(rows, fit_network(rows, network), price) is None
