"""One partition of rows on Dask, as a worker folds and picks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.notes import InputError
from implicitmoments.rows.blas_threads import threads_for_folds
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.fold import Block, Measure, Sums, blocks, fold_blocks


@dataclass(frozen=True, eq=False)
class Carried:
    """A measure as an entry of a graph, which Dask passes on as it is."""

    measure: Measure


@dataclass(frozen=True, eq=False)
class Partition:
    """Consecutive rows that are one chunk of every column."""

    labels: Mapping[str, str]  # columns as blocks name them, "x" first, and as messages do
    rows: range  # their numbers among all rows

    def columns(self, chunks: Sequence[Array]) -> Block:
        """Name the chunks; lengths that were not known before are compared here."""
        for label, chunk in zip(self.labels.values(), chunks, strict=True):
            if chunk.shape[0] != len(self.rows):
                raise InputError(
                    "partitions_differ",
                    "{what} has {found:count row} in the partition that begins with row {row}, "
                    "expected {expected}; partition all columns alike",
                    **{"what": label, "found": chunk.shape[0], "expected": len(self.rows)},
                    row=self.rows.start,
                )
        return dict(zip(self.labels, chunks, strict=True))

    def check(self, block: Block, first_row: int) -> None:
        """Raise for values that no sum should hold, with the number of the row."""
        for name, label in self.labels.items():
            check_finite(block[name], label, first_row)
        if "counts" in block and bool(namespace_of(block["x"]).any(block["counts"] < 0)):
            row = first_row + int(np.argmax(np.asarray(block["counts"] < 0)))
            raise InputError(
                "negative_weight",
                "{what} has negative entries, the first in row {first}; weights must be 0 or more",
                **{"what": self.labels["counts"], "first": row},
            )


def fold_partition(
    carried: Carried,
    chunks: Sequence[Array],
    partition: Partition,
    rows: range,
    rows_per_block: int,
    checked: bool,
) -> Sums:
    """Sum a measure over the blocks of a partition, on a worker."""
    columns, start = partition.columns(chunks), partition.rows.start

    def read(piece: range) -> Block:
        block = rows_at(columns, slice(piece.start - start, piece.stop - start))
        if not checked:
            partition.check(block, piece.start)
        return block

    with threads_for_folds(1):
        return fold_blocks(read, carried.measure, blocks(rows, rows_per_block))


def pick_rows(chunks: Sequence[Array], partition: Partition, rows: Integers) -> Block:
    """Return single rows of a partition, from a worker."""
    return rows_at(partition.columns(chunks), rows - partition.rows.start)


def rows_at(columns: Block, places: slice | Integers) -> Block:
    """Return rows as real numbers, in the precision of the points.

    An array that came over the network may not be aligned in memory. Its products are then slow,
    and round differently: it is copied.
    """
    block: dict[str, Array] = {}
    for name, column in columns.items():
        array = as_real_array(column[places, ...], "X" if name == "x" else name, 1 + (name == "x"))
        if isinstance(array, np.ndarray):
            array = np.require(array, requirements=["C", "A"])
        block[name] = move_like(array, block.get("x", array))
    return block
