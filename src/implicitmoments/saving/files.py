"""Save fitted models to files, and load them.

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
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import safetensors.numpy

from implicitmoments.notes import InputTypeError
from implicitmoments.registry import ESTIMATORS
from implicitmoments.saving.declarations import ModelFileError, declaration_of, expect, invalid
from implicitmoments.saving.migrations import SCHEMA, check_schema, migrate
from implicitmoments.saving.values import Arrays, Decoder, Encoder, Json

ENTRY = "implicitmoments"  # key in the metadata of safetensors
LENGTH = 8  # bytes that hold the length of the rest of the header
MAX_HEADER = 2**23  # bytes; a file of another kind may ask for any number
BLANK = "0" * 64  # in place of the checksum while it is computed
SECTIONS = {
    "checksum",
    "schema",
    "library",
    "estimator",
    "parameters",
    "fitted",
    "statistics",
    "objects",
}
ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")  # no special names
CHECKSUM = re.compile("[0-9a-f]{64}")  # SHA-256 in hexadecimal
ADVICE = {  # by the code of an error
    "cannot_open": "check the path",
    "not_a_file": "check the path",
    "newer_schema": "update implicitmoments, or fit and save the model with this version",
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


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model to a file.

    The file is safetensors with a JSON document: arrays, numbers and strings, and no code. It is
    written completely or not at all. Models whose activation is a user's function are refused.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : str or path
        An existing file is replaced.

    Raises
    ------
    ModelFileError
        If the model has an attribute that a file cannot hold, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import implicitmoments as im
    >>> X, truth = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "mixture.safetensors"
    >>> im.save(model, path)
    >>> again = im.load(path)
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    try:
        data = pack(*to_document(model))
    except ModelFileError as error:
        raise error.within("the model cannot be saved: ") from error
    try:
        _read(BytesIO(data), len(data))  # what cannot be read is not written
    except Exception as error:
        raise ModelFileError(
            "not_readable_again",
            "the model cannot be saved, since it could not be read again: {reason}",
            reason=str(error),
        ) from error
    try:
        write_whole(Path(path), data)
    except OSError as error:
        raise ModelFileError(
            "cannot_write",
            "the model file {file} cannot be written ({reason}); give a path in a folder that "
            "exists, is writable and has space",
            file=str(path),
            reason=error.strerror or str(error),
        ) from error


def load(path: str | PathLike[str]) -> Any:
    """Read a fitted model from a file.

    No code is run: a file has none. Classes are known by name, and only those that the estimator
    declares are built.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
        As it was saved; arrays are NumPy arrays.

    Raises
    ------
    ModelFileError
        If there is no file, or it is damaged, altered, of a newer version or of another kind.

    Examples
    --------
    >>> import tempfile
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     im.save(im.SphericalMixture(3, random_state=0).fit(X), file.name)
    ...     im.load(file.name).means_.shape
    (3, 4)
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError("not_a_file", "it is not a regular file")  # a pipe would wait
        with open(path, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    # whatever a file makes a constructor or a conversion raise, the file is the cause
    except Exception as error:
        found = ModelFileError("invalid_content", "{reason}", reason=str(error)[:200])
        if isinstance(error, ModelFileError):
            found = error
        elif isinstance(error, OSError):
            found = ModelFileError("cannot_open", "{reason}", reason=error.strerror or str(error))
        advice = ADVICE.get(found.code, "give a file written by implicitmoments.save")
        before = "the model file {file} cannot be loaded: "
        raise found.within(before, f"; {advice}", file=str(path)) from error


def _read(file: BinaryIO, size: int) -> Any:
    document = read_document(file, size)
    migrated = check_schema(document) < SCHEMA
    arrays = read_arrays(file, document["checksum"])
    return from_document(migrate(document), arrays, migrated=migrated)


def to_document(model: Any) -> tuple[dict[str, Json], Arrays]:
    """Convert the state of a fitted estimator to a document and arrays.

    Attributes come in alphabetical order, public ones first: shared objects are then named by
    an attribute that users know, and equal models give equal documents.
    """
    name = type(model).__name__
    declaration = declaration_of(name)
    if declaration is None or declaration.estimator is not type(model):
        raise InputTypeError(
            "not_an_estimator",
            "`save` takes a fitted {estimators}, got {type}; of a pipeline or a search save the "
            "step that is one of these",
            estimators=sorted(ESTIMATORS.values()),
            type=name,
        )
    held = dict(vars(model))
    if not declaration.required <= held.keys():  # also after a fit that was interrupted
        raise ModelFileError("not_fitted", "{name} is not fitted; call fit first", name=name)
    parameters = {key: held.pop(key) for key in declaration.parameters}
    statistics = held.pop("stats_")
    encoder = Encoder(declaration)
    fitted = {
        key: encoder.encode(held[key], key)
        for key in sorted(held, key=lambda key: (key.startswith("_"), key))
    }
    document = {
        "schema": SCHEMA,
        "library": version("implicitmoments"),
        "estimator": name,
        "parameters": {key: encoder.encode(value, key) for key, value in parameters.items()},
        "fitted": fitted,
        "statistics": encoder.encode(statistics, "stats_"),
        "objects": encoder.objects,
    }
    return document, encoder.arrays


def from_document(document: dict[str, Json], arrays: Arrays, *, migrated: bool = False) -> Any:
    """Build the estimator of a document; a migrated one may contain unused entries."""
    expect(set(document) == SECTIONS, "wrong_sections", sorted(document))
    name = str(document["estimator"])
    declaration = declaration_of(name)
    if declaration is None:
        raise invalid("unknown_estimator", name)
    decoder = Decoder(declaration, document["objects"], arrays)
    fitted, parameters = (decoder.decode({"map": document[s]}) for s in ("fitted", "parameters"))
    statistics = decoder.decode(document["statistics"])
    if not migrated:
        decoder.check_all_used()
    different = sorted({*parameters} ^ {*declaration.parameters})
    expect(not different, "wrong_parameters", different)
    for key in fitted:
        # a file must not replace what a class has, such as a method
        defined = key in parameters or hasattr(declaration.estimator, key) or key == "stats_"
        expect(not defined and ATTRIBUTE.fullmatch(key) is not None, "invalid_attribute", key)
    fitted["stats_"] = statistics
    for key in declaration.required:
        expect(key in fitted, "missing_attribute", key)
    for key, value in fitted.items():
        expect(declaration.accepts(key, value), "wrong_type", key)
    model = declaration.estimator(**parameters)
    vars(model).update(fitted)
    return model


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
    expect(isinstance(parsed, dict), "invalid_json", part)
    return cast(dict[str, Any], parsed)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    expect(len(built) == len(pairs), "duplicate_name")
    return built


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
