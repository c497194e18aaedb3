r"""Noise with heavy tails: Student's t as a Gaussian whose covariance is random.

A row of q numbers with squared distance :math:`\delta` from its centre, in units of the scale
matrix, has the log density :math:`c(\nu) - \frac{\nu + q}{2} \log(1 + \delta/\nu)`. It is Gaussian
with the scale matrix over a hidden factor :math:`w`, gamma-distributed with mean 1 and shape
:math:`\nu/2`; EM estimates w as well, and rows far out count little (Lange, Little and Taylor
1989). A Gaussian has :math:`\nu = \infty`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln, polygamma

from implicitmoments.arrays import Array, Floats, map_into, namespace_of

LAWS = ("gaussian", "student")
# Degrees of freedom: from those of a Cauchy law, below which EM may follow a single row, to where
# a Gaussian differs by 1e-6 nats per row.
LEAST, MOST = 1.0, 1e3
ROUNDING = 1e-9  # relative, of a number at its bound
FIRST = 5.0  # from which they are estimated


def is_gaussian(freedom: Floats) -> bool:
    """Return whether the noise is Gaussian."""
    return bool(np.isinf(freedom).all())


def log_constants(freedom: Floats, q: int) -> Floats:
    """Return the log density at the centre of unit noise in q dimensions."""
    finite = np.where(np.isinf(freedom), 1.0, freedom)
    student = gammaln((finite + q) / 2) - gammaln(finite / 2) - 0.5 * q * np.log(math.pi * finite)
    return np.where(np.isinf(freedom), -0.5 * q * math.log(2 * math.pi), student)


def log_tails(squares: Array, freedom: Array) -> Array:
    """Return log(1 + δ/ν) of squared distances, which are overwritten."""
    squares /= freedom
    return map_into("log1p", squares)


def expected_factors(tails: Array, freedom: Array, q: int) -> Array:
    """Return the expected factors w given the rows, (ν + q) / (ν + δ), from their tails."""
    factors: Array = namespace_of(tails).exp(-tails) * ((freedom + q) / freedom)
    return factors


def update_freedom(freedom: Floats, q: int, count: float, factors: float, tails: float) -> Floats:
    r"""Return the degrees of freedom, shared by all components, after a step of EM.

    They solve :math:`\log(\nu/2) - \psi(\nu/2) + 1 + E[\log w - w] = 0`.

    Parameters
    ----------
    count, factors, tails : float
        Sums over rows of responsibilities, and of those times factors and tails.
    """
    if is_gaussian(freedom):
        return freedom
    before = float(freedom[0])
    level = digamma((before + q) / 2) - math.log(before / 2) - (tails + factors) / count

    def slope(nu: float) -> float:
        return float(math.log(nu / 2) - digamma(nu / 2) + 1 + level)

    ends = [nu for nu, beyond in ((MOST, slope(MOST) > 0), (LEAST, slope(LEAST) < 0)) if beyond]
    return np.full(len(freedom), ends[0] if ends else brentq(slope, LEAST, MOST))


def unpack_freedom(log: float, k: int) -> Floats:
    """Return degrees of freedom of k components, within their bounds, from a logarithm."""
    return np.full(k, np.exp(np.clip(log, math.log(LEAST), math.log(MOST))))


def draw_scales(freedom: Floats, rng: np.random.Generator) -> Floats:
    """Draw what normal noise is multiplied by, for degrees of freedom of any shape."""
    if is_gaussian(freedom):
        return np.ones(freedom.shape)
    return np.asarray(np.sqrt(0.5 * freedom / rng.standard_gamma(0.5 * freedom)))


def information(freedom: Floats, q: int) -> Floats:
    """Return the information per row about the logarithm of the degrees of freedom."""
    nu = np.asarray(freedom, dtype=float)
    own = 0.25 * (polygamma(1, nu / 2) - polygamma(1, (nu + q) / 2))
    found: Floats = nu**2 * (own - q * (nu + q + 4) / (2 * nu * (nu + q) * (nu + q + 2)))
    return found


@dataclass(frozen=True, eq=False)
class Derivatives:
    r"""Derivatives of the log density by the squared distance :math:`\delta`, and by log ν.

    Attributes
    ----------
    factors : array
        Minus twice the derivative by :math:`\delta`: the expected factors, 1 for a Gaussian.
    bends : array
        Twice the second derivative by :math:`\delta`.
    tails : tuple of three arrays or None
        The derivative by log ν, and minus its derivatives by :math:`\delta` and by log ν; None
        where ν is not estimated.
    """

    factors: Array
    bends: Array
    tails: tuple[Array, Array, Array] | None = None

    @classmethod
    def of(cls, squares: Array, freedom: float, q: int) -> Derivatives:
        """Return the derivatives at squared distances, of the law with ν of ``freedom``."""
        xp, nu = namespace_of(squares), freedom
        if math.isinf(nu):
            return cls(xp.ones_like(squares), xp.zeros_like(squares))
        far = nu + squares
        factors = (nu + q) / far
        bends = factors**2 / (nu + q)
        if not is_estimated(freedom):
            return cls(factors, bends)
        half = (nu + q) / 2
        slope = 0.5 * float(digamma(half) - digamma(nu / 2)) - q / (2 * nu)
        bend = 0.25 * float(polygamma(1, half) - polygamma(1, nu / 2)) + q / (2 * nu**2)
        first = slope - 0.5 * xp.log1p(squares / nu) + 0.5 * factors * squares / nu
        second = bend + squares / (nu * far) - 0.5 * factors * squares * (nu + far) / (nu**2 * far)
        cross = 0.5 * nu * (squares - q) / far**2
        return cls(factors, bends, (nu * first, cross, -nu * (nu * second + first)))


def is_estimated(freedom: float) -> bool:
    """Return whether the degrees of freedom are estimated, and lie within their bounds."""
    return LEAST * (1 + ROUNDING) < freedom < MOST * (1 - ROUNDING)
