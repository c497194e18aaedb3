"""Hermite tensors through symmetric chains, exactly, against dense twins."""

import numpy as np
import pytest

from implicitmoments.moments import chain as chains
from implicitmoments.moments.chain import SymmetricChain
from support import chain_of_powers, dense_basis, dense_hermite

TOLERANCE = 1e-10
NOISES = {"identity": np.eye(3), "with a constant": np.diag([0.0, 1.0, 1.0])}


@pytest.fixture(params=NOISES.values(), ids=NOISES)
def noise(request):
    return request.param


@pytest.fixture
def case(noise, rng):
    return chain_of_powers(rng.normal(size=(5, 3)), 4, noise), rng.normal(size=(6, 3))


def test_images_are_projected_hermite_tensors(case, xp):
    chain, X = case
    there = SymmetricChain(tuple(map(xp.asarray, chain.steps)), xp.asarray(chain.noise))
    images = there.images(xp.asarray(X))
    for n in range(5):
        dense = dense_hermite(X, n, chain.noise).reshape(6, -1) @ dense_basis(chain, n).T
        assert type(images[n]) is type(xp.ones(1))
        tolerance = TOLERANCE * np.abs(dense).max()
        np.testing.assert_allclose(np.asarray(images[n]), dense, atol=tolerance)


@pytest.mark.parametrize(
    ("a", "b"), [(a, b) for a in range(5) for b in range(a, 5) if 2 <= a + b <= 8]
)
def test_mixed_orders_equal_explicit_tensors(case, a, b):
    """Orders 2 to 8, even and odd, on U_a × U_b."""
    chain, X = case
    c = np.random.default_rng(1).normal(size=6)
    images = chain.images(X)
    means = [(images[a - n] * c[:, None]).T @ images[b - n] for n in range(a + 1)]
    total = chain.assemble(means, a, b)
    dense = np.tensordot(c, dense_hermite(X, a + b, chain.noise).reshape(6, 3**a, 3**b), 1)
    dense = dense_basis(chain, a) @ dense @ dense_basis(chain, b).T
    np.testing.assert_allclose(total, dense, atol=TOLERANCE * np.abs(dense).max())


@pytest.mark.parametrize(("a", "b"), [(0, 3), (1, 1), (2, 3), (4, 4)])
def test_contracted_forms_answer_like_dense_tensors(case, a, b, rng):
    """Of a symmetric tensor: the sum of powers of the vectors that span the chain."""
    chain, X = case
    v, w = rng.normal(size=(2, 3)), rng.normal(size=2)

    def power(n):
        image = np.ones((2, 1))
        for _ in range(n):
            image = np.einsum("na,nb->nab", image, v).reshape(2, -1)
        return image

    both = chain_of_powers(v, 4, chain.noise)
    form = dense_basis(both, a) @ (power(a).T * w) @ power(b) @ dense_basis(both, b).T
    images, forms = both.images(X), chains.contracted_forms(both, a, b, form)
    answers = sum(
        np.sum((images[a - n] @ matrix) * images[b - n], axis=1) for n, matrix in enumerate(forms)
    )
    dense = dense_hermite(X, a + b, chain.noise).reshape(6, -1) @ (power(a + b).T @ w)
    np.testing.assert_allclose(answers, dense, atol=TOLERANCE * np.abs(dense).max())


def test_an_asymmetric_subspace_is_not_answered(rng):
    """The negative control: symmetry is what the recursion rests on."""
    step = np.linalg.qr(rng.normal(size=(9, 4)))[0].T
    chain, X = SymmetricChain((np.eye(3), step), np.eye(3)), rng.normal(size=(6, 3))
    images = chain.images(X)
    total = chain.assemble([images[2 - n].T @ images[2 - n] for n in range(3)], 2, 2)
    dense = step @ dense_hermite(X, 4, np.eye(3)).sum(0).reshape(9, 9) @ step.T
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


def test_symmetriser_is_the_dense_one(rng):
    chain = chain_of_powers(rng.normal(size=(4, 3)), 2)
    places = np.arange(27).reshape(3, 3, 3)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    dense = sum(np.eye(27)[places.transpose(o).ravel()] for o in orders) / 6
    window = np.kron(dense_basis(chain, 2), np.eye(3))
    np.testing.assert_allclose(chain.symmetriser(), window @ dense @ window.T, atol=1e-12)
    np.testing.assert_array_equal(SymmetricChain((), np.eye(3)).symmetriser(), np.eye(3))


def test_windows_over_everything_hold_symmetric_matrices(rng, noise, xp):
    window, symmetry = chains.open_window(SymmetricChain((xp.eye(3),), xp.asarray(noise)), 2)
    raw = rng.normal(size=(4, 3, 3))
    S, rows = raw + raw.transpose(0, 2, 1), np.asarray(window.steps[1])
    made = S.reshape(4, 9) @ rows.T
    assert symmetry is None
    np.testing.assert_allclose((made @ rows).reshape(4, 3, 3), S)
    np.testing.assert_allclose(rows @ rows.T, np.eye(6), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_candidates_contain_all_powers(noise, n, rng):
    V = rng.normal(size=(5, 3))
    chain = chain_of_powers(V, n - 1, noise)
    window, _ = chains.open_window(chain, 5)
    basis = dense_basis(window, n)
    powers = np.ones((5, 1))
    for _ in range(n):
        powers = np.einsum("na,nb->nab", powers, V).reshape(5, -1)
    np.testing.assert_allclose(powers @ basis.T @ basis, powers, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 3, 9])
def test_fourth_moments_on_pairs_equal_those_of_the_recursion(rng, xp, weighted, p):
    """The twin is the recursion with all products of two coordinates."""
    noise = np.diag(rng.uniform(0.5, 2.0, p))
    X, c = rng.normal(size=(9, p)), rng.normal(size=9) if weighted else np.ones(9)

    window = chains.SymmetricMatrices.over(SymmetricChain((xp.eye(p),), xp.asarray(noise)))
    sums = window.quadruples(xp.asarray(X), xp.asarray(c) if weighted else None)
    found = np.asarray(window.fourth({name: xp.asarray(sums[name] / 9) for name in sums}))
    images = [np.asarray(image) for image in window.images(xp.asarray(X))]
    means = [(images[2 - n] * c[:, None]).T @ images[2 - n] / 9 for n in range(3)]
    expected = np.asarray(window.assemble([xp.asarray(mean) for mean in means], 2, 2))
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_mixed_coefficients_are_those_of_perfect_matchings():
    """At x = 0 all slots are paired: on a line He_4(0) = 3, from halves of two slots."""
    assert chains.mixed_coefficients(2, 2) == [1.0, -4.0, 2.0]
    assert chains.mixed_coefficients(1, 3) == [1.0, -3.0]
    # He_2(0) = −1: 1·(−1)² − 4·0 + 2·1
    assert np.dot(chains.mixed_coefficients(2, 2), [1.0, 0.0, 1.0]) == 3.0
