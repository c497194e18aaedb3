"""Finished passes, and the sums of the one under way, in an SQLite file."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from implicitmoments.arrays import Array
from implicitmoments.rows.checkpoint.file import ADVICE, as_json, clear_errors, open_journal
from implicitmoments.rows.checkpoint.packing import pack, unpack
from implicitmoments.rows.fold import Sums

__all__ = ["Entry", "Journal"]

PART_BYTES = 2**26  # SQLite holds less than 1 GB in a cell
COMMIT_SECONDS = 0.5  # finished passes wait so long for others, to be written together
SHARE, PATIENCE = 20, 100  # partial sums take 1/20 of the time, or wait for 100 times ``every``


@dataclass(frozen=True, eq=False)
class Entry:
    """What a journal holds of one pass.

    Attributes
    ----------
    next_row : int or None
        First row that is not in the sums; None for a pass that is finished.
    sums : dict of str to array
    """

    next_row: int | None
    sums: Sums


class Journal:
    """A file that keeps the passes of one fit.

    Opened by one process at a time; the lock goes with the process, however it ends.

    Parameters
    ----------
    path : str or path
        Made where there is none.
    fingerprint : mapping of str to JSON values
        What the passes depend on: parameters, seeds, sizes, a digest of rows. A file with another
        fingerprint is refused.
    every : float
        Seconds between two times the sums of an unfinished pass are kept.

    Examples
    --------
    What estimators do with ``checkpoint=path``:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from implicitmoments.rows import ArraySource, Journal, JournaledSource
    >>> path = Path(tempfile.mkdtemp()) / "passes"
    >>> calls = []
    >>> def measure(block, rows):
    ...     calls.append(rows)
    ...     return {"sum": block["x"].sum(axis=0)}
    >>> for _ in range(2):
    ...     journal = Journal(path)
    ...     source = JournaledSource(ArraySource(np.ones((6, 2))), journal)
    ...     sums = source.fold(measure, range(6), 3, what="sums")
    ...     journal.close()
    >>> sums["sum"].tolist(), len(calls)  # the second pass was answered from the file
    ([6.0, 6.0], 2)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: Mapping[str, Any] | None = None,
        *,
        every: float = 5.0,
    ) -> None:
        if not every >= 0:
            raise ValueError(f"every is a number of seconds of at least 0, got {every}")
        self.path, self.every = Path(path), every
        header = {"implicitmoments": version("implicitmoments"), **(fingerprint or {})}
        told = {name: as_json(name, value) for name, value in header.items()}
        self._numbers, self._saved, self._cost = count(), time.monotonic(), 0.0
        self._file = open_journal(self.path, told)
        with clear_errors(self.path):
            (self._end,) = self._one("SELECT ifnull(max(number) + 1, 0) FROM passes")

    def number(self) -> int:
        """Return the number of the pass that comes next, from 0 on."""
        return next(self._numbers)

    def recall(self, number: int, task: str, probe: Callable[[], Array]) -> Entry | None:
        """Return what is known of a pass, or None.

        If the pass of that number had another task, it is forgotten, and those after it.

        Parameters
        ----------
        number : int
        task : str
        probe : callable
            Returns an array of the library and on the device where arrays go that were not
            NumPy's.
        """
        if number >= self._end:
            return None
        with clear_errors(self.path):
            found = self._one("SELECT task, next_row, arrays FROM passes WHERE number = ?", number)
            if found is None:
                return None
            if found[0] != task:
                with self._writing():
                    self._forget("number >= ?", number)
                self._end = number
                return None
            parts = "SELECT place, bytes FROM contents WHERE number = ? ORDER BY place, part"
            contents: defaultdict[int, bytearray] = defaultdict(bytearray)
            for place, part in self._file.execute(parts, (number,)):
                contents[place] += part
        try:
            return Entry(found[1], unpack(found[2], contents, probe))
        except (KeyError, TypeError, ValueError) as reason:
            raise ValueError(
                f"the checkpoint {self.path} is damaged ({reason}); {ADVICE}"
            ) from reason

    def keep(
        self, number: int, task: str, sums: Mapping[str, Array], next_row: int | None = None
    ) -> None:
        """Put the sums of a pass in the place of what was known of it.

        Sums of an unfinished pass are in the file when this returns; those of a finished pass
        are if the last ones are half a second old, and else wait for others.
        """
        start = time.monotonic()
        arrays, contents = pack(sums)
        with clear_errors(self.path, OSError), self._writing():
            if number < self._end:
                self._forget("number = ?", number)
            self._file.execute(
                "INSERT INTO passes VALUES (?, ?, ?, ?)", (number, task, next_row, arrays)
            )
            for place, content in enumerate(contents):
                for part, first in enumerate(range(0, len(content), PART_BYTES)):
                    cell = (number, place, part, content[first : first + PART_BYTES])
                    self._file.execute("INSERT INTO contents VALUES (?, ?, ?, ?)", cell)
        self._end = max(self._end, number + 1)
        if next_row is not None or start - self._saved > COMMIT_SECONDS:
            self.commit()
            self._cost = self._saved - start

    def due(self) -> bool:
        """Whether it is time to keep the sums of an unfinished pass."""
        wait = max(self.every, min(SHARE * self._cost, PATIENCE * self.every))
        return time.monotonic() - self._saved >= wait

    def remember(self, name: str, value: Any) -> Any:
        """Return what was remembered under a name, or remember ``value``: a seed, for one."""
        with clear_errors(self.path, OSError):
            found = self._one("SELECT value FROM settings WHERE name = ?", name)
            if found is None:
                found = (as_json(name, value),)
                with self._writing():
                    self._file.execute("INSERT INTO settings VALUES (?, ?)", (name, *found))
                self.commit()
            return json.loads(found[0])

    def commit(self) -> None:
        """Write what waits."""
        with clear_errors(self.path, OSError):
            if self._file.in_transaction:
                self._file.execute("COMMIT")
        self._saved = time.monotonic()

    def close(self) -> None:
        """Write what waits and give up the lock."""
        try:
            self.commit()
        finally:
            self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        reason: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _one(self, question: str, *values: Any) -> Any:
        return self._file.execute(question, values).fetchone()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write into what is committed next; an interruption undoes all that waits."""
        if not self._file.in_transaction:
            self._file.execute("BEGIN EXCLUSIVE")
        try:
            yield
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def _forget(self, which: str, number: int) -> None:
        for table in ("passes", "contents"):
            self._file.execute(f"DELETE FROM {table} WHERE {which}", (number,))
