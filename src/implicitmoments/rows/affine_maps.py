"""Affine maps of points and of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like

# None is the identity; a number or (d,) multiplies the columns, (d, p) maps the rows
Linear: TypeAlias = Floats | float | None


@dataclass(frozen=True, eq=False)
class LabelMap:
    r"""Maps labels to :math:`(y - c - b \cdot (x - m)) / s`, with unmapped x."""

    center: float = 0.0  # c and s
    scale: float = 1.0
    slope: Floats | None = None  # (d,), b and m; None for a slope of 0, and for the origin
    about: Floats | None = None  # (d,)

    def __call__(self, x: Array, y: Array) -> Array:
        """Map the labels of rows x (n, d)."""
        left = y - self.center
        if self.slope is not None:
            moved = x if self.about is None else x - move_like(self.about, x)[None, :]
            left = left - moved @ move_like(self.slope, x)
        return left / self.scale


def multiply_maps(one: Linear, other: Linear) -> Linear:
    """Return the map of points that applies one map, then another."""
    if one is None or other is None:
        return other if one is None else one
    if np.ndim(one) == 2 and np.ndim(other) == 2:
        return np.asarray(one @ np.asarray(other))
    if np.ndim(one) == 1 and np.ndim(other) == 2:
        return np.asarray(one)[:, None] * other
    product = one * other
    return product if np.ndim(product) else float(product)
