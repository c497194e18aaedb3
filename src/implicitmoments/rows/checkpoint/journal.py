"""Finished passes, and the sums of the current one, in an SQLite file."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from functools import cached_property
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Self

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, to_numpy
from implicitmoments.notes import InputError
from implicitmoments.rows.checkpoint.journal_file import (
    as_json,
    open_journal,
    pack,
    packed_size,
    refusal,
    sqlite_errors,
    unpack,
)
from implicitmoments.rows.fold import After, Block, Measure, Sums, threads_of_whole
from implicitmoments.rows.sources import Integers, Source, WrappedSource

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
        """Store the sums of a pass durably, replacing earlier ones.

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
        """Return whether the sums of an unfinished pass are due to be stored."""
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


DIGEST_ROWS = 64  # at the beginning, in the middle and at the end
# Small sums are always kept, others if that takes less time than computing them again.
SMALL_BYTES, BYTES_PER_SECOND = 2**20, 1e8


class JournaledSource(WrappedSource):
    """Rows of another source, with a journal of the passes over them.

    Passes are numbered in the order in which they are asked for. A finished pass is answered from
    the journal, one that was interrupted continues where its sums end, and others take place in
    the other source. The sums have the same bits either way: they are kept between two blocks, and
    the blocks after them are those of a whole pass.

    Parameters
    ----------
    source : Source
    journal : Journal

    Examples
    --------
    >>> import tempfile
    >>> from implicitmoments.rows import ArraySource, Journal
    >>> with Journal(f"{tempfile.mkdtemp()}/passes") as journal:
    ...     JournaledSource(ArraySource(np.ones((6, 2))), journal).n_rows
    6
    """

    def __init__(self, source: Source, journal: Journal) -> None:
        super().__init__(source)
        self._journal = journal

    def fold(
        self,
        measure: Measure,
        rows: range,
        rows_per_block: int,
        *,
        what: str = "",
        seed: int = 0,
        initial: Mapping[str, Array] | None = None,
        after: After | None = None,
    ) -> Sums:
        """Pass over the rows not covered by the journal; see :meth:`Source.fold`.

        ``after`` is called for the blocks that are measured.
        """
        task = json.dumps(["fold", what, rows.start, rows.stop, int(rows_per_block), int(seed)])
        number, start = self._journal.number(), time.monotonic()
        sums, next_row = self._journal.recall(number, task, self._like) or (initial, rows.start)
        if next_row is None:
            return dict(sums or {})

        def keep(sums: Sums, next_row: int) -> None:
            if after is not None:
                after(sums, next_row)
            between = (next_row - rows.start) % rows_per_block == 0 and next_row < rows.stop
            if between and self._journal.due():
                self._journal.keep(number, task, sums, next_row)

        left = range(next_row, rows.stop)
        pieces = [math.ceil(len(part) / rows_per_block) for part in (rows, left)]
        with self._threads(*pieces):
            sums = self._source.fold(
                measure, left, rows_per_block, what=what, seed=seed, initial=sums, after=keep
            )
        self._keep(number, task, sums, time.monotonic() - start)
        return sums

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Pick rows that the journal does not have; see :meth:`Source.pick`."""
        numbers = np.asarray(rows, dtype="<i8", order="C")
        task = json.dumps(["pick", what, len(numbers), hashlib.sha256(numbers.data).hexdigest()])
        number, start = self._journal.number(), time.monotonic()
        known = self._journal.recall(number, task, self._like)
        if known is not None:
            return known[0]
        block = self._source.pick(rows, what=what)
        self._keep(number, task, block, time.monotonic() - start)
        return block

    def _keep(self, number: int, task: str, sums: Mapping[str, Array], seconds: float) -> None:
        if packed_size(sums) <= max(SMALL_BYTES, BYTES_PER_SECOND * seconds):
            self._journal.keep(number, task, sums)

    def _like(self) -> Array:
        return self._first["x"]

    @cached_property
    def _first(self) -> Block:
        return self._source.first()

    def _threads(self, n_pieces: int, n_left: int) -> AbstractContextManager[Any]:
        numpy = (array_api_compat.is_numpy_array(array) for array in self._first.values())
        if n_left < n_pieces and all(numpy):
            return threads_of_whole(n_pieces, n_left)
        return nullcontext()


def describe_rows(source: Source) -> dict[str, Any]:
    """Describe the rows of a source, for the fingerprint of a journal.

    Returns
    -------
    dict
        ``rows`` and ``columns``, the array ``library`` and ``type``, and a ``digest`` of rows at
        the beginning, in the middle and at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.rows import ArraySource, describe_rows
    >>> describe_rows(ArraySource(np.ones((6, 2))))["rows"]
    6
    """
    n, digest = source.n_rows or DIGEST_ROWS, hashlib.sha256()
    described: dict[str, Any] = {"rows": source.n_rows, "columns": source.n_features}
    for start in sorted({0, max(0, (n - DIGEST_ROWS) // 2), max(0, n - DIGEST_ROWS)}):
        rows = range(start, min(start + DIGEST_ROWS, n))
        block = source.block(rows)
        for name in sorted(block):
            digest.update(name.encode())
            digest.update(np.asarray(to_numpy(block[name]), order="C").data)
        described["library"] = type(block["x"]).__module__.split(".")[0]
        described["type"] = str(block["x"].dtype)
    return {**described, "digest": digest.hexdigest()}
