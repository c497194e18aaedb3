"""Tasks of Dask workers: fold a partition, pick rows from it, add sums.

Nothing here imports Dask, and nothing here knows where it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from implicitmoments.arrays import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.notes import InputError
from implicitmoments.rows.fold import Block, Measure, Sums, add_sums, blocks, fold_blocks

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Carried:
    """A measure as an entry of a graph, which Dask passes on as it is."""

    measure: Measure


@dataclass(frozen=True, eq=False)
class Partition:
    """Consecutive rows that are one chunk of every column."""

    names: tuple[str, ...]  # columns as blocks name them: "x" first
    labels: tuple[str, ...]  # the same as messages name them
    rows: range  # their numbers among all rows

    def columns(self, chunks: Sequence[Array]) -> Block:
        """Name the chunks; lengths that were not known before are compared here."""
        for label, chunk in zip(self.labels, chunks, strict=True):
            if chunk.shape[0] != len(self.rows):
                raise InputError(
                    "partitions_differ",
                    "{what} has {found:count row} in the partition that begins with row {row}, "
                    "expected {expected}; partition all columns alike",
                    **{"what": label, "found": chunk.shape[0], "expected": len(self.rows)},
                    row=self.rows.start,
                )
        return dict(zip(self.names, chunks, strict=True))

    def check(self, block: Block, first_row: int) -> None:
        """Raise for values that no sum should hold, with the number of the row."""
        for name, label in zip(self.names, self.labels, strict=True):
            check_finite(block[name], label, first_row)
        if "counts" in block and bool(namespace_of(block["x"]).any(block["counts"] < 0)):
            row = first_row + int(np.argmax(np.asarray(block["counts"] < 0)))
            raise InputError(
                "negative_weight",
                "{what} has negative entries, the first in row {first}; weights must be 0 or more",
                **{"what": self.labels[self.names.index("counts")], "first": row},
            )


def real_block(block: Block) -> Block:
    """Return columns of real numbers, in the precision of the points.

    An array that came over the network may not be aligned in memory. Its products are then slow,
    and round differently: it is copied.
    """
    x = _aligned(as_real_array(block["x"], "X", 2))
    others = {n: as_real_array(c, n, 1) for n, c in block.items() if n != "x"}
    return {"x": x, **{name: move_like(_aligned(c), x) for name, c in others.items()}}


def _aligned(array: Array) -> Array:
    return np.require(array, requirements=["C", "A"]) if isinstance(array, np.ndarray) else array


def _rows_at(columns: Block, places: slice | Integers) -> Block:
    return real_block({name: column[places, ...] for name, column in columns.items()})


def fold_partition(
    carried: Carried,
    chunks: Sequence[Array],
    partition: Partition,
    rows: range,
    rows_per_block: int,
    checked: bool,
) -> Sums:
    """Sum a measure over the blocks of a partition."""
    columns, start = partition.columns(chunks), partition.rows.start

    def read(piece: range) -> Block:
        block = _rows_at(columns, slice(piece.start - start, piece.stop - start))
        if not checked:
            partition.check(block, piece.start)
        return block

    with one_thread():
        return fold_blocks(read, carried.measure, blocks(rows, rows_per_block))


def pick_rows(chunks: Sequence[Array], partition: Partition, rows: Integers) -> Block:
    """Return single rows of a partition."""
    return _rows_at(partition.columns(chunks), rows - partition.rows.start)


def add_all(parts: Sequence[Sums]) -> Sums:
    """Add the sums of neighbours, in the order of the rows."""
    return reduce(add_sums, parts)


def count_rows(chunk: Any) -> int:
    """Return the number of rows of a chunk."""
    return int(chunk.shape[0])


def answer_rows(
    x: Array, *, function: Callable[[Array], Array], width: int | None, out: Any
) -> Array:
    """Apply a function to one chunk of rows, ``(n,)`` or ``(n, width)``; a chunk may be empty."""
    shape = (x.shape[0],) if width is None else (x.shape[0], width)
    if not x.shape[0]:
        return np.empty(shape, dtype=out)
    with one_thread():
        answers = function(x)
    if tuple(answers.shape) != shape:
        template, given = "answers have shape {shape}, expected {expected}", tuple(answers.shape)
        raise InputError("wrong_answers", template, shape=str(given), expected=str(shape))
    return np.asarray(answers).astype(out, copy=False)


@cache
def _controller() -> Any:
    """Return the cached thread controller: finding the libraries takes milliseconds."""
    return ThreadpoolController()


_guard, _within = Lock(), [0]
_limits: list[Any] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any task of this process runs.

    The limit holds for the whole process. Tasks overlap: the first that enters sets it, and the
    last that leaves lifts it. A fold in here sees one allowed thread and starts none of its own.
    """
    with _guard:
        if not _within[0]:
            _limits.append(_controller().limit(limits=1, user_api="blas"))
        _within[0] += 1
    try:
        yield
    finally:
        with _guard:
            _within[0] -= 1
            if not _within[0]:
                _limits.pop().restore_original_limits()
