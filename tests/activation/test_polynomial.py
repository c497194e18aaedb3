"""Compressed polynomials against explicit Hermite tensors, and the spans they live on."""

import numpy as np
import pytest

from implicitmoments.activation.polynomial import (
    Features,
    first_view,
    moment_options,
    turn_span,
)
from implicitmoments.moments import ActivationSumProblem
from implicitmoments.moments.chain import Frame
from implicitmoments.paper.projections import hermite_dense
from implicitmoments.rows import Rows
from support import chain_of_powers, dense_basis

D, P, K = 4, 3, 3


def _features(order, scale=1.0, highest=6):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((D, P)))[0].T
    frame = Frame(basis, np.zeros(D), scale=scale)
    chain = chain_of_powers(rng.standard_normal((K, P)), order, frame.noise)
    return rng, Features(frame, chain, tuple(range(highest + 1)), K)


def _dense(features, a, b, i, j):
    """Write the tensor of a feature out: (d,) * (a + b)."""
    chain = features.chain
    power = np.ones((1, 1))
    maps = [power := np.kron(power, features.frame.basis) for _ in range(max(a, b))]
    maps = [np.ones((1, 1)), *maps]  # from the features to the frame, slot by slot
    left, right = ((dense_basis(chain, n) @ maps[n]).T for n in (a, b))
    form = np.zeros((chain.dim(a), chain.dim(b)))
    form[i, j] = 1.0
    if a == b:
        form = (form + form.T) / np.linalg.norm(form + form.T)
    return (left @ form @ right.T).ravel()


@pytest.mark.parametrize("scale", [1.0, 1.7])
def test_features_are_inner_products_with_dense_hermite_tensors(scale):
    rng, features = _features(3, scale)
    x = rng.standard_normal((5, D))
    expected = np.stack(
        [
            hermite_dense(x, a + b).reshape(5, -1) @ _dense(features, a, b, i, j)
            for a, b, i, j in features.pairs
        ],
        axis=1,
    )
    np.testing.assert_allclose(features.evaluate(x), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_a_polynomial_is_its_combination_of_features_clipped_to_the_labels(scale):
    rng, features = _features(3, scale)
    x = rng.standard_normal((50, D))
    coefficients = rng.standard_normal(len(features))
    expected = features.evaluate(x) @ coefficients
    plain = features.polynomial(coefficients, -np.inf, np.inf)
    np.testing.assert_allclose(plain(x), expected, rtol=1e-9, atol=1e-9)
    clipped = features.polynomial(coefficients, -1.0, 1.0)
    np.testing.assert_allclose(clipped(x), np.clip(expected, -1, 1), rtol=1e-9, atol=1e-9)


def test_a_turn_moves_the_span_to_the_directions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 10))
    y = (X[:, 0] ** 2 - 1) / 2 + X[:, 1] * X[:, 0]
    tilted = np.eye(10)[:2] + 0.15 * rng.standard_normal((2, 10))
    basis = np.linalg.qr(tilted.T)[0].T
    frame = Frame(basis, np.zeros(10))
    features = Features(frame, chain_of_powers(np.eye(2), 1, frame.noise), (0, 1, 2), 2)
    rows = Rows.of(X, y=y)
    coefficients = np.linalg.lstsq(features.evaluate(X), y, rcond=None)[0]
    turned = turn_span(rows, features.polynomial(coefficients, -np.inf, np.inf))

    def off(span):
        return np.linalg.norm(np.eye(10)[:2] - (np.eye(10)[:2] @ span.T) @ span)

    assert off(basis) > 0.2
    assert off(turned) < 0.2 * off(basis)


def test_the_span_of_odd_functions_is_found_from_order_3():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((20, 3)))[0].T
    weights = np.array([1.0, -0.8, 0.6])
    X = rng.standard_normal((20_000, 20))
    y = np.tanh(X @ V.T) @ weights
    problem = ActivationSumProblem(X, y, "tanh")
    basis = first_view(problem, moment_options(problem, 3, 5, positive=False)).frame.basis
    assert np.linalg.norm(V - (V @ basis.T) @ basis, axis=1).max() < 0.3
    # the control: order 1 alone has one direction
    slope = X.T @ y / np.linalg.norm(X.T @ y)
    assert np.linalg.norm(V - np.outer(V @ slope, slope), axis=1).max() > 0.7
