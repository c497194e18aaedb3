"""Kernels of log densities are the same in every library and layout."""

import numpy as np
import pytest
from scipy.special import logsumexp

from implicitmoments.arrays import cross_sums, lift_rows, linear_rows, softmax_rows
from implicitmoments.arrays.kernels import _stacked_sums


@pytest.fixture(params=["numpy", "array_api_strict", "torch"])
def library(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def arrays(library):
    rng = np.random.default_rng(0)
    x, center, slopes = rng.normal(size=(50, 4)), rng.normal(size=4), rng.normal(size=(6, 3))
    return library, [x, center, slopes], [library.asarray(a) for a in (x, center, slopes)]


def test_rows_are_lifted(arrays):
    _, (x, center, _), (own, middle, _) = arrays
    z = (x - center) / 1.5
    expected = np.column_stack([z, np.sum(z**2, axis=1), np.ones(50)])
    np.testing.assert_allclose(np.asarray(lift_rows(own, middle, 1.5)), expected)
    plain = np.column_stack([x, np.sum(x**2, axis=1), np.ones(50)])
    np.testing.assert_allclose(np.asarray(lift_rows(own)), plain)
    np.testing.assert_array_equal(np.asarray(own), x)


def test_shares_and_logarithms(arrays):
    _, (x, _, slopes), (own, _, lines) = arrays
    lifted = np.column_stack([x, np.sum(x**2, axis=1), np.ones(50)])
    joint = 400 * lifted @ slopes  # exponentials of which overflow
    shares, logs = softmax_rows(400 * linear_rows(lift_rows(own), lines))
    np.testing.assert_allclose(np.asarray(logs), logsumexp(joint, axis=1))
    expected = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(np.asarray(shares), expected, atol=1e-12)


def test_sums_over_rows_do_not_depend_on_stacks(arrays):
    library, (x, _, _), (own, _, _) = arrays
    expected = x.T @ x[:, :2]
    np.testing.assert_allclose(np.asarray(cross_sums(own, own[:, :2])), expected)
    for size in (7, 10, 50, 64):
        found = _stacked_sums(own, own[:, :2], size)
        assert found.dtype == library.float64
        np.testing.assert_allclose(np.asarray(found), expected)
