"""Named activations, their derivatives and their Hermite coefficients, as functions of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
from scipy.special import ndtr

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.problems.hermite_quadrature import hermite_coefficients


def relu_of(u: Array) -> Array:
    """Return max(u, 0)."""
    return (u + abs(u)) / 2


def step(u: Array) -> Array:
    """Return the slope of a ReLU, 1/2 at its kink."""
    return (1 + namespace_of(u).sign(u)) / 2


def leaky(slope: float, u: Array) -> Array:
    """Return u above 0, and a multiple of it below."""
    return (1 - slope) * relu_of(u) + slope * u


def leaky_slope(slope: float, u: Array) -> Array:
    """Return the derivative of the leaky ReLU."""
    return (1 - slope) * step(u) + slope


def leaky_coefficient(slope: float, t: int) -> float:
    """Return its Hermite coefficient of order t."""
    return (1 - slope) * relu_coefficient(t) + (slope if t == 1 else 0.0)


def square_of(u: Array) -> Array:
    """Return the square."""
    return u * u


def twice(u: Array) -> Array:
    """Return the derivative of the square."""
    return 2 * u


def square_coefficient(t: int) -> float:
    """Return the Hermite coefficient of the square."""
    return {0: 1.0, 2: math.sqrt(2)}.get(t, 0.0)


def softplus_of(u: Array) -> Array:
    """Return log(1 + exp(u))."""
    return namespace_of(u).logaddexp(u, 0 * u)


def logistic(u: Array) -> Array:
    """Return the derivative of softplus."""
    return (1 + namespace_of(u).tanh(u / 2)) / 2


def normal_cdf(u: Array) -> Array:
    """Return Φ(u) on the device of u; libraries without an error function use the host."""
    if isinstance(u, np.ndarray):
        return np.asarray(ndtr(u))
    if array_api_compat.is_cupy_array(u):
        from cupyx.scipy.special import ndtr as ndtr_on_device  # noqa: PLC0415 (optional)

        found: Array = ndtr_on_device(u)
        return found
    if array_api_compat.is_torch_array(u):
        torch: Any = namespace_of(u)
        on_device: Array = torch.special.ndtr(u)
        return on_device
    return move_like(np.asarray(ndtr(to_numpy(u))), u)


def gelu_of(u: Array) -> Array:
    """Return u times the normal distribution function."""
    return u * normal_cdf(u)


def gelu_slope(u: Array) -> Array:
    """Return the derivative of the GELU."""
    density = namespace_of(u).exp(-u * u / 2) / math.sqrt(2 * math.pi)
    return normal_cdf(u) + u * density


def cosine_of(frequency: float, phase: float, u: Array) -> Array:
    """Return cos(frequency u + phase)."""
    return namespace_of(u).cos(frequency * u + phase)


def cosine_slope(frequency: float, phase: float, u: Array) -> Array:
    """Return the derivative of the cosine."""
    return -frequency * namespace_of(u).sin(frequency * u + phase)


def cosine_coefficient(frequency: float, phase: float, t: int) -> float:
    """Return its Hermite coefficient, e^{-γ²/2} γ^t / √t! · cos(θ + tπ/2)."""
    # cos(θ + tπ/2) by quarter turns, so that odd coefficients of a plain cosine are exactly 0
    turn = (math.cos(phase), -math.sin(phase), -math.cos(phase), math.sin(phase))[t % 4]
    size = t * math.log(frequency) - (frequency**2 + math.lgamma(t + 1)) / 2
    return math.exp(size) * turn


def from_table(function: Callable[[Array], Array], table: Floats, name: str, t: int) -> float:
    """Return a coefficient from a table, or by quadrature beyond it."""
    if t < len(table):
        return float(table[t])
    return float(hermite_coefficients(function, t, name).coefficients[t])


def relu_coefficient(t: int) -> float:
    """Return the Hermite coefficient of the ReLU (Corollary 4.9 with Erratum 1)."""
    if t == 0:
        return 1 / math.sqrt(2 * math.pi)
    if t == 1:
        return 0.5
    if t % 2:
        return 0.0
    # (−1)^{(t−2)/2} (t−3)!! / √(2π t!) as a product of ratios, which does not overflow
    ratios = (-(s - 1) / math.sqrt((s + 1) * (s + 2)) for s in range(2, t, 2))
    return math.prod(ratios) / math.sqrt(4 * math.pi)
