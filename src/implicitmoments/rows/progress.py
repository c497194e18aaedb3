"""Sources around another source, and one that tells how far a pass is."""

from __future__ import annotations

from typing import Any, NoReturn

from implicitmoments.notes import InputError
from implicitmoments.rows.draws import RowDraws
from implicitmoments.rows.fold import After, Block, Measure, Progress, Sums
from implicitmoments.rows.sources import Integers, Source

__all__ = ["ElsewhereSource", "ProgressSource", "WrappedSource"]


class ElsewhereSource(Source):
    """Stands for rows in another process; a measure that travels does not take them along."""

    def __init__(self, n_rows: int | None, n_features: int) -> None:
        self.n_rows, self.n_features = n_rows, n_features

    def read(self, rows: range, rng: RowDraws) -> NoReturn:  # noqa: ARG002
        """Refuse: there are no rows here."""
        raise InputError(
            "rows_elsewhere",
            "the rows of this source stayed in the process that made it; a measure takes what it "
            "needs from its block",
        )


class WrappedSource(Source):
    """Rows of another source, read there."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.n_rows, self.n_features = source.n_rows, source.n_features

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Let the other source read."""
        return self._source.read(rows, rng)

    def __reduce__(self) -> tuple[Any, ...]:
        return ElsewhereSource, (self.n_rows, self.n_features)


class ProgressSource(WrappedSource):
    """Rows of another source, where someone is told how far a pass over them is.

    It goes around a source with a journal, so as to be told of rows done before.

    Parameters
    ----------
    source : Source
    progress : callable
        Called as ``progress(what, rows_done, rows_total)`` after blocks, and at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.rows import ArraySource, ProgressSource
    >>> source = ProgressSource(ArraySource(np.ones((6, 2))), print)
    >>> sums = source.fold(lambda block, rows: {"n": len(rows)}, range(6), 6, what="rows")
    rows 6 6
    """

    def __init__(self, source: Source, progress: Progress) -> None:
        super().__init__(source)
        self._progress = progress

    def fold(
        self,
        measure: Measure,
        rows: range,
        rows_per_block: int,
        *,
        what: str = "",
        after: After | None = None,
        **how: Any,
    ) -> Sums:
        """Let the other source pass over its rows; see :meth:`Source.fold`."""
        done = 0

        def tell(sums: Sums, next_row: int) -> None:
            nonlocal done
            if after is not None:
                after(sums, next_row)
            done = next_row - rows.start
            self._progress(what, done, len(rows))

        sums = self._source.fold(measure, rows, rows_per_block, what=what, after=tell, **how)
        if done < len(rows):  # answered from a journal, or by a source that tells less
            self._progress(what, len(rows), len(rows))
        return sums

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Let the other source pick its rows."""
        return self._source.pick(rows, what=what)
