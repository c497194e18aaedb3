"""Moments of squares against explicit Hermite tensors, and the variance read off them."""

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import decoding
from implicitmoments.rows import Rows

EYE4 = ["ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl"]


def dense_fourth(y, J):
    """E[He_4] with noise covariance J, written out over all pairings."""
    raw = np.einsum("ni,nj,nk,nl->ijkl", y, y, y, y) / len(y)
    S = y.T @ y / len(y)
    pairs = sum(np.einsum(e, J, S) + np.einsum(e, S, J) for e in EYE4)
    return raw - pairs + sum(np.einsum(e, J, J) for e in EYE4)


def test_coordinates_are_orthonormal():
    rng = np.random.default_rng(0)
    A, B = (m + m.T for m in rng.normal(size=(2, 4, 4)))
    assert decoding.coordinates(A) @ decoding.coordinates(B) == pytest.approx(np.sum(A * B))
    y = rng.normal(size=(3, 4))
    np.testing.assert_allclose(
        decoding.squares(y), decoding.coordinates(y[:, :, None] * y[:, None, :])
    )


@pytest.mark.parametrize("variance", [0.3, 1.0, 1.7])
def test_fourth_moment_is_the_hermite_tensor(variance):
    rng = np.random.default_rng(1)
    y = np.hstack([np.full((50, 1), 0.8), rng.normal(size=(50, 3))])
    J = variance * np.diag([0.0, 1.0, 1.0, 1.0])
    moment = decoding.fourth_moment(*decoding.raw_moments(y, np.full(50, 1 / 50)))
    dense = dense_fourth(y, J)
    for _ in range(5):
        A, B = (m + m.T for m in rng.normal(size=(2, 4, 4)))
        expected = np.einsum("ij,kl,ijkl->", A, B, dense)
        assert decoding.coordinates(A) @ moment.at(variance) @ decoding.coordinates(
            B
        ) == pytest.approx(expected)


def test_slope_is_the_derivative():
    y = np.random.default_rng(2).normal(size=(40, 3))
    moment = decoding.fourth_moment(*decoding.raw_moments(y, np.full(40, 1 / 40)))
    difference = (moment.at(0.7 + 1e-5) - moment.at(0.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(moment.slope(0.7), difference, atol=1e-8)


def sample(X, counts=None):
    return Rows.of(X, counts=counts)


@pytest.mark.parametrize(("k", "d", "how"), [(5, 12, "covariance"), (20, 10, "fourth moments")])
def test_variance_is_found_before_any_component(k, d, how):
    X, _ = make_spherical_mixture(20_000, k, d, radius=4.0, separation=2.5, random_state=0)
    for scale in (1.0, 3.0):
        found, said = decoding.guess_variance(sample(scale * X), k)
        assert said == how
        assert found == pytest.approx(scale**2, rel=0.03)
    if how == "fourth moments":  # the smallest eigenvalue of the covariance is not it
        assert np.linalg.eigvalsh(np.cov(X.T))[0] > 1.2


def test_weights_of_rows_count_in_the_variance():
    X, _ = make_spherical_mixture(6_000, 12, 6, radius=5.0, separation=3.0, random_state=1)
    counts = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    repeated = np.repeat(X, counts.astype(int), axis=0)
    weighted = decoding.guess_variance(sample(X, counts), 12)[0]
    assert weighted == pytest.approx(decoding.guess_variance(sample(repeated), 12)[0], rel=1e-6)


def test_too_many_components_leave_the_smallest_eigenvalue():
    X = np.random.default_rng(0).normal(size=(500, 2))
    found, how = decoding.guess_variance(sample(X), 6)
    assert how == "smallest eigenvalue"
    assert found == pytest.approx(np.linalg.eigvalsh(np.cov(X.T, bias=True))[0])
