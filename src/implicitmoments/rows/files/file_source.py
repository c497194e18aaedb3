"""Rows in files: reading in blocks, validation, and change detection."""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeAlias

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.column_names import feature_places, unnamed_column
from implicitmoments.rows.draws import Integers, RowDraws
from implicitmoments.rows.files.errors import UnreadableError, brief, refusal
from implicitmoments.rows.files.kept_rows import KeptRows
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
    kept : sequence of KeptRows
        Which rows of each file were kept, where rows that lack a number are left out;
        ``n_dropped`` counts those.
    keep_missing : bool
        Rows that lack a number are kept: they have NaN.
    other_columns : sequence of str
        Columns of all files that are not read, those that hold no numbers first.

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

    def __init__(  # noqa: PLR0913 (keyword-only, each documented)
        self,
        file: str,
        reader: Any,
        feature_names: Sequence[str] | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        watched: Sequence[Path] = (),
        is_checked: bool = False,
        kept: Sequence[KeptRows] = (),
        keep_missing: bool = False,
        other_columns: Sequence[str] = (),
    ) -> None:
        self.file, self.n_rows, self.n_features = file, reader.n_rows, reader.n_features
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self.columns, self._kept = dict(columns or {}), kept
        self.n_dropped = sum(rows.n_dropped for rows in kept)
        self._states = [(path, _state(path)) for path in watched]
        self._keep_missing, self.other_columns = keep_missing, tuple(other_columns)
        self._n_checked = self.n_rows if is_checked else 0  # rows from the first on
        self._reader, self._lock = reader, RLock()
        self._close = weakref.finalize(self, reader.close)

    @property
    def _parts(self) -> list[tuple[str, int]]:
        """The files and their numbers of rows, in order; one unless files were joined."""
        joined: list[tuple[str, int]] | None = getattr(self._reader, "sizes", None)
        return joined or [(self.file, self.n_rows)]

    def read(self, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002 (nothing to draw)
        """Read the rows from the file; threads take turns."""
        if rows and not 0 <= rows.start < rows.stop <= self.n_rows:
            asked = {"start": rows.start, "stop": rows.stop}
            raise refusal("no_such_rows", file=self.file, **asked, n_rows=self.n_rows)
        with self._lock:
            block = self.read_unchecked(rows)
            if rows.stop > self._n_checked:
                self._check(block, rows)
                if rows.start <= self._n_checked:
                    self._n_checked = rows.stop
        return dict[str, Array](block)

    def _check(self, block: Mapping[str, Numbers], rows: range) -> None:
        """Raise an error that names the file of several, and the row in it."""
        names = self.feature_names or feature_places(self.columns, self.n_features)
        start = 0
        for file, n in self._parts:
            low, high = max(rows.start, start), min(rows.stop, start + n)
            if low < high:
                part = {name: c[low - rows.start : high - rows.start] for name, c in block.items()}
                check_block(part, file, low - start, names, keep_missing=self._keep_missing)
            start += n

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

    def _file_rows(self, rows: Integers) -> Integers:
        """Return the numbers of rows in the file; files are counted one after the other."""
        found, first, start = np.array(rows, dtype=np.int64), 0, 0
        for kept in self._kept:
            own = (rows >= first) & (rows < first + kept.n)
            found[own] = start + kept.file_rows(rows[own] - first)
            first, start = first + kept.n, start + kept.n_given
        return found

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
    *,
    keep_missing: bool = False,
) -> None:
    """Raise an error that names the row or line, and the feature, where a number is missing.

    With ``keep_missing`` only weights are checked.
    """
    for column, numbers in block.items() if not keep_missing else ():
        wrong = ~np.isfinite(numbers)
        if not wrong.any():
            continue
        name, j = ARGUMENTS.get(column, column), 0
        if numbers.ndim == 2:
            j = int(np.argwhere(wrong)[0][1])
            called = unnamed_column(j) if feature_names is None else brief(feature_names[j])
            name = f"feature {called!r}"
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
