"""Rows of a two-dimensional array in a file: numbers one after the other, or in chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Protocol

import numpy as np

from implicitmoments.rows.files.file_source import FileSource, Numbers
from implicitmoments.rows.files.file_watch import Stamp
from implicitmoments.rows.fold import Block
from implicitmoments.rows.sources import Integers

__all__ = ["Matrix", "MatrixSource", "RawMatrix", "float_type"]

SCATTERED = 30  # rows of the file for each that is picked, from which on they are read one by one


class Matrix(Protocol):
    """An array of shape (n_rows, width) of which rows are read at a time."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def read(self, rows: range) -> Numbers:
        """Return those rows, ``(len(rows), width)``, in memory."""

    def close(self) -> None:
        """Give back the file."""


class RawMatrix:
    """Numbers one after the other in a file, by rows or by columns.

    They are read into a buffer rather than mapped: pages of a mapped file count as memory of the
    process until the system takes them back.

    Parameters
    ----------
    file : binary file without a buffer of its own
    shape : pair of int
    dtype : numpy.dtype
    offset : int
        Bytes before the first number.
    by_columns : bool
        Fortran's order.
    """

    def __init__(
        self,
        file: IO[bytes],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        *,
        offset: int = 0,
        by_columns: bool = False,
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self._file, self._offset, self.by_columns = file, offset, by_columns

    def read(self, rows: range) -> Numbers:
        """Read from the place of the first row on."""
        n_rows, width = self.shape
        if not self.by_columns:
            block = np.empty((len(rows), width), dtype=self.dtype)
            self._fill(block, rows.start * width)
            return block
        columns = np.empty((width, len(rows)), dtype=self.dtype)
        for j in range(width):
            self._fill(columns[j], j * n_rows + rows.start)
        return np.ascontiguousarray(columns.T)

    def take(self, rows: Integers) -> Numbers:
        """Read some rows, each from its place: for a few of many."""
        block = np.empty((len(rows), self.shape[1]), dtype=self.dtype)
        for row, place in zip(block, rows.tolist(), strict=True):
            self._fill(row, place * self.shape[1])
        return block

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _fill(self, block: Numbers, first: int) -> None:
        place = self._offset + first * self.dtype.itemsize
        room = block.reshape(-1).view(np.uint8).data
        while room:
            got = _read_at(self._file, room, place)
            if not got:
                raise OSError(
                    f"{self._file.name} ends before its last row; it was cut off, write it again"
                )
            room, place = room[got:], place + got


def _read_at(file: IO[bytes], room: memoryview, place: int) -> int:
    if hasattr(os, "preadv"):  # a place of its own for every process that shares the file
        return os.preadv(file.fileno(), [room], place)
    file.seek(place)
    got: int = file.readinto(room)  # type: ignore[attr-defined]
    return got


class MatrixSource(FileSource):
    """Rows of a matrix, some of whose columns are features.

    Parameters
    ----------
    label : str
    matrix : Matrix
    features : sequence of int, optional
        Columns of the matrix that are features, all by default.
    columns : mapping of str to int, Matrix or array of shape (n_rows,), optional
        Further columns by name: one of the matrix by number, one of another file, or one in
        memory.
    dtype : data type, optional
        Of what is read; float32 for float32 and float64 for all else by default.
    feature_names : sequence of str, optional
    stamps : sequence of Stamp
    is_checked : bool
        Whether the rows are known to be finite.
    """

    def __init__(
        self,
        label: str,
        matrix: Matrix,
        features: Sequence[int] | None = None,
        columns: Mapping[str, int | Matrix | Numbers] | None = None,
        dtype: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        stamps: Sequence[Stamp] = (),
        is_checked: bool = False,
    ) -> None:
        n_rows, width = matrix.shape
        every = features is None or list(features) == list(range(width))
        self._matrix, self._columns = matrix, dict(columns or {})
        self._features = slice(None) if every else np.asarray(features)
        self._dtype = float_type(matrix.dtype, dtype)
        apart = [c for c in self._columns.values() if not isinstance(c, int | np.ndarray)]
        super().__init__(
            label,
            n_rows,
            width if features is None else len(features),
            feature_names,
            stamps=stamps,
            held=[matrix, *apart],
        )
        if is_checked:
            self._checked.add(range(n_rows))

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Return some rows; a few of many are read one by one, the rest of the file is not."""
        apart = [c for c in self._columns.values() if not isinstance(c, int | np.ndarray)]
        by_rows = all(
            isinstance(m, RawMatrix) and not m.by_columns for m in [self._matrix, *apart]
        )
        if not by_rows or SCATTERED * len(rows) > self.n_rows:
            return super().pick(rows, what=what)
        with self.reading():
            block = self._fetch_by(lambda matrix: matrix.take(rows), lambda column: column[rows])
        if all(np.all(np.isfinite(column)) for column in block.values()):
            return block
        return super().pick(rows, what=what)  # which says where the numbers are missing

    def _fetch(self, rows: range) -> dict[str, Numbers]:
        near = slice(rows.start, rows.stop)
        return self._fetch_by(lambda matrix: matrix.read(rows), lambda column: column[near])

    def _fetch_by(
        self, read: Callable[[Any], Numbers], cut: Callable[[Numbers], Numbers]
    ) -> dict[str, Numbers]:
        whole = read(self._matrix)
        columns = {"x": whole[:, self._features]}
        for name, given in self._columns.items():
            if isinstance(given, int):
                columns[name] = whole[:, given]
            elif isinstance(given, np.ndarray):
                columns[name] = cut(given)
            else:
                columns[name] = read(given)[:, 0]
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
            return {
                name: np.ascontiguousarray(column, dtype=self._dtype)
                for name, column in columns.items()
            }


def float_type(given: np.dtype[Any], wanted: Any = None) -> np.dtype[Any]:
    """Return float32 or float64: what is wanted, or what holds the numbers that are given."""
    if wanted is None:
        single = given.kind == "f" and given.itemsize == 4
        return np.dtype(np.float32 if single else np.float64)
    try:
        asked: np.dtype[Any] = np.dtype(wanted)
    except TypeError as reason:
        raise TypeError(f"dtype is float32 or float64, got {wanted!r}") from reason
    if asked not in (np.float32, np.float64):
        raise ValueError(f"dtype is float32 or float64, got {asked}")
    return asked
