"""Compressed polynomials against explicit Hermite tensors."""

import warnings

import numpy as np
import pytest

from implicitmoments import ActivationSumRegressor, AssumptionWarning
from implicitmoments.activation import Features, Polynomial
from implicitmoments.moments import BalancedMoments, Frame, split_order
from implicitmoments.projections import hermite_dense, project_dense
from implicitmoments.testing import chain_of_powers

D, P, K = 4, 3, 3


def _setting(order, scale=1.0):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((D, P)))[0].T
    frame = Frame(basis, np.zeros(D), scale=scale)
    vectors = rng.standard_normal((K, P))
    chain = chain_of_powers(vectors, order, frame.noise)
    return rng, frame, chain


def _dense(form, chain, frame, a, b):
    """Write a compressed tensor out: (d,) * (a + b)."""
    projection = BalancedMoments(frame, chain, {}).projection
    left, right = (
        project_dense(projection.first(n), np.eye(D**n).reshape((D**n,) + (D,) * n))
        for n in (a, b)
    )
    return (left @ form @ right.T).reshape((D,) * (a + b)) * frame.scale ** (a + b)


@pytest.mark.parametrize("scale", [1.0, 1.7])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5, 6])
def test_polynomial_is_the_sum_of_dense_terms(order, scale):
    rng, frame, chain = _setting(3, scale)
    a, b = split_order(order)
    form = rng.standard_normal((chain.dim(a), chain.dim(b)))
    x = rng.standard_normal((5, D))
    polynomial = Polynomial(BalancedMoments(frame, chain, {(a, b): form}))
    tensor = _dense(form, chain, frame, a, b)
    terms = hermite_dense(x, order).reshape(5, -1) @ tensor.ravel()
    np.testing.assert_allclose(polynomial(x), terms, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_gradient_is_the_difference_quotient(scale):
    rng, frame, chain = _setting(3, scale)
    splits = [split_order(n) for n in range(7)]
    forms = {(a, b): rng.standard_normal((chain.dim(a), chain.dim(b))) for a, b in splits}
    polynomial = Polynomial(BalancedMoments(frame, chain, forms))
    x = rng.standard_normal((4, D))
    step = 1e-5
    for j in range(P):
        move = step * frame.basis[j]
        quotient = (polynomial(x + move) - polynomial(x - move)) / (2 * step)
        np.testing.assert_allclose(polynomial.gradient(x)[:, j], quotient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_features_span_the_polynomials(scale):
    rng, frame, chain = _setting(3, scale)
    features = Features(frame, chain, tuple(split_order(n) for n in range(7)), K)
    x = rng.standard_normal((6, D))
    coefficients = rng.standard_normal(len(features))
    polynomial = features.polynomial(coefficients)
    np.testing.assert_allclose(
        polynomial(x), features.evaluate(x) @ coefficients, rtol=1e-9, atol=1e-10
    )
    np.testing.assert_allclose(
        features.coefficients(polynomial.tensors.forms), coefficients, rtol=1e-10
    )


def test_features_have_at_most_unit_variance():
    """⟨Q, H_n(x)⟩ has variance ‖Sym Q‖² ≤ 1 for a form of norm 1."""
    rng, frame, chain = _setting(2)
    features = Features(frame, chain, tuple(split_order(n) for n in range(1, 5)), K)
    values = features.evaluate(rng.standard_normal((200_000, D)))
    assert (values.var(axis=0) < 1.1).all()
    assert (values.var(axis=0)[features.up_to(2, K) & ~features.up_to(1, K)] > 0.4).all()


def test_a_polynomial_with_a_sentinel_is_chosen_in_any_units():
    """By cross-validation: in some units one share had all rows with the sentinel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(167, 2))
    y = np.maximum(X @ rng.normal(size=(2, 2)), 0).sum(axis=1) + 0.1 * rng.normal(size=167)
    X[rng.uniform(size=167) < 0.1, 0] = -999.0
    there = X * [2.0**22, 2.0**-23] + [-(2.0**49), 0.0]
    scores = []
    for x in (X, there):
        model = ActivationSumRegressor("relu", 2, whiten=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumptionWarning)
            scores.append(model.fit(x, y).score(x, y))
        assert model.stats_["hypothesis"] == "polynomial"
    assert scores[1] == pytest.approx(scores[0], abs=0.05)
