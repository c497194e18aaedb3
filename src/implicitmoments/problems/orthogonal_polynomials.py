"""Monic orthogonal polynomials of the distribution of a scalar, from its moments."""

from __future__ import annotations

from collections.abc import Sequence

from implicitmoments.arrays import Array


def recurrence_from_moments(moments: Sequence[float]) -> tuple[list[float], list[float]]:
    r"""Return (a, b) with :math:`P_{n+1}(y) = (y - a_n) P_n(y) - b_n P_{n-1}(y)` orthogonal.

    By Chebyshev's algorithm from :math:`E[y^0], \ldots, E[y^{2T-1}]`: T pairs. Scale y to about
    unit variance, since moments grow fast. There are fewer pairs if the distribution has too few
    points for another polynomial.
    """
    half = len(moments) // 2
    before = [0.0] * len(moments)
    now = list(moments)
    a, b = [moments[1] / moments[0]], [0.0]
    for n in range(1, half):
        after = [0.0] * len(moments)
        for j in range(n, len(moments) - n):
            after[j] = now[j + 1] - a[n - 1] * now[j] - b[n - 1] * before[j]
        if after[n] <= 1e-12 * now[n - 1]:
            break
        a.append(after[n + 1] / after[n] - now[n] / now[n - 1])
        b.append(after[n] / now[n - 1])
        before, now = now, after
    return a, b


def monic_polynomial(y: Array, degree: int, a: Sequence[float], b: Sequence[float]) -> Array:
    """Evaluate the monic orthogonal polynomial of a degree by its recurrence.

    Beyond the known recurrence it is extended by powers of y, and remains monic.
    """
    before, now = y * 0.0, y * 0.0 + 1.0
    for n in range(degree):
        shift, product = (a[n], b[n]) if n < len(a) else (0.0, 0.0)
        before, now = now, (y - shift) * now - product * before
    return now
