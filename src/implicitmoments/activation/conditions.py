"""The conditions of Theorem 4.7 on an activation, and the degree its tail asks for."""

from __future__ import annotations

from dataclasses import dataclass

from implicitmoments.problems.activation_sum import SMALLEST_COEFFICIENT
from implicitmoments.problems.activations import Activation

__all__ = ["HIGHEST_DEGREE", "Conditions", "check_conditions", "degree_for", "largest_degree"]

HIGHEST_DEGREE = 20
PARITIES = range(2, 11)  # orders at which even and odd parts are compared
NEARLY = 0.01  # of their energies


@dataclass(frozen=True)
class Conditions:
    r"""What Theorem 4.7 asks of an activation, at the degree in use.

    Attributes
    ----------
    degree : int
        The theorem's n.
    tail : float
        :math:`\sum_{t > n} c_{\sigma,t}^2`; the theorem wants :math:`\varepsilon^2/4`.
    delta : float
        The least size of a coefficient that is divided by.
    warning : str or None
        What is nearly violated.
    """

    degree: int
    tail: float
    delta: float
    warning: str | None


def degree_for(activation: Activation, epsilon: float) -> int:
    r"""Return the least n with :math:`\sum_{t>n} c_{\sigma,t}^2 < \varepsilon^2/4`.

    Errata 2 and 3: :math:`n = \Theta(\varepsilon^{-4/3})` for ReLU, and
    :math:`O(\gamma^2 + \log 1/\varepsilon)` for :math:`\cos(\gamma u)`.
    """
    for n in range(1, HIGHEST_DEGREE + 1):
        if activation.tail(n) < epsilon**2 / 4:
            return n
    raise ValueError(
        f"epsilon={epsilon:g} asks for a degree above {HIGHEST_DEGREE} with {activation.name} "
        f"(its tail there is {activation.tail(HIGHEST_DEGREE):.2g}, wanted below "
        f"{epsilon**2 / 4:.2g}); use a larger epsilon, or degree='cv'"
    )


def largest_degree(activation: Activation, method: str, at_most: int) -> int:
    """Return the largest degree whose subspaces the even coefficients allow."""
    n = 0
    while n < at_most and not _missing(activation, n + 1, method):
        n += 1
    return n


def check_conditions(activation: Activation, degree: int, method: str) -> Conditions:
    """Check that every subspace a degree needs can be seen, or say which cannot."""
    if not _even(activation):
        raise ValueError(
            f"{activation.name} is odd up to a constant: its Hermite coefficients of even order "
            "vanish, and with them all that labels say about even moments, from which the "
            "subspaces are found (Theorem 4.7); use an activation with an even part"
        )
    missing = _missing(activation, degree, method)
    if missing:
        possible = largest_degree(activation, method, degree)
        need = f"a hypothesis of degree {degree} needs the moment of that order to find a subspace"
        hint = f"use degree={possible}"
        if missing[0] == 2:
            need, hint = (
                "the first subspace is found from the moment of that order",
                "no degree helps",
            )
        if method == "paper":
            hint += ", or method='closed_form', which needs half the orders"
        raise ValueError(
            f"the Hermite coefficient of order {missing[0]} of {activation.name} is zero, and "
            f"{need} (Theorem 4.7); {hint}"
        )
    used = range(1, max(_needed(degree, method), default=1) + 1)
    sizes = [abs(activation.coefficient(t)) for t in used]
    delta = min(size for size in sizes if size > SMALLEST_COEFFICIENT)
    return Conditions(degree, activation.tail(degree), delta, _parity_warning(activation))


def _needed(degree: int, method: str) -> range:
    """Even orders of the moments that find the subspaces of a degree."""
    highest = 2 * degree if method == "paper" else 2 * ((degree + 1) // 2)
    if degree == 1 and method != "paper":  # the slope needs no subspace
        highest = 2
    return range(2, highest + 1, 2)


def _missing(activation: Activation, degree: int, method: str) -> list[int]:
    return [t for t in _needed(degree, method) if not _present(activation, t)]


def _present(activation: Activation, t: int) -> bool:
    return abs(activation.coefficient(t)) > SMALLEST_COEFFICIENT


def _even(activation: Activation) -> bool:
    return any(_present(activation, t) for t in range(2, HIGHEST_DEGREE + 1, 2))


def _parity_warning(activation: Activation) -> str | None:
    """Say when one parity nearly vanishes, as for a phase near a multiple of π/2 (Remark 4.11)."""
    even = sum(activation.coefficient(t) ** 2 for t in PARITIES if t % 2 == 0)
    odd = sum(
        activation.coefficient(t) ** 2 for t in PARITIES if t % 2 and _present(activation, t)
    )
    if 0 < odd < NEARLY * even:
        return (
            f"{activation.name} is nearly even: odd orders hold {odd / even:.1e} of the energy of "
            "the even ones and are mostly noise (Remark 4.11: a phase near a multiple of π/2); "
            "with an activation that is even exactly they would be left out"
        )
    if 0 < even < NEARLY * odd:
        return (
            f"{activation.name} is nearly odd: even orders hold {even / odd:.1e} of the energy of "
            "the odd ones, and the subspaces are found from even orders (Remark 4.11: a phase "
            "near a multiple of π/2); expect to need many more rows"
        )
    return None
