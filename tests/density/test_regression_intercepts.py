"""Densities of lines that do not meet at the mean of x."""

from __future__ import annotations

import numpy as np
import pytest

from implicitmoments import AssumptionWarning, RegressionMixtureDensity


def lines_with_intercepts(n, c, seed=0):
    """Return rows, labels, and the logarithm of their density: lines ±(c + x/2)."""
    rng = np.random.default_rng(seed)
    sign = np.where(rng.integers(0, 2, n), 1.0, -1.0)
    X = rng.normal(size=(n, 2))
    y = sign * (c + X[:, 0] / 2) + rng.normal(size=n)
    middle = c + X[:, 0] / 2
    logs = np.logaddexp(-((y - middle) ** 2) / 2, -((y + middle) ** 2) / 2) - np.log(2)
    return X, y, logs - (X**2).sum(axis=1) / 2 - 1.5 * np.log(2 * np.pi)


def test_degrees_go_on_where_intercepts_differ():
    X, y, _ = lines_with_intercepts(50_000, 1.0)
    fresh = lines_with_intercepts(20_000, 1.0, seed=1)
    model = RegressionMixtureDensity(2, random_state=0).fit(X, y)
    low = RegressionMixtureDensity(2, degree=6, random_state=0).fit(X, y)
    apart, far = (
        np.maximum(0, 1 - np.exp(m.score_samples(*fresh[:2]) - fresh[2])).mean()
        for m in (model, low)
    )
    assert model.degree_ > 6
    assert apart < 0.02 < far


@pytest.mark.parametrize(("c", "differ"), [(0.0, False), (0.3, True), (1.5, True)])
@pytest.mark.parametrize("noise", [None, 1.0])
def test_the_bound_holds_with_intercepts(c, differ, noise):
    X, y, _ = lines_with_intercepts(30_000, c)
    model = RegressionMixtureDensity(2, degree=6, noise=noise, random_state=0).fit(X, y)
    *fresh, exact = lines_with_intercepts(20_000, c, seed=1)
    distance = np.maximum(0, 1 - np.exp(model.score_samples(*fresh) - exact)).mean()
    assert model.stats_["intercepts_differ"] is differ
    assert model.noise_ == pytest.approx(1.0, rel=0.15)
    assert distance < model.stats_["truncation_error"] < 0.5


def test_parallel_lines_have_intercepts_that_differ():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30_000, 2))
    y = X[:, 0] + rng.choice([-1.0, 1.0], 30_000) + rng.normal(size=30_000)
    model = RegressionMixtureDensity(2, degree=6, random_state=0).fit(X, y)
    assert model.stats_["intercepts_differ"]


def test_degrees_that_end_too_early_are_noted():
    X, y, _ = lines_with_intercepts(30_000, 1.0)
    with pytest.warns(AssumptionWarning):
        model = RegressionMixtureDensity(2, max_degree=4, random_state=0).fit(X, y)
    assert model.stats_["still_rising"]
    assert "degree_still_rising" in model.notes_.codes
