"""Hermite tensors through symmetric chains, exactly (design of the closed form)."""

import math

import numpy as np
import pytest

from implicitmoments.circuits import power, vector
from implicitmoments.moments import chain as chains
from implicitmoments.moments import pair_window
from implicitmoments.projections import RecursiveProjection, evaluate_dense, hermite_dense
from implicitmoments.testing import chain_of_powers

TOLERANCE = 1e-10
NOISES = {
    "identity": np.eye(3),
    "with a constant": np.diag([0.0, 1.0, 1.0]),
    "general": np.array([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 2.0]]),
}


def dense_basis(chain, n):
    return RecursiveProjection(list(chain.steps[:n])).as_matrix() if n else np.ones((1, 1))


def hermite(X, order, noise):
    return hermite_dense(X, order, noise) * math.sqrt(math.factorial(order))


@pytest.fixture(params=NOISES.values(), ids=NOISES)
def noise(request):
    return request.param


@pytest.fixture
def case(noise, rng):
    return chain_of_powers(rng.normal(size=(5, 3)), 4, noise), rng.normal(size=(6, 3))


def test_images_are_projected_hermite_tensors(case, xp):
    chain, X = case
    there = chains.SymmetricChain(tuple(map(xp.asarray, chain.steps)), xp.asarray(chain.noise))
    images = there.images(xp.asarray(X))
    for n in range(5):
        dense = hermite(X, n, chain.noise).reshape(6, -1) @ dense_basis(chain, n).T
        assert type(images[n]) is type(xp.ones(1))
        np.testing.assert_allclose(
            np.asarray(images[n]), dense, atol=TOLERANCE * np.abs(dense).max()
        )


@pytest.mark.parametrize(
    ("a", "b"), [(a, b) for a in range(5) for b in range(a, 5) if 2 <= a + b <= 8]
)
def test_mixed_orders_equal_explicit_tensors(case, a, b):
    """Orders 2 to 8, even and odd, on U_a × U_b."""
    chain, X = case
    c = np.random.default_rng(1).normal(size=6)
    images = chain.images(X)
    coefficients = chains.mixed_coefficients(a, b)
    total = coefficients[a] * (images[0] * c[:, None]).T @ images[b - a]
    for j in range(1, a + 1):
        lifted = chains.lift(total, chain.steps[j - 1], chain.steps[b - a + j - 1], chain.noise)
        total = lifted + coefficients[a - j] * (images[j] * c[:, None]).T @ images[b - a + j]
    dense = np.tensordot(c, hermite(X, a + b, chain.noise).reshape(6, 3**a, 3**b), 1)
    dense = dense_basis(chain, a) @ dense @ dense_basis(chain, b).T
    np.testing.assert_allclose(total, dense, atol=TOLERANCE * np.abs(dense).max())


def test_an_asymmetric_subspace_is_not_answered(rng):
    """The negative control: symmetry is what the recursion rests on."""
    step = np.linalg.qr(rng.normal(size=(9, 4)))[0].T
    chain = chains.SymmetricChain((np.eye(3), step), np.eye(3))
    X = rng.normal(size=(6, 3))
    images = chain.images(X)
    grams = [images[j].T @ images[j] for j in range(3)]
    total = 2 * chains.lift(
        chains.lift(grams[0], chain.steps[0], chain.steps[0], np.eye(3)), step, step, np.eye(3)
    )
    total = total - 4 * chains.lift(grams[1], step, step, np.eye(3)) + grams[2]
    dense = step @ hermite(X, 4, np.eye(3)).sum(0).reshape(9, 9) @ step.T
    assert np.abs(total - dense).max() > 0.1 * np.abs(dense).max()


def test_lift_and_drop_are_adjoint(case, rng):
    chain, _ = case
    left, right = chain.steps[1], chain.steps[2]
    Q = rng.normal(size=(chain.dim(1), chain.dim(2)))
    B = rng.normal(size=(chain.dim(2), chain.dim(3)))
    np.testing.assert_allclose(
        np.sum(chains.lift(Q, left, right, chain.noise) * B),
        np.sum(Q * chains.drop(B, left, right, chain.noise)),
    )


def test_a_window_carries_rows_like_one_more_step(case):
    chain, X = case
    for order in range(4):
        short = chains.SymmetricChain(chain.steps[:order], chain.noise)
        window = chains.ChainWindow(short, chain.steps[order])
        np.testing.assert_allclose(
            window.features(short.images(X), X, None), chain.images(X)[order + 1], atol=1e-10
        )


def test_symmetriser_is_the_dense_one(rng):
    chain = chain_of_powers(rng.normal(size=(4, 3)), 2, np.eye(3))
    places = np.arange(27).reshape(3, 3, 3)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    dense = sum(np.eye(27)[places.transpose(o).ravel()] for o in orders) / 6
    window = np.kron(dense_basis(chain, 2), np.eye(3))
    np.testing.assert_allclose(chain.symmetriser(), window @ dense @ window.T, atol=1e-12)
    np.testing.assert_array_equal(chains.SymmetricChain((), np.eye(3)).symmetriser(), np.eye(3))


def test_pairs_are_coordinates_of_symmetric_matrices(rng, noise, xp):
    window = chains.PairWindow(xp.asarray(noise))
    made = rng.normal(size=(4, 3, 3))
    S = made + made.transpose(0, 2, 1)
    coordinates = window.coordinates(xp.asarray(S))
    np.testing.assert_allclose(np.asarray(window.matrices(coordinates)), S)
    np.testing.assert_allclose(np.sum(np.asarray(coordinates) ** 2, 1), np.sum(S**2, (1, 2)))
    X = xp.asarray(rng.normal(size=(5, 3)))
    made = window.features([xp.ones((5, 1)), X], X, None)
    expected = np.einsum("na,nb->nab", np.asarray(X), np.asarray(X)) - noise
    np.testing.assert_allclose(np.asarray(window.matrices(made)), expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_even_moments_on_windows_equal_explicit_tensors(noise, n, rng):
    """On what is symmetric in the window: the powers of the vectors that span the chain."""
    V, X = rng.normal(size=(5, 3)), rng.normal(size=(6, 3))
    chain = chain_of_powers(V, n - 1, noise)
    if n == 2:
        chain = chains.SymmetricChain((np.eye(3),), noise)
    window = chains.open_window(chain, 5)
    images = chain.images(X)
    rows = [*images, window.features(images, X, None)]
    made = chains.assemble_form(chain, [r.T @ r / 6 for r in reversed(rows)], n, n, window)
    basis = RecursiveProjection([*chain.steps, window.step(np.eye(window.dim))]).as_matrix()
    powers = evaluate_dense(power(vector("v"), n), {"v": V}).reshape(5, -1)
    inside = powers @ basis.T
    np.testing.assert_allclose(inside @ basis, powers, atol=1e-10)
    dense = powers @ hermite(X, 2 * n, noise).mean(0).reshape(3**n, 3**n) @ powers.T
    np.testing.assert_allclose(inside @ made @ inside.T, dense, atol=1e-10 * np.abs(dense).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_sorted_quadruples_are_the_gram_matrix_of_all_pairs(rng, xp, weighted):
    p, n = 3 * pair_window.PANEL + 3, 9
    factor = rng.normal(size=(p, p))
    window = chains.PairWindow(xp.asarray(factor @ factor.T))
    assert window.sorted
    X = xp.asarray(rng.normal(size=(n, p)))
    root = xp.asarray(rng.uniform(0.5, 2.0, size=(n, 1))) if weighted else None
    images = [xp.ones((n, 1), dtype=X.dtype), X]
    if root is not None:
        images = [image * root for image in images]
    sums = window.gram_sums(images, X, root)
    found = window.gram(sums, [xp.matrix_transpose(image) @ image for image in images])
    features = window.features(images, X, root)
    expected = np.asarray(xp.matrix_transpose(features) @ features)
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-12 * np.abs(expected).max())
    assert sums.shape[0] < 0.7 * window.dim**2 / 2  # of a symmetric update
