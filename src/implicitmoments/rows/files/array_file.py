"""Arrays in files: anything that can be sliced by rows, and .npy files."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy_format

from implicitmoments.rows.draws import Integers
from implicitmoments.rows.files.errors import as_unreadable, brief, refusal, without_warnings
from implicitmoments.rows.files.file_source import FileSource, Numbers, float_type
from implicitmoments.rows.fold import Block

# An array of one or two axes with shape, dtype and slices of rows: RawArray, ZarrArray or NumPy's
Sliceable: TypeAlias = Any

SCATTERED = 30  # rows of the file per picked row, from which on rows are read one by one
HEADER_BYTES = 2**14  # NumPy refuses headers of more than 10,000


class RawArray:
    """Numbers one after the other in a file, by rows or by columns.

    They are read into a buffer rather than mapped: pages of a mapped file count as memory of the
    process, and reading beyond the end of one that was cut off ends the process. The file has no
    buffer of its own, and ``offset`` bytes before the first number.
    """

    def __init__(
        self,
        file: IO[bytes],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        offset: int = 0,
        by_columns: bool = False,
    ) -> None:
        self.shape, self.dtype, self.by_columns = shape, dtype, by_columns and len(shape) == 2
        self._file, self._offset = file, offset

    def __getitem__(self, rows: slice, /) -> Numbers:
        """Read from the first row on."""
        n = rows.stop - rows.start
        if not self.by_columns:
            block = np.empty((n, *self.shape[1:]), dtype=self.dtype)
            self._fill(block, rows.start * math.prod(self.shape[1:]))
            return block
        columns = np.empty((self.shape[1], n), dtype=self.dtype)
        for j, column in enumerate(columns):
            self._fill(column, j * self.shape[0] + rows.start)
        return np.ascontiguousarray(columns.T)

    def take(self, rows: Integers) -> Numbers:
        """Read some rows one by one: for a few of many."""
        return np.concatenate([self[row : row + 1] for row in rows.tolist()])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _fill(self, block: Numbers, first: int) -> None:
        place = self._offset + first * self.dtype.itemsize
        room = block.reshape(-1).view(np.uint8).data
        while room:
            got = _read_at(self._file, room, place)
            if not got:
                raise refusal("ends_early", file=str(self._file.name))
            room, place = room[got:], place + got


def _read_at(file: IO[bytes], room: memoryview, place: int) -> int:
    if hasattr(os, "preadv"):  # processes that share the file do not move each other's place
        return os.preadv(file.fileno(), [room], place)
    file.seek(place)
    got: int = file.readinto(room)  # type: ignore[attr-defined]
    return got


class SlicedSource(FileSource):
    """Rows of an array ``(n_rows, width)`` that can be sliced; some columns are features.

    ``others`` has further columns by name: a number of a column, or another array ``(n_rows,)``.
    ``is_checked`` says that the rows are finite; other arguments are those of ``FileSource``.
    """

    def __init__(
        self,
        file: str,
        points: Sliceable,
        features: Sequence[int] | None = None,
        others: Mapping[str, int | Sliceable] | None = None,
        dtype: Any = None,
        *,
        is_checked: bool = False,
        **about: Any,
    ) -> None:
        n_rows, width = points.shape
        every = features is None or list(features) == list(range(width))
        self._points, self._others = points, dict(others or {})
        self._features = slice(None) if every else np.asarray(features)
        self._dtype = float_type(points.dtype, dtype)
        self._apart = [c for c in self._others.values() if not isinstance(c, int)]
        held: list[Any] = [a for a in (points, *self._apart) if hasattr(a, "close")]
        d = width if features is None else len(features)
        super().__init__(file, n_rows, d, held=held, **about)
        self._n_checked = n_rows if is_checked else 0

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Return some rows; a few of many are read one by one, without the rest of the file."""
        by_rows = all(
            isinstance(a, np.ndarray) or (isinstance(a, RawArray) and not a.by_columns)
            for a in (self._points, *self._apart)
        )
        if not by_rows or SCATTERED * len(rows) > self.n_rows:
            return super().pick(rows, what=what)
        with self.reading():
            block = self._columns_by(lambda array: array.take(rows))
        if all(np.all(np.isfinite(column)) for column in block.values()):
            return block
        return super().pick(rows, what=what)  # which says where numbers are missing

    def _fetch(self, rows: range) -> dict[str, Numbers]:
        return self._columns_by(lambda array: array[rows.start : rows.stop])

    def _columns_by(self, cut: Callable[[Any], Numbers]) -> dict[str, Numbers]:
        whole = cut(self._points)
        block = {"x": whole[:, self._features]}
        for name, given in self._others.items():
            block[name] = whole[:, given] if isinstance(given, int) else cut(given)
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            return {n: np.ascontiguousarray(c, dtype=self._dtype) for n, c in block.items()}


def open_npy(path: Path, ndim: int = 2) -> RawArray:
    """Open an array of ``ndim`` axes."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 (the array closes it)
    try:
        front = io.BytesIO(file.read(HEADER_BYTES))  # a header may claim any length
        with as_unreadable(path, ".npy"), without_warnings():
            version = npy_format.read_magic(front)
            first = version == (1, 0)
            read = npy_format.read_array_header_1_0 if first else npy_format.read_array_header_2_0
            shape, by_columns, dtype = read(front)
        check_array(path, shape, dtype, ndim)
        n_bytes = path.stat().st_size
        expected = front.tell() + math.prod(shape) * dtype.itemsize
        if n_bytes < expected:
            raise refusal("cut_off", file=str(path), n_bytes=n_bytes, expected=expected)
    except BaseException:
        file.close()
        raise
    return RawArray(file, shape, dtype, offset=front.tell(), by_columns=by_columns)


def check_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], ndim: int) -> None:
    """Raise unless a file describes an array of real numbers with ``ndim`` axes and some rows."""
    about = {"file": str(path), "shape": brief(shape)}
    if dtype.hasobject:
        raise refusal("pickled_objects", file=str(path))
    if dtype.kind not in "fiub":
        raise refusal("not_numeric", file=str(path), dtype=brief(dtype))
    if len(shape) != ndim:
        layout = "(n_samples, n_features)" if ndim == 2 else "(n_samples,)"
        hint = "; save X.reshape(-1, 1) for one feature" if (len(shape), ndim) == (1, 2) else ""
        raise refusal("wrong_axes", hint, **about, layout=layout)
    if min(shape) < 0 or max(shape) >= 2**63:
        raise refusal("impossible_shape", **about)
    if 0 in shape:
        raise refusal("no_rows", **about)
