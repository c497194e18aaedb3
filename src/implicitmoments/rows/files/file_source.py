"""Base of file sources: validation, change detection, closing."""

from __future__ import annotations

import difflib
import operator
import os
import re
import weakref
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypeAlias

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.rows.draws import RowDraws
from implicitmoments.rows.files.errors import brief, refusal
from implicitmoments.rows.fold import Block
from implicitmoments.rows.sources import Source

INDEX = re.compile(r"__index_level_\d+__")  # where pandas keeps the labels of rows
ARGUMENTS = {"y": "y", "counts": "sample_weight"}  # columns of a block, as the user names them
ROLES = {"y": "target", "counts": "weight"}  # and as a fitted estimator remembers them
MOST_COMPARED = 1_000  # names that a mistyped one is compared with
MOST_LISTED = 12  # names in a suggestion


@dataclass(frozen=True)
class ColumnChoice:
    """Requested columns, by name or by index."""

    columns: Any = None
    y: Any = None
    sample_weight: Any = None


@dataclass(frozen=True)
class ChosenColumns:
    """Names of columns that exist and hold numbers."""

    features: tuple[str, ...]
    others: Mapping[str, str]  # "y" and "counts", where they were asked for

    @property
    def names(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.features, *self.others.values())

    def remembered(self, *, by_number: bool) -> dict[str, str]:
        """Return the columns by role; features where they were chosen by number."""
        roles = {ROLES[column]: name for column, name in self.others.items()}
        return {**roles, "features": ",".join(self.features)} if by_number else roles


def choose_columns(
    file: str,
    names: Sequence[str],
    choice: ColumnChoice,
    not_numbers: Mapping[str, Mapping[str, Any]] | None = None,
) -> ChosenColumns:
    """Find the columns that were asked for among the names of all columns.

    Columns without names are named by numbers. ``not_numbers`` has values for an error about each
    column that does not hold numbers: ``"found"`` says what, ``"cell"`` and ``"line"`` belong to
    the first text.
    """
    given = {"y": choice.y, "counts": choice.sample_weight}
    others = {
        column: find_column(file, names, wanted, ARGUMENTS[column])
        for column, wanted in given.items()
        if wanted is not None
    }
    if choice.columns is None:
        features = [n for n in names if n not in others.values() and not INDEX.fullmatch(n)]
        if "" in features:
            raise refusal("column_without_name", file=file, column=list(names).index(""))
    else:
        listed = choice.columns
        if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
            raise refusal("columns_not_a_list", file=file, given=listed)
        features = [find_column(file, names, wanted, "columns") for wanted in listed]
    if not features:
        raise refusal("no_features", file=file, names=[brief(name) for name in names])
    chosen = ChosenColumns(tuple(features), others)
    for column, name in others.items():
        if name in features:
            what = ARGUMENTS[column]
            raise refusal("column_in_two_roles", file=file, column=brief(name), what=what)
    asked, there = Counter(chosen.names), Counter(names)
    for name in chosen.names:
        if asked[name] > 1 or there[name] > 1:
            raise refusal("column_twice", file=file, column=brief(name))
        if not_numbers and name in not_numbers:
            good = [brief(n) for n in names if n not in not_numbers and n not in others.values()]
            about = {"column": brief(name), "numeric": good[:MOST_LISTED], **not_numbers[name]}
            raise refusal("column_not_numeric", file=file, **about)
    return chosen


def find_column(file: str, names: Sequence[str], wanted: Any, what: str) -> str:
    """Return the name of a column that the argument ``what`` gives by name or number."""
    if isinstance(wanted, str):
        if wanted in names:
            return wanted
        by_letters = {name.lower(): name for name in names[:MOST_COMPARED]}
        found = difflib.get_close_matches(wanted.lower(), by_letters, 1)
        raise refusal(
            "no_such_column",
            "; did you mean {near}?" if found else "",
            file=file,
            what=what,
            wanted=wanted,
            names=[brief(name) for name in names],
            near=[brief(by_letters[name]) for name in found],
        )
    try:
        return names[operator.index(wanted)]
    except TypeError as reason:
        raise refusal("not_a_column", file=file, what=what, given=brief(repr(wanted))) from reason
    except IndexError as reason:
        n = len(names)
        raise refusal(
            "no_such_column_number", file=file, what=what, wanted=wanted, n_columns=n
        ) from reason


Numbers: TypeAlias = np.ndarray[Any, Any]


class FileSource(Source):
    """Rows outside main memory that are read in blocks.

    A row is checked for NaN and infinity in the first pass that reads it, and not in later ones. A
    source may be used in a ``with`` statement; ``close`` closes its files.

    Parameters
    ----------
    file : str
        What messages call the source: the name of its file.
    n_rows, n_features : int
    feature_names : sequence of str, optional
    columns : mapping of str to str, optional
        Columns that were asked for: ``"target"``, ``"weight"``, and ``"features"`` where features
        were chosen by number.
    watched : sequence of paths
        Files that may not change while the source is open.
    held : sequence of objects with a method ``close``
        Closed with the source, or when the source is deleted.

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
    feature_names: tuple[str, ...] | None
    n_dropped: int = 0  # rows left out because a number is missing

    def __init__(
        self,
        file: str,
        n_rows: int,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        watched: Sequence[Path] = (),
        held: Sequence[Any] = (),
    ) -> None:
        self.file, self.n_rows, self.n_features = file, n_rows, n_features
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self.columns = dict(columns or {})
        self._states = [(path, _state(path)) for path in watched]
        self._n_checked, self._lock = 0, RLock()  # rows from the first on that were checked
        self._held = weakref.finalize(self, close_all, held)

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
        with self.reading():
            return self._fetch(rows)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let one thread read at a time, and raise if the file is closed or has changed.

        Yields
        ------
        None
            While the file may be read.
        """
        with self._lock:
            if not self._held.alive:
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

    @abstractmethod
    def _fetch(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of rows that exist, for one thread at a time."""

    def close(self) -> None:
        """Close files; closing twice does no harm."""
        with self._lock:
            self._held()

    def __getstate__(self) -> object:
        raise refusal("not_copyable", file=self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_unchanged(self) -> None:
        for path, before in self._states:
            try:
                now = _state(path)
            except FileNotFoundError as reason:
                raise refusal("file_removed", file=str(path)) from reason
            if now != before:
                raise refusal("file_changed", file=str(path), before=before[0], now=now[0])


def _state(path: Path) -> tuple[int, int, int]:
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns, state.st_ino


def close_all(held: Sequence[Any]) -> None:
    """Close files, one after the other."""
    for one in held:
        one.close()


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
