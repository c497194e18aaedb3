"""Fitted models in files."""

from __future__ import annotations

import os
import stat
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from implicitmoments.saving.atomic_file import write_whole
from implicitmoments.saving.container import (
    BEGINNING,
    check_sizes,
    header_size,
    pack,
    read_header,
    unpack,
)
from implicitmoments.saving.document import from_document, to_document
from implicitmoments.saving.errors import ModelFileError, UnreadableError
from implicitmoments.saving.migrations import check_schema, migrate

__all__ = ["load", "save"]


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model to a file.

    The file is safetensors with a JSON document: arrays, numbers and words, and no code. It is
    written whole or not at all. Models with an activation made of a function are refused.

    Parameters
    ----------
    model : fitted estimator
        One of this library.
    path : path
        A file there is replaced.

    Raises
    ------
    ModelFileError
        If the model holds what a file cannot keep, or the file cannot be written.

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
    data = pack(*to_document(model))
    try:
        _read(BytesIO(data), len(data))  # what cannot be read is not written
    except Exception as reason:
        raise ModelFileError(
            f"the model cannot be saved, since it could not be read again: {reason}"
        ) from reason
    try:
        write_whole(Path(path), data)
    except OSError as reason:
        raise ModelFileError(
            f"the model file {path} cannot be written ({reason.strerror or reason}); give a path "
            "in a folder that exists, may be written and has room"
        ) from reason


def load(path: str | PathLike[str]) -> Any:
    """Read a fitted model from a file.

    No code in the file is run: it has none. Classes are known by name, from a fixed list.

    Parameters
    ----------
    path : path

    Returns
    -------
    estimator
        As it was saved; arrays are NumPy's.

    Raises
    ------
    ModelFileError
        If there is no file, or it is damaged, altered, of a newer version, or something else.

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
            raise OSError("it is no file")  # a pipe would wait for its other end
        with open(path, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except OSError as reason:
        raise ModelFileError(
            f"the model file {path} cannot be opened ({reason.strerror or reason}); look at the "
            "path"
        ) from reason
    except UnreadableError as reason:
        raise ModelFileError(f"the model file {path} {reason}; {reason.advice}") from reason
    # whatever a file makes a constructor or a conversion raise, it is the file
    except Exception as reason:
        found = UnreadableError(f"holds what no model has: {str(reason)[:200]}")
        raise ModelFileError(f"the model file {path} {found}; {found.advice}") from reason


def _read(file: BinaryIO, size: int) -> Any:
    """Read a model; what is small and tells other files comes first."""
    header = header_size(file.read(BEGINNING), size)
    file.seek(0)
    tensors, document = read_header(file.read(header))
    check_schema(document)
    check_sizes(tensors, header, size)
    file.seek(0)
    return from_document(*migrate(document, unpack(file.read(), document["checksum"])))
