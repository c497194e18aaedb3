"""Components of a known covariance: problem and density are those of the whitened rows."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments import SphericalMixtureDensity
from implicitmoments.moments import SphericalMixtureProblem
from support import refuses

SIGMA = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, -0.3], [0.0, -0.3, 0.25]])
L = np.linalg.cholesky(SIGMA)
WEIGHTS, WHITE = np.array([0.3, 0.7]), np.array([[1.4, 0.0, 0.5], [-0.6, 0.3, 0.0]])


def rows(n, seed=0, means=WHITE):
    """Return whitened rows, and the same in the coordinates of SIGMA."""
    rng = np.random.default_rng(seed)
    Z = means[rng.choice(2, n, p=WEIGHTS)] + rng.normal(size=(n, 3))
    return Z, Z @ L.T + np.array([10.0, -2.0, 1.0])


def test_the_density_is_that_of_whitened_rows_in_the_coordinates_of_the_user():
    Z, X = rows(8_000)
    known = SphericalMixtureDensity(2, variance=SIGMA, degree=6, random_state=0).fit(X)
    white = SphericalMixtureDensity(2, variance=1.0, degree=6, random_state=0).fit(Z)
    volume = np.log(np.diagonal(L)).sum()
    np.testing.assert_allclose(
        known.score_samples(X[:500]), white.score_samples(Z[:500]) - volume, atol=1e-8
    )
    np.testing.assert_allclose(known.center_, X.mean(axis=0))
    np.testing.assert_allclose(known.variance_, SIGMA)
    moved = white.sample(200, random_state=1) @ L.T + np.array([10.0, -2.0, 1.0])
    np.testing.assert_allclose(known.sample(200, random_state=1), moved, atol=1e-6)
    # a negative control: as if it were spherical
    wrong = SphericalMixtureDensity(2, variance=1.0, degree=6, random_state=0)
    with pytest.warns(im.AssumptionWarning):
        wrong.fit(X)
    assert known.score(X) > wrong.score(X) + 0.5


def test_means_of_a_known_covariance_are_found():
    far = np.array([[3.0, 0.0, 1.0], [-2.0, 2.0, 0.0]])
    _, X = rows(20_000, means=far)
    problem = SphericalMixtureProblem(X, variance=SIGMA, center=X.mean(axis=0))
    found = im.implicit_moments(problem, n_components=2, order=2).components()
    truth = far @ L.T + np.array([10.0, -2.0, 1.0])
    order = np.argsort(found.vectors[:, 0])
    np.testing.assert_allclose(found.vectors[order], truth[np.argsort(truth[:, 0])], atol=0.15)
    number = SphericalMixtureProblem(X, variance=4.0)
    matrix = SphericalMixtureProblem(X, variance=4.0 * np.eye(3))
    np.testing.assert_allclose(number.original_vectors(far), matrix.original_vectors(far))


@pytest.mark.parametrize(
    ("matrix", "code"),
    [
        (np.eye(2), "wrong_shape"),
        (np.diag([1.0, 1.0, 0.0]), "covariance_not_positive_definite"),
        (np.array([[1.0, 0.5, 0], [0, 1, 0], [0, 0, 1]]), "covariance_not_positive_definite"),
    ],
)
def test_matrices_that_are_no_covariance_are_refused(matrix, code):
    _, X = rows(100)
    with refuses(code):
        SphericalMixtureProblem(X, variance=matrix)
    with refuses(code):
        SphericalMixtureDensity(2, variance=matrix).fit(X)
