"""Log densities and sums of components far from the others, against differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from implicitmoments.mixture import CovarianceType, GaussianFamily, Gaussians, log_joint
from implicitmoments.mixture.expansion import Expansion, far_components
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, GaussianSums
from implicitmoments.rows import Rows

D, N = 3, 60


@pytest.fixture(params=COVARIANCE_TYPES)
def kind(request):
    return CovarianceType(request.param)


def far_mixture(kind, rng, distance):
    """Return components of which the last is far from the others, and rows of all of them."""
    A = rng.normal(size=(3, D, 2 * D))
    matrices = A @ A.transpose(0, 2, 1) / (2 * D)
    if kind.tied:
        matrices = np.repeat(matrices[:1], 3, axis=0)
    means = rng.normal(size=(3, D))
    means[2] += distance
    state = Gaussians(np.array([0.5, 0.3, 0.2]), means, kind.constrained(matrices))
    labels = rng.integers(3, size=N)
    return state, means[labels] + rng.normal(size=(N, D))


def by_differences(x, state):
    whole = state.expanded()
    return np.column_stack(
        [
            np.log(w) + multivariate_normal(np.zeros(D), C).logpdf(x - m)
            for w, m, C in zip(whole.weights, whole.means, whole.covariances, strict=True)
        ]
    )


@pytest.mark.parametrize("distance", [0.0, 1e6, 1e10])
def test_densities_of_far_components_keep_their_digits(kind, distance, rng, xp):
    state, x = far_mixture(kind, rng, distance)
    found = np.asarray(log_joint(xp.asarray(x), state))
    expected = by_differences(x, state)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


@pytest.mark.parametrize("distance", [1e5, 1e10])
@pytest.mark.parametrize("student", [False, True])
def test_an_em_step_of_far_components_is_that_of_differences(kind, student, distance, rng, xp):
    state, x = far_mixture(kind, rng, distance)
    family = GaussianFamily(kind, 1e-30, student=student)
    state = family.adopt(state)
    rows = Rows.of(xp.asarray(x)).hold()
    sums = family.e_step(rows, state)
    np.testing.assert_array_equal(far_components(state, np.finfo(float).eps), [2])
    joint = state.in_law(by_differences(x, state))
    assert sums.level == pytest.approx(logsumexp(joint, axis=1).mean(), abs=1e-6)
    found = family.m_step(sums, state)
    # the same step with the far component, and its rows, moved to the others
    near = x.copy()
    own = joint.argmax(axis=1) == 2
    near[own] -= distance
    means = state.means.copy()
    means[2] -= distance
    shares = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    expected = family.m_step(
        family.expect(Rows.of(near).hold(), shares, replace(state, means=means)),
        replace(state, means=means),
    )
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-9)
    np.testing.assert_allclose(found.covariances, expected.covariances, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.means[2] - distance, expected.means[2], atol=1e-4)


@pytest.mark.parametrize("student", [False, True])
def test_rows_of_single_precision_are_lifted_in_double_where_components_are_far(
    kind, student, rng, xp
):
    """Far for single precision, near for double: no component is summed about its mean."""
    state, x = far_mixture(kind, rng, 300.0)
    x = x.astype(np.float32)
    family = GaussianFamily(kind, 1e-30, student=student)
    state = family.adopt(state)
    rows = Rows.of(xp.asarray(x)).hold()
    expansion = Expansion.of(state, kind, rows.like)
    assert expansion.double
    assert len(expansion.far) == 0
    assert not Expansion.of(state, kind, np.zeros(1)).double
    joint = state.in_law(by_differences(x.astype(float), state))
    found = family.log_joint(rows, state)
    assert found.dtype == rows.like.dtype
    own = joint > joint.max(axis=1, keepdims=True) - 30  # others have shares of 0
    np.testing.assert_allclose(np.asarray(found)[own], joint[own], atol=1e-4)
    sums, double = family.e_step(rows, state), Rows.of(x.astype(float)).hold()
    expected = family.e_step(double, state)
    assert sums.level == pytest.approx(expected.level, abs=1e-9)
    for name in ("means", "covariances"):
        ours, exact = (getattr(family.m_step(s, state), name) for s in (sums, expected))
        np.testing.assert_allclose(ours, exact, rtol=1e-9, atol=1e-9)


def test_sums_about_other_points_are_the_same_sums(kind, rng):
    x, shares = rng.normal(size=(N, D)), rng.uniform(size=(N, 2))
    family, about = GaussianFamily(kind), rng.normal(size=(2, D))

    def sums(centers):
        lifted = [kind.lift({"x": x - center})["x"] for center in centers]
        moments = np.stack([s @ z for s, z in zip(shares.T, lifted, strict=True)])
        parts = moments[:, -1], moments[:, :D], moments[:, D:-1]
        return GaussianSums(0.0, float(N), *parts, about=centers)

    one, other = sums(np.zeros((2, D))), sums(about)
    for found in (one.around(about), (one + other).around(about).times(0.5)):
        for name in ("counts", "points", "products", "about"):
            np.testing.assert_allclose(getattr(found, name), getattr(other, name), atol=1e-10)
    state = family.single(1, D)
    pair = np.array([0]), np.array([1])
    joined = [family.m_step(each.join(*pair), state) for each in (one, other)]
    for name in ("means", "covariances"):
        values = [getattr(each, name) for each in joined]
        np.testing.assert_allclose(values[0], values[1], atol=1e-10)


def test_a_variance_without_digits_is_summed_about_its_mean_in_the_next_step(kind):
    """A component of equal rows has lost its variance about the origin; a second step finds it."""
    x = np.repeat([[-1.0, 2.0, 0.5], [3.0, 1.0, -2.0]], 20, axis=0)
    family = GaussianFamily(kind, 1e-26)
    state = family.single(2, D)
    state = replace(state, means=x[[0, 20]])
    rows = Rows.of(x).hold()
    for _ in range(3):
        state = family.m_step(family.e_step(rows, state), state)
    np.testing.assert_allclose(state.variances, 1e-26, rtol=1e-6)
