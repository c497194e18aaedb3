"""Bounds of the norms of hidden vectors, and of errors, from the distances of rows."""

import numpy as np
import pytest
from scipy.special import chndtr

from implicitmoments import SphericalMixtureDensity
from implicitmoments.density import NormBand, largest_norm, mixture_tail


def survival(above, norms):
    """Return the tails of the norm of a Gaussian vector of two coordinates."""
    return 1 - chndtr(above**2, 2, norms**2)


def lengths(rng, n, weights, norms):
    means = np.asarray(norms)[rng.choice(len(weights), n, p=weights)]
    return np.hypot(means + rng.normal(size=n), rng.normal(size=n))


@pytest.mark.parametrize(
    ("weights", "norms"),
    [([0.95, 0.05], [0.2, 3.0]), ([0.3, 0.7], [1.5, 0.6]), ([1.0], [0.0]), ([0.5, 0.5], [2, 2])],
)
def test_the_largest_norm_and_the_mean_error_are_bounded(rng, weights, norms):
    band = NormBand.of(lengths(rng, 50_000, weights, norms), survival)
    largest = band.largest(0.02)
    assert max(norms) <= largest < max(norms) + 1.7
    for degree in (2, 6):
        truth = np.dot(weights, mixture_tail(np.array(norms, dtype=float), degree))
        bound = band.bound_mean(lambda r, n=degree: mixture_tail(r, n), largest)
        assert truth <= bound < 2 * truth + 0.05


def test_heavier_components_and_more_rows_sharpen_the_bound(rng):
    observed = lengths(rng, 100_000, [0.8, 0.2], [0.5, 2.5])
    bounds = [largest_norm(observed, survival, w) for w in (0.2, 0.05, 0.002)]
    assert bounds == sorted(bounds)
    assert largest_norm(observed[:2_000], survival, 0.05) > bounds[1]
    # a norm that the rows would show: a negative control
    assert bounds[0] < 2.8


def test_a_multiplicity_is_a_repeated_row_for_the_proportions_only(rng):
    observed = lengths(rng, 4_000, [0.8, 0.2], [0.5, 2.5])
    once = largest_norm(observed, survival, 0.05)
    # pairs of equal rows are no more evidence than one row
    assert largest_norm(observed, survival, 0.05, np.full(4_000, 2.0)) == once
    uneven = rng.choice([0.0, 1.0], 4_000)
    assert largest_norm(observed, survival, 0.05, uneven) == largest_norm(
        observed[uneven > 0], survival, 0.05
    )


def test_rows_that_contradict_the_noise_have_no_bound(rng):
    band = NormBand.of(0.5 * np.hypot(*rng.normal(size=(2, 20_000))), survival)
    assert band.largest(0.02) == np.inf
    assert band.bound_mean(lambda r: r, 3.0) == np.inf


def test_a_component_whose_rows_were_left_out_is_within_the_bound(rng):
    observed = lengths(rng, 20_000, [0.985, 0.015], [0.1, 5.0])
    kept = observed[(observed < 4.5) | (rng.uniform(size=len(observed)) < 0.5)]
    dropped = 1 - len(kept) / len(observed)
    # the kept rows alone are those of a smaller norm: a negative control
    assert largest_norm(kept, survival, 0.015) < 4.9
    assert 5.0 <= largest_norm(kept, survival, 0.015, dropped=dropped) < 7.0
    # a component of the size of what was left out may be anywhere
    assert largest_norm(kept, survival, dropped, dropped=dropped) == np.inf
    truth = np.dot([0.985, 0.015], mixture_tail(np.array([0.1, 5.0]), 2))
    alone, all_rows = NormBand.of(kept, survival), NormBand.of(kept, survival, dropped=dropped)
    bounds = [band.bound_mean(lambda r: mixture_tail(r, 2), 5.0) for band in (alone, all_rows)]
    assert bounds[0] < truth <= bounds[1] < 2 * truth


def test_few_rows_of_a_right_model_have_no_bound(rng):
    observed = lengths(rng, 200, [0.5, 0.5], [0.5, 1.0])
    assert largest_norm(observed, survival, 0.01) == np.inf
    assert largest_norm(observed, survival, 0.5) < 3.0


@pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")
def test_the_truncation_error_of_a_light_far_component_is_bounded(rng):
    # w = (.95, .05), the second mean at 3 standard deviations: a bound from the mean squared norm
    # would be 1e-4 at degree 8, where the truth is .19
    X = rng.normal(size=(60_000, 3))
    X[rng.uniform(size=len(X)) < 0.05, 0] += 3.0
    for degree in (2, 8):
        model = SphericalMixtureDensity(2, degree=degree, random_state=0).fit(X)
        truth = np.dot([0.95, 0.05], mixture_tail(np.array([0.15, 2.85]), degree))
        assert truth < model.stats_["truncation_error"] < 10 * truth
        assert 2.85 < model.stats_["largest_norm"] < 4.2


@pytest.mark.parametrize(("d", "weight", "far"), [(1, 0.012, 5.0), (3, 0.015, 6.0)])
@pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")
def test_rows_of_a_light_far_component_are_within_the_bound(rng, d, weight, far):
    X = rng.normal(size=(20_000, d))
    X[rng.uniform(size=len(X)) < weight, 0] += far
    model = SphericalMixtureDensity(2, variance=1.0, degree=2, random_state=0).fit(X)
    norms = np.array([weight * far, (1 - weight) * far])
    truth = np.dot([1 - weight, weight], mixture_tail(norms, 2))
    assert truth < model.stats_["truncation_error"] < 2 * truth
    assert norms.max() < model.stats_["largest_norm"] < norms.max() + 2.0


def test_one_component_has_no_truncation_error(rng):
    model = SphericalMixtureDensity(1).fit(rng.normal(size=(500, 3)))
    assert model.stats_["truncation_error"] == model.stats_["largest_norm"] == 0.0
