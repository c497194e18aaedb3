"""Sums over the components that matter to a row are those over all of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from implicitmoments.arrays import softmax_rows
from implicitmoments.arrays.near_components import near_pairs, near_sums
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import CovarianceType, Gaussians
from implicitmoments.rows import Rows

N, K, D = 600, 400, 6
ROUNDING = {"float64": 1e-12, "float32": 1e-4}


def components(apart, rng, *, twins=False):
    means = apart * rng.normal(size=(K, D))
    if twins:  # every second component overlaps with the one before it
        means[1::2] = means[::2] + 0.3 * rng.normal(size=means[::2].shape)
    return means


def linear(means, unit=1.0, shift=0.0):
    """Return slopes and offsets for rows that are moved and in another unit."""
    slopes = means.T / unit
    return slopes, -0.5 * np.sum(means**2, axis=1) - shift * unit * slopes.sum(axis=0)


def sums_of_all(x, slopes, offsets, counts):
    x = x.astype(np.float64)
    joint = x @ slopes + offsets
    logs = logsumexp(joint, axis=1)
    shares = np.exp(joint - logs[:, None]) * counts[:, None]
    return {"moments": shares.T @ x, "counts": shares.sum(axis=0), "log_likelihood": counts @ logs}


@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize(
    ("dtype", "unit", "shift"),
    [
        ("float64", 1.0, 0.0),
        ("float64", 1e50, 0.0),
        ("float64", 1e-50, 0.0),
        ("float64", 1.0, 100.0),
        ("float32", 1.0, 0.0),
    ],
)
def test_sums_are_those_over_all_components(dtype, twins, unit, shift):
    rng = np.random.default_rng(3)
    means = components(12.0, rng, twins=twins)
    slopes, offsets = linear(means, unit, shift)
    points = means[rng.integers(K, size=N)] + rng.normal(size=(N, D)) + shift
    x, counts = (points * unit).astype(dtype), rng.integers(1, 4, size=N).astype(dtype)
    found, expected = (
        near_sums(x, slopes, offsets, counts),
        sums_of_all(x, slopes, offsets, counts),
    )
    assert found is not None
    size = 100 if shift else 1  # digits that the sum of rows and offsets loses
    for name, value in expected.items():
        scale = ROUNDING[dtype] * size * np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=0, atol=scale, err_msg=name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_only_pairs_that_matter_are_evaluated(dtype):
    rng = np.random.default_rng(4)
    means = components(12.0, rng, twins=True)
    slopes, offsets = linear(means)
    x = (means[rng.integers(K, size=N)] + rng.normal(size=(N, D))).astype(dtype)
    joint = x.astype(np.float64) @ slopes + offsets
    below = joint.max(axis=1, keepdims=True) - joint
    margin = np.log(len(means) / np.finfo(dtype).eps)
    found = near_pairs(x, slopes, offsets)
    listed = np.zeros(joint.shape, dtype=bool)
    listed[found.rows, found.components] = True
    assert np.all(listed[below < margin])
    assert not np.any(listed[below > margin + 1])
    assert 2 * N < len(found.rows) < 3 * N


@pytest.mark.parametrize(("apart", "k"), [(1.0, K), (3.0, K), (30.0, 20)])
def test_components_that_overlap_and_few_ones_are_a_matrix(apart, k):
    rng = np.random.default_rng(5)
    means = components(apart, rng)[:k]
    x = means[rng.integers(k, size=N)] + rng.normal(size=(N, D))
    assert near_pairs(x, *linear(means)) is None


@pytest.mark.parametrize("kind", ["tied_spherical", "spherical", "diag", "full"])
def test_an_e_step_is_that_of_all_components(kind):
    rng = np.random.default_rng(6)
    means = components(30.0, rng)
    x = (means[rng.integers(K, size=N)] + rng.normal(size=(N, D))) / 30
    state = Gaussians(np.full(K, 1 / K), means / 30, np.full(K, 1 / 900))
    state = state.expanded() if kind == "full" else state
    family, rows = GaussianFamily(CovarianceType(kind)), Rows.of(x)
    found = family.e_step(rows, state)
    shares, densities = softmax_rows(family.log_joint(rows, state))
    expected = family.expect(rows, shares, state)
    assert found.level == pytest.approx(densities.mean(), abs=1e-9)
    for name in ("counts", "points"):
        value = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), value, atol=1e-8 * np.abs(value).max())
    again = family.e_step(replace(rows, rows_per_block=100), state)  # as from a file
    np.testing.assert_allclose(again.points, found.points, atol=1e-12 * np.abs(x).sum())
