r"""How far the expansion of a mixture of regressions converges, and its truncation error.

About the least-squares line, in units of the label scale s, a component is a Gaussian with the
mean :math:`c e_y` and the covariance :math:`I + A`, :math:`A = \beta e_y^\top + e_y \beta^\top +
(\|\beta\|^2 + \sigma^2 - 1)\, e_y e_y^\top`. With eigenvalues :math:`\gamma` of A, and parts
:math:`m_\gamma` of the mean along their eigenvectors,

.. math:: \sum_n \|T_n\|^2 u^n
   = \prod_\gamma (1 - \gamma^2 u^2)^{-1/2} \exp\Big(\frac{m_\gamma^2 u}{1 - \gamma u}\Big),

which converges at u = 1 if every :math:`|\gamma| < 1`, that is if
:math:`\|\beta\|^2 + \sigma^2/2 < 1`. The proof of Theorem 4.22 divides y by 2 (B + σ). The
largest :math:`|\gamma|` of all lines is smallest for :math:`s^2 = B^2 + \sigma^2`, B the largest
norm of a slope: then :math:`|\gamma| \le B/s`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from implicitmoments.arrays import TINY, Floats
from implicitmoments.density.line_distribution import RINGS, LineDistribution, Residuals
from implicitmoments.density.norm_band import ProportionBand

# Part of the variance of the noise that is added to the square of the longest slope found, for the
# error of this estimate. With half of the variance between B and divergence, s need not be exact.
MARGIN = 0.125
LIGHT = 0.025  # weight of lines that may be steeper than those whose expansion converges best
SURE = 3.0  # standard errors within which the bound considers an estimated noise
LEAST_NOISE = 1e-4  # part of the variance of residuals, below which the noise counts as this
THRESHOLDS, RADII, ANGLES = 15, 40, 6  # of residuals in each ring, and cells of lines
OUTSIDE = 20  # cells of longer lines


def order_norms(squared: Floats, noise: float, intercept: Floats, degree: int) -> Floats:
    r"""Return :math:`\|T_n\|^2` of lines, for n = 0, …, degree: an array (degree + 1, ...).

    With g the logarithm of the series above, :math:`n S_n = \sum_{j \le n} j g_j S_{n-j}`.
    """
    gammas, means = _eigenvalues(squared, noise, intercept)
    norms = np.zeros((degree + 1, *squared.shape))
    logs = np.zeros_like(norms)  # j g_j
    norms[0], powers = 1.0, np.ones_like(gammas)
    for n in range(1, degree + 1):
        before, powers = powers, powers * gammas
        logs[n] = np.sum((n % 2 == 0) * powers + n * means * before, axis=0)
        norms[n] = np.sum(logs[1 : n + 1] * norms[n - 1 :: -1], axis=0) / n
    return norms


def _eigenvalues(squared: Floats, noise: float, intercept: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues of A, and squares of the mean along their eigenvectors: (2, ...)."""
    half = (squared + noise - 1) / 2
    root = np.sqrt(half**2 + squared)
    gammas = np.stack([half + root, half - root])
    # the eigenvector of the first is (‖β‖, γ) over its length
    first = gammas[0] ** 2 / np.maximum(squared + gammas[0] ** 2, TINY)
    return gammas, np.stack([first, 1 - first]) * intercept**2


def total_norm(squared: Floats, noise: float, intercept: Floats) -> Floats:
    """Return the sum of the norms of all orders, infinite where it diverges."""
    gammas, means = _eigenvalues(squared, noise, intercept)
    converges = np.max(np.abs(gammas), axis=0) < 1
    gammas = np.where(converges, gammas, 0.0)
    with np.errstate(over="ignore"):
        exponential = np.exp(np.sum(means / (1 - gammas), axis=0))
    found = exponential / np.sqrt(np.prod(1 - gammas**2, axis=0))
    return np.where(converges, found, np.inf)


def half_tail(total: Floats, kept: Floats) -> Floats:
    """Return half the norm of what is left out; the difference is known to rounding errors."""
    with np.errstate(invalid="ignore"):
        rest = np.where(np.isinf(total), np.inf, total - kept)
    found: Floats = np.sqrt(np.maximum(rest, np.finfo(float).eps * total)) / 2
    return found


def regression_tail(squared: float, noise: float, degree: int, *, intercept: float = 0.0) -> float:
    r"""Bound the total variation error of truncating the expansion of one component.

    Half of the norm of :math:`\sum_{n > degree} \langle T_n, H_n \rangle` in L2(G), as in the
    proof of Theorem 4.22. Infinite where some :math:`|\gamma| \ge 1`: the expansion does not
    converge. The error of a mixture is at most the mean of this number over its components.

    Parameters
    ----------
    squared : float
        The squared norm of :math:`\beta`.
    noise : float
        The variance of the noise.
    degree : int
        The highest order kept.
    intercept : float, default 0.0
        The value of the line at the mean of x.

    Examples
    --------
    >>> from implicitmoments.density import regression_tail
    >>> round(regression_tail(0.3, 0.7, 4), 3), regression_tail(1.0, 1.2, 4)
    (0.098, inf)
    """
    line = np.array(float(squared)), noise, np.array(float(intercept))
    return float(half_tail(total_norm(*line), np.sum(order_norms(*line, degree), axis=0)))


def line_errors(squared: Floats, noise: float, intercept: Floats, degree: int) -> Floats:
    """Bound the error of truncation of lines, also where their expansion diverges.

    The integral of the absolute error is at most half the norm of the tail, and at most half of
    the sum of those of both of its terms.
    """
    kept = np.sum(order_norms(squared, noise, intercept, degree), axis=0)
    tail = half_tail(total_norm(squared, noise, intercept), kept)
    found: Floats = np.minimum(tail, (1 + np.sqrt(kept)) / 2)
    return found


@dataclass(frozen=True)
class OneLine:
    """The bound for one component: F is G, and nothing is left out."""

    longest: float = 0.0
    scale: float = 1.0
    weight_beyond: float = 0.0
    contradicted: bool = False

    def __call__(self, degree: int) -> float:  # noqa: ARG002
        """Return 0 for every degree."""
        return 0.0

    estimate = __call__


@dataclass(frozen=True, eq=False)
class LineBound:
    r"""Bound on the truncation error of all mixtures of lines that the rows do not contradict.

    The error of a mixture is at most the mean over its lines of the error of each (triangle
    inequality). A confidence band of the distribution of residuals leaves a convex set of
    distributions of slopes and intercepts; the bound is the largest mean over those with
    :math:`\|\beta\|^2 + c^2 \le L^2`, a linear program. So it holds with the probability of the
    band, 0.999, if no line is longer than L and the noise is one of those considered. Lengths are
    in units of the spread of residuals.
    """

    residuals: Residuals
    lines: LineDistribution  # as estimated
    noise: float  # variance, as estimated or given
    noises: tuple[float, ...]  # it, and the ends of its interval of confidence
    longest: float  # L
    steepest: float  # the largest norm of a slope
    scale: float  # that of G
    shifted: bool  # whether lines may have different intercepts

    def __call__(self, degree: int) -> float:
        """Return the bound at a degree, at most 1 where it is finite.

        Infinite where the expansion of some line diverges, and where no mixture of lines up to
        the longest is in the band.
        """
        slope, intercept = self._lines(self._radii)
        squared, shift = (slope / self.scale) ** 2, intercept / self.scale
        unit = self.scale**2
        if np.any(np.isinf(total_norm(squared, self.noise / unit, shift))):
            return math.inf
        errors = np.stack([line_errors(squared, v / unit, shift, degree) for v in self.noises])
        values = np.max(_corners(errors), axis=(0, 1))
        found = self._band.largest_mean(values, *self._shown)
        return min(found, 1.0) if math.isfinite(found) else math.inf

    @cached_property
    def contradicted(self) -> bool:
        """Whether no mixture of lines up to the longest has residuals like those of the rows."""
        least, most = self._shown
        return math.isinf(self._band.largest_mean(np.zeros(least.shape[1]), least, most))

    def estimate(self, degree: int) -> float:
        """Return the mean error of the lines as estimated."""
        slope, intercept = self.lines.slopes / self.scale, self.lines.intercepts / self.scale
        errors = line_errors(slope**2, self.noise / self.scale**2, intercept, degree)
        return float(self.lines.weights @ errors)

    @property
    def weight_beyond(self) -> float:
        """The largest total weight of lines longer than L that the rows allow."""
        top = max(self.residuals.top, 2 * self.longest)
        radii = np.append(self._radii, np.linspace(self.longest, top, OUTSIDE + 1)[1:])
        beyond = np.repeat(np.arange(RADII + OUTSIDE) >= RADII, ANGLES if self.shifted else 1)
        longer = replace(self, steepest=math.inf)
        return self._band.largest_mean(beyond.astype(float), *longer._show(radii))

    @property
    def _radii(self) -> Floats:
        return np.linspace(0.0, self.longest, RADII + 1)

    def _lines(self, radii: Floats) -> tuple[Floats, Floats]:
        """Return norms of slopes, and intercepts, at corners of cells: (R + 1, A + 1)."""
        angles = np.linspace(0.0, math.pi / 2, ANGLES + 1) if self.shifted else np.zeros(2)
        slopes = np.minimum(radii[:, None] * np.cos(angles), self.steepest)
        return slopes, radii[:, None] * np.sin(angles)

    @cached_property
    def _edges(self) -> Floats:
        return np.linspace(0.0, self.residuals.top, THRESHOLDS + 1)

    @cached_property
    def _band(self) -> ProportionBand:
        """Of absolute residuals above thresholds, by ring."""
        shares = self.residuals.shares(self._edges, absolute=True)
        above = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1]
        return ProportionBand.of(above.ravel(), self.residuals.n, self.residuals.dropped)

    @cached_property
    def _shown(self) -> tuple[Floats, Floats]:
        return self._show(self._radii)

    def _show(self, radii: Floats) -> tuple[Floats, Floats]:
        """Return what rows of lines in each cell show at least and at most, (J, C) each."""
        slope, intercept = self._lines(radii)
        limits = np.append(self._edges[:-1], -self._edges[:-1])
        lines = slope.ravel(), intercept.ravel()
        ring, found = np.diff(RINGS)[:, None, None], []
        for noise in self.noises:
            below = self.residuals.probabilities(limits, *lines, noise)
            under, over = np.split(below, 2, axis=1)
            found.append((ring - under + over).reshape(-1, *slope.shape))
        corners = _corners(np.stack(found))
        return np.min(corners, axis=(0, 1)), np.max(corners, axis=(0, 1))


def _corners(values: Floats) -> Floats:
    """Return values (..., R + 1, A + 1) at the four corners of cells, as (4, ..., R · A)."""
    rows = values[..., :-1, :], values[..., 1:, :]
    found = np.stack([part for row in rows for part in (row[..., :-1], row[..., 1:])])
    return found.reshape(*found.shape[:-2], -1)


def choose_scale(
    residuals: Residuals,
    lines: LineDistribution,
    noise: float,
    *,
    light: float,
    noise_error: float = 0.0,
    max_slope: float | None = None,
    scale: float | None = None,
) -> LineBound:
    """Choose the scale of G such that lines as steep as those found converge; return the bound.

    All in units of the spread of the residuals: the variance of the noise and the standard error
    of it, a known bound on the slopes about the least-squares line, and a scale that is given.
    ``light`` is the estimated weight of lines that may be steeper, at most ``LIGHT``.
    """
    light = min(light, LIGHT)
    steepest, longest = (
        math.sqrt(lines.exceeded(each, light) ** 2 + MARGIN * noise)
        for each in (lines.slopes, np.hypot(lines.slopes, lines.intercepts))
    )
    steepest = steepest if max_slope is None else max_slope
    shifted = bool(np.any(lines.intercepts))
    # noise is a part of the variance of the residuals, which is 1
    ends = (
        max(noise - SURE * noise_error, LEAST_NOISE),
        max(min(noise + SURE * noise_error, 1.0), noise),
    )
    return LineBound(
        residuals,
        lines,
        noise,
        tuple({noise: None, **dict.fromkeys(ends)}),
        longest=max(longest, steepest) if shifted else steepest,
        steepest=steepest,
        # B² + σ² makes all |γ| as small as possible; less than 1 makes higher orders noisier
        scale=math.sqrt(max(steepest**2 + noise, 1.0)) if scale is None else scale,
        shifted=shifted,
    )
