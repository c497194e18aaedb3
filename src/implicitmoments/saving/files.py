"""Files of fitted models: their bytes, and the document and arrays in them.

A file is safetensors with a JSON document as its only metadata entry. Sizes are checked against
the file, names for duplicates, and all bytes against a checksum, before safetensors reads the
arrays.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, cast

import safetensors.numpy

from implicitmoments.saving.checks import ModelFileError, expect, invalid
from implicitmoments.saving.decoder import Arrays, Json

SCHEMA = 7  # raised by 1 when the format changes
ENTRY = "implicitmoments"  # key in the metadata of safetensors
LENGTH = 8  # bytes that hold the length of the rest of the header
MAX_HEADER = 2**23  # bytes; a file of another kind may ask for any number
PIECE = 2**20  # bytes read at a time for the checksum
BLANK = "0" * 64  # in place of the checksum while it is computed
CHECKSUM = re.compile("[0-9a-f]{64}")  # SHA-256 in hexadecimal
Document: TypeAlias = dict[str, Json]
ADVICE = {  # by the code of an error
    "cannot_open": "check the path",
    "not_a_file": "check the path",
    "other_schema": "fit and save the model with this version",
}


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces the one at its path in one step, when it is complete.

    It is written to the same folder, flushed to the disk, and renamed. A reader sees the old file
    or the new one; a failure or an interruption leaves the old file and nothing else. A symbolic
    link is followed. OSError if the folder is missing or cannot be written, or the disk is full.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # flush the new name, where folders can be opened
        opened = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def write_whole(path: Path, data: bytes) -> None:
    """Write bytes to a file in one step."""
    with whole_file(path) as file:
        file.write(data)


def read_file(path: str | PathLike[str], decode: Callable[[Document, Arrays], Any]) -> Any:
    """Read a file and decode it; whatever is wrong with it is a ModelFileError."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError("not_a_file", "it is not a regular file")  # a pipe would wait
        with open(path, "rb") as file:
            return decode(*read_parts(file, os.fstat(file.fileno()).st_size))
    # whatever a file makes a constructor or a conversion raise, the file is the cause
    except Exception as error:
        found = ModelFileError("invalid_content", "{reason}", reason=str(error)[:200])
        if isinstance(error, ModelFileError):
            found = error
        elif isinstance(error, OSError):
            found = ModelFileError("cannot_open", "{reason}", reason=error.strerror or str(error))
        advice = ADVICE.get(found.code, "give a file written by `implicitmoments.save`")
        before = "the model file {file} cannot be loaded: "
        raise found.within(before, f"; {advice}", file=str(path)) from error


def read_parts(file: BinaryIO, size: int) -> tuple[Document, Arrays]:
    """Return the document of a file, and its arrays."""
    document = read_document(file, size)
    check_schema(document)
    check_bytes(file, document["checksum"])
    file.seek(0)
    return document, safetensors.numpy.load(file.read())


def check_schema(document: Document) -> None:
    """Raise for a document of another schema than the present one."""
    own = document.get("schema")
    if type(own) is not int or own < 1:
        raise invalid("invalid_schema", own)
    if own != SCHEMA:
        raise ModelFileError(
            "other_schema",
            "it was written by another version of implicitmoments ({library}, schema {schema}), "
            "and this version reads schema {known}",
            library=str(document.get("library"))[:40],
            schema=own,
            known=SCHEMA,
        )


def pack(document: dict[str, Json], arrays: Arrays) -> bytes:
    """Return the bytes of a file.

    Its checksum is the SHA-256 of all bytes, with zeros in place of the checksum.
    """
    text = json.dumps({"checksum": BLANK, **document}, separators=(",", ":"), allow_nan=False)
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
    expect(CHECKSUM.fullmatch(str(document.get("checksum"))) is not None, "no_checksum")
    last = end + max((how["data_offsets"][1] for how in tensors.values()), default=0)
    _check_size(size, last)
    if size > last:
        raise ModelFileError(
            "file_too_long",
            "it has {n_bytes} bytes, and its header describes {expected}",
            n_bytes=size,
            expected=last,
        )
    return document


def check_bytes(file: BinaryIO, checksum: str) -> None:
    """Check all bytes of a file against their checksum, a piece at a time."""
    file.seek(0)
    front = file.read(LENGTH)
    front += file.read(int.from_bytes(front, "little"))
    place = front.index(checksum.encode(), LENGTH)
    found = sha256(front[:place])
    found.update(BLANK.encode())
    found.update(front[place + len(BLANK) :])
    while piece := file.read(PIECE):
        found.update(piece)
    if found.hexdigest() != checksum:
        raise ModelFileError(
            "checksum_differs", "its checksum does not match: it was altered or damaged"
        )


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
    expect(isinstance(parsed, dict), "invalid_json", part)
    return cast(dict[str, Any], parsed)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    expect(len(built) == len(pairs), "duplicate_name")
    return built


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
