"""How an array lies in memory, as far as results depend on it.

Sums and products round by the order in which axes lie, by whether neighbours run into one another,
and by whether entries are adjacent; not by how wide the gaps are. An array that is a part of a
larger one comes back with gaps of one entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["lay_out", "layout_of"]

MOST_AXES = 16  # each adds up to half to the memory that gaps take


def layout_of(array: np.ndarray[Any, Any]) -> list[int] | None:
    """Return strides, in entries, that make the same gaps; None for C order without gaps."""
    if array.flags.c_contiguous:
        return None
    return _narrow(array.shape, [stride // array.itemsize for stride in array.strides])


def lay_out(array: np.ndarray[Any, Any], layout: Any) -> np.ndarray[Any, Any]:
    """Return a copy of an array with this layout; a ValueError for one that is none."""
    if layout is None:
        return array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    whole = isinstance(layout, list) and all(type(stride) is int for stride in layout)
    if not whole or array.size == 0 or not 0 < array.ndim == len(layout) <= MOST_AXES:
        raise ValueError(f"an array of shape {array.shape} has the layout {str(layout)[:40]}")
    # what is its own narrowest form overlaps nowhere and takes little more than the array
    if layout != _narrow(array.shape, layout):
        raise ValueError(f"an array of shape {array.shape} has the layout {str(layout)[:40]}")
    last = sum((n - 1) * abs(stride) for n, stride in zip(array.shape, layout, strict=True))
    dtype = array.dtype.newbyteorder("=")
    strides = [abs(stride) * dtype.itemsize for stride in layout]
    made = np.ndarray(array.shape, dtype, np.zeros(last + 1, dtype), 0, strides)
    made = made[tuple(slice(None, None, 1 if stride > 0 else -1) for stride in layout)]
    made[...] = array
    return made


def _narrow(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return strides of the same order and signs, with gaps of one entry where there are gaps."""
    narrow = [1 if stride == 1 else 2 for stride in strides]
    long = [axis for axis, n in enumerate(shape) if n > 1]
    fast: int | None = None
    for axis in sorted(long, key=lambda axis: abs(strides[axis])):
        own = abs(strides[axis])
        if fast is None:
            narrow[axis] = 1 if own == 1 else 2
        else:
            joined = own == shape[fast] * abs(strides[fast])
            narrow[axis] = shape[fast] * narrow[fast] + (not joined)
        fast = axis
    signs = (-1 if stride < 0 and n > 1 else 1 for stride, n in zip(strides, shape, strict=True))
    return [stride * sign for stride, sign in zip(narrow, signs, strict=True)]
