"""Lines in few rows, and at inputs that take few values."""

import numpy as np
import pytest

from implicitmoments import RegressionMixture


def test_few_rows_in_many_features():
    """Lines grown by splits hold rows of several lines here; crossings find all of them."""
    rng = np.random.default_rng(0)
    X, coef = rng.normal(size=(500, 16)), rng.normal(size=(5, 17))
    labels = rng.integers(5, size=500)
    y = np.sum(X * coef[labels, 1:], axis=1) + coef[labels, 0] + 0.1 * rng.normal(size=500)
    found = RegressionMixture(5, random_state=0).fit(X, y)
    apart = np.abs(coef[:, None, 1:] - found.coef_).max(axis=2)
    assert apart.min(axis=1).max() < 0.1
    assert found.notes_ == []


def discrete(seed, n_binary, n_gaussian, weights, offsets, n, share):
    """Lines with common slopes and binary inputs, and EM from the truth."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.random((n, n_binary)) < share, rng.normal(size=(n, n_gaussian))])
    labels = rng.choice(len(weights), size=n, p=weights)
    slope = rng.normal(size=X.shape[1])
    y = X @ slope + np.asarray(offsets)[labels] + 0.5 * rng.normal(size=n)
    return X, y, slope


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("shape", "weights", "offsets", "n", "share"),
    [
        ((1, 0), (20 / 21, 1 / 21), (0, 2), 8_000, 0.2),
        ((2, 1), (0.4, 0.4, 0.2), (0, 2, 4), 6_000, 0.5),
    ],
)
def test_common_slopes_and_discrete_inputs(seed, shape, weights, offsets, n, share):
    X, y, slope = discrete(seed, *shape, weights, offsets, n, share)
    found = RegressionMixture(len(weights), random_state=seed).fit(X, y)
    order = np.argsort(found.intercept_)
    np.testing.assert_allclose(found.intercept_[order], offsets, atol=0.2)
    np.testing.assert_allclose(found.coef_[order], np.tile(slope, (len(weights), 1)), atol=0.25)
    np.testing.assert_allclose(found.weights_[order], weights, atol=0.03)
