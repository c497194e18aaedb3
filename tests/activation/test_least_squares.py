"""Least squares of a network: steps by curvature, or by gradients where unknowns are many."""

import math
from collections import Counter

import numpy as np

from implicitmoments.activation import Network, fit_network
from implicitmoments.activation.least_squares import (
    curvature_sample,
    mean_curvature,
    measure_slope,
)
from implicitmoments.activation.moves import _candidate_gains
from implicitmoments.activation.network import unit_rows
from implicitmoments.datasets import make_activation_sum
from implicitmoments.problems import relu, softplus
from implicitmoments.rows import ArraySource, Rows


def test_many_unknowns_go_by_gradients():
    """Above 2,000 unknowns there is no square matrix of them."""
    X, y, truth = make_activation_sum(4_000, 3, 700, random_state=0)
    noise = 0.2 * np.random.default_rng(0).standard_normal((3, 700)) / math.sqrt(700)
    near = truth.vectors + noise
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    reached = fit_network(Rows.of(X, y=y), Network(np.full(3, 0.3), near, relu()), max_iter=50)
    assert reached.loss < 1e-3 * reached.history[0]
    assert np.all(np.diff(reached.history) <= 1e-12)


def test_steps_take_the_slope_of_all_rows_and_mostly_the_curvature_of_a_sample():
    n = 40_000
    k, d, activation = 3, 6, softplus()
    X, y, _ = make_activation_sum(n, k, d, activation=activation.function, random_state=0)
    rng, passes = np.random.default_rng(1), Counter()
    y = y + 0.3 * y.std() * rng.standard_normal(n)
    blocks = Rows(ArraySource(X, y=y), progress=lambda what, *_: passes.update([what]))
    start = Network(np.ones(k), unit_rows(rng.standard_normal((k, d))), activation)
    found = fit_network(blocks, start, tol=1e-10)
    assert curvature_sample(blocks, start).n < n / 2
    # one pass for each step, and several steps for each pass of curvature
    slopes, curvatures = passes["slope of the error"], passes["curvature of the error"]
    assert len(found.history) - 1 <= slopes
    assert curvatures < slopes / 2
    # the minimum of all rows, by the plain Gauss-Newton method in double precision
    network = found.network
    for _ in range(20):
        slope = measure_slope(blocks, network)[1]
        network = network.moved(np.linalg.solve(mean_curvature(blocks, network), slope))
    np.testing.assert_allclose(network.rows, found.network.rows, atol=1e-4)
    exact, single = (mean_curvature(blocks, network, single=each) for each in (False, True))
    np.testing.assert_allclose(single, exact, atol=1e-5 * np.abs(exact).max())


def test_gains_of_candidates_have_the_square_of_the_units_of_labels():
    """In powers of two nothing is rounded, so that they agree bit for bit."""
    rng = np.random.default_rng(0)
    X, y, _ = make_activation_sum(300, 3, 4, random_state=0)
    lines, further = (unit_rows(rng.standard_normal((n, 4))) for n in (2, 20))
    for affine in (None, rng.standard_normal(5)):
        network = Network(np.ones(2), lines, relu(), affine=affine)
        expected = _candidate_gains(Rows.of(X, y=y), network, further)
        for unit in (2.0**-26, 2.0**-10, 2.0**26):
            there = None if affine is None else unit * affine
            network = Network(np.full(2, unit), lines, relu(), affine=there)
            found = _candidate_gains(Rows.of(X, y=unit * y), network, further)
            np.testing.assert_array_equal(found, unit**2 * expected)
