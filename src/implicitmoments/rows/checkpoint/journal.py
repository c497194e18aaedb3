"""Finished passes, and the sums of the current one, in an SQLite file."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Self

from implicitmoments.arrays import Array
from implicitmoments.notes import InputError
from implicitmoments.rows.checkpoint.journal_file import (
    as_json,
    open_journal,
    refusal,
    sqlite_errors,
)
from implicitmoments.rows.checkpoint.packing import pack, unpack
from implicitmoments.rows.fold import Sums

PART_BYTES = 2**20  # in a cell of SQLite, which holds less than 1 GB
# Partial sums take at most 1/20 of the time, unless they have waited for 100 times ``every``.
SHARE, PATIENCE = 20, 100


class Journal:
    """A file that keeps the passes of one fit.

    One process at a time may open it; the lock ends with the process, however it ends.

    Parameters
    ----------
    path : str or path
        Created if it does not exist.
    fingerprint : mapping of str to JSON values
        What the passes depend on: parameters, seeds, sizes, a digest of rows. A file with another
        fingerprint is refused.
    every : float, default 5.0
        Seconds after which the sums of an unfinished pass are kept again.

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
    ...     with Journal(path) as journal:
    ...         source = JournaledSource(ArraySource(np.ones((6, 2))), journal)
    ...         sums = source.fold(measure, range(6), 3, what="sums")
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
            raise InputError("out_of_range", "`every={every}` must be at least 0 s", every=every)
        self.path, self.every = Path(path), every
        header = {"implicitmoments": version("implicitmoments"), **(fingerprint or {})}
        self._numbers, self._saved, self._cost = count(), time.monotonic(), 0.0
        self._file = open_journal(self.path, {n: as_json(n, v) for n, v in header.items()})
        with sqlite_errors(self.path):
            (self._end,) = self._one("SELECT ifnull(max(number) + 1, 0) FROM passes")

    def number(self) -> int:
        """Return the number of the next pass, from 0 on."""
        return next(self._numbers)

    def recall(
        self, number: int, task: str, like: Callable[[], Array]
    ) -> tuple[Sums, int | None] | None:
        """Return the sums of a pass and the first row that is not in them, or None.

        There is no such row if the pass is finished. If the pass of that number had another task,
        it is deleted, and those after it. ``like`` returns an array of the library and on the
        device of the rows.
        """
        if number >= self._end:
            return None
        with sqlite_errors(self.path):
            found = self._one("SELECT task, next_row FROM passes WHERE number = ?", number)
            if found is not None and found[0] != task:
                with self._file:
                    self._delete("number >= ?", number)
                self._end, found = number, None
            if found is None:
                return None
            contents: dict[tuple[str, str, str, int], bytearray] = {}
            rows = "SELECT name, kind, axes, crc, bytes FROM arrays WHERE number = ? ORDER BY part"
            for *about, part in self._file.execute(rows, (number,)):
                contents.setdefault(tuple(about), bytearray()).extend(part)
        try:
            sums = {}
            for (name, kind, axes, crc), content in contents.items():
                if zlib.crc32(content) != crc:
                    raise ValueError(f"the checksum of {name!r} does not fit")
                sums[name] = unpack(kind, axes, content, like)
        except (TypeError, ValueError) as reason:
            path, words = str(self.path), str(reason)
            raise refusal("checkpoint_damaged", path=path, reason=words) from reason
        return sums, found[1]

    def keep(
        self, number: int, task: str, sums: Mapping[str, Array], next_row: int | None = None
    ) -> None:
        """Replace what is known of a pass by these sums; they are in the file afterwards.

        ``next_row`` is the first row that is not in the sums of an unfinished pass.
        """
        start, part = time.monotonic(), count()
        packed = {name: pack(name, value) for name, value in sums.items()}
        with sqlite_errors(self.path, within_fit=True), self._file:
            if number < self._end:
                self._delete("number = ?", number)
            self._file.execute("INSERT INTO passes VALUES (?, ?, ?)", (number, task, next_row))
            for name, (kind, axes, content) in packed.items():
                crc = zlib.crc32(content)
                for first in range(0, len(content), PART_BYTES):
                    cell = content[first : first + PART_BYTES]
                    row = (number, next(part), name, kind, axes, crc, cell)
                    self._file.execute("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._end, self._saved = max(self._end, number + 1), time.monotonic()
        self._cost = self._saved - start

    def due(self) -> bool:
        """Return whether it is time to keep the sums of an unfinished pass."""
        wait = max(self.every, min(SHARE * self._cost, PATIENCE * self.every))
        return time.monotonic() - self._saved >= wait

    def remember(self, name: str, value: Any) -> Any:
        """Return the value kept under a name, or keep this one: a seed, for example."""
        with sqlite_errors(self.path, within_fit=True), self._file:
            found = self._one("SELECT value FROM settings WHERE name = ?", name)
            if found is None:
                found = (as_json(name, value),)
                self._file.execute("INSERT INTO settings VALUES (?, ?)", (name, *found))
            return json.loads(found[0])

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _one(self, question: str, *values: Any) -> Any:
        with closing(self._file.execute(question, values)) as answer:
            return answer.fetchone()

    def _delete(self, which: str, number: int) -> None:
        for table in ("passes", "arrays"):
            self._file.execute(f"DELETE FROM {table} WHERE {which}", (number,))
