"""Numerical checks of what docs/closed_form_theorem.md states: identities, then inequalities.

Exact moments of a mixture are means over the nodes of a Gaussian rule about every component, with
the weights of the rule as weights of the rows.
"""

import itertools
import math

import numpy as np
import pytest

from implicitmoments import HermiteProblem, implicit_moments
from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.moments import Frame, FramedRows, SymmetricChain
from implicitmoments.moments.chain import open_window
from implicitmoments.moments.closed_form import SYMMETRIC
from implicitmoments.moments.cubature import Cubature
from implicitmoments.moments.form_means import even_mean, mean_moments
from implicitmoments.moments.implicit import distances_to_truth
from implicitmoments.projections import hermite_dense


def mixture(k, d, seed, length=1.5):
    vectors = np.random.default_rng(seed).normal(size=(k, d))
    vectors *= length / np.linalg.norm(vectors, axis=1)[:, None]
    return Truth(np.full(k, 1 / k), vectors)


def exact_problem(truth, degree):
    """Rows whose mean of He_t is M_t for t up to the degree, without sampling error."""
    nodes, weights = Cubature(truth.vectors.shape[1], degree).rule
    points = (truth.vectors[:, None, :] + nodes).reshape(-1, truth.vectors.shape[1])
    counts = np.outer(truth.weights, weights).ravel() * len(points)
    return HermiteProblem(points, lambda _: counts)


def view(problem):
    d = problem.n_features
    return FramedRows(problem, Frame(np.eye(d), np.zeros(d)), problem.n_rows)


def powers(truth, n):
    """x_{i,n} = √w_i v_i^{⊗n}, (k, d^n)."""
    made = np.sqrt(truth.weights)[:, None]
    for _ in range(n):
        made = np.einsum("ia,ib->iab", made, truth.vectors).reshape(len(made), -1)
    return made


def dense_steps(p, n):
    """Steps that keep everything: the chain is then the dense twin."""
    return tuple(np.eye(p**r) for r in range(1, n + 1))


def as_matrix(chain):
    """The rows of U_n as tensors, (k_n, p^n)."""
    rows = np.eye(1)
    for step in chain.steps:
        split = step.reshape(len(step), -1, chain.p)
        rows = np.einsum("oaj,am->omj", split, rows).reshape(len(step), -1)
    return rows


def symmetrised(tensor):
    orders = list(itertools.permutations(range(tensor.ndim)))
    return sum(np.transpose(tensor, order) for order in orders) / len(orders)


def symmetriser(p, n):
    """The projection S onto symmetric tensors, (p^n, p^n)."""
    tensors = np.eye(p**n).reshape(p**n, *[p] * n)
    return np.stack([symmetrised(tensor).ravel() for tensor in tensors])


def noisy_chain(truth, n, noise, seed):
    """A chain of order n near the powers of the truth, with noise in every step."""
    rng, (k, p) = np.random.default_rng(seed), truth.vectors.shape
    steps, image = [np.eye(p)], truth.vectors
    for _ in range(2, n + 1):
        joined = np.einsum("ia,ib->iab", image, truth.vectors).reshape(k, -1)
        rows = joined + noise * rng.normal(size=joined.shape)
        chain = SymmetricChain(tuple(steps), np.eye(p))
        rows = rows @ chain.symmetriser()
        steps.append(np.linalg.qr(rows.T)[0].T)
        image = joined @ steps[-1].T
    return SymmetricChain(tuple(steps), np.eye(p))


class TestIdentities:
    """Theorem 1: no data, no approximation."""

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
    def test_a_symmetric_tensor_cannot_tell_k_from_the_hermite_tensor(self, n, rng):
        x, J = rng.normal(size=3), np.diag([1.0, 0.5, 2.0])
        K = [np.ones(()), x]
        for m in range(2, n + 1):
            K.append(np.multiply.outer(K[-1], x) - (m - 1) * np.multiply.outer(K[-2], J))
        He = hermite_dense(x[None], n, J)[0] * math.sqrt(math.factorial(n))
        np.testing.assert_allclose(symmetrised(K[n]), He, atol=1e-11)
        assert n < 3 or np.abs(K[n] - He).max() > 0.1  # K_n itself is another tensor

    @pytest.mark.parametrize(
        ("k", "d", "order"), [(2, 2, 6), (2, 2, 12), (3, 3, 8), (3, 3, 10), (4, 3, 7), (3, 2, 9)]
    )
    def test_exact_moments_are_answered_exactly(self, k, d, order):
        truth = mixture(k, d, seed=order)
        found = implicit_moments(
            exact_problem(truth, order + order % 2), n_components=k, order=order, drop_noise=False
        )
        queries = np.random.default_rng(0).normal(size=(100, d))
        for n in range(1, order + 1):
            exact = truth.hermite(queries, n)
            size = np.sqrt(np.mean(exact**2))
            assert np.abs(found.hermite(queries, n) - exact).max() < 1e-7 * size

    def test_forms_are_the_dense_ones_on_any_chain(self, rng):
        """Also of tensors that are not symmetric: one recursion, through any steps."""
        p, n, X = 2, 3, rng.normal(size=(50, 2))
        shapes = ((2, 2), (3, 4), (4, 6))
        steps = tuple(np.linalg.qr(rng.normal(size=shape).T)[0].T for shape in shapes)
        chain, dense = (SymmetricChain(some, np.eye(p)) for some in (steps, dense_steps(p, n)))
        form, whole = (
            mean_moments(view(HermiteProblem(X)), some, [(n, n)])[n, n].value
            for some in (chain, dense)
        )
        U = as_matrix(chain)
        np.testing.assert_allclose(form, U @ whole @ U.T, atol=1e-10)

    def test_forms_are_unbiased_on_symmetric_subspaces_of_any_kind(self, rng):
        """Not only on those that the moments choose: U_2 of random symmetric matrices."""
        truth, p = mixture(3, 3, seed=1), 3
        matrices = rng.normal(size=(4, p, p))
        U_2 = np.linalg.qr((matrices + matrices.transpose(0, 2, 1)).reshape(4, -1).T)[0].T
        chain = SymmetricChain((np.eye(p), U_2), np.eye(p))
        forms = mean_moments(view(exact_problem(truth, 4)), chain, [(1, 2), (2, 2)])
        x_1, x_2 = powers(truth, 1), powers(truth, 2) @ U_2.T
        np.testing.assert_allclose(forms[1, 2].value, x_1.T @ x_2, atol=1e-10)
        np.testing.assert_allclose(forms[2, 2].value, x_2.T @ x_2, atol=1e-10)


def kappa(r, theta):
    """The factor of Lemma 2 for a window over U_r."""
    return math.sqrt(1 + 2 * r / ((r + 1) * (1 - theta)))


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("n", [2, 3])
def test_what_a_window_loses(n, noise):
    """Lemma 2: dist(x_{i,n+1}, W)² ≤ κ² η_n² ‖v‖², with θ the next eigenvalue."""
    for seed in range(5):
        truth = mixture(3, 3, seed)
        chain = noisy_chain(truth, n, noise, seed)
        window = open_window(chain, 3, SYMMETRIC)
        spectrum = np.linalg.eigvalsh(chain.symmetriser())[::-1]
        theta = spectrum[window.dim] if window.dim < len(spectrum) else 0.0
        U, W = as_matrix(chain), window.step(np.eye(window.dim))
        W = as_matrix(chain.extend(W))
        x, longer = powers(truth, n), powers(truth, n + 1)
        eta = np.linalg.norm(x - x @ U.T @ U, axis=1).max()
        lost = np.linalg.norm(longer - longer @ W.T @ W, axis=1).max()
        assert lost <= kappa(n, theta) * eta * 1.5 + 1e-12
        assert lost > 1e-3 * noise  # there is something to bound


def measured_steps(truth, problem, fold):
    """For each step n: η_n, and the bound of the theorem from η_{n−1} and the measured δ_n."""
    frame = Frame(fold.moments.frame.basis, np.zeros(problem.n_features))  # in units of the data
    inner = Truth(truth.weights, truth.vectors @ frame.basis.T)
    longest = np.linalg.norm(inner.vectors, axis=1).max()
    steps, before, found = fold.moments.chain.steps, 0.0, []
    for n, report in enumerate(fold.steps, start=1):
        chain = SymmetricChain(steps[: n - 1], frame.noise)
        window = open_window(chain, len(truth.weights), SYMMETRIC)
        W = as_matrix(chain.extend(window.step(np.eye(window.dim))))
        rows = FramedRows(problem, frame, problem.n_rows, report.rows)  # those that chose U_n
        x = powers(inner, n)
        delta = np.linalg.norm(even_mean(rows, chain, window).value - W @ x.T @ x @ W.T, ord=2)
        spectrum = np.linalg.eigvalsh(chain.symmetriser())[::-1]
        theta = spectrum[window.dim] if window.dim < len(spectrum) else 0.0
        U = as_matrix(chain.extend(steps[n - 1]))
        eta = np.linalg.norm(x - x @ U.T @ U, axis=1).max()
        lost = kappa(n - 1, theta) * before * longest
        found.append((eta, math.sqrt(lost**2 + 2 * delta)))
        before = eta
    return found


@pytest.mark.parametrize("sampling", ["reuse", "fresh", "cross_fit"])
def test_the_distance_of_the_subspaces_is_bounded(sampling):
    """Theorem 3, the analogue of Lemma 3.9, step by step, for reused rows as well."""
    for seed in range(3):
        X, truth = make_spherical_mixture(6_000, 4, 6, radius=1.5, random_state=seed)
        problem = HermiteProblem(X)
        m = implicit_moments(problem, n_components=4, order=6, sampling=sampling, drop_noise=False)
        for fold in m.folds:
            first, *later = measured_steps(truth, problem, fold)
            assert first[0] < 1e-12  # the frame is all of R^p
            for eta, bound in later:
                assert 0.01 * bound < eta <= bound
            # the first step itself, in all features: η_1 ≤ √(2 δ_1)
            rows = FramedRows(problem, Frame(np.eye(6), np.zeros(6)), 6_000, fold.steps[0].rows)
            whole = SymmetricChain((), np.eye(6))
            A = even_mean(rows, whole, open_window(whole, 4)).value
            x = powers(truth, 1)
            eta = distances_to_truth(fold.moments.projection, truth)[0]
            assert 0 < eta <= math.sqrt(2 * np.linalg.norm(A - x.T @ x, ord=2))


def test_the_bias_off_symmetric_tensors():
    """Lemma 4: |Bᵀ(E Â − M)B| ≤ 2‖N‖√α + ‖Q‖α for ‖(I − S)B‖² ≤ α, with N and Q the blocks."""
    truth, p, n = mixture(3, 2, seed=3), 2, 3
    dense = SymmetricChain(dense_steps(p, n), np.eye(p))
    G = mean_moments(view(exact_problem(truth, 2 * n)), dense, [(n, n)])[n, n].value
    S = symmetriser(p, n)
    off = np.eye(p**n) - S
    x = powers(truth, n)
    M = x.T @ x
    np.testing.assert_allclose(S @ G @ S, M, atol=1e-9)
    N, Q = (np.linalg.norm(block, ord=2) for block in (S @ G @ off, off @ G @ off))
    assert max(N, Q) > 0.1  # the closed form is not the moment there
    rng = np.random.default_rng(0)
    for alpha in (0.0, 1e-4, 0.01, 0.3):
        for _ in range(50):
            inside, outside = rng.normal(size=(2, p**n)) @ S, rng.normal(size=(2, p**n)) @ off
            inside, outside = inside[0], outside[1]
            B = math.sqrt(1 - alpha) * inside / np.linalg.norm(inside)
            B = B + math.sqrt(alpha) * outside / np.linalg.norm(outside)
            bound = 2 * N * math.sqrt(alpha) + Q * alpha
            assert abs(B @ (G - M) @ B) <= bound + 1e-9


def test_reused_rows_are_bounded_by_the_dense_deviation():
    """Lemma 5: on every subspace of symmetric tensors, chosen from the same rows or not."""
    p, n, rng = 3, 2, np.random.default_rng(5)
    X, truth = make_spherical_mixture(2_000, 3, p, radius=1.5, random_state=5)
    dense = SymmetricChain(dense_steps(p, n), np.eye(p))
    deviation = mean_moments(view(HermiteProblem(X)), dense, [(n, n)])[n, n].value
    x, S = powers(truth, n), symmetriser(p, n)
    deviation = S @ deviation @ S - x.T @ x
    largest = np.linalg.norm(deviation, ord=2)
    reused = implicit_moments(HermiteProblem(X), n_components=3, order=4, drop_noise=False)
    fold = reused.folds[0].moments
    chosen = as_matrix(SymmetricChain(fold.chain.steps, np.eye(p)))
    others = [np.linalg.qr((rng.normal(size=(3, p**n)) @ S).T)[0].T for _ in range(20)]
    for U in (chosen, *others):
        assert np.linalg.norm(U @ deviation @ U.T, ord=2) <= largest + 1e-12


def test_fresh_rows_have_the_variance_of_a_k_by_k_matrix():
    """Lemma 6: E‖Â − E Â‖_F² ≤ K² (2n)!/N for rows from N(0, I) and any fixed U_n."""
    p, n, rows = 3, 2, 400
    rng = np.random.default_rng(6)
    matrices = rng.normal(size=(4, p, p))
    U = np.linalg.qr((matrices + matrices.transpose(0, 2, 1)).reshape(4, -1).T)[0].T
    chain = SymmetricChain((np.eye(p), U), np.eye(p))
    squares = []
    for _ in range(60):  # M_4 of one component at the origin is 0
        X = rng.normal(size=(rows, p))
        squares.append(
            np.sum(mean_moments(view(HermiteProblem(X)), chain, [(n, n)])[n, n].value ** 2)
        )
    bound = 4**2 * math.factorial(2 * n) / rows
    assert 0.05 * bound < np.mean(squares) < bound


@pytest.mark.parametrize(("t", "radius"), [(2, 0.5), (4, 1.0), (6, 2.0)])
def test_the_second_moment_of_a_mixture(t, radius):
    """Lemma 6: t! L_t(−R²), attained along the mean, and no other direction has more."""
    mu = radius * np.array([0.6, 0.8])
    nodes, weights = Cubature(2, 2 * t).rule
    tensors = hermite_dense(mu + nodes, t).reshape(len(nodes), -1)
    second = np.linalg.eigvalsh(np.einsum("na,nb->ab", tensors * weights[:, None], tensors))[-1]
    laguerre = sum(math.comb(t, j) * radius ** (2 * j) / math.factorial(j) for j in range(t + 1))
    assert second == pytest.approx(laguerre, rel=1e-9)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 2), (2, 2), (3, 3)])
def test_what_the_forms_miss(a, b):
    """Claim 7, the analogue of Claim 3.10: ‖M − P_a M P_b‖ ≤ Σ_i (η_a ‖x_ib‖ + η_b ‖x_ia‖)."""
    for seed in range(5):
        truth = mixture(3, 3, seed)
        rng = np.random.default_rng(seed)
        x_a, x_b = powers(truth, a), powers(truth, b)
        U_a, U_b = (np.linalg.qr((x + 0.2 * rng.normal(size=x.shape)).T)[0] for x in (x_a, x_b))
        P_a, P_b = U_a @ U_a.T, U_b @ U_b.T
        eta_a = np.linalg.norm(x_a - x_a @ P_a, axis=1).max()
        eta_b = np.linalg.norm(x_b - x_b @ P_b, axis=1).max()
        M = x_a.T @ x_b
        missed = np.linalg.norm(M - P_a @ M @ P_b)
        norms = np.linalg.norm(x_b, axis=1), np.linalg.norm(x_a, axis=1)
        bound = np.sum(eta_a * norms[0] + eta_b * norms[1])
        assert 0.01 * bound < missed <= bound


@pytest.mark.parametrize("sampling", ["reuse", "fresh", "cross_fit"])
def test_the_error_of_answers_is_that_of_the_forms(sampling):
    """Theorem 8 at order 4: root mean square over x ~ N(0, I) ≤ ‖F̂ − P M P‖ + ‖M − P M P‖."""
    X, truth = make_spherical_mixture(10_000, 3, 3, radius=1.5, random_state=8)
    m = implicit_moments(
        HermiteProblem(X), n_components=3, order=4, sampling=sampling, drop_noise=False
    )
    queries = np.random.default_rng(0).normal(size=(40_000, 3))
    error = np.sqrt(np.mean((m.hermite(queries) - truth.hermite(queries, 4)) ** 2))
    bounds = []
    for fold in m.folds:
        moments = fold.moments
        U = as_matrix(SymmetricChain(moments.chain.steps, np.eye(3)))
        x = powers(Truth(truth.weights, truth.vectors @ moments.frame.basis.T), 2)
        M = x.T @ x
        form = moments.forms[2, 2] * moments.frame.scale**4
        inside = U @ M @ U.T
        bounds.append(np.linalg.norm(form - inside) + np.linalg.norm(M - U.T @ inside @ U))
    assert 0.1 * np.mean(bounds) < error <= 1.02 * np.mean(bounds)  # 2 %: 40,000 queries


def contracted_identity(d, b):
    """I_d^{⊗b} as a vector of d^{2b} entries."""
    made = np.ones(1)
    for _ in range(b):
        made = np.multiply.outer(made, np.eye(d)).reshape(-1)
    return made


@pytest.mark.parametrize(("d", "b"), [(2, 1), (3, 1), (2, 2), (4, 2), (2, 3)])
def test_erratum_11(d, b):
    """The second moment of H ⊗ I^{⊗b} has the factor d^b, and b identities cost rows likewise."""
    I_b = contracted_identity(d, b)
    assert I_b @ I_b == d**b
    # the query x ⊗ I^{⊗b} of order 1 + 2b: the largest eigenvalue of its second moment is d^b
    nodes, weights = Cubature(d, 2).rule
    queries = np.einsum("na,m->nam", nodes, I_b).reshape(len(nodes), -1)
    gram = np.einsum("na,nb->ab", queries * weights[:, None], queries)
    assert np.linalg.eigvalsh(gram)[-1] == pytest.approx(d**b)
    # ⟨He_2b(x), I^{⊗b}⟩ has mean square (2b)! d (d + 2) ⋯ (d + 2b − 2) / (2b − 1)!!
    nodes, weights = Cubature(d, 4 * b).rule
    tensors = hermite_dense(nodes, 2 * b).reshape(len(nodes), -1) @ I_b
    exact = math.prod(range(d, d + 2 * b, 2)) / math.prod(range(1, 2 * b, 2))
    assert weights @ tensors**2 == pytest.approx(exact)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_direct_average_has_a_bounded_second_moment(n):
    """E⟨T, H_n((x, y), Y)⟩² ≤ (‖2I + A‖ + ‖A‖_F)^n for unit T, with A the covariance less I."""
    rng = np.random.default_rng(n)
    beta, sigma = np.array([0.3, 0.4]), 0.5
    nodes, weights = Cubature(6, 2 * n).rule
    x, y = nodes[:, :2], nodes[:, :2] @ beta + sigma * nodes[:, 2]
    z = np.column_stack([x, y]) + 1j * nodes[:, 3:]
    A = np.zeros((3, 3))
    A[:2, 2] = A[2, :2] = beta
    A[2, 2] = beta @ beta + sigma**2 - 1
    bound = (np.linalg.norm(2 * np.eye(3) + A, 2) + np.linalg.norm(A)) ** n
    tensors = np.ones((len(z), 1), dtype=complex)
    for _ in range(n):
        tensors = np.einsum("na,nb->nab", tensors, z).reshape(len(z), -1)
    images = tensors.real / math.sqrt(math.factorial(n))
    largest = np.linalg.eigvalsh(np.einsum("na,nb->ab", images * weights[:, None], images))[-1]
    assert 0.01 * bound < largest <= bound
    T = rng.normal(size=3**n)
    assert weights @ (images @ T) ** 2 <= bound * (T @ T)
