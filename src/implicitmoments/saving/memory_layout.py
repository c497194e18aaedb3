"""The memory layout of an array, as far as results depend on it.

Rounding of sums and products depends on the order of the axes, on whether axes are contiguous with
one another and on whether entries are adjacent, but not on the width of gaps. An array that is a
part of a larger one is read back with gaps of one entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from implicitmoments.saving.errors import invalid

MAX_AXES = 16  # each may add half to the memory, for gaps


def layout_of(array: np.ndarray[Any, Any]) -> list[int] | None:
    """Return strides, in entries, with the same gaps; None for C order without gaps."""
    if array.flags.c_contiguous:
        return None
    return _narrow(array.shape, [stride // array.itemsize for stride in array.strides])


def apply_layout(array: np.ndarray[Any, Any], layout: Any) -> np.ndarray[Any, Any]:
    """Return a copy of an array with a layout, as :func:`layout_of` gives it."""
    if layout is None:
        return array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    listed = isinstance(layout, list) and all(type(stride) is int for stride in layout)
    if (
        not listed
        or array.size == 0
        or not 0 < array.ndim == len(layout) <= MAX_AXES
        # a layout that is its own narrowest form has no overlaps and takes little more memory
        # than the array
        or layout != _narrow(array.shape, layout)
    ):
        raise invalid("invalid_layout", f"{layout} of an array of shape {array.shape}")
    last = sum((n - 1) * abs(stride) for n, stride in zip(array.shape, layout, strict=True))
    dtype = array.dtype.newbyteorder("=")
    strides = [abs(stride) * dtype.itemsize for stride in layout]
    made = np.ndarray(array.shape, dtype, np.zeros(last + 1, dtype), 0, strides)
    made = made[tuple(slice(None, None, 1 if stride > 0 else -1) for stride in layout)]
    made[...] = array
    return made


def _narrow(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return strides of the same order and signs, in which gaps have one entry."""
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
