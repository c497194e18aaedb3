"""Arrays of .npy files."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from implicitmoments.rows.files.matrix import RawMatrix
from implicitmoments.rows.files.reader_errors import as_damage, without_warnings

__all__ = ["open_npy"]

HEADER_BYTES = 2**14  # NumPy refuses headers of more than 10,000


def open_npy(path: Path, ndim: int = 2) -> RawMatrix:
    """Open an array of ``ndim`` axes as a matrix; one of one axis is a matrix of one column."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 (the matrix closes it)
    try:
        shape, by_columns, dtype = _header(file, path)
        _check(path, shape, dtype, ndim)
        offset, size = file.tell(), path.stat().st_size
        expected = offset + math.prod(shape) * dtype.itemsize
        if size < expected:
            raise ValueError(
                f"{path} has {size} bytes, expected {expected} for an array of shape {shape}; "
                "it was cut off, write it again"
            )
    except BaseException:
        file.close()
        raise
    matrix = (shape[0], shape[1] if ndim == 2 else 1)
    return RawMatrix(file, matrix, dtype, offset=offset, by_columns=by_columns and ndim == 2)


def _header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    front = io.BytesIO(file.read(HEADER_BYTES))  # a header may claim to be of any length
    with (
        as_damage(path, "is empty or no .npy file", "write it with numpy.save"),
        without_warnings(),
    ):
        version = npy_format.read_magic(front)
        read = npy_format.read_array_header_1_0
        if version != (1, 0):
            read = npy_format.read_array_header_2_0
        shape, by_columns, dtype = read(front)
    file.seek(front.tell())
    return shape, by_columns, dtype


def _check(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], ndim: int) -> None:
    if dtype.hasobject:
        raise TypeError(
            f"{path} holds pickled Python objects, which are not loaded; save an array of numbers"
        )
    if dtype.kind not in "fiub":
        raise TypeError(f"{path} holds entries of type {dtype}, expected real numbers")
    if len(shape) != ndim:
        layout = "(n_samples, n_features)" if ndim == 2 else "(n_samples,)"
        hint = "; save X.reshape(-1, 1) for one feature" if (len(shape), ndim) == (1, 2) else ""
        raise ValueError(
            f"{path} holds an array of {len(shape)} axes (shape {shape}), expected {ndim}: "
            f"{layout}{hint}"
        )
    if min(shape) < 0:
        raise ValueError(f"{path} claims a shape of {shape}, expected sizes; write it again")
    if 0 in shape:
        raise ValueError(f"{path} is empty (shape {shape}), expected at least one row")
