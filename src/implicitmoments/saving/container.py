"""The bytes of a model file: safetensors whose metadata has one entry, a JSON document.

Everything is checked before it is used: sizes against the file, names for duplicates, types
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

from implicitmoments.saving.errors import ModelFileError
from implicitmoments.saving.values import Arrays, Json

__all__ = ["BEGINNING", "check_sizes", "header_size", "pack", "read_header", "unpack"]

ENTRY = "implicitmoments"
LENGTH = 8  # bytes that hold the length of the rest of the header
BEGINNING = 16  # bytes that suffice to recognise most other files
MAX_HEADER = 2**23  # bytes; a file of another kind may ask for any number
# safetensors' names of the types of entries
ENTRIES = {
    **{"BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
MAX_AXES = 32
BLANK = "0" * 64  # in place of the checksum while it is computed
CHECKSUM = re.compile("[0-9a-f]{64}")


def pack(document: dict[str, Json], arrays: Arrays) -> bytes:
    """Return the bytes of a file.

    Its checksum is the SHA-256 of all bytes, with zeros in place of the checksum.
    """
    text = json.dumps(
        {"checksum": BLANK, **document}, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    data = safetensors.numpy.save(arrays, metadata={ENTRY: text})
    size = int.from_bytes(data[:LENGTH], "little")
    if size > MAX_HEADER:
        raise ModelFileError(
            "header_full",
            "everything but arrays takes {n_bytes} bytes, and the limit is {most}; store long "
            "lists as arrays",
            n_bytes=size,
            most=MAX_HEADER,
        )
    place = data.index(BLANK.encode(), LENGTH)
    found = sha256(data).hexdigest().encode()
    return data[:place] + found + data[place + len(found) :]


def header_size(beginning: bytes, file_size: int) -> int:
    """Return the length of the header of a file, from its first bytes."""
    size = LENGTH + int.from_bytes(beginning[:LENGTH], "little")
    if file_size == 0:
        raise ModelFileError("empty_file", "it is empty")
    if beginning[LENGTH : LENGTH + 1] != b"{" or size > MAX_HEADER:
        raise ModelFileError("not_a_model_file", "it is not a model file")
    if size > file_size:
        raise _truncated(file_size, size)
    return size


def read_header(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the description of the arrays, and the document."""
    tensors = _parse(data[LENGTH:], "header")
    metadata = tensors.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {ENTRY}:
        raise ModelFileError(
            "other_safetensors", "it is a safetensors file, but not a model of implicitmoments"
        )
    document = _parse(str(metadata[ENTRY]).encode(), "document")
    if not CHECKSUM.fullmatch(str(document.get("checksum"))):
        raise ModelFileError("no_checksum", "its checksum is missing")
    return tensors, document


def check_sizes(tensors: dict[str, Any], begin: int, file_size: int) -> None:
    """Check that all arrays have permitted types, and that together they fill the file."""
    end = 0
    for name, described in tensors.items():
        if not _is_described(described):
            raise ModelFileError(
                "invalid_array",
                "the array {array!r} has an invalid type or shape",
                array=name[:40],
            )
        size = prod(described["shape"]) * np.dtype(ENTRIES[described["dtype"]]).itemsize
        first, last = described["data_offsets"]
        if last - first != size:
            raise ModelFileError(
                "array_size_differs",
                "the array {array!r} needs {expected} bytes and has {n_bytes}",
                array=name[:40],
                expected=size,
                n_bytes=last - first,
            )
        end = max(end, last)
    if begin + end > file_size:
        raise _truncated(file_size, begin + end)
    if begin + end < file_size:
        raise ModelFileError(
            "extra_bytes", "it has {n_bytes:count byte} too many", n_bytes=file_size - begin - end
        )


def unpack(data: bytes, checksum: str) -> Arrays:
    """Check all bytes of a file against their checksum, and return its arrays."""
    place = data.index(checksum.encode(), LENGTH)
    content = memoryview(data)
    found = sha256(content[:place])
    found.update(BLANK.encode())
    found.update(content[place + len(BLANK) :])
    if found.hexdigest() != checksum:
        raise ModelFileError(
            "checksum_differs", "its checksum does not match: it was altered or damaged"
        )
    return safetensors.numpy.load(data)


def _truncated(n_bytes: int, expected: int) -> ModelFileError:
    return ModelFileError(
        "file_truncated",
        "it is truncated: it has {n_bytes} of at least {expected} bytes",
        n_bytes=n_bytes,
        expected=expected,
    )


def _is_described(described: Any) -> bool:
    if not isinstance(described, dict) or set(described) != {"dtype", "shape", "data_offsets"}:
        return False
    dtype, shape, offsets = described["dtype"], described["shape"], described["data_offsets"]
    known = isinstance(dtype, str) and dtype in ENTRIES
    return known and _are_sizes(shape, MAX_AXES) and _are_sizes(offsets, 2) and len(offsets) == 2


def _are_sizes(sizes: Any, most: int) -> bool:
    few = isinstance(sizes, list) and len(sizes) <= most
    return few and all(type(n) is int and 0 <= n < 2**63 for n in sizes)


def _parse(data: bytes, part: str) -> dict[str, Any]:
    try:
        parsed = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as reason:
        raise ModelFileError(
            "invalid_json",
            "its {part} cannot be read ({reason})",
            part=part,
            reason=str(reason)[:200],
        ) from reason
    if not isinstance(parsed, dict):
        raise ModelFileError("invalid_json", "its {part} is not a mapping", part=part)
    return parsed


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        raise ModelFileError("duplicate_name", "a name occurs twice")
    return built


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
