"""Save fitted models to files, and load them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import IO, Any, BinaryIO

from implicitmoments.saving.container import pack, read_arrays, read_document
from implicitmoments.saving.errors import ModelFileError
from implicitmoments.saving.estimators import from_document, to_document
from implicitmoments.saving.migrations import SCHEMA, check_schema, migrate


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces the one at its path in one step, when it is complete.

    It is written to the same folder, flushed to the disk, and renamed. A reader sees the old file
    or the new one; a failure or an interruption leaves the old file and nothing else. A symbolic
    link is followed.

    Raises
    ------
    OSError
        If the folder is missing or cannot be written, or the disk is full.
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
    _flush_folder(target.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write bytes to a file in one step."""
    with whole_file(path) as file:
        file.write(data)


def _flush_folder(folder: Path) -> None:
    """Flush the new name to the disk, on systems where folders can be opened."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


ADVICE = {  # by the code of an error
    "cannot_open": "check the path",
    "not_a_file": "check the path",
    "newer_schema": "update implicitmoments, or fit and save the model with this version",
}


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
    >>> from pathlib import Path
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> path = Path(tempfile.mkdtemp()) / "mixture.im"
    >>> im.save(im.SphericalMixture(3, random_state=0).fit(X), path)
    >>> im.load(path).means_.shape
    (3, 4)
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError("not_a_file", "it is not a regular file")  # a pipe would wait
        with open(path, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    # whatever a file makes a constructor or a conversion raise, the file is the cause
    except Exception as error:
        found = _as_model_file_error(error)
        advice = ADVICE.get(found.code, "give a file written by implicitmoments.save")
        before = "the model file {file} cannot be loaded: "
        raise found.within(before, f"; {advice}", file=str(path)) from error


def _as_model_file_error(error: Exception) -> ModelFileError:
    if isinstance(error, ModelFileError):
        return error
    if isinstance(error, OSError):
        return ModelFileError("cannot_open", "{reason}", reason=error.strerror or str(error))
    return ModelFileError("invalid_content", "{reason}", reason=str(error)[:200])


def _read(file: BinaryIO, size: int) -> Any:
    document = read_document(file, size)
    migrated = check_schema(document) < SCHEMA
    arrays = read_arrays(file, document["checksum"])
    return from_document(migrate(document), arrays, migrated=migrated)
