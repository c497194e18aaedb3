"""The second moment of an extended Hermite tensor, exactly (Lemma 4.3)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from implicitmoments.theory.proposition import log_sum
from implicitmoments.validation import check_number, check_whole


def log10_hermite_second_moment(order: int, radius: float) -> float:
    r"""Return the logarithm of the second moment of an extended Hermite tensor (Lemma 4.3).

    The largest second moment of :math:`H_n(X, Y)` in any direction, for
    :math:`X \sim N(\mu, I)`, :math:`Y \sim N(0, I)` and :math:`\|\mu\| = r`, is exactly
    :math:`(2^n L_n(-r^2/2) + r^{2n}/n!)/2`, with the Laguerre polynomial :math:`L_n`.

    Parameters
    ----------
    order : int
        The order n.
    radius : float
        The norm r of the mean.

    Returns
    -------
    float
        To base 10.

    See Also
    --------
    moment_bound : Rows by Proposition 3.2.

    Examples
    --------
    >>> [round(10 ** log10_hermite_second_moment(n, 0.0)) for n in (0, 1, 2, 3, 6)]
    [1, 1, 2, 4, 32]
    """
    order = check_whole("order", order, 0)
    radius = check_number("radius", radius, 0.0)
    return log_hermite_second_moment(order, radius) / math.log(10.0)


@lru_cache(maxsize=4096)
def log_hermite_second_moment(n: int, radius: float) -> float:
    """Return the natural logarithm of the second moment of Lemma 4.3."""
    if radius == 0:
        return max(n - 1, 0) * math.log(2)
    j, length = np.arange(n + 1), 2 * math.log(radius)
    # 2^n L_n(−r²/2) = Σ_j n!/(j! (n−j)!) 2^(n−j) r^(2j) / j!
    sums = gammaln(n + 1) - 2 * gammaln(j + 1) - gammaln(n - j + 1)
    sums += (n - j) * math.log(2) + j * length
    last = n * length - gammaln(n + 1)
    return log_sum(np.append(sums, last)) - math.log(2)
