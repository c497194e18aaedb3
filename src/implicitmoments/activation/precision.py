"""What rounding leaves of a sum, by the precision of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, namespace_of

__all__ = ["Rounding", "wide"]


@dataclass(frozen=True)
class Rounding:
    """Thresholds below which a number is rounding.

    Attributes
    ----------
    step : float
        Of the mean square of the labels: a loss so small ends the polish.
    loss : float
        Of the same: losses so small are all alike.
    looseness : float
        Of the mean curvature, over it: a direction with less curvature turns freely.
    """

    step: float
    loss: float
    looseness: float

    @classmethod
    def of(cls, eps: float) -> Rounding:
        """Return the thresholds of a precision, given by its ``eps``."""
        if eps <= float(np.finfo(np.float64).eps):
            return cls(1e-28, 1e-20, 1e7)
        return cls(100 * eps**2, 1e3 * eps**2, 0.1 / eps**0.75)


def wide(array: Array) -> Array:
    """Return what is added up over blocks in float64, on its own device."""
    xp = namespace_of(array)
    return array if array.dtype == xp.float64 else xp.astype(array, xp.float64)
