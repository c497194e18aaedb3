"""Definitions 3.4 and 3.6, Lemmas 3.5 and 3.8."""

import numpy as np
import pytest

from implicitmoments.paper.projections import Projection, Step, as_matrix, tensor


def test_a_pseudo_projection_has_orthonormal_rows():
    """Definition 3.4."""
    Step(np.eye(3)[:2])
    with pytest.raises(ValueError, match="orthonormal"):
        Step(np.eye(3)[:2] * 1.001)
    with pytest.raises(ValueError, match="orthonormal"):
        Step(np.full((1, 3), np.nan))


def test_it_is_a_projection_followed_by_an_isometry(rng, random_projection):
    """Lemma 3.5 (2)."""
    matrix = as_matrix(random_projection(rng, 3, 3, width=4))
    onto = matrix.T @ matrix
    np.testing.assert_allclose(onto @ onto, onto, atol=1e-13)
    np.testing.assert_allclose(matrix @ onto, matrix, atol=1e-13)


def test_steps_are_applied_from_the_left(rng):
    """Definition 3.6: each step maps the image of the earlier slots and the next slot."""
    first = np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    second = np.linalg.qr(rng.normal(size=(6, 4)))[0].T
    projection = Projection(3).extend(first).extend(second)
    T = rng.normal(size=(3, 3))
    expected = second @ (first @ T).reshape(-1)
    np.testing.assert_allclose(as_matrix(projection) @ T.reshape(-1), expected)
    assert (projection.order, projection.dim) == (2, 4)
    assert (projection.first(1).dim, Projection(3).dim) == (2, 1)


def test_tensor_product_is_the_kronecker_product(rng, random_projection):
    """Lemma 3.8."""
    left, right = random_projection(rng, 3, 2, width=4), random_projection(rng, 3, 3, width=4)
    both = tensor(left, right)
    expected = np.kron(as_matrix(left), as_matrix(right))
    np.testing.assert_allclose(as_matrix(both), expected, atol=1e-13)
    assert (both.order, both.dim) == (5, left.dim * right.dim)
