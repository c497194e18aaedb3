"""Sums as bytes, and back, bit for bit."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, namespace_of, to_numpy
from implicitmoments.notes import InputTypeError


class Packed(NamedTuple):
    """A number or an array: JSON, or the .npy format without pickled objects."""

    kind: str  # "python" number, NumPy "scalar", "numpy" array, or array of the library of "rows"
    axes: str  # in the order in which they lie in memory: rounding of products depends on it
    content: memoryview


def pack(name: str, value: Any) -> Packed:
    """Return a number or an array as bytes."""
    if type(value) in (bool, int, float):
        return Packed("python", "[]", memoryview(json.dumps(value).encode()))
    kind = "scalar" if isinstance(value, np.generic) else "rows"
    if isinstance(value, np.ndarray):
        kind = "numpy"
    if kind == "scalar" or array_api_compat.is_array_api_obj(value):
        array = to_numpy(value)
        if array.dtype.kind in "biufc":
            axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
            file = io.BytesIO()
            np.lib.format.write_array(file, array.transpose(axes), allow_pickle=False)
            return Packed(kind, json.dumps(axes), file.getbuffer())
    raise InputTypeError(
        "sum_not_numeric",
        "the sum {name!r} is of type {kind}, and a checkpoint keeps numbers and arrays of numbers",
        name=name,
        kind=str(getattr(value, "dtype", type(value).__name__)),
    )


def unpack(kind: str, axes: str, content: bytes | bytearray, like: Callable[[], Array]) -> Any:
    """Return the number or array that was packed.

    ``like`` returns an array of the library and on the device of the rows. Raises a ValueError or
    TypeError if the bytes are damaged.
    """
    if kind == "python":
        return json.loads(content)
    stored = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    native = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    array: np.ndarray[Any, Any] = native.transpose(np.argsort(json.loads(axes)).astype(int))
    if kind == "scalar":
        return array[()]
    if kind == "numpy":
        return array
    other = like()
    return namespace_of(other).asarray(array, device=array_api_compat.device(other))


def packed_size(sums: Mapping[str, Array]) -> int:
    """Return the number of bytes that named sums hold, without copying them."""
    shapes = ((getattr(v, "shape", ()), getattr(v, "dtype", None)) for v in sums.values())
    return sum(math.prod(shape) * getattr(dtype, "itemsize", 8) for shape, dtype in shapes)
