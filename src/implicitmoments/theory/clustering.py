r"""Theorem 4.19 with explicit constants; see docs/theory.md for the derivation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp, roots_hermitenorm

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError
from implicitmoments.theory.applications import mixture_second_moment
from implicitmoments.theory.hermite_variance import log_hermite_second_moment
from implicitmoments.theory.proposition import (
    Bound,
    Box,
    check_probability,
    circuit_size,
    log_sum,
    make_bound,
)
from implicitmoments.validation import check_number, check_positive_number, check_whole

SHARES = 5  # of tau: covariance, mean, clusters, moments of differences, pairs
ORDERS = range(2, 101, 2)  # h_t does not overflow up to the last; the best is far below
PRECISION = 1e-3  # of the least separation, relative


@dataclass(frozen=True)
class _Clusters:
    """What the theorem is given, and the rows that are clustered."""

    k: int
    d: int
    alpha: float
    w_min: float
    ratio: float  # of the largest distance of two means to the smallest
    tau: float

    @property
    def share(self) -> float:
        return self.tau / SHARES

    @property
    def p(self) -> int:
        """Dimension of the span of the means; the text projects onto k dimensions."""
        return min(self.k, self.d)

    @property
    def log_clustered(self) -> float:
        """Logarithm of the rows n₁ whose clusters give means and weights within alpha."""
        log_k = math.log(3 * self.k / self.share)
        sizes = 8 * log_k / self.w_min
        weights = (log_k + math.log(2)) / (2 * self.alpha**2)
        radius = math.sqrt(self.p) + math.sqrt(2 * log_k)
        means = 8 * radius**2 / (self.w_min * self.alpha**2)
        return math.log(max(sizes, weights, means))

    @property
    def log_tau_pair(self) -> float:
        """Logarithm of the probability at which the test of one pair may fail."""
        return math.log(2 * self.share) - 2 * self.log_clustered

    def log_span_rows(self, s: float) -> float:
        """Return the logarithm of the rows for the span of the means, and for its translate."""
        longest = (self.ratio * s) ** 2 / 2
        fourth = (self.d + longest) ** 2 + 2 * self.d + 4 * longest
        accuracy = self.w_min * self.alpha**2 / 32
        covariance = math.log(2 * fourth / self.share) - 2 * math.log(accuracy)
        mean = math.log(16 * (self.d + 2 * longest) / (self.alpha**2 * self.share))
        return max(covariance, mean)

    def lengths(self, s: float) -> tuple[float, float]:
        """Return the smallest and the largest norm of a hidden vector, after projection."""
        return (s - self.alpha / 2) / math.sqrt(2), self.ratio * s / math.sqrt(2)

    def log_gap(self, s: float, t: int) -> float:
        """Return the logarithm of the gap of P_t between pairs of one and of two components.

        Over the t-th power of the largest length; −∞ where the bounds overlap.
        """
        least, longest = self.lengths(s)
        if least <= 0:  # an accuracy of more than the separation
            return -math.inf
        third = self.log_tau_pair - math.log(3)
        n_directions = self.k * (self.k - 1) / 2
        reach = -float(ndtri_exp(third - math.log(2 * n_directions)))
        near = least + float(ndtri_exp(third))
        above = 2 * math.log(self.w_min) + math.log(2) + _log_hermite(t, near)
        above += t * math.log(least / longest)
        lowest, highest = _extremes(t, reach)
        others = math.log1p(-1 / self.k) + math.log(lowest + highest)
        return above + math.log(-math.expm1(others - above)) if above > others else -math.inf

    def separated(self, s: float) -> bool:
        """Return whether there is an order with a gap."""
        return any(self.log_gap(s, t) > -math.inf for t in ORDERS)

    def order(self, s: float) -> int | None:
        """Return the order with the widest gap over the noise; None where there is no gap."""
        found = {t: rows for t in ORDERS if (rows := self.log_rows(s, t)) is not None}
        return min(found, key=lambda t: found[t] + math.log(t + 1)) if found else None

    def box(self, s: float, t: int) -> Box:
        """Return the box of the moment of differences in units of the largest of them."""
        longest = self.lengths(s)[1]
        n_hidden = self.k * (self.k - 1) // 2  # up to their sign, which even orders do not see
        return Box.of_moment(
            (n_hidden, self.p, t),
            self.share,
            mixture_second_moment(longest, longest),
            log_hermite_second_moment(t, longest),
        )

    def log_rows(self, s: float, t: int) -> float | None:
        """Return the logarithm of N; None where the test of order t cannot be proved."""
        gap = self.log_gap(s, t)
        if gap == -math.inf:
            return None
        # P(|error| > gap/2) ≤ 4 E[error²] / gap², a third of what a pair may fail with
        return self.box(s, t).log_rows(gap + (self.log_tau_pair - math.log(12)) / 2)


def clustering_bound(
    k: int,
    d: int,
    epsilon: float,
    *,
    separation: float,
    smallest_weight: float | None = None,
    ratio: float = 1.0,
    order: int | None = None,
    tau: float = 1 / 3,
) -> Bound:
    r"""Return the rows at which Theorem 4.19 guarantees means and weights.

    Parameters
    ----------
    k : int
        Number of components.
    d : int
        Number of features.
    epsilon : float
        The accuracy :math:`\alpha` of every weight and every mean, in units of the noise.
    separation : float
        The smallest distance s of two means, in units of the noise.
    smallest_weight : float, optional
        :math:`w_{\min}`; 1/k by default.
    ratio : float, default 1.0
        The largest distance of two means over the smallest.
    order : int, optional
        The even order t of the test; the one with the fewest rows by default.
    tau : float, default 1/3
        Probability of failure.

    Returns
    -------
    Bound
        With infinitely many rows where the separation is too small for the proof
        (:func:`least_separation`), and then without an order unless one is given.

    See Also
    --------
    least_separation : The separation from which Theorem 4.19 holds.
    implicitmoments.SphericalMixtureClusterer : Labels by a test of pairs of rows.

    Examples
    --------
    >>> bound = clustering_bound(3, 6, 0.1, separation=60.0)
    >>> bound.order, bound.log10_rows > 20
    (2, True)
    >>> clustering_bound(3, 6, 0.1, separation=6.0).rows
    inf
    """
    given = _check_parameters(k, d, epsilon, smallest_weight, ratio, tau)
    s = check_positive_number("separation", separation)
    t = given.order(s) if order is None else check_whole("order", order, 2, ORDERS[-1])
    if t is not None and t % 2:
        raise InputError("order_not_even", "`order={order}` must be even", order=t)
    log_n = None if t is None else given.log_rows(s, t)
    if t is None or log_n is None:
        return Bound(
            statement="Theorem 4.19",
            error=epsilon,
            failure_probability=tau,
            order=t,
            log10_second_moment=math.nan,
            log10_rows_per_average=math.inf,
            log10_rows=math.inf,
            log10_operations=math.inf,
        )
    box = given.box(s, t)
    # each sample of the differences takes two rows
    rows = [log_n + math.log(2 * (t + 1)), given.log_span_rows(s), given.log_clustered]
    pairs = 2 * given.log_clustered - math.log(2)
    operations = box.log_operations(log_n, circuit_size(t), log_queries=pairs)
    return make_bound(
        "Theorem 4.19", epsilon, tau, box, log_n, rows=log_sum(rows), operations=operations
    )


def least_separation(
    k: int,
    d: int,
    epsilon: float,
    *,
    smallest_weight: float | None = None,
    ratio: float = 1.0,
    tau: float = 1 / 3,
) -> float:
    r"""Return the separation from which the proof of Theorem 4.19 holds.

    The "sufficiently large constant multiple" of :math:`\sqrt{\log(1/(\alpha w_{\min}))}`.

    Parameters
    ----------
    k : int
        Number of components.
    d : int
        Number of features.
    epsilon : float
        The accuracy :math:`\alpha`.
    smallest_weight : float, optional
        :math:`w_{\min}`; 1/k by default.
    ratio : float, default 1.0
        The largest distance of two means over the smallest.
    tau : float, default 1/3
        Probability of failure.

    Returns
    -------
    float
        In units of the noise.

    See Also
    --------
    clustering_bound : Rows by Theorem 4.19.

    Examples
    --------
    >>> round(least_separation(10, 10, 0.1), 1)
    22.2
    """
    given = _check_parameters(k, d, epsilon, smallest_weight, ratio, tau)
    low, high = 1.0, 2.0
    while not given.separated(high):
        low, high = high, 2 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if given.separated(middle) else (middle, high)
    return high


def _check_parameters(
    k: int, d: int, alpha: float, w_min: float | None, ratio: float, tau: float
) -> _Clusters:
    k, d = check_whole("k", k, 2), check_whole("d", d, 1)
    w_min = 1 / k if w_min is None else check_positive_number("smallest_weight", w_min)
    check_number("smallest_weight", w_min, 0.0, 1 / k)
    alpha = check_positive_number("epsilon", alpha)
    return _Clusters(k, d, alpha, w_min, check_number("ratio", ratio, 1.0), check_probability(tau))


def _log_hermite(t: int, x: float) -> float:
    """Return log h_t(x); −∞ for x below the largest root of He_t, by ratios that are positive."""
    ratio, total = x, math.log(x) if x > 0 else -math.inf
    for n in range(1, t):
        if ratio <= 0:
            return -math.inf
        ratio = (x - math.sqrt(n) / ratio) / math.sqrt(n + 1)
        total += math.log(ratio) if ratio > 0 else -math.inf
    return total


@lru_cache(maxsize=256)
def _extrema(t: int) -> tuple[Floats, Floats]:
    """Return the places and values of the extrema of h_t: h_t' = √t h_{t−1}."""
    roots = roots_hermitenorm(t - 1)[0]
    return roots, _hermite(t, roots)


def _extremes(t: int, reach: float) -> tuple[float, float]:
    """Return −min h_t, and the maximum of |h_t| within reach of 0."""
    roots, values = _extrema(t)
    inside = np.abs(np.append(values[np.abs(roots) <= reach], _hermite(t, np.array([reach]))))
    return float(-np.min(values)), float(np.max(inside))


def _hermite(t: int, x: Floats) -> Floats:
    """Return h_t(x) by the recursion of normalised polynomials."""
    before, value = np.zeros_like(x), np.ones_like(x)
    for n in range(t):
        before, value = value, (x * value - math.sqrt(n) * before) / math.sqrt(n + 1)
    return value
