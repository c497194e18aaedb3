"""Rows of tables that are read batch by batch: which columns, and where to go on reading."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from implicitmoments.rows.files.column_choice import Choice, Chosen, choose_columns
from implicitmoments.rows.files.file_source import FileSource, Numbers
from implicitmoments.rows.files.file_watch import Stamp
from implicitmoments.rows.files.matrix import float_type
from implicitmoments.rows.files.optional_imports import require
from implicitmoments.rows.files.reader_errors import as_damage

__all__ = ["BatchReader", "TableSource", "fill", "is_number"]


class BatchReader(Protocol):
    """A file of record batches, in segments at whose beginnings reading may start."""

    path: Path
    schema: Any
    names: list[str]

    def segment_rows(self) -> list[int]:
        """Return the number of rows of each segment."""

    def batches(self, segment: int, names: Sequence[str]) -> Iterator[Any]:
        """Yield the record batches of a segment, with at least the columns that are named."""

    def forget(self) -> None:
        """Let go of memory that holds what was read."""

    def close(self) -> None:
        """Give back the file."""


class TableSource(FileSource):
    """Rows of one table, or of several one after the other.

    Parameters
    ----------
    label : str
    readers : sequence of BatchReader
    choice : Choice
        Which columns are features, labels and weights.
    dtype : data type, optional
        Of what is read; float32 where every feature is, and float64 otherwise, by default.
    """

    def __init__(
        self, label: str, readers: Sequence[BatchReader], choice: Choice, dtype: Any = None
    ) -> None:
        chosen = [_chosen(reader, choice) for reader in readers]
        self._chosen = chosen[0]
        for reader, other in zip(readers, chosen, strict=True):
            if other != self._chosen:
                raise ValueError(
                    f"{reader.path} has columns {list(other.names)} and {readers[0].path} has "
                    f"{list(self._chosen.names)}, expected the same; name them by columns="
                )
        self._cursor = _Cursor(readers, self._chosen.names)
        if not self._cursor.n_rows:
            raise ValueError(f"{label} has no rows, expected at least one")
        types = {
            reader.schema.field(name).type.to_pandas_dtype()
            for reader in readers
            for name in self._chosen.features
        }
        single = float_type(np.dtype(types.pop() if len(types) == 1 else np.float64), dtype)
        self._dtype = single
        super().__init__(
            label,
            self._cursor.n_rows,
            len(self._chosen.features),
            self._chosen.features,
            stamps=[Stamp(reader.path) for reader in readers],
            held=readers,
        )

    def _fetch(self, rows: range) -> dict[str, Numbers]:
        block = empty_block(self._chosen, len(rows), self._dtype)
        for first, batch in self._cursor.slices(rows):
            with as_damage(self._label, "holds what does not become numbers"):
                fill(block, first - rows.start, batch, self._chosen)
        return block

    def close(self) -> None:
        """Give back files; closing twice does no harm."""
        self._cursor.leave()
        super().close()


class _Cursor:
    """A place in the rows of several files, from which reading goes on.

    ::

        segments  |────────|────────|──────|
        batches   |──|──|──|──|──|──|──|───|
                            ↑ the batch in hand; rows before it in its segment are read again
    """

    def __init__(self, readers: Sequence[BatchReader], names: Sequence[str]) -> None:
        self._names = names
        self._segments = [
            (reader, number, n)
            for reader in readers
            for number, n in enumerate(reader.segment_rows())
        ]
        self._starts = list(accumulate((n for *_, n in self._segments), initial=0))
        self.n_rows = self._starts.pop()
        for reader, _, n in self._segments:
            if n < 0:
                raise ValueError(f"{reader.path} claims {n} rows; it is damaged, write it again")
        self.leave()

    def slices(self, rows: range) -> Iterator[tuple[int, Any]]:
        """Yield record batches that together hold ``rows``, with the first row of each."""
        at = rows.start
        if rows:
            segment = bisect_right(self._starts, at) - 1
            if segment != self._segment or at < self._rows.start:
                self._enter(segment)
        while at < rows.stop:
            if at >= self._rows.stop:
                self._advance()
                continue
            n = min(rows.stop, self._rows.stop) - at
            yield at, self._batch.slice(at - self._rows.start, n)
            at += n
        if rows:
            self._segments[self._segment][0].forget()

    def leave(self) -> None:
        """Hold no batch."""
        self._segment, self._rows = -1, range(0)
        self._batch: Any = None
        self._ahead: Iterator[Any] = iter(())

    def _enter(self, segment: int) -> None:
        reader, number, _ = self._segments[segment]
        self.leave()
        self._segment = segment
        self._rows = range(self._starts[segment], self._starts[segment])
        with as_damage(reader.path, "cannot be read"):
            self._ahead = iter(reader.batches(number, self._names))

    def _advance(self) -> None:
        reader, _, n = self._segments[self._segment]
        with as_damage(reader.path, "cannot be read"):
            batch = next(self._ahead, None)
        if batch is not None:
            self._rows = range(self._rows.stop, self._rows.stop + batch.num_rows)
            self._batch = batch
            return
        if self._rows.stop != self._starts[self._segment] + n:
            raise OSError(
                f"{reader.path} ends before its last row; it was cut off, write it again"
            )
        reader.forget()
        self._enter(self._segment + 1)


def is_number(kind: Any) -> bool:
    """Tell whether a type of Arrow holds real numbers; a column of nothing may."""
    types = require("pyarrow", "table").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in (*tests, types.is_null))


def empty_block(chosen: Chosen, n_rows: int, dtype: np.dtype[Any]) -> dict[str, Numbers]:
    """Return room for the columns of some rows."""
    x = np.empty((n_rows, len(chosen.features)), dtype=dtype)
    return {"x": x, **{name: np.empty(n_rows, dtype=dtype) for name in chosen.others}}


def fill(block: Mapping[str, Numbers], at: int, batch: Any, chosen: Chosen) -> None:
    """Write the rows of a record batch into a block, from row ``at`` on."""
    rows = slice(at, at + batch.num_rows)
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is found by the check
        for j, name in enumerate(chosen.features):
            block["x"][rows, j] = _numbers(batch.column(name))
        for column, name in chosen.others.items():
            block[column][rows] = _numbers(batch.column(name))


def _numbers(column: Any) -> Numbers:
    pa = require("pyarrow", "table")
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)
    numbers: Numbers = column.to_numpy(zero_copy_only=False)  # NaN where nothing is
    return numbers


def _chosen(reader: BatchReader, choice: Choice) -> Chosen:
    others = {
        field.name: f"entries of type {field.type}"
        for field in reader.schema
        if not is_number(field.type)
    }
    return choose_columns(str(reader.path), reader.names, others, choice)
