"""Rows in files: reading in blocks, validation, change detection, and temporary files of rows."""

from __future__ import annotations

import errno
import importlib
import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import IO, Any, Self, TypeAlias

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.rows.draws import Integers, RowDraws
from implicitmoments.rows.files.errors import UnreadableError, brief, refusal
from implicitmoments.rows.fold import Block
from implicitmoments.rows.sources import Source

Numbers: TypeAlias = np.ndarray[Any, Any]
# An array of one or two axes with shape, dtype and slices of rows: RawArray, ZarrArray or NumPy's
Sliceable: TypeAlias = Any

ARGUMENTS = {"y": "y", "counts": "sample_weight"}  # columns of a block, as the user names them
SCATTERED = 30  # rows of the file per picked row, from which on rows are read one by one


class FileSource(Source):
    """Rows outside main memory that are read in blocks.

    A row is checked for NaN and infinity in the first pass that reads it, and not in later ones. A
    source may be used in a ``with`` statement; ``close`` closes its files.

    Parameters
    ----------
    file : str
        What messages call the source: the name of its file.
    reader : object with n_rows, n_features, read(rows) and close()
        ``read`` returns columns by name, with NaN where a number is missing. If ``by_rows`` is
        true, ``take(rows)`` reads rows one by one. Closed when the source is closed or deleted.
    feature_names : sequence of str, optional
    columns : mapping of str to str, optional
        Columns that were asked for: ``"target"``, ``"weight"``, and ``"features"`` where features
        were chosen by number.
    watched : sequence of paths
        Files that may not change while the source is open.
    is_checked : bool
        The rows are known to be finite.
    n_dropped : int
        Rows left out because a number is missing.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from implicitmoments.rows import open_file
    >>> path = Path(tempfile.mkdtemp()) / "rows.npy"
    >>> np.save(path, np.zeros((100, 3)))
    >>> with open_file(path) as source:
    ...     print(source.n_rows, source.n_features)
    100 3
    """

    n_rows: int

    def __init__(
        self,
        file: str,
        reader: Any,
        feature_names: Sequence[str] | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        watched: Sequence[Path] = (),
        is_checked: bool = False,
        n_dropped: int = 0,
    ) -> None:
        self.file, self.n_rows, self.n_features = file, reader.n_rows, reader.n_features
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self.columns, self.n_dropped = dict(columns or {}), n_dropped
        self._states = [(path, _state(path)) for path in watched]
        self._n_checked = self.n_rows if is_checked else 0  # rows from the first on
        self._reader, self._lock = reader, RLock()
        self._close = weakref.finalize(self, reader.close)

    def read(self, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002 (nothing to draw)
        """Read the rows from the file; threads take turns."""
        if rows and not 0 <= rows.start < rows.stop <= self.n_rows:
            asked = {"start": rows.start, "stop": rows.stop}
            raise refusal("no_such_rows", file=self.file, **asked, n_rows=self.n_rows)
        with self._lock:
            block = self.read_unchecked(rows)
            if rows.stop > self._n_checked:
                check_block(block, self.file, rows.start, self.feature_names)
                if rows.start <= self._n_checked:
                    self._n_checked = rows.stop
        return dict[str, Array](block)

    def read_unchecked(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of rows as they are, with NaN where a number is missing.

        Parameters
        ----------
        rows : range
            Row numbers.

        Returns
        -------
        dict of str to array
            The columns.
        """
        with self._reading():
            block: dict[str, Numbers] = self._reader.read(rows)
        return block

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Return some rows; a few of many are read one by one, without the rest of the file."""
        if getattr(self._reader, "by_rows", False) and SCATTERED * len(rows) <= self.n_rows:
            with self._reading():
                block: Block = self._reader.take(rows)
            if all(np.all(np.isfinite(column)) for column in block.values()):
                return block
        return super().pick(rows, what=what)  # which says where numbers are missing

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Let one thread read at a time, and raise if the file is closed or has changed."""
        with self._lock:
            if not self._close.alive:
                raise refusal("source_closed", file=self.file)
            # Before: a mapped file must not be read beyond its end. After: only then what was read
            # is known to come from the file that was opened.
            self._check_unchanged()
            try:
                yield
            except (OSError, ValueError):
                self._check_unchanged()
                raise
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        for path, before in self._states:
            try:
                now = _state(path)
            except FileNotFoundError as reason:
                raise refusal("file_removed", file=str(path)) from reason
            if now != before:
                raise refusal("file_changed", file=str(path), before=before[0], now=now[0])

    def close(self) -> None:
        """Close files; closing twice does no harm."""
        with self._lock:
            self._close()

    def __getstate__(self) -> object:
        raise refusal("not_copyable", file=self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _state(path: Path) -> tuple[int, int, int]:
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns, state.st_ino


def check_block(
    block: Mapping[str, Numbers],
    file: str,
    first_row: int,
    feature_names: Sequence[str] | None = None,
    unit: str = "row",
) -> None:
    """Raise an error that names the row or line, and the feature, where a number is missing."""
    for column, numbers in block.items():
        wrong = ~np.isfinite(numbers)
        if not wrong.any():
            continue
        name, j = ARGUMENTS.get(column, column), 0
        if numbers.ndim == 2:
            j = int(np.argwhere(wrong)[0][1])
            name = f"feature {j if feature_names is None else repr(brief(feature_names[j]))}"
        wrong, bad = (a.reshape(len(a), -1)[:, j] for a in (wrong, numbers))
        kind, n_rows = "NaN" if np.isnan(bad).any() else "infinity", int(wrong.sum())
        place = {"unit": unit, "first": first_row + int(np.argmax(wrong))}
        raise refusal("not_finite", file=file, name=name, kind=kind, n_rows=n_rows, **place)
    counts = block.get("counts")
    if counts is not None and (counts < 0).any():
        row = int(np.argmax(counts < 0))
        place = {"unit": unit, "first": first_row + row}
        raise refusal("negative_weight", file=file, weight=float(counts[row]), **place)


def float_type(given: np.dtype[Any], wanted: Any = None) -> np.dtype[Any]:
    """Return float32 or float64: the requested type, or one that can represent the numbers."""
    if wanted is None:
        single = given.kind == "f" and given.itemsize == 4
        return np.dtype(np.float32 if single else np.float64)
    try:
        asked: np.dtype[Any] = np.dtype(wanted)
    except TypeError as reason:
        raise refusal("not_a_float_type", dtype=repr(wanted)) from reason
    if asked not in (np.float32, np.float64):
        raise refusal("not_a_float_type", dtype=str(asked))
    return asked


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
        self._dtype = float_type(points.dtype, dtype)
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
            return {n: np.ascontiguousarray(c, dtype=self._dtype) for n, c in block.items()}

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
) -> dict[str, Any]:
    """Write rows to a temporary file without a name, which cannot outlive the process.

    Messages count lines from ``first_line`` on where it is given, and rows otherwise. With
    ``drop_missing`` rows that lack a number are counted and left out, rather than refused.
    Returns arguments of ``FileSource``.
    """
    n_rows, n_dropped, block = 0, 0, dict[str, Numbers]()
    first, unit = (0, "row") if first_line is None else (first_line, "line")
    numbers = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (the array closes it)
    try:
        for given in blocks:
            with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
                block = {name: c.astype(dtype, copy=False) for name, c in given.items()}
            table = np.ascontiguousarray(np.column_stack(list(block.values())))
            start, n_given = first + n_rows + n_dropped, len(table)
            if drop_missing:
                kept = np.isfinite(table).all(axis=1)
                table, block = table[kept], {name: c[kept] for name, c in block.items()}
            check_block(block, file, start, feature_names, unit)
            _write(numbers, table)
            n_rows, n_dropped = n_rows + len(table), n_dropped + n_given - len(table)
        if not n_rows:
            raise refusal("all_rows_incomplete" if n_dropped else "no_rows", file=file)
    except BaseException:
        numbers.close()
        raise
    d, others = block["x"].shape[1], [name for name in block if name != "x"]
    points = RawArray(numbers, (n_rows, d + len(others)), dtype)
    reader = SlicedRows(points, range(d), {name: d + i for i, name in enumerate(others)})
    about = {"feature_names": feature_names, "is_checked": True, "n_dropped": n_dropped}
    return {"file": file, "reader": reader, **about}


def _write(file: IO[bytes], table: Numbers) -> None:
    left = table.reshape(-1).view(np.uint8).data
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as reason:
        if reason.errno != errno.ENOSPC:
            raise
        raise refusal("no_room", folder=tempfile.gettempdir(), errno=errno.ENOSPC) from reason


@contextmanager
def as_unreadable(file: object, kind: str) -> Iterator[None]:
    """Convert any error of a reading library to one error that names the file.

    Given a damaged file, libraries raise KeyError, MemoryError, RecursionError and many others. An
    error of the system becomes an ``UnreadableError`` with its number, anything else an
    ``InputError``. Use it around calls of other libraries only: it would hide defects of this one.
    """
    try:
        yield
    except Exception as reason:
        said = brief(reason) or type(reason).__name__
        error = refusal("unreadable", file=str(file), kind=kind, reason=said)
        if isinstance(reason, OSError) and reason.errno is not None:
            values = {**error.values, "errno": reason.errno}
            error = UnreadableError(error.code, error.template, **values)
        raise error from reason


def require(module: str, kind: str, extra: str = "files") -> Any:
    """Import a module that reads or writes files of a kind, which an extra installs."""
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        library = module.split(".", maxsplit=1)[0]
        raise refusal("not_installed", kind=kind, library=library, extra=extra) from reason
