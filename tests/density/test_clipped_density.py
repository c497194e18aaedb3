"""Clipping, normalising and checking a polynomial times a Gaussian."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from implicitmoments.density import ClippedDensity, Probe, choose_clip, kolmogorov_distance
from implicitmoments.density.clipped_density import FLOOR
from implicitmoments.moments.problems import SphericalSpan
from support import refuses


class Quadratic:
    """1 + a (x² − 1): its mean under G is 1, and for a > 1 it is negative near 0."""

    degree = 2

    def __init__(self, a):
        self.a = a

    def orders(self, z):
        one = np.ones(len(z))
        return np.stack([one, 0 * one, self.a * (z[:, 0] ** 2 - 1.0)])

    def __call__(self, z):
        return self.orders(z).sum(axis=0)


def mass_of(expansion, variances, clip, floor=FLOOR):
    """Return the mean of the clipped expansion under G, and its standard error."""
    probe = Probe.of(np.array(variances), seed=0, n_points=2**13)
    masses = probe.masses(np.clip(probe.orders(expansion).sum(axis=0), floor, clip))
    return masses.mean(), masses.std(ddof=1) / math.sqrt(len(masses))


def plane(p=2):
    return SphericalSpan(np.array([1.0, -2.0]), 4.0, np.eye(2)[:p], np.array([2.0, 1.5]))


def test_the_least_clip_that_costs_no_more(rng):
    ratios = np.concatenate([rng.lognormal(sigma=1.5, size=500), [-1.0]])
    counts = rng.integers(1, 4, 501).astype(float)

    def loss(A):
        lost = np.maximum(0.0, 1.0 - A / np.maximum(ratios, 1e-300))
        return np.average(lost, weights=counts)

    for wanted in (0.001, 0.05, 0.3):
        clip = choose_clip(ratios, counts, wanted)
        exact = brentq(lambda A, wanted=wanted: loss(A) - wanted, 1e-3, ratios.max())
        assert clip == pytest.approx(max(1.0, exact))
    assert choose_clip(ratios, counts, 0.0) == pytest.approx(ratios.max())
    assert choose_clip(np.full(10, 0.5), np.ones(10), 0.01) == 1.0


def test_the_mass_is_known_with_its_error():
    mass, error = mass_of(Quadratic(0.4), [1.5, 1.0], math.inf, -math.inf)
    assert abs(mass - 1.0) < 5 * error < 0.01
    # E[max(1 + a(x² − 1), 0)] for a = 2 in closed form: positive beyond |x| = √½
    edge = math.sqrt(0.5)
    tail = math.erfc(edge / math.sqrt(2))
    density = math.exp(-(edge**2) / 2) / math.sqrt(2 * math.pi)
    exact = -tail + 2.0 * (tail + 2 * edge * density)
    mass, error = mass_of(Quadratic(2.0), [1.5, 1.0], math.inf, 0.0)
    assert abs(mass - exact) < 5 * error
    assert abs(mass - 1.0) > 50 * error  # without the clip it would be 1


def test_the_density_integrates_to_one():
    mass, _ = mass_of(Quadratic(1.5), [2.0, 1.0], 5.0)
    density = ClippedDensity(plane(), Quadratic(1.5), 5.0, mass)
    grid = np.linspace(-16, 16, 401)
    x, y = np.meshgrid(grid, grid)
    points = np.column_stack([x.ravel() + 1.0, y.ravel() - 2.0])
    total = np.sum(np.exp(density.log_density(points))) * (grid[1] - grid[0]) ** 2
    assert total == pytest.approx(1.0, abs=2e-3)


def test_the_distance_sees_rows_of_another_law(rng):
    expansion = Quadratic(0.5)
    mass, _ = mass_of(expansion, [1.5], 20.0)
    density = ClippedDensity(plane(1), expansion, 20.0, mass)
    drawn = density.sample(4_000, seed=1, max_proposals=10**6)[0]
    probe = Probe.of(np.array([1.5]), seed=0, n_points=2**13)
    probed = probe.orders(expansion).sum(axis=0)
    hypothesis = np.ravel(probed), np.ravel(np.clip(probed, FLOOR, 20.0) * probe.weights)
    ratios = expansion(density.reference.coordinates(drawn))
    chance = 2.0 / math.sqrt(4_000)
    assert kolmogorov_distance(ratios, np.ones(4_000), *hypothesis) < chance
    gaussian = expansion(rng.normal(size=(4_000, 1)))
    assert kolmogorov_distance(gaussian, np.ones(4_000), *hypothesis) > 2 * chance
    # rows without weight do not count
    both = np.concatenate([ratios, gaussian])
    counts = np.concatenate([np.ones(4_000), np.zeros(4_000)])
    assert kolmogorov_distance(both, counts, *hypothesis) < chance


def sample(n, *, seed=0, clip=4.0, cap=10**6, **how):
    """Density (1 + (x² − 1)/2) times the standard normal one, nearly up to the clip."""
    span = SphericalSpan(np.zeros(1), 1.0, np.eye(1), np.ones(1))
    density = ClippedDensity(span, Quadratic(0.5), clip, 1.0)
    return density.sample(n, seed=seed, max_proposals=cap, **how)


def test_the_law_is_that_of_the_ratio_and_no_other():
    drawn = sample(20_000, clip=20.0)[0][:, 0]
    # ∫ (1 + x²)/2 φ = Φ − x φ/2
    law = stats.norm()
    assert stats.kstest(drawn, lambda x: law.cdf(x) - x * law.pdf(x) / 2).pvalue > 0.001
    assert stats.kstest(drawn, law.cdf).pvalue < 1e-10


def test_the_acceptance_rate_is_that_of_the_clip():
    # 1/A of the proposals, within five standard errors
    _, proposals = sample(20_000, clip=16.0)
    rate = 1 / 16
    assert abs(20_000 / proposals - rate) < 5 * math.sqrt(rate * (1 - rate) / proposals)


def test_draws_do_not_depend_on_the_batches():
    (whole, made), (parts, made_in_parts) = sample(3_000), sample(3_000, batch=101)
    assert whole.shape == (3_000, 1)
    np.testing.assert_array_equal(whole, parts)
    assert made == made_in_parts


def test_fewer_draws_are_the_beginning_of_more():
    np.testing.assert_array_equal(sample(50)[0], sample(500)[0][:50])
    assert not np.array_equal(sample(50)[0], sample(50, seed=1)[0])


def test_what_cannot_be_drawn_is_refused_before_any_work():
    class Unused(Quadratic):
        def __call__(self, coordinates):
            raise AssertionError("a proposal was evaluated")

    span = SphericalSpan(np.zeros(1), 1.0, np.eye(1), np.ones(1))
    density = ClippedDensity(span, Unused(0.5), 2e8, 1.0)  # accepts 5e-9
    with refuses("too_few_accepted", n=1, expected=0.1, clip=1e7):
        density.sample(1, seed=0, max_proposals=20_000_000)
