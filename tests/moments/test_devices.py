"""Everything stays in the library and on the device of the rows."""

import array_api_strict
import numpy as np
import pytest

from implicitmoments.arrays import (
    dot_rows,
    key_shares,
    move_like,
    outer_rows,
    place_of_pair,
    row_keys,
    sorted_products,
    to_numpy,
)
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.moments import (
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    implicit_moments,
)
from implicitmoments.rows import ArrayTable, Whitening

# array-api-strict has devices that refuse arrays of one another
ELSEWHERE = array_api_strict.Device("device1")


def torch_array(x):
    torch = pytest.importorskip("torch")
    return torch.asarray(x)


def strict_array(x):
    return array_api_strict.asarray(x, device=ELSEWHERE)


@pytest.fixture(params=[strict_array, torch_array], ids=["strict", "torch"])
def there(request):
    """Move an array to where the test takes place."""
    request.param(np.zeros(1))  # skip where the library is not installed
    return request.param


def test_moments_are_those_of_numpy(there):
    X, _ = make_spherical_mixture(3_000, 3, 4, random_state=0)
    how = {"n_components": 3, "order": 4}
    expected = implicit_moments(SphericalMixtureProblem(X), **how).hermite(X[:5])
    moved = there(X)
    found = implicit_moments(SphericalMixtureProblem(moved), **how).hermite(moved[:5, :])
    assert type(found) is type(moved)
    assert found.device == moved.device
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-8)


def test_components_are_those_of_numpy(there):
    X, truth = make_spherical_mixture(20_000, 3, 4, radius=4.0, random_state=0)
    y = np.sum(X * truth.vectors[truth.labels], axis=1)
    for make in (
        lambda x, y: SphericalMixtureProblem(x),
        RegressionMixtureProblem,
    ):
        expected = implicit_moments(make(X, y), n_components=3, order=1).components()
        found = implicit_moments(make(there(X), there(y)), n_components=3, order=1).components()
        np.testing.assert_allclose(found.guesses, expected.guesses, rtol=1e-6, atol=1e-8)


def test_rows_are_shared_out_alike_everywhere(there):
    x = np.random.default_rng(0).normal(size=(1_000, 3))
    x[0] = -0.0
    for n in (2, 5, 6):
        expected = key_shares(row_keys(x), n)
        np.testing.assert_array_equal(to_numpy(key_shares(row_keys(there(x)), n)), expected)
        counts = np.bincount(expected, minlength=n)
        assert np.abs(counts - 1_000 / n).max() < 5 * np.sqrt(1_000 / n)


def test_shares_are_those_of_unsigned_splitmix64():
    """The dense twin of the signed arithmetic."""
    x, golden = np.random.default_rng(1).normal(size=(100, 2)), 0x9E3779B97F4A7C15
    columns = x.view(np.uint64)
    columns = (columns ^ (columns >> np.uint64(32))).astype(object)
    mixed = (columns[:, 0] * golden + columns[:, 1] * golden**2) % 2**64
    bits = mixed.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    np.testing.assert_array_equal(key_shares(row_keys(x), 7), bits % np.uint64(7))


def test_sorted_products_are_explicit_sums(there):
    """Sums over rows of c x_a x_b x_c for all a ≤ b ≤ c, in three panels."""
    rng = np.random.default_rng(0)
    x, c = rng.normal(size=(7, 20)), rng.normal(size=7)
    found = to_numpy(sorted_products(there(x), there(x), [1] * 20, there(c)))
    expected, slots = np.einsum("n,na,nb,nc->abc", c, x, x, x), np.indices((20, 20, 20))
    first, second, third = np.sort(slots.reshape(3, -1), axis=0)
    places = place_of_pair(19 - second, 19 - first, 20)
    np.testing.assert_allclose(found[places, third], expected.ravel(), rtol=1e-9, atol=1e-12)


def test_whitening_reads_the_rows_where_they_are(there):
    x = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 2.0, 3.0]) + 5
    expected, found = Whitening.of(ArrayTable(x)), Whitening.of(ArrayTable(there(x)))
    np.testing.assert_allclose(found.inverse_root, expected.inverse_root, rtol=1e-9)
    applied = found.apply(there(x))
    assert applied.device == there(x).device


def test_arrays_move_between_devices():
    here = array_api_strict.asarray(np.ones(2))
    moved = move_like(here, strict_array(np.zeros(1)))
    assert moved.device == ELSEWHERE


@pytest.mark.filterwarnings("error")
def test_arrays_that_cannot_be_written_to_are_copied_for_torch():
    torch = pytest.importorskip("torch")
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    moved = move_like(fixed, torch.zeros(1, dtype=torch.float64))
    moved += 1
    np.testing.assert_array_equal(fixed, [0.0, 1.0, 2.0])


@pytest.mark.parametrize("b", [1, 7, 8, 12])  # on both sides of the length that is looped over
def test_products_of_rows_are_those_of_dense_arrays(there, b):
    rng = np.random.default_rng(b)
    left, right, other = (rng.normal(size=(20, m)) for m in (3, b, b))
    outer = np.stack([np.outer(x, y).ravel() for x, y in zip(left, right, strict=True)])
    for make in (np.asarray, there):
        x, y, z = make(left), make(right), make(other)
        np.testing.assert_array_equal(to_numpy(outer_rows(x, y)), outer)
        np.testing.assert_allclose(to_numpy(dot_rows(y, z)), np.diag(right @ other.T))
