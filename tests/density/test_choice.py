"""The degree by held-out likelihood, and the lowest degree that is near enough."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.density import (
    clip_expansion,
    expand_means,
    held_out_logs,
    least_degree,
)
from implicitmoments.moments.problems import find_span
from implicitmoments.rows import Rows


@pytest.fixture(scope="module")
def fitted():
    X, _ = make_spherical_mixture(20_000, 3, 5, radius=1.2, random_state=0)
    rows = Rows.of(X)
    span = find_span(rows, 3, None)
    inside = rows.mapped(span.center, span.basis.T / span.sigma)
    return rows, span, expand_means(inside, 3, 12, span.squared_radius)


def test_held_out_logs_are_those_of_the_densities(fitted):
    """One evaluation of the highest degree gives those of all degrees."""
    _, span, expansion = fitted
    fresh = make_spherical_mixture(500, 3, 5, radius=1.2, random_state=0)[0]
    logs, counts = held_out_logs(expansion, span, Rows.of(fresh), loss=0.001, seed=0)
    assert logs.shape == (13, 500)
    np.testing.assert_array_equal(counts, 1.0)
    for degree in (4, 8, 12):
        lower = replace(expansion, degree=degree)
        density, _ = clip_expansion(lower, span, Rows.of(fresh), loss=0.001, seed=0)
        np.testing.assert_allclose(logs[degree], density.log_density(fresh), atol=2e-3)
    assert np.abs(logs[2] - logs[12]).mean() > 0.02


@pytest.mark.parametrize("wanted", [0.05, 0.01, 0.001])
def test_the_lowest_degree_is_within_the_distance(fitted, wanted):
    rows, span, expansion = fitted
    how = {"loss": 0.0, "seed": 0, "clip": 1e6}
    exact, _ = clip_expansion(expansion, span, rows, **how)

    def distance(degree):
        density, _ = clip_expansion(replace(expansion, degree=degree), span, rows, **how)
        return exact_distance(density, exact, rows.points)

    degree = least_degree(expansion, span, wanted, seed=0)
    assert degree % 2 == 0
    assert distance(degree) < 1.1 * wanted
    if degree > 2:
        assert distance(degree - 2) > 0.9 * wanted


def exact_distance(density, other, X):
    """Return the total variation distance, over rows that are nearly from the other density."""
    logs = other.log_density(X)
    ratio = np.exp(density.log_density(X) - logs)
    return np.average(np.maximum(1 - ratio / ratio.mean(), 0.0))
