"""Rows as plain numbers: columns of arrays, numbers in files, and temporary files of rows."""

from __future__ import annotations

import errno
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any

import numpy as np

from implicitmoments.rows.draws import Integers
from implicitmoments.rows.files.errors import refusal
from implicitmoments.rows.files.file_source import Numbers, Sliceable, check_block, float_type
from implicitmoments.rows.files.kept_rows import KeptRows


class SlicedRows:
    """Rows of an array ``(n_rows, width)`` that can be sliced; some columns are features.

    ``others`` has further columns by name: a number of a column, or another array ``(n_rows,)``.
    """

    def __init__(
        self,
        points: Sliceable,
        features: Sequence[int],
        others: Mapping[str, int | Sliceable],
        dtype: Any = None,
    ) -> None:
        self.n_rows, width = points.shape
        self.n_features, every = len(features), list(features) == list(range(width))
        self._points, self._others = points, others
        self._features = slice(None) if every else np.asarray(features)
        self.dtype = float_type(points.dtype, dtype)
        self._arrays = [points, *(a for a in others.values() if not isinstance(a, int))]
        self.by_rows = all(
            isinstance(array, np.ndarray) or getattr(array, "by_rows", False)
            for array in self._arrays
        )

    def read(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of some consecutive rows."""
        return self._columns(lambda array: array[rows.start : rows.stop])

    def take(self, rows: Integers) -> dict[str, Numbers]:
        """Read some rows one by one: for a few of many."""
        return self._columns(lambda a: a.take(rows) if isinstance(a, RawArray) else a[rows])

    def _columns(self, cut: Callable[[Sliceable], Numbers]) -> dict[str, Numbers]:
        whole = cut(self._points)
        block = {"x": whole[:, self._features]}
        for name, given in self._others.items():
            block[name] = whole[:, given] if isinstance(given, int) else cut(given)
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            return {n: np.ascontiguousarray(c, dtype=self.dtype) for n, c in block.items()}

    def release(self) -> None:
        """Let go of a chunk that is held, where other rows are read next."""
        for array in self._arrays:
            if hasattr(array, "release"):
                array.release()

    def close(self) -> None:
        """Close the files of the arrays."""
        for array in self._arrays:
            if hasattr(array, "close"):
                array.close()


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
        self.shape, self.dtype, self.by_rows = shape, dtype, not by_columns or len(shape) == 1
        self._file, self._offset, self.close = file, offset, file.close

    def __getitem__(self, rows: slice, /) -> Numbers:
        """Read from the first row on."""
        n = rows.stop - rows.start
        if self.by_rows:
            block = np.empty((n, *self.shape[1:]), dtype=self.dtype)
            self._fill(block, rows.start * math.prod(self.shape[1:]))
            return block
        columns = np.empty((self.shape[1], n), dtype=self.dtype)
        for j, column in enumerate(columns):
            self._fill(column, j * self.shape[0] + rows.start)
        return np.ascontiguousarray(columns.T)

    def take(self, rows: Integers) -> Numbers:
        """Read some rows one by one."""
        block = np.empty((len(rows), *self.shape[1:]), dtype=self.dtype)
        size = self.dtype.itemsize * math.prod(self.shape[1:])
        room = block.reshape(-1).view(np.uint8).data
        for i, row in enumerate(rows.tolist()):
            self._read(room[i * size : (i + 1) * size], row * size)
        return block

    def _fill(self, block: Numbers, first: int) -> None:
        self._read(block.reshape(-1).view(np.uint8).data, first * self.dtype.itemsize)

    def _read(self, room: memoryview, place: int) -> None:
        """Fill the room with bytes of the numbers, from one place on."""
        place += self._offset
        while room:
            if hasattr(os, "preadv"):  # processes that share the file do not move its place
                got = os.preadv(self._file.fileno(), [room], place)
            else:
                self._file.seek(place)
                got = self._file.readinto(room)  # type: ignore[attr-defined]
            if not got:
                raise refusal("ends_early", file=str(self._file.name))
            room, place = room[got:], place + got


def spool_rows(
    file: str,
    blocks: Iterable[Mapping[str, Numbers]],
    dtype: np.dtype[Any],
    feature_names: Sequence[str] | None = None,
    *,
    first_line: int | None = None,
    drop_missing: bool = False,
    keep_missing: bool = False,
    spool: IO[bytes] | None = None,
) -> tuple[SlicedRows, KeptRows]:
    """Write rows to a temporary file without a name, which cannot outlive the process.

    Messages count lines from ``first_line`` on where it is given, and rows otherwise. Rows that
    lack a number are refused; with ``drop_missing`` they are left out, and with ``keep_missing``
    they are kept. Rows are added to ``spool`` if there is one. Returns the rows, and which were
    kept.
    """
    kept, block = KeptRows(), dict[str, Numbers]()
    first, unit = (0, "row") if first_line is None else (first_line, "line")
    numbers = open_spool() if spool is None else spool
    try:
        offset = numbers.seek(0, os.SEEK_END)
        for given in blocks:
            with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
                block = {name: c.astype(dtype, copy=False) for name, c in given.items()}
            table = np.ascontiguousarray(np.column_stack(list(block.values())))
            start, whole = first + kept.n_given, np.ones(len(table), dtype=bool)
            if drop_missing:
                whole = np.isfinite(table).all(axis=1)
                table, block = table[whole], {name: c[whole] for name, c in block.items()}
            check_block(block, file, start, feature_names, unit, keep_missing=keep_missing)
            _write(numbers, table)
            kept.add(whole)
        if not block:
            raise refusal("no_rows", file=file)
    except BaseException:
        numbers.close()
        raise
    d, others = block["x"].shape[1], [name for name in block if name != "x"]
    points = RawArray(numbers, (kept.n, d + len(others)), dtype, offset=offset)
    places = {name: d + i for i, name in enumerate(others)}
    return SlicedRows(points, range(d), places), kept


def open_spool() -> IO[bytes]:
    """Open a temporary file for rows."""
    return tempfile.TemporaryFile(buffering=0)


def _write(file: IO[bytes], table: Numbers) -> None:
    left = table.reshape(-1).view(np.uint8).data
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as reason:
        if reason.errno != errno.ENOSPC:
            raise
        raise refusal("no_room", folder=tempfile.gettempdir(), errno=errno.ENOSPC) from reason
