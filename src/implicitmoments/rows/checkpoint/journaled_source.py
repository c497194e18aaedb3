"""A source that keeps the passes over another one in a journal."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, to_numpy
from implicitmoments.rows.checkpoint.journal import Journal
from implicitmoments.rows.checkpoint.packing import packed_size
from implicitmoments.rows.fold import After, Block, Measure, Sums, threads_of_whole
from implicitmoments.rows.sources import Integers, Source, WrappedSource

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
        """Pass over what the journal does not know; see :meth:`Source.fold`.

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
