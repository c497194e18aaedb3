"""Values, slopes and Hermite coefficients of the named activations, for arrays of any library."""

from __future__ import annotations

import math
from typing import Any, cast

import array_api_compat
import numpy as np
from scipy.special import ndtr

from implicitmoments.arrays import Array, move_like, namespace_of, to_numpy


def relu_value(u: Array) -> Array:
    """Return max(0, u)."""
    return (u + abs(u)) / 2


def relu_slope(u: Array) -> Array:
    """Return the slope of a ReLU, 1/2 at its kink."""
    return (1 + namespace_of(u).sign(u)) / 2


def relu_coefficient(t: int) -> float:
    """Return the Hermite coefficient of a ReLU (Erratum 1)."""
    if t == 0:
        return 1 / math.sqrt(2 * math.pi)
    if t % 2:
        return 0.5 if t == 1 else 0.0
    # (−1)^{(t−2)/2} (t−3)!! / √(2π t!) as a product of ratios, which does not overflow
    ratios = (-(s - 1) / math.sqrt((s + 1) * (s + 2)) for s in range(2, t, 2))
    return math.prod(ratios) / math.sqrt(4 * math.pi)


def leaky_value(slope: float, u: Array) -> Array:
    """Return u for positive u and slope · u for negative."""
    return (1 - slope) * relu_value(u) + slope * u


def leaky_slope(slope: float, u: Array) -> Array:
    """Return the slope of a leaky ReLU."""
    return (1 - slope) * relu_slope(u) + slope


def leaky_coefficient(slope: float, t: int) -> float:
    """Return the Hermite coefficient of a leaky ReLU."""
    return (1 - slope) * relu_coefficient(t) + (slope if t == 1 else 0.0)


def square_value(u: Array) -> Array:
    """Return u²."""
    return u * u


def square_coefficient(t: int) -> float:
    """Return the Hermite coefficient of u² = √2 h_2(u) + 1."""
    return {0: 1.0, 2: math.sqrt(2)}.get(t, 0.0)


def softplus_value(u: Array) -> Array:
    """Return log(1 + e^u)."""
    return namespace_of(u).logaddexp(u, 0 * u)


def sigmoid_value(u: Array) -> Array:
    """Return 1 / (1 + e^−u), which is also the slope of softplus."""
    return (1 + namespace_of(u).tanh(u / 2)) / 2


def gelu_value(u: Array) -> Array:
    """Return u Φ(u)."""
    return u * _normal_cdf(u)


def gelu_slope(u: Array) -> Array:
    """Return Φ(u) + u φ(u)."""
    density = namespace_of(u).exp(-u * u / 2) / math.sqrt(2 * math.pi)
    return _normal_cdf(u) + u * density


def _normal_cdf(u: Array) -> Array:
    """Return Φ(u) on the device of u; libraries without an error function use the host."""
    if array_api_compat.is_torch_array(u):
        return cast(Array, cast(Any, namespace_of(u)).special.ndtr(u))
    if array_api_compat.is_cupy_array(u):
        from cupyx.scipy.special import ndtr as ndtr_on_device  # noqa: PLC0415 (optional)

        return cast(Array, ndtr_on_device(u))
    return move_like(np.asarray(ndtr(to_numpy(u))), u)


def cosine_value(frequency: float, phase: float, u: Array) -> Array:
    """Return cos(γu + θ)."""
    return namespace_of(u).cos(frequency * u + phase)


def cosine_slope(frequency: float, phase: float, u: Array) -> Array:
    """Return the slope of a cosine."""
    return -frequency * namespace_of(u).sin(frequency * u + phase)


def cosine_coefficient(frequency: float, phase: float, t: int) -> float:
    """Return the Hermite coefficient of a cosine."""
    # cos(θ + tπ/2) by quarter turns, so that odd coefficients of a plain cosine are exactly 0
    turn = (math.cos(phase), -math.sin(phase), -math.cos(phase), math.sin(phase))[t % 4]
    size = t * math.log(frequency) - (frequency**2 + math.lgamma(t + 1)) / 2
    return math.exp(size) * turn


def tanh_value(u: Array) -> Array:
    """Return the hyperbolic tangent."""
    return namespace_of(u).tanh(u)


def tanh_slope(u: Array) -> Array:
    """Return 1 − tanh²."""
    return 1 - namespace_of(u).tanh(u) ** 2


def sigmoid_slope(u: Array) -> Array:
    """Return σ (1 − σ)."""
    value = sigmoid_value(u)
    return value * (1 - value)
