"""Degrees from the tail bound and from held-out likelihood."""

import math

import numpy as np
import pytest

from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.density import (
    clip_expansion,
    compare_degrees,
    expand,
    least_degree,
    mixture_tail,
)
from implicitmoments.mixture import find_span
from implicitmoments.rows import Rows


def scores(X, degrees, highest=0):
    """Compare degrees for three components of variance 1."""

    def fit(kept):
        span = find_span(kept, 3, 1.0)
        how = {"floor": 0.01, "loss": 0.001, "seed": 0, "rough": True}
        return lambda n: clip_expansion(expand(kept, span, 3, n), span, kept, **how)[0]

    return compare_degrees(fit, Rows.of(X), degrees, fewest=4, highest=highest)


def degree_for(squared_radius, epsilon, most):
    return least_degree(lambda n: mixture_tail(squared_radius, n), epsilon, most)


@pytest.mark.parametrize("squared", [0.3, 1.5, 4.0])
@pytest.mark.parametrize("degree", [2, 5, 8])
def test_the_bound_is_the_sum_of_the_tail(squared, degree):
    tail = sum(squared**t / math.factorial(t) for t in range(degree + 1, 80))
    assert mixture_tail(squared, degree) == pytest.approx(math.sqrt(tail) / 2)


def test_the_truncated_truth_is_within_the_bound(rng):
    means = rng.normal(size=(4, 5))
    means *= 1.3 / np.linalg.norm(means, axis=1, keepdims=True)
    truth = Truth(np.full(4, 0.25), means)
    points = rng.normal(size=(100_000, 5))
    exact = np.exp(points @ means.T - 1.3**2 / 2).mean(axis=1)
    partial = np.zeros(len(points))
    for t in range(7):
        partial += truth.hermite(points, t) / math.sqrt(math.factorial(t))
        distance = np.mean(np.abs(partial - exact)) / 2
        assert distance < mixture_tail(1.3**2, t)
    assert distance > 0.02 * mixture_tail(1.3**2, 6)


def test_longer_means_and_smaller_errors_take_higher_degrees():
    assert degree_for(0.0, 0.05, 12) == 2
    chosen = [degree_for(r**2, 0.05, 20) for r in (0.5, 1.0, 1.5, 2.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]
    assert degree_for(1.0, 0.001, 20) > degree_for(1.0, 0.1, 20)
    assert degree_for(100.0, 0.05, 12) == 12


def test_rows_left_out_choose_more_with_more_rows():
    X, _ = make_spherical_mixture(30_000, 3, 4, radius=1.5, random_state=0)
    degrees = [2, 4, 6, 8]
    many, few = scores(X, degrees), scores(X[:200], degrees)
    assert list(many.scores) == degrees
    assert many.best >= 6
    assert few.best < many.best


def test_higher_degrees_are_tried_while_the_likelihood_rises():
    X, _ = make_spherical_mixture(30_000, 3, 4, radius=1.5, random_state=0)
    all_of_them = scores(X, [2, 4, 6, 8, 10, 12])
    went_on = scores(X, [2, 4], highest=12)
    # one by one as all at once, and no further than the first that brings nothing
    for degree, score in went_on.scores.items():
        assert score == pytest.approx(all_of_them.scores[degree], abs=1e-12)
    assert went_on.best == all_of_them.best
    assert went_on.best < max(went_on.scores) <= 12
    assert not went_on.rising
    capped = scores(X, [2, 4], highest=5)
    assert list(capped.scores) == [2, 4]
    assert capped.rising
    assert capped.rise == pytest.approx(capped.scores[4] - capped.scores[2])


def test_the_standard_error_is_that_of_differences_row_by_row():
    X, _ = make_spherical_mixture(4_000, 3, 4, radius=1.5, random_state=1)
    once, twice = scores(X, [2, 4]), scores(np.vstack([X, X]), [2, 4])
    assert twice.error == pytest.approx(once.error / math.sqrt(2), rel=0.02)
    # scores themselves are spread by 1.5 a row: their difference is known better
    assert 0 < once.error < 0.6 / math.sqrt(len(X))
