"""Named sums as raw bytes and words that describe them, and back, bit for bit."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, namespace_of, to_numpy
from implicitmoments.rows.fold import Sums

__all__ = ["pack", "packed_size", "unpack"]

# Little-endian booleans, integers and floats, real or complex. Nothing else is read from a file.
DTYPES = re.compile(r"[<|][biufc]\d+")


def pack(sums: Mapping[str, Array]) -> tuple[str, list[memoryview]]:
    """Return a description of named sums, in JSON, and the bytes of each.

    Python's numbers, NumPy's scalars and arrays, and arrays of the library of the rows are told
    apart, and so are the axes along which an array lies in memory: products round by it.
    """
    described: list[dict[str, Any]] = []
    contents: list[memoryview] = []
    for name, value in sums.items():
        if type(value) in (bool, int, float):
            described.append({"name": name, "kind": "python", "value": value})
            contents.append(memoryview(b""))
            continue
        kind, flat, order = _flatten(name, value)
        content = flat.reshape(-1).view(np.uint8).data
        described.append(
            {
                "name": name,
                "kind": kind,
                "dtype": flat.dtype.str,
                "shape": list(flat.shape),
                "order": order,
                "crc": zlib.crc32(content),
            }
        )
        contents.append(content)
    return json.dumps(described), contents


def packed_size(sums: Mapping[str, Array]) -> int:
    """Return how many bytes of numbers named sums hold, without a copy of them."""
    shapes = ((getattr(v, "shape", ()), getattr(v, "dtype", None)) for v in sums.values())
    return sum(math.prod(shape) * getattr(dtype, "itemsize", 8) for shape, dtype in shapes)


def unpack(
    described: str, contents: Mapping[int, bytes | bytearray], probe: Callable[[], Array]
) -> Sums:
    """Return the sums that :func:`pack` described.

    Parameters
    ----------
    described : str
    contents : mapping of int to bytes
        By place in the description; what holds nothing may be left out.
    probe : callable
        Returns an array of the library and on the device where arrays go that were not NumPy's.

    Raises
    ------
    ValueError
        If bytes and description do not belong together.
    """
    return {
        str(word["name"]): _restore(word, contents.get(place, b""), probe)
        for place, word in enumerate(json.loads(described))
    }


def _flatten(name: str, value: Array) -> tuple[str, np.ndarray[Any, Any], list[int]]:
    """Return the kind of a value, its numbers as they lie in memory, and its axes likewise."""
    if isinstance(value, np.generic):
        kind = "scalar"
    elif isinstance(value, np.ndarray):
        kind = "numpy"
    elif array_api_compat.is_array_api_obj(value):
        kind = "rows"
    else:
        raise TypeError(
            f"the sum {name!r} is of type {type(value).__name__}, and a checkpoint keeps "
            "numbers and arrays; return one of these"
        )
    array = to_numpy(value)
    little = array.dtype.newbyteorder("<")
    if not DTYPES.fullmatch(little.str):
        raise TypeError(
            f"the sum {name!r} holds entries of type {array.dtype}, and a checkpoint keeps "
            "numbers; encode them as numbers"
        )
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    return kind, np.asarray(array.transpose(order), little, order="C"), order


def _restore(
    word: Mapping[str, Any], content: bytes | bytearray, probe: Callable[[], Array]
) -> Array:
    if word["kind"] == "python":
        return word["value"]
    if zlib.crc32(content) != word["crc"]:
        raise ValueError(f"the checksum of {word['name']!r} is not that of its bytes")
    if not DTYPES.fullmatch(word["dtype"]):
        raise ValueError(f"{word['name']!r} is said to be of type {word['dtype']}")
    dtype = np.dtype(word["dtype"])
    flat = np.frombuffer(content, dtype).reshape(word["shape"])
    # a copy, since bytes cannot be written to and arrays can
    array = flat.astype(dtype.newbyteorder("=")).transpose(np.argsort(word["order"]))
    if word["kind"] == "scalar":
        return array[()]
    if word["kind"] == "numpy":
        return array
    like = probe()
    return namespace_of(like).asarray(array, device=array_api_compat.device(like))
