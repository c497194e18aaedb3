"""What sources of rows in files share: each row checked once, files watched, and closing."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from implicitmoments.arrays import check_finite
from implicitmoments.rows.draws import RowDraws
from implicitmoments.rows.files.file_watch import RowSet, Stamp
from implicitmoments.rows.fold import Block
from implicitmoments.rows.sources import Source

__all__ = ["Closeable", "FileSource", "Numbers", "check_block", "close_all"]

Numbers: TypeAlias = np.ndarray[Any, Any]


class Closeable(Protocol):
    """What holds a file open."""

    def close(self) -> None:
        """Give it back."""


class FileSource(Source):
    """Rows that lie outside main memory and are read in blocks.

    A row is looked at for NaN and infinity when it is first read, and not again. A source may be
    used in a ``with`` statement; ``close`` gives back its files.

    Parameters
    ----------
    label : str
        What messages call the source: the name of its file.
    n_rows, n_features : int
    feature_names : sequence of str, optional
    stamps : sequence of Stamp
        Of the files behind the source: they may not change while it is open.
    held : sequence of objects with a method ``close``
        Closed with the source, or when nobody holds it any more.

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
    n_dropped: int = 0  # rows that were left out because a number is missing

    def __init__(
        self,
        label: str,
        n_rows: int,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        *,
        stamps: Sequence[Stamp] = (),
        held: Sequence[Closeable] = (),
    ) -> None:
        self._label, self.n_rows, self.n_features = label, n_rows, n_features
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self._stamps, self._checked, self._lock = tuple(stamps), RowSet(), RLock()
        self._held = weakref.finalize(self, close_all, held)

    def read(self, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002 (nothing to draw)
        """Read the rows from the file; threads take turns."""
        if rows and not 0 <= rows.start < rows.stop <= self.n_rows:
            raise ValueError(
                f"rows {rows.start} to {rows.stop} were asked for, and {self._label} has "
                f"{self.n_rows}"
            )
        with self._lock:
            with self.reading():
                block = self._fetch(rows)
            if new := self._checked.missing(rows):
                self._check(block, rows, new)
                self._checked.add(rows)
        return block

    @property
    def label(self) -> str:
        """What messages call the source."""
        return self._label

    def unchecked(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of rows as they are, with NaN where a number is missing."""
        with self.reading():
            return self._fetch(rows)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let one thread read at a time, and say so if the file is closed or has changed."""
        with self._lock:
            if not self._held.alive:
                raise ValueError(f"{self._label} is closed; open it again to read its rows")
            # before, for a mapped file may not be touched behind its end; after, for what was
            # read is only then known to be of the file that was opened
            self._watch()
            try:
                yield
            except (OSError, ValueError):
                self._watch()
                raise
            self._watch()

    @abstractmethod
    def _fetch(self, rows: range) -> dict[str, Numbers]:
        """Return the columns of rows that are there, one thread at a time."""

    def close(self) -> None:
        """Give back files; closing twice does no harm."""
        with self._lock:
            self._held()

    def __getstate__(self) -> object:
        raise TypeError(
            f"{self._label} is an open file, which cannot be copied or sent to another process; "
            "open it there"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        reason: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _watch(self) -> None:
        for stamp in self._stamps:
            stamp.check()

    def _check(self, block: dict[str, Numbers], rows: range, new: Sequence[range]) -> None:
        for part in new:
            near = slice(part.start - rows.start, part.stop - rows.start)
            check_block(
                {name: column[near] for name, column in block.items()},
                self._label,
                part.start,
                self.feature_names,
            )


def close_all(held: Sequence[Closeable]) -> None:
    """Close files, one after the other."""
    for one in held:
        one.close()


def check_block(
    block: dict[str, Numbers],
    label: str,
    first_row: int,
    feature_names: Sequence[str] | None = None,
    counted: str = "row",
) -> None:
    """Raise a ValueError that names the row, and the feature, where a number is missing."""
    x = block["x"]
    if not np.isfinite(x).all():
        _, feature = np.argwhere(~np.isfinite(x))[0]
        named = feature if feature_names is None else repr(feature_names[feature])
        check_finite(x[:, feature], f"{label}: feature {named}", first_row, counted)
    for name in set(block) - {"x"}:
        check_finite(block[name], f"{label}: {_spoken(name)}", first_row, counted)
    if "counts" in block and (block["counts"] < 0).any():
        row = int(np.argmax(block["counts"] < 0))
        raise ValueError(
            f"{label}: {_spoken('counts')} is {block['counts'][row]:g} in {counted} "
            f"{first_row + row}, expected at least 0"
        )


def _spoken(name: str) -> str:
    return "sample_weight" if name == "counts" else name
