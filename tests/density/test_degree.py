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
    make_folds,
    mixture_tail,
)
from implicitmoments.moments.mean_span import find_span
from implicitmoments.rows import Rows


def scores(X, degrees, highest=0):
    """Compare degrees for three components of variance 1."""

    def fit(kept):
        span = find_span(kept, 3, 1.0)
        how = {"floor": 0.01, "loss": 0.001, "seed": 0, "rough": True}
        return lambda n: clip_expansion(expand(kept, span, 3, n), span, kept, **how)[0]

    return compare_degrees(fit, Rows.of(X), degrees, fewest=4, highest=highest)


def degree_for(norm, epsilon, most):
    return least_degree(lambda n: mixture_tail(np.array([norm]), n)[0], epsilon, most)


def truncation(truth, degree, points):
    """Return half the mean absolute tail of F/G at points of G, in total variation."""
    exact = np.exp(points @ truth.vectors.T - (truth.vectors**2).sum(axis=1) / 2) @ truth.weights
    terms = (truth.hermite(points, t) / math.sqrt(math.factorial(t)) for t in range(degree + 1))
    return np.mean(np.abs(sum(terms) - exact)) / 2


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("norm", [0.3, 1.0, 1.7])
def test_the_tail_of_a_component_is_that_of_its_series(norm, degree):
    truth = Truth(np.ones(1), np.array([[norm]]))
    # in L2(G) the tail is a tail of the Poisson distribution, and no smaller than in L1(G)
    tail = sum(norm ** (2 * t) / math.factorial(t) for t in range(degree + 1, 80))
    found = mixture_tail(np.array([norm]), degree)[0]
    assert found < math.sqrt(tail) / 2 < 4 * found
    draws = np.random.default_rng(0).normal(size=(200_000, 1))
    assert found == pytest.approx(truncation(truth, degree, draws), rel=0.1)


def test_the_tail_increases_with_the_norm_up_to_high_degrees():
    norms = np.linspace(0, 6, 200)
    for degree in (2, 12, 40, 80):
        tails = mixture_tail(norms, degree)
        assert np.all(np.diff(tails) > -1e-14)
    assert mixture_tail(np.array([5.0]), 80)[0] < 1e-4


def test_the_truncated_truth_is_within_the_mean_of_the_tails(rng):
    means = rng.normal(size=(4, 5))
    means *= np.array([1.6, 1.3, 1.0, 0.7])[:, None] / np.linalg.norm(means, axis=1, keepdims=True)
    truth = Truth(np.array([0.1, 0.2, 0.3, 0.4]), means)
    points = rng.normal(size=(50_000, 5))
    for degree in range(7):
        tails = mixture_tail(np.linalg.norm(means, axis=1), degree)
        assert 0.2 < truncation(truth, degree, points) / (truth.weights @ tails) < 1


def test_longer_means_and_smaller_errors_take_higher_degrees():
    assert degree_for(0.0, 0.05, 12) == 2
    chosen = [degree_for(norm, 0.05, 20) for norm in (0.5, 1.0, 1.5, 2.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]
    assert degree_for(1.0, 0.001, 20) > degree_for(1.0, 0.1, 20)
    assert degree_for(10.0, 0.05, 12) is None


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


def test_rows_are_held_out_in_three_folds_or_in_one_where_that_is_enough(rng):
    rows = Rows.of(rng.normal(size=(300, 2)))
    folds = make_folds(rows, fewest=4)
    assert [kept.kept + held.kept for kept, held in folds] == [300] * 3
    assert sum(held.kept for _, held in folds) == 300
    (few,) = make_folds(rows, fewest=4, enough=folds[0][1].kept)
    assert [each.kept for each in few] == [each.kept for each in folds[0]]
    assert make_folds(rows, fewest=301) == []
