"""Where rows come from: arrays in memory, or a function that makes them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from implicitmoments.backends import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.samples.draws import RowDraws, Stream

__all__ = [
    "ArraySource",
    "Block",
    "CallableSource",
    "DifferenceSource",
    "MappedSource",
    "Source",
    "as_source",
    "blocks",
]

Block: TypeAlias = Mapping[str, Array]


def blocks(rows: range, block_rows: int) -> Iterator[range]:
    """Cut a range of rows into consecutive ranges of at most ``block_rows``."""
    if block_rows < 1:
        raise ValueError(f"block_rows is at least 1, got {block_rows}")
    for start in range(rows.start, rows.stop, block_rows):
        yield range(start, min(start + block_rows, rows.stop))


class Source(ABC):
    """Rows that can be read by number, in any order and in blocks of any size.

    Attributes
    ----------
    n_rows : int or None
        None for a source that makes as many as are asked for.
    n_features : int
        Columns of the points ``"x"``.
    """

    n_rows: int | None
    n_features: int

    @abstractmethod
    def read(self, rows: range, rng: RowDraws) -> Block:
        """Return the columns of ``rows``: ``"x"`` ``(n, n_features)``, others ``(n,)``."""


class ArraySource(Source):
    """Rows of arrays in memory.

    Parameters
    ----------
    x : array of shape (n_samples, n_features)
    **columns : array of shape (n_samples,)
        Further columns by name, such as ``y``; they take the precision of x.
    """

    def __init__(self, x: Array, **columns: Array) -> None:
        x = as_real_array(x, "X", 2)
        check_finite(x, "X")
        self.n_rows, self.n_features = int(x.shape[0]), int(x.shape[1])
        self._columns = {"x": x}
        for name, given in columns.items():
            column = as_real_array(given, name, 1)
            check_finite(column, name)
            namespace_of(x, column)
            column = move_like(column, x)
            if column.shape[0] != self.n_rows:
                raise ValueError(
                    f"{name} has {column.shape[0]} rows and X has {self.n_rows}; "
                    "expected one value a row"
                )
            self._columns[name] = column

    def read(self, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002 (nothing to draw)
        """Return views of the rows."""
        return {
            name: column[rows.start : rows.stop, ...] for name, column in self._columns.items()
        }


class CallableSource(Source):
    """Rows made by a function.

    Parameters
    ----------
    function : callable
        ``function(rows, rng)`` returns the points of those rows, ``(len(rows), n_features)``,
        or a mapping of columns with the points under ``"x"``. Use ``rng.normal(width)``,
        ``rng.uniform(width)`` and ``rng.categorical(p)`` for randomness: they are keyed by row.
    n_rows : int, optional
        How many rows there are; as many as are asked for by default.
    """

    def __init__(
        self, function: Callable[[range, RowDraws], Array | Block], n_rows: int | None = None
    ) -> None:
        if n_rows is not None and n_rows < 1:
            raise ValueError(f"n_rows is at least 1 or None, got {n_rows}")
        self._function, self.n_rows = function, n_rows
        probe = range(1)
        made = self._make(probe, RowDraws(0, probe, (Stream.ROWS,)))
        self.n_features = int(made["x"].shape[1])

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Call the function and check what it gives."""
        made = self._make(rows, rng)
        if made["x"].shape[1] != self.n_features:
            raise ValueError(
                f"the function gave points of {made['x'].shape[1]} features, and "
                f"{self.n_features} before"
            )
        return made

    def _make(self, rows: range, rng: RowDraws) -> Block:
        made = self._function(rows, rng)
        columns = made if isinstance(made, Mapping) else {"x": made}
        if "x" not in columns:
            raise ValueError(
                f"the function gave columns {sorted(columns)}, expected the points under 'x'"
            )
        checked = {}
        for name, given in columns.items():
            column = as_real_array(given, name, 2 if name == "x" else 1)
            check_finite(column, name, rows.start)
            if column.shape[0] != len(rows):
                raise ValueError(
                    f"the function gave {column.shape[0]} rows of {name!r}, "
                    f"it was asked for {len(rows)}"
                )
            checked[name] = column
        return checked


class MappedSource(Source):
    """Rows of another source, each block passed through a function.

    Parameters
    ----------
    source : Source
    function : callable
        Takes a block of columns and returns one with as many rows.
    n_features : int, optional
        Columns of the points afterwards, when the function changes them.
    """

    def __init__(
        self, source: Source, function: Callable[[Block], Block], n_features: int | None = None
    ) -> None:
        self._source, self._function = source, function
        self.n_rows, self.n_features = source.n_rows, n_features or source.n_features

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read the rows and map them; ``"origin"`` keeps the points as they were read.

        Products of matrices round by the size of the block, so that mapped points are no key of
        a row; the points they were made from are.
        """
        block = self._source.read(rows, rng)
        return {**self._function(block), "origin": block.get("origin", block["x"])}


class DifferenceSource(Source):
    """Differences ``(s − s′)/√2`` of rows 2i and 2i + 1 of another source.

    Pairs share no row, so differences are as independent as the rows were.
    """

    def __init__(self, source: Source) -> None:
        if source.n_rows is not None and source.n_rows < 2:
            raise ValueError("a difference takes two rows, and there is one")
        self._source, self.n_features = source, source.n_features
        self.n_rows = None if source.n_rows is None else source.n_rows // 2

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read both rows of each pair and subtract."""
        pairs = range(2 * rows.start, 2 * rows.stop)
        x = self._source.read(pairs, RowDraws(rng.seed, pairs, (Stream.PAIRS,)))["x"]
        return {"x": (x[::2, :] - x[1::2, :]) / math.sqrt(2)}


def as_source(points: Source | Array | Callable[[range, RowDraws], Array | Block]) -> Source:
    """Make a source of an array, of a function, or of what is one already."""
    if isinstance(points, Source):
        return points
    return CallableSource(points) if callable(points) else ArraySource(points)
