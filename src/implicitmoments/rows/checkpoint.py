"""Checkpoints: passes over rows that a journal keeps, so that an interrupted fit can continue."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Array, to_numpy
from implicitmoments.rows.draws import Integers, RowDraws
from implicitmoments.rows.fingerprint import describe_rows, describe_value
from implicitmoments.rows.fold import After, Block, Measure, Sums, threads_of_whole
from implicitmoments.rows.journal import Journal
from implicitmoments.rows.sources import ElsewhereSource, Source

if TYPE_CHECKING:
    from implicitmoments.rows.view import Rows

# Small sums are always kept, others if that takes less time than computing them again.
SMALL_BYTES, BYTES_PER_SECOND = 2**20, 1e8
VIEWED_ROWS = 256  # by which a checkpoint knows a view of its source


class JournaledSource(Source):
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
        self._source, self._journal = source, journal
        self.n_rows, self.n_features = source.n_rows, source.n_features

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Let the other source read."""
        return self._source.read(rows, rng)

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
        local = all(isinstance(column, np.ndarray) for column in self._first.values())
        with threads_of_whole(*pieces) if local else nullcontext():
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
        shapes = ((getattr(v, "shape", ()), getattr(v, "dtype", None)) for v in sums.values())
        size = sum(math.prod(shape) * getattr(dtype, "itemsize", 8) for shape, dtype in shapes)
        if size <= max(SMALL_BYTES, BYTES_PER_SECOND * seconds):
            self._journal.keep(number, task, sums)

    def _like(self) -> Array:
        return self._first["x"]

    @cached_property
    def _first(self) -> Block:
        return self._source.first()

    def __reduce__(self) -> tuple[Any, ...]:
        return ElsewhereSource, (self.n_rows, self.n_features)


def open_checkpoint(
    checkpoint: Any, estimator: Any, rows: Rows
) -> AbstractContextManager[Journal]:
    """Open the journal of a fit by its path, with a fingerprint of parameters and rows."""
    if isinstance(checkpoint, Journal):
        return nullcontext(checkpoint)
    given, like = estimator.get_params(deep=False), rows.first["x"]
    parameters = {name: describe_value(value, like) for name, value in given.items()}
    # the first rows as mapped and kept: two views of one source differ
    digest, block = hashlib.sha256(), rows.pick(np.arange(min(rows.n, VIEWED_ROWS)))
    for name in sorted(block):
        digest.update(name.encode() + np.ascontiguousarray(to_numpy(block[name])).tobytes())
    about = {"estimator": type(estimator).__name__, **parameters, **describe_rows(rows.source)}
    return Journal(checkpoint, {**about, "view": digest.hexdigest()})
