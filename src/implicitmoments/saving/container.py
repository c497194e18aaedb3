"""The bytes of a model file: safetensors, with one entry of metadata that holds a JSON document.

What is read is checked before it is used: sizes against the file, names against repetition, types
against a list, and all bytes against a checksum.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np
import safetensors.numpy

from implicitmoments.saving.encode import Arrays, Json
from implicitmoments.saving.errors import ModelFileError, UnreadableError

__all__ = ["BEGINNING", "check_sizes", "header_size", "pack", "read_header", "unpack"]

ENTRY = "implicitmoments"
LENGTH = 8  # bytes that say how long the rest of the header is
BEGINNING = 16  # bytes that tell most other files
LARGEST_HEADER = 2**23  # bytes; a file of another kind may ask for any number
# safetensors' names of the types of entries
ENTRIES = {
    **{"BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
MOST_AXES = 32
BLANK = "0" * 64  # in place of the checksum while it is computed
CHECKSUM = re.compile("[0-9a-f]{64}")


def pack(document: dict[str, Json], arrays: Arrays) -> bytes:
    """Return the bytes of a file.

    Its checksum is SHA-256 of all bytes, with zeros where the checksum goes.
    """
    text = json.dumps(
        {"checksum": BLANK, **document}, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    data = safetensors.numpy.save(arrays, metadata={ENTRY: text})
    size = int.from_bytes(data[:LENGTH], "little")
    if size > LARGEST_HEADER:
        raise ModelFileError(
            f"the model cannot be saved: what is not arrays takes {size} bytes, and a model file "
            f"has room for {LARGEST_HEADER}; keep long lists as arrays"
        )
    place = data.index(BLANK.encode(), LENGTH)
    found = sha256(data).hexdigest().encode()
    return data[:place] + found + data[place + len(found) :]


def header_size(beginning: bytes, file_size: int) -> int:
    """Return the length of the header of a file that begins so."""
    size = LENGTH + int.from_bytes(beginning[:LENGTH], "little")
    if file_size == 0:
        raise UnreadableError("is empty")
    if beginning[LENGTH : LENGTH + 1] != b"{":
        raise UnreadableError("is no model file")
    if size > LARGEST_HEADER:
        raise UnreadableError(f"is no model file: its header is said to have {size} bytes")
    if size > file_size:
        raise UnreadableError(f"is cut short: it has {file_size} of more than {size} bytes")
    return size


def read_header(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the description of the arrays, and the document."""
    tensors = _parse(data[LENGTH:], "its header")
    metadata = tensors.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {ENTRY}:
        raise UnreadableError("is a safetensors file, but not of a model of implicitmoments")
    document = _parse(str(metadata[ENTRY]).encode(), "its document")
    if not CHECKSUM.fullmatch(str(document.get("checksum"))):
        raise UnreadableError("has been altered: its checksum is missing")
    return tensors, document


def check_sizes(tensors: dict[str, Any], begin: int, file_size: int) -> None:
    """Check that arrays have types that are kept and fill the file."""
    end = 0
    for name, how in tensors.items():
        if not isinstance(how, dict) or set(how) != {"dtype", "shape", "data_offsets"}:
            raise UnreadableError(f"is damaged: the array {name[:40]!r} is not described")
        shape, offsets = how["shape"], how["data_offsets"]
        if not isinstance(how["dtype"], str) or how["dtype"] not in ENTRIES:
            raise UnreadableError(
                f"is damaged: the array {name[:40]!r} has entries of type "
                f"{str(how['dtype'])[:40]!r}"
            )
        if not _are_sizes(shape, MOST_AXES) or not _are_sizes(offsets, 2) or len(offsets) != 2:
            raise UnreadableError(f"is damaged: the array {name[:40]!r} has no sizes")
        size = prod(shape) * np.dtype(ENTRIES[how["dtype"]]).itemsize
        if offsets[1] - offsets[0] != size:
            raise UnreadableError(
                f"is damaged: the array {name[:40]!r} has {size} bytes and others"
            )
        end = max(end, offsets[1])
    if begin + end > file_size:
        raise UnreadableError(f"is cut short: it has {file_size} of {begin + end} bytes")
    if begin + end < file_size:
        raise UnreadableError(f"is damaged: it has {file_size - begin - end} bytes too many")


def unpack(data: bytes, checksum: str) -> Arrays:
    """Check all bytes of a file against their checksum, and return its arrays."""
    place = data.index(checksum.encode(), LENGTH)
    content = memoryview(data)
    found = sha256(content[:place])
    found.update(BLANK.encode())
    found.update(content[place + len(BLANK) :])
    if found.hexdigest() != checksum:
        raise UnreadableError("has been altered or damaged: its checksum does not fit")
    return safetensors.numpy.load(data)


def _are_sizes(sizes: Any, most: int) -> bool:
    few = isinstance(sizes, list) and len(sizes) <= most
    return few and all(type(n) is int and 0 <= n < 2**63 for n in sizes)


def _parse(data: bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as reason:
        raise UnreadableError(
            f"is no model file, or damaged: {what} cannot be read ({reason})"
        ) from reason
    if not isinstance(parsed, dict):
        raise UnreadableError(f"is no model file: {what} is no mapping")
    return parsed


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        raise UnreadableError("a name stands twice")
    return built


def _no_constant(name: str) -> None:
    raise UnreadableError(f"{name} is no JSON")
