import math

import numpy as np
import pytest

from implicitmoments.projections import RecursiveProjection
from implicitmoments.testing import random_projection
from support import refuses


def test_a_recursive_projection_is_a_pseudo_projection(rng):
    """Lemma 3.5 (1): a composition of pseudo-projections is one."""
    matrix = random_projection(rng, 3, 4, width=5).as_matrix()
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-13)


def test_it_is_a_projection_followed_by_an_isometry(rng):
    """Lemma 3.5 (2)."""
    matrix = random_projection(rng, 3, 3, width=4).as_matrix()
    onto = matrix.T @ matrix
    np.testing.assert_allclose(onto @ onto, onto, atol=1e-13)
    np.testing.assert_allclose(matrix @ onto, matrix, atol=1e-13)


def test_tensor_product_is_the_kronecker_product(rng):
    """Lemma 3.8."""
    left, right = random_projection(rng, 3, 2, width=4), random_projection(rng, 3, 3, width=4)
    both = left.tensor(right)
    np.testing.assert_allclose(
        both.as_matrix(), np.kron(left.as_matrix(), right.as_matrix()), atol=1e-13
    )
    assert both.width == max(left.width, left.dim * right.width)
    assert (both.order, both.dim) == (5, left.dim * right.dim)


def test_tensor_products_nest(rng):
    a, b, c = (random_projection(rng, 2, 2, width=3) for _ in range(3))
    np.testing.assert_allclose(
        a.tensor(b.tensor(c)).as_matrix(), a.tensor(b).tensor(c).as_matrix(), atol=1e-13
    )


def test_identity_keeps_everything():
    keep = RecursiveProjection.identity(3, 4)
    np.testing.assert_array_equal(keep.as_matrix(), np.eye(81))
    assert (keep.dim, keep.width, keep.defect) == (81, 81, 0.0)
    assert RecursiveProjection.identity(3, 0).dim == 1


def test_first_steps(rng):
    whole = random_projection(rng, 3, 4, width=5)
    assert whole.first(2).tensor(RecursiveProjection.identity(3, 0)).order == 2
    assert whole.first(2).steps == whole.steps[:2]
    with refuses("too_few_steps"):
        whole.first(5)


def test_the_defect_is_a_number_and_bounds_what_is_accepted():
    slightly_off = np.eye(3)[:2] * (1 + 1e-10)
    assert RecursiveProjection([slightly_off]).defect == pytest.approx(
        2e-10 * math.sqrt(2), rel=1e-5
    )
    clearly_off = np.eye(3)[:2] * (1 + 1e-3)
    with refuses("step_not_orthonormal"):
        RecursiveProjection([clearly_off])
    assert RecursiveProjection([clearly_off], tolerance=0.01).defect > 2e-3
    assert RecursiveProjection([np.eye(3, dtype=np.float32)]).defect == 0


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([], "no_steps"),
        ([np.eye(3), np.eye(4)], "step_wrong_columns"),
        ([np.ones((4, 3))], "step_too_many_rows"),
        ([np.full((1, 3), np.nan)], "not_finite"),
        ([np.ones(3)], "wrong_axes"),
        ([np.ones((0, 3))], "no_rows"),
    ],
)
def test_steps_that_do_not_fit_are_refused(steps, code):
    with refuses(code):
        RecursiveProjection(steps)


def test_steps_of_text_are_a_type_error():
    with refuses("not_numeric"):
        RecursiveProjection([[["a", "b"]]])


def test_projections_of_different_features_do_not_join():
    with refuses("n_features_differ"):
        RecursiveProjection.identity(3, 1).tensor(RecursiveProjection.identity(4, 1))
    with refuses("out_of_range"):
        RecursiveProjection.identity(0, 1)


def test_repr_shows_the_widths(rng):
    assert repr(RecursiveProjection([np.eye(3)[:2], np.eye(6)])) == (
        "<recursive projection of order 2 in 3 features: 1 → 2 → 6>"
    )
