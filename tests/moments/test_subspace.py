import numpy as np

from implicitmoments import HermiteProblem, implicit_moments
from implicitmoments.circuits import power, vector
from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.moments import distances_to_truth, top_subspace
from implicitmoments.projections import RecursiveProjection, evaluate_dense


def test_the_largest_eigenvalues_not_the_largest_sizes():
    """Erratum 8: a moment of even order has no negative eigenvalues, so those are noise."""
    basis, spectrum = top_subspace(np.diag([1.0, -5.0, 0.5]), 1)
    np.testing.assert_allclose(np.abs(basis), [[1.0, 0.0, 0.0]])
    np.testing.assert_allclose(spectrum, [1.0, 0.5, -5.0])


def test_what_is_not_symmetric_is_made_so(xp):
    skewed = np.array([[2.0, 1.0], [0.0, 1.0]])
    basis, spectrum = top_subspace(xp.asarray(skewed), 5)
    assert basis.shape == (2, 2)
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh((skewed + skewed.T) / 2)[::-1])


def test_identity_steps_lose_nothing():
    truth = Truth([1.0], [[1.0, 2.0]])
    keep = RecursiveProjection.identity(2, 2).tensor(RecursiveProjection.identity(2, 1))
    np.testing.assert_array_equal(distances_to_truth(keep, truth), [0.0, 0.0, 0.0])


def test_what_a_subspace_misses_of_the_moment_is_bounded_by_eta():
    """Claim 3.10: ‖M_m − P_m M_m‖ ≤ eta_m √k (Σ w)^(1/2)."""
    X, truth = make_spherical_mixture(9_000, 3, 4, random_state=0)
    run = implicit_moments(
        HermiteProblem(X), n_components=3, order=3, method="paper", truth=truth, random_state=0
    ).runs[0]
    matrix = run.projection.as_matrix()
    powers = evaluate_dense(power(vector("v"), 3), {"v": truth.vectors}).reshape(3, -1)
    moment = truth.weights @ powers
    missed = np.linalg.norm(moment - moment @ matrix.T @ matrix)
    bound = run.etas[-1] * np.sqrt(3) * np.sqrt(truth.weights.sum())
    assert 0 < missed <= bound
    assert missed > 0.02 * bound  # the bound is not so loose that anything passes
