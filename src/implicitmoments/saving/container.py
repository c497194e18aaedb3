"""Byte format of a model file: safetensors with a JSON document as its only metadata entry.

Sizes are checked against the file, names for duplicates, and all bytes against a checksum, before
safetensors reads the arrays.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, BinaryIO

import safetensors.numpy

from implicitmoments.saving.errors import ModelFileError, invalid
from implicitmoments.saving.values import Arrays, Json

ENTRY = "implicitmoments"  # key in the metadata of safetensors
LENGTH = 8  # bytes that hold the length of the rest of the header
MAX_HEADER = 2**23  # bytes; a file of another kind may ask for any number
BLANK = "0" * 64  # in place of the checksum while it is computed
CHECKSUM = re.compile("[0-9a-f]{64}")  # SHA-256 in hexadecimal


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


def read_document(file: BinaryIO, size: int) -> dict[str, Any]:
    """Return the document of a file; cheap checks that recognise other files come first."""
    if size == 0:
        raise ModelFileError("empty_file", "it is empty")
    beginning = file.read(LENGTH + 1)
    end = LENGTH + int.from_bytes(beginning[:LENGTH], "little")
    if beginning[LENGTH:] != b"{" or end > MAX_HEADER:
        raise ModelFileError("not_a_model_file", "it is not a model file")
    _check_size(size, end)
    tensors = _parse(b"{" + file.read(end - LENGTH - 1), "header")
    metadata = tensors.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {ENTRY}:
        raise ModelFileError(
            "other_safetensors", "it is a safetensors file, but not a model of implicitmoments"
        )
    document = _parse(str(metadata[ENTRY]).encode(), "document")
    if not CHECKSUM.fullmatch(str(document.get("checksum"))):
        raise invalid("no_checksum")
    _check_size(size, end + max((how["data_offsets"][1] for how in tensors.values()), default=0))
    return document


def read_arrays(file: BinaryIO, checksum: str) -> Arrays:
    """Check all bytes of a file against their checksum, and return its arrays."""
    file.seek(0)
    data = file.read()
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


def _check_size(n_bytes: int, expected: int) -> None:
    if n_bytes < expected:
        raise ModelFileError(
            "file_truncated",
            "it is truncated: it has {n_bytes} bytes of at least {expected}",
            n_bytes=n_bytes,
            expected=expected,
        )


def _parse(data: bytes, part: str) -> dict[str, Any]:
    try:
        parsed = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as reason:
        raise invalid("invalid_json", f"{part}: {reason}") from reason
    if not isinstance(parsed, dict):
        raise invalid("invalid_json", part)
    return parsed


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        raise invalid("duplicate_name")
    return built


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
