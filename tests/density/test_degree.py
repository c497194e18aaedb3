"""Degrees from the tail bound and from rows left out."""

import math

import numpy as np
import pytest

from implicitmoments.datasets import Truth, make_spherical_mixture
from implicitmoments.density.degree import (
    cross_validated_scores,
    degree_for,
    truncation_error,
)


@pytest.mark.parametrize("squared", [0.3, 1.5, 4.0])
@pytest.mark.parametrize("degree", [2, 5, 8])
def test_the_bound_is_the_sum_of_the_tail(squared, degree):
    tail = sum(squared**t / math.factorial(t) for t in range(degree + 1, 80))
    assert truncation_error(squared, degree) == pytest.approx(math.sqrt(tail) / 2)


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
        assert distance < truncation_error(1.3**2, t)
    assert distance > 0.02 * truncation_error(1.3**2, 6)


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
    many = cross_validated_scores(X, 3, 1.0, degrees, loss=0.001, seed=0)
    few = cross_validated_scores(X[:200], 3, 1.0, degrees, loss=0.001, seed=0)
    assert list(many.scores) == degrees
    assert many.best >= 6
    assert few.best < many.best


def test_higher_degrees_are_tried_while_the_likelihood_rises():
    X, _ = make_spherical_mixture(30_000, 3, 4, radius=1.5, random_state=0)
    how = {"loss": 0.001, "seed": 0}
    all_of_them = cross_validated_scores(X, 3, 1.0, [2, 4, 6, 8, 10, 12], **how)
    went_on = cross_validated_scores(X, 3, 1.0, [2, 4], highest=12, **how)
    # one by one as all at once, and no further than the first that brings nothing
    for degree, score in went_on.scores.items():
        assert score == pytest.approx(all_of_them.scores[degree], abs=1e-12)
    assert went_on.best == all_of_them.best
    assert went_on.best < max(went_on.scores) <= 12
    assert not went_on.rising
    capped = cross_validated_scores(X, 3, 1.0, [2, 4], highest=5, **how)
    assert list(capped.scores) == [2, 4]
    assert capped.rising
    assert capped.rise == pytest.approx(capped.scores[4] - capped.scores[2])


def test_the_standard_error_is_that_of_differences_row_by_row():
    X, _ = make_spherical_mixture(4_000, 3, 4, radius=1.5, random_state=1)
    how = {"loss": 0.001, "seed": 0}
    once = cross_validated_scores(X, 3, 1.0, [2, 4], **how)
    twice = cross_validated_scores(np.vstack([X, X]), 3, 1.0, [2, 4], **how)
    assert twice.error == pytest.approx(once.error / math.sqrt(2), rel=0.02)
    # scores themselves are spread by 1.5 a row: their difference is known better
    assert 0 < once.error < 0.6 / math.sqrt(len(X))
