"""The distribution of the slopes and intercepts of lines, from residuals about one line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtr, roots_gegenbauer, roots_legendre
from scipy.stats import chi, chi2

from implicitmoments.arrays import TINY, Floats

RINGS = (0.0, 0.5, 0.8, 0.95, 1.0)  # quantiles of the norm of x that separate rings
# Nodes of quadrature over the norms within a ring, and over directions: for a line of slope 1 and
# noise of variance 0.1 probabilities are exact to 3e-5, less than the band of 10^7 rows is wide.
NORM_NODES, DIRECTION_NODES = 8, 24
LAST = 1 - 1e-9  # quantile of the norm at which the last ring ends
BINS, SLOPES, INTERCEPTS = 40, 25, 21  # the grid on which lines are estimated
BEYOND = 0.002  # proportion of rows with residuals beyond this grid
NEAR_OPTIMUM = 1e-6  # nats per row below the maximum of the likelihood: less than rows distinguish
MOST_STEPS = 1_000  # of EM: with more of them the steepest line changes by less than a cell
NOISE_STEP = 0.8  # of the noise, where it is unknown and intercepts differ
CLEAR = 10.0  # nats by which a smaller noise must fit better; EM ends within a few of its maximum


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals about the least-squares line, in units of their spread, by rings of the points."""

    z: Floats  # (n,)
    ring: Floats  # (n,), the number of the ring of a row
    counts: Floats  # (n,), its multiplicity
    p: int  # dimension of the span of the regressors
    dropped: float = 0.0  # proportion of all rows that were left out, whatever their residuals

    @staticmethod
    def of(points: Floats, z: Floats, counts: Floats, dropped: float = 0.0) -> Residuals:
        """Return residuals (n,) at points (n, p) of the span."""
        limits = chi2.ppf(RINGS[1:-1], points.shape[1])
        ring = np.searchsorted(limits, np.sum(points**2, axis=1))
        return Residuals(z, ring, counts, points.shape[1], dropped)

    @property
    def top(self) -> float:
        """The largest of them."""
        return float(np.max(np.abs(self.z), initial=0.0, where=self.counts > 0))

    @property
    def reach(self) -> float:
        """No line with a proportion of 4 ``BEYOND`` of the rows has a larger slope or intercept.

        A quarter of its rows at least have residuals above either.
        """
        sizes = np.abs(self.z)
        order = np.argsort(-sizes)
        above = np.cumsum(self.counts[order]) / np.sum(self.counts)
        return float(sizes[order][np.searchsorted(above, BEYOND)])

    @property
    def n(self) -> float:
        """The effective sample size."""
        return float(np.sum(self.counts) ** 2 / np.sum(self.counts**2))

    def trace_error(self, d: int) -> float:
        """Return the standard error of the mean of (z² − 1)/2 (|x|² − d), x of d features."""
        square = float(np.average((self.z**2 - 1) ** 2, weights=self.counts)) / 4
        return math.sqrt(2 * d * square / self.n)

    def shares(self, edges: Floats, *, absolute: bool = False) -> Floats:
        """Return proportions of rows by ring and bin, (rings, bins)."""
        z, found = np.abs(self.z) if absolute else self.z, []
        for i in range(len(RINGS) - 1):
            of_ring = self.ring == i
            found.append(np.histogram(z[of_ring], edges, weights=self.counts[of_ring])[0])
        return np.stack(found) / np.sum(self.counts)

    def probabilities(
        self, below: Floats, slope: Floats, intercept: Floats, noise: float
    ) -> Floats:
        r"""Return the probability that a row of a line is in a ring and its residual below limits.

        The limits are (J,) and the lines (C,); the result is (rings, J, C). Given the norm of a
        standard Gaussian x its direction is uniform, so that :math:`c + \beta \cdot x` has the
        distribution of :math:`c + \|\beta\| \|x\| u`, u a coordinate of a random direction.
        """
        nodes, parts = roots_legendre(NORM_NODES)
        if self.p > 1:  # the density of a coordinate of a direction is (1 − u²)^((p − 3)/2)
            cosines, shares = roots_gegenbauer(DIRECTION_NODES, (self.p - 2) / 2)
        else:
            cosines, shares = np.array([-1.0, 1.0]), np.ones(2)
        ends: Floats = np.asarray(chi.ppf((*RINGS[:-1], LAST), self.p))
        found = []
        for i, (low, high) in enumerate(pairwise(ends)):
            norms = low + (high - low) * (nodes + 1) / 2
            weights = np.outer(parts * chi.pdf(norms, self.p), shares).ravel()
            weights *= (RINGS[i + 1] - RINGS[i]) / np.sum(weights)
            steps = np.multiply.outer(slope, np.outer(norms, cosines).ravel())
            away = below[:, None, None] - intercept[:, None] - steps
            found.append(ndtr(away / math.sqrt(noise)) @ weights)
        return np.stack(found)


@dataclass(frozen=True, eq=False)
class LineDistribution:
    """An estimate of the distribution of lines."""

    slopes: Floats  # norms (C,)
    intercepts: Floats  # (C,)
    weights: Floats  # (C,)
    score: float  # mean log-likelihood of the residuals

    @staticmethod
    def of(residuals: Residuals, noise: float, *, shifted: bool) -> LineDistribution:
        """Maximise the likelihood of residuals over all distributions on a grid.

        A convex problem: EM increases the likelihood to its maximum from any positive start.
        Intercepts are all 0 unless ``shifted``.
        """
        top, reach = residuals.top, residuals.reach
        grid = np.linspace(0.0, reach, SLOPES), np.zeros(1)
        if shifted:
            grid = grid[0], np.linspace(-reach, reach, INTERCEPTS)
        slopes, intercepts = (g.ravel() for g in np.meshgrid(*grid, indexing="ij"))
        edges = np.linspace(-top, top, BINS + 1)
        below = residuals.probabilities(edges, slopes, intercepts, noise)
        within = np.diff(below, axis=1).reshape(-1, len(slopes))
        seen = residuals.shares(edges).ravel()
        weights = np.full(len(slopes), 1 / len(slopes))
        for _ in range(MOST_STEPS):
            # the mean log-likelihood is less than the largest factor less 1 below its maximum
            factors = within.T @ (seen / np.maximum(within @ weights, TINY))
            weights *= factors
            if np.max(factors) - 1 < NEAR_OPTIMUM:
                break
        weights /= np.sum(weights)
        score = float(seen @ np.log(np.maximum(within @ weights, TINY)))
        return LineDistribution(slopes, intercepts, weights, score)

    @staticmethod
    def with_largest_noise(residuals: Residuals, most: float) -> tuple[LineDistribution, float]:
        """Estimate lines with intercepts, and the noise: the largest one that fits the residuals.

        A smaller noise always fits as well, since intercepts may take the place of noise.
        """
        found, noise = LineDistribution.of(residuals, most, shifted=True), most
        while True:
            less = NOISE_STEP * noise
            other = LineDistribution.of(residuals, less, shifted=True)
            if residuals.n * (other.score - found.score) < CLEAR:
                return found, noise
            found, noise = other, less

    def exceeded(self, lengths: Floats, weight: float) -> float:
        """Return the length above which lines have no more than a weight; ``lengths`` are (C,)."""
        order = np.argsort(-lengths, kind="stable")
        above = np.cumsum(self.weights[order])  # weight of this length and longer ones
        return float(np.interp(weight, above, lengths[order]))
