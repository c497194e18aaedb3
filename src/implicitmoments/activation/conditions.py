"""The conditions of Theorem 4.7 on an activation, and the degree that its tail requires."""

from __future__ import annotations

from dataclasses import dataclass

from implicitmoments.notes import InputError, Note
from implicitmoments.problems.activation_sum import SMALLEST_COEFFICIENT
from implicitmoments.problems.activations import Activation

HIGHEST_DEGREE = 20  # limit of `degree`; a smaller epsilon is rejected (starting value)
PARITIES = range(2, 11)  # orders at which even and odd parts are compared
NEARLY = 0.01  # ratio of their energies below which one parity is weak (starting value)


@dataclass(frozen=True)
class Conditions:
    r"""Conditions of Theorem 4.7 on an activation, at the degree in use."""

    degree: int  # the theorem's n
    # :math:`\sum_{t > n} c_{\sigma,t}^2`; the theorem requires :math:`\varepsilon^2/4`
    tail: float
    delta: float  # the smallest absolute value of a coefficient that is divided by


def degree_for(activation: Activation, epsilon: float) -> int:
    r"""Return the smallest n with :math:`\sum_{t>n} c_{\sigma,t}^2 < \varepsilon^2/4`.

    Errata 2 and 3: :math:`n = \Theta(\varepsilon^{-4/3})` for ReLU, and
    :math:`O(\gamma^2 + \log 1/\varepsilon)` for :math:`\cos(\gamma u)`.

    Examples
    --------
    >>> from implicitmoments.problems import relu
    >>> degree_for(relu(), 0.2)
    4
    """
    for n in range(1, HIGHEST_DEGREE + 1):
        if activation.tail(n) < epsilon**2 / 4:
            return n
    raise InputError(
        "epsilon_too_small",
        "`epsilon={epsilon:g}` requires a degree above {highest} for {name} (its tail there is "
        "{tail:.2g}, and {wanted:.2g} is required); use a larger `epsilon`, or `degree='cv'`",
        epsilon=epsilon,
        highest=HIGHEST_DEGREE,
        name=activation.name,
        tail=activation.tail(HIGHEST_DEGREE),
        wanted=epsilon**2 / 4,
    )


def degrees_to_try(
    activation: Activation, degree: int | str, epsilon: float, method: str, most: int
) -> list[int]:
    """Return the degrees at which an activation has a coefficient, to be compared.

    Parameters
    ----------
    method : {"closed_form", "paper"}
    most : int
        The highest degree for ``"cv"``.
    """
    if degree == "cv":
        if method == "paper":
            raise InputError(
                "degree_cv_with_paper",
                "`degree='cv'` requires `method='closed_form'`, which holds rows out; for "
                "`method='paper'` set a degree or `degree='auto'`",
            )
        degrees = list(range(1, max(largest_degree(activation, method, most), 1) + 1))
    else:
        degrees = [degree_for(activation, epsilon) if degree == "auto" else int(degree)]
    check_conditions(activation, degrees[-1], method)
    return [n for n in degrees if activation.coefficient(n) != 0] or degrees[-1:]


def largest_degree(activation: Activation, method: str, at_most: int) -> int:
    """Return the largest degree whose subspaces the even coefficients allow."""
    n = 0
    while n < at_most and not _missing(activation, n + 1, method):
        n += 1
    return n


def check_conditions(activation: Activation, degree: int, method: str) -> Conditions:
    """Check that the moments determine every subspace that a degree needs."""
    name = activation.name
    if not any(_present(activation, t) for t in range(2, HIGHEST_DEGREE + 1, 2)):
        raise InputError(
            "activation_odd",
            "{name} is odd up to a constant: its Hermite coefficients of even order vanish, and "
            "the subspaces are found from moments of even order (Theorem 4.7); use an activation "
            "with an even part",
            name=name,
        )
    missing = _missing(activation, degree, method)
    if missing:
        possible = largest_degree(activation, method, degree)
        advice = "no degree is possible" if missing[0] == 2 else "use `degree={possible}`"
        if method == "paper":
            advice += ", or `method='closed_form'`, which needs half the orders"
        raise InputError(
            "coefficient_zero",
            "the Hermite coefficient of order {order} of {name} is zero, and the moment of that "
            "order is needed for the subspaces of degree {degree} (Theorem 4.7); " + advice,
            order=missing[0],
            name=name,
            degree=degree,
            possible=possible,
        )
    used = range(1, max(_needed(degree, method), default=1) + 1)
    sizes = [abs(activation.coefficient(t)) for t in used]
    delta = min(size for size in sizes if size > SMALLEST_COEFFICIENT)
    return Conditions(degree, activation.tail(degree), delta)


def _needed(degree: int, method: str) -> range:
    """Even orders of the moments that determine the subspaces of a degree."""
    highest = 2 * degree if method == "paper" else 2 * ((degree + 1) // 2)
    return range(2, highest + 1, 2)


def _missing(activation: Activation, degree: int, method: str) -> list[int]:
    return [t for t in _needed(degree, method) if not _present(activation, t)]


def _present(activation: Activation, t: int) -> bool:
    return abs(activation.coefficient(t)) > SMALLEST_COEFFICIENT


def parity_note(activation: Activation) -> Note | None:
    """Note that one parity nearly vanishes: a phase near a multiple of π/2 (Remark 4.11)."""
    energies = {t: activation.coefficient(t) ** 2 for t in PARITIES if _present(activation, t)}
    even, odd = (sum(c for t, c in energies.items() if t % 2 == parity) for parity in (0, 1))
    if 0 < odd < NEARLY * even:
        return Note("nearly_even", {"name": activation.name, "ratio": odd / even})
    if 0 < even < NEARLY * odd:
        return Note("nearly_odd", {"name": activation.name, "ratio": even / odd})
    return None
