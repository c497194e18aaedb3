"""Kernels of log densities are the same in every library and layout."""

import numpy as np
import pytest
from scipy.special import logsumexp

from implicitmoments.arrays import cross_sums, lift_rows, linear_rows, softmax_rows
from implicitmoments.arrays.kernels import _stacked_sums
from implicitmoments.arrays.responsibilities import linear_responsibilities


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


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("spread", [1.0, 100.0, 3_000.0])
def test_responsibilities_of_linear_log_densities(library, dtype, spread):
    """One shift serves all rows, or each row its own where exponentials would leave the range."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 4))
    x[150] *= 50.0  # beyond the rows that are looked at first
    slopes, offsets = spread * rng.normal(size=(4, 3)), 1e3 + rng.normal(size=3)
    x, slopes, offsets = (a.astype(dtype).astype(float) for a in (x, slopes, offsets))
    own = library.asarray(x.astype(dtype))
    shares, logs = linear_responsibilities(own, slopes, offsets)
    assert shares.dtype == own.dtype
    joint = x @ slopes + offsets
    totals, error = logsumexp(joint, axis=1), 30 * np.finfo(dtype).eps * np.abs(joint).max()
    np.testing.assert_allclose(np.asarray(logs), totals, atol=error)
    expected = np.exp(joint - totals[:, None])
    np.testing.assert_allclose(np.asarray(shares), expected, atol=min(error, 0.5))
    np.testing.assert_allclose(np.asarray(shares).sum(axis=1), 1.0, rtol=1e-5)
