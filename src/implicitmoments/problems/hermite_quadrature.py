"""Hermite coefficients of any function of one variable, by quadrature that splits at its kinks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats
from implicitmoments.notes import InputError

NODES = 16  # of a Gauss-Legendre panel
TOLERANCE = 1e-15  # of a panel, relative to the size of the function
DEEPEST = 44  # halvings of a panel of length one: kinks are then located to 1e-13
KINK_DEPTH = 10  # a panel halved so often contains a kink or a jump
LARGEST_ERROR = 1e-7  # relative; above it quadrature has failed
MOST_PANELS = 20_000  # limits the time for functions with very many kinks
OFFSET = math.pi / 100  # panels do not start at round numbers, where kinks would be missed


@dataclass(frozen=True, eq=False)
class Quadrature:
    r"""Hermite coefficients of a function :math:`\sigma` by quadrature."""

    # (order + 1,), :math:`c_{\sigma,t} = E[\sigma(G) h_t(G)]`, exactly 0 where it is below the
    # error
    coefficients: Floats
    mean_square: float  # :math:`E[\sigma(G)^2]`
    # estimated error of each coefficient: the difference between a panel and its two halves,
    # summed over panels
    error: float
    # points where the function or its derivative jumps, to 1e-3 or better. One that coincides with
    # the border of a panel causes no error and is not listed
    kinks: tuple[float, ...]


def hermite_coefficients(
    function: Callable[[Array], Array], order: int, name: str = "the activation"
) -> Quadrature:
    """Integrate a function against Hermite polynomials of orders 0 to ``order``.

    Panels are halved until a panel and its two halves agree, so they accumulate at kinks and
    jumps.

    Parameters
    ----------
    function : callable
        Maps a NumPy array to an array of the same length.
    name : str, default "the activation"
        Name of the function in error messages.

    Examples
    --------
    >>> found = hermite_coefficients(lambda u: np.maximum(0, u - 0.3), 2)
    >>> [round(kink, 2) for kink in found.kinks], found.error < 1e-10
    ([0.3], True)
    """
    # √φ falls below 1e-16 beyond the turning point 2√t of h_t √φ
    reach = math.ceil(2 * math.sqrt(order) + 12)
    left = np.arange(-reach, reach, dtype=np.float64) - OFFSET
    right = left + 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        whole = _panels(function, left, right, order, name)
    squares = whole[:, -1]
    size = math.sqrt(max(float(np.sum(squares)), np.finfo(float).tiny))
    # the mean square is not finite, or most of it lies at the border
    if not (math.isfinite(size) and max(squares[0], squares[-1]) <= LARGEST_ERROR * size**2):
        raise InputError(
            "function_not_integrable",
            "the mean square of {name} under N(0, 1) is not finite; expected a function of "
            "polynomial growth, such as relu or cos",
            name=name,
        )
    total, error, n_panels = np.zeros(order + 2), np.zeros(order + 2), 0
    deep: list[tuple[int, float]] = []  # closed panels at kinks
    for depth in range(DEEPEST + 1):
        middle = (left + right) / 2
        first = _panels(function, left, middle, order, name)
        second = _panels(function, middle, right, order, name)
        off = np.abs(whole - first - second)
        scale = np.append(np.full(order + 1, size), size**2)
        open_ = np.asarray((off > TOLERANCE * scale).any(axis=1))
        n_panels += len(left)
        if depth == DEEPEST or n_panels > MOST_PANELS:
            open_[:] = False
        total += (first + second)[~open_].sum(axis=0)
        error += off[~open_].sum(axis=0)
        if depth >= KINK_DEPTH:
            deep.extend((depth, float(place)) for place in middle[~open_])
        if not open_.any():
            break
        left, right = (
            np.concatenate([left[open_], middle[open_]]),
            np.concatenate([middle[open_], right[open_]]),
        )
        whole = np.concatenate([first[open_], second[open_]])
    worst = float(error[:-1].max())
    if not worst <= LARGEST_ERROR * size:
        raise InputError(
            "function_not_integrable",
            "the Hermite coefficients of {name} have an error of {error:.1g}: it has too many "
            "jumps, or is random",
            **{"name": name, "error": worst},
        )
    coefficients = total[:-1]
    small = np.abs(coefficients) <= max(10 * worst, 100 * np.finfo(float).eps * size)
    return Quadrature(np.where(small, 0.0, coefficients), float(total[-1]), worst, _distinct(deep))


def _panels(
    function: Callable[[Array], Array], left: Floats, right: Floats, order: int, name: str
) -> Floats:
    """Integrate σ h_t φ for t = 0, …, order, and σ² φ, on every panel: (panels, order + 2)."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    half = (right - left)[:, None] / 2
    u = (left + right)[:, None] / 2 + half * nodes
    values = _values(function, u.ravel(), name).reshape(u.shape)
    root = np.exp(-(u**2) / 4) / (2 * math.pi) ** 0.25
    mass = weights * half * root * values
    sums = np.empty((len(left), order + 2))
    previous, current = np.zeros_like(u), root  # h_t √φ: bounded, so that nothing overflows
    for t in range(order + 1):
        sums[:, t] = np.sum(mass * current, axis=1)
        previous, current = current, (u * current - math.sqrt(t) * previous) / math.sqrt(t + 1)
    sums[:, -1] = np.sum(mass * values * root, axis=1)
    return sums


def _values(function: Callable[[Array], Array], u: Floats, name: str) -> Floats:
    try:
        values = np.asarray(function(u), dtype=np.float64)
    except Exception as reason:
        raise InputError(
            "function_fails",
            "{name} must apply elementwise to an array ({reason}); try numpy.vectorize",
            **{"name": name, "reason": reason},
        ) from reason
    if values.shape != u.shape:
        raise InputError(
            "function_wrong_shape",
            "{name} must apply elementwise to an array, and returned shape {shape} for {n_u} "
            "numbers; try numpy.vectorize",
            **{"name": name, "shape": values.shape, "n_u": len(u)},
        )
    if not np.isfinite(values).all():
        where = float(u[~np.isfinite(values)][0])
        raise InputError(
            "function_not_finite",
            "{name} is not finite at {where:.6g}; expected a function on all of R",
            **{"name": name, "where": where},
        )
    return values


def _distinct(panels: list[tuple[int, float]]) -> tuple[float, ...]:
    """Return the position of the smallest panel of each run of neighbours."""
    kinks: list[float] = []
    for _, place in sorted(panels, reverse=True):  # the deepest first
        if all(abs(place - kink) > 2.0 ** (2 - KINK_DEPTH) for kink in kinks):
            kinks.append(place)
    return tuple(sorted(kinks))
