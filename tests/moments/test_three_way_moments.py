"""Three-way moments against explicit Hermite tensors."""

import math

import numpy as np
import pytest

from implicitmoments.moments import Frame, FramedRows, HermiteProblem, moment_pairs
from implicitmoments.moments.moment_pairs import decompose, refine
from implicitmoments.projections import RecursiveProjection, hermite_dense
from implicitmoments.testing import chain_of_powers


def weights(order):
    return np.random.default_rng(order).normal(size=9)


def view_of(X, weight, height=None):
    frame = Frame(np.eye(X.shape[1]), np.zeros(X.shape[1]), 1.0, height)
    return FramedRows(HermiteProblem(X, weight), frame, len(X))


@pytest.mark.parametrize(
    "orders", [(1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 2, 2), (1, 2, 3), (2, 2, 3), (3, 3, 3)]
)
@pytest.mark.parametrize("weight", [None, weights], ids=["ones", "signed"])
def test_the_general_formula_equals_explicit_tensors(orders, weight, rng):
    a, b, c = orders
    p = 2
    X = rng.normal(size=(9, p))
    view = view_of(X, weight)
    chain = chain_of_powers(rng.normal(size=(3, p)), 3, view.frame.noise)
    made = moment_pairs.three_way_mean(view, chain, a, b, c).value
    n = a + b + c
    w = np.ones(9) if weight is None else weight(n)
    dense = np.tensordot(w, hermite_dense(X, n), 1) * math.sqrt(math.factorial(n)) / 9
    bases = [RecursiveProjection(list(chain.steps[:s])).as_matrix() for s in orders]
    expected = np.einsum("abc,xa,yb,zc->xyz", dense.reshape(p**a, p**b, p**c), *bases)
    np.testing.assert_allclose(made, expected, atol=1e-10 * np.abs(expected).max())


def test_terms_count_all_ways_to_pair():
    """At x = 0 all slots are paired: the factors of (2, 2, 2) sum to −15 on a line."""
    signed = sum(f for f, paired, _ in moment_pairs.three_way_terms(2, 2, 2) if sum(paired) == 3)
    # of the 15 perfect matchings of six slots, 8 pair no slot within a leg
    assert signed == -8


@pytest.mark.parametrize("height", [None, 1.5], ids=["plain", "with a constant"])
@pytest.mark.parametrize("weight", [None, weights], ids=["ones", "signed"])
def test_the_fast_route_equals_explicit_tensors(weight, height, rng):
    X = rng.normal(size=(9, 2))
    view = view_of(X, weight, height)
    if height is not None and weight is not None:
        view = view_of(X, lambda _: weights(0), height)
        view.problem.uniform = True
    pair = moment_pairs.moment_pair(view, 2, 3)
    p = view.frame.p
    W = rng.normal(size=(pair.window.dim, 3))
    basis = pair.window.step(np.eye(pair.window.dim))
    points = view.frame.points(X)

    def dense(n):
        w = np.ones(9) if weight is None else weights(0 if height else n)
        tensors = hermite_dense(points, n, view.frame.noise) * math.sqrt(math.factorial(n))
        return np.tensordot(w, tensors, 1) / 9

    fourth = basis @ dense(4).reshape(p**2, p**2) @ basis.T
    np.testing.assert_allclose(pair.second().value, fourth, atol=1e-10 * np.abs(fourth).max())
    A = W.T @ basis
    sixth = np.einsum("abc,xa,yb,zc->xyz", dense(6).reshape([p**2] * 3), A, A, A)
    fast = pair.third(W)
    np.testing.assert_allclose(fast.value, sixth, atol=1e-10 * np.abs(sixth).max())
    slow = moment_pairs.ChainMomentPair(pair.view, pair.chain, pair.window).third(W)
    np.testing.assert_allclose(slow.halves[0], fast.halves[0], atol=1e-9 * np.abs(sixth).max())


@pytest.mark.parametrize("k", [1, 5, 8, 19])
def test_cube_sums(k, rng, xp):
    rows, c = rng.normal(size=(30, k)), rng.normal(size=30)
    made = moment_pairs.fill_cube(
        np.asarray(moment_pairs.cube_sum(xp.asarray(rows), xp.asarray(c)))
    )
    np.testing.assert_allclose(made, np.einsum("n,na,nb,nc->abc", c, rows, rows, rows), atol=1e-10)


def test_symmetrise_averages_over_orders(rng):
    T = rng.normal(size=(3, 3, 3))
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    np.testing.assert_allclose(moment_pairs.symmetrise(T), sum(T.transpose(o) for o in orders) / 6)


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_orthogonal_components_are_found_from_any_start(k):
    rng = np.random.default_rng(k)
    U = np.linalg.qr(rng.normal(size=(k, k)))[0]
    values = rng.uniform(1, 8, size=k)
    T = np.einsum("i,ai,bi,ci->abc", values, U, U, U)
    found = decompose(T, seed=1)
    assert found.spread < 1e-6
    order = np.argmax(np.abs(found.vectors.T @ U), axis=1)
    assert sorted(order) == list(range(k))
    np.testing.assert_allclose(np.abs(found.values), values[order], rtol=1e-8)
    noisy = moment_pairs.symmetrise(T + 0.01 * rng.normal(size=T.shape))
    near = refine(noisy, found.vectors)
    assert np.abs(np.abs(near.values) - np.abs(found.values)).max() < 0.2
