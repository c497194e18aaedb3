"""The number of directions that n_components="auto" finds."""

from __future__ import annotations

import numpy as np
import pytest

from implicitmoments import ActivationSumRegressor


def _relus(k, d, seed, n=6_000, noise=0.3):
    """Return rows, labels with noise, and fresh ones without; weights from 0.5 to 2."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(k, d))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    w = rng.uniform(0.5, 2, k)
    X, T = rng.normal(size=(n, d)), rng.normal(size=(10_000, d))
    y, z = (np.maximum(x @ V.T, 0) @ w for x in (X, T))
    return X, y + noise * rng.normal(size=n), (T, z)


@pytest.mark.parametrize("seed", [0, 3])
def test_directions_that_the_moments_do_not_count_are_added(seed):
    X, y, fresh = _relus(8, 15, seed)
    model = ActivationSumRegressor(random_state=0).fit(X, y)
    assert model.n_components_ == 8
    assert model.score(*fresh) > 0.999
    # only those that the moments count
    fewer = ActivationSumRegressor(n_components=6, random_state=0).fit(X, y)
    assert fewer.score(*fresh) < 0.996


@pytest.mark.parametrize("k", [1, 4])
def test_no_more_directions_than_there_are_are_added(k):
    for seed in (1, 2):
        X, y, _ = _relus(k, 10, seed)
        assert ActivationSumRegressor(random_state=0).fit(X, y).n_components_ == k


def test_cosines_along_opposite_directions_are_one():
    X, _, _ = _relus(1, 8, 0)
    rng = np.random.default_rng(5)
    V = np.linalg.qr(rng.normal(size=(8, 3)))[0].T
    y = np.cos(X @ np.vstack([V, -V[:1]]).T) @ [1.0, 0.8, 0.6, 0.7]
    y = y + 0.1 * rng.normal(size=len(X))
    assert ActivationSumRegressor("cos", random_state=0).fit(X, y).n_components_ == 3


def test_relus_along_opposite_directions_are_two():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(8, 3)))[0].T
    V = np.vstack([V, -V[:1]])
    X = rng.normal(size=(6_000, 8))
    y = np.maximum(X @ V.T, 0) @ [1.0, 0.8, 1.2, 1.5] + 0.3 * rng.normal(size=6_000)
    assert ActivationSumRegressor(random_state=0).fit(X, y).n_components_ == 4


def test_progress_is_reported_for_rows_that_are_held():
    X, y, _ = _relus(2, 5, 0)
    seen = []
    model = ActivationSumRegressor(n_components=2, random_state=0)
    model.fit(X, y, progress=lambda *what: seen.append(what))
    assert {"curvature of the error", "error"} <= {what for what, _, _ in seen}
    assert all(0 < done <= total for _, done, total in seen)
    plain = ActivationSumRegressor(n_components=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.weights_, plain.weights_)
