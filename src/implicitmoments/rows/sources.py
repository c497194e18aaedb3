"""Where rows come from: arrays in memory, or a function that makes them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np

from implicitmoments.arrays import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import RowDraws, Stream
from implicitmoments.rows.fold import After, Block, Measure, Sums, blocks, fold_blocks

__all__ = [
    "ArraySource",
    "CallableSource",
    "CountedSource",
    "DifferenceSource",
    "MappedSource",
    "Source",
    "as_source",
    "sum_counts",
]

Integers = np.ndarray[Any, np.dtype[np.int64]]
PICKED_ROWS = 65_536  # read at a time, where rows are picked


class Source(ABC):
    """Rows that can be read by number, in any order and in blocks of any size.

    Attributes
    ----------
    n_rows : int or None
        None for a source that makes as many as are asked for.
    n_features : int
        Columns of the points ``"x"``.
    local : bool
        Rows are NumPy arrays of this process, which a fit may lay out anew in memory.

    Examples
    --------
    >>> from implicitmoments.rows import ArraySource
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2))
    >>> sums = source.fold(lambda block, rows: {"sum": block["x"].sum(axis=0)}, range(3), 2)
    >>> sums["sum"].tolist()
    [6.0, 9.0]
    """

    n_rows: int | None
    n_features: int
    local: bool = False

    @abstractmethod
    def read(self, rows: range, rng: RowDraws) -> Block:
        """Return the columns of ``rows``: ``"x"`` ``(n, n_features)``, others ``(n,)``.

        ``"y"`` holds labels, and ``"counts"`` how often each row counts.
        """

    def fold(
        self,
        measure: Measure,
        rows: range,
        rows_per_block: int,
        *,
        what: str = "",  # noqa: ARG002 (for sources that keep a journal or show progress)
        seed: int = 0,
        initial: Mapping[str, Array] | None = None,
        after: After | None = None,
    ) -> Sums:
        """Sum over rows what ``measure`` gives of each block: one pass.

        Every pass of every learner goes through here, so a source decides where it takes place.
        ``measure`` travels to other processes there: it holds small arrays only.

        Parameters
        ----------
        measure : callable
            ``measure(block, rows)`` returns named sums over the rows of a block.
        rows : range
            Consecutive rows.
        rows_per_block : int
            Rows that are measured at a time, at the most.
        what : str
            What the pass is for, in a few words.
        seed : int
            Of a source that makes its rows.
        initial : mapping of str to array, optional
            Sums of rows before.
        after : callable, optional
            Called as ``after(sums, next_row)`` whenever sums are complete up to a row.
        """

        def read(piece: range) -> Block:
            return self.read(piece, RowDraws(seed, piece, (Stream.ROWS,)))

        return fold_blocks(read, measure, blocks(rows, rows_per_block), initial, after)

    def pick(self, rows: Integers, *, what: str = "") -> Block:  # noqa: ARG002
        """Return the columns of some rows, by numbers in ascending order, in memory."""
        taken: list[Block] = []
        cuts = np.flatnonzero(np.diff(rows // PICKED_ROWS)) + 1
        for near in np.split(rows, cuts):
            span = range(int(near[0]), int(near[-1]) + 1)
            block = self.read(span, RowDraws(0, span, (Stream.ROWS,)))
            taken.append(_take(block, near - span.start))
        xp = namespace_of(taken[0]["x"])
        return {name: xp.concat([part[name] for part in taken]) for name in taken[0]}

    @property
    def n(self) -> int:
        """The number of rows; 0 for a source that makes as many as are asked for."""
        return self.n_rows or 0

    def first(self, seed: int = 0) -> Block:
        """Return the first row: its columns, and the library, precision and device of all."""
        return self.read(range(1), RowDraws(seed, range(1), (Stream.ROWS,)))

    @cached_property
    def mass(self) -> float:
        """The number of rows, with their multiplicity; 0 for a source that makes its rows."""
        n = self.n
        if not n or "counts" not in self.first():
            return float(n)
        return float(self.fold(sum_counts, range(n), PICKED_ROWS, what="counting rows")["mass"])


def sum_counts(block: Block, rows: range) -> Sums:  # noqa: ARG001
    """Count the rows of a block, each as often as it counts."""
    return {"mass": namespace_of(block["counts"]).sum(block["counts"])}


def _take(columns: Block, chosen: Integers) -> Block:
    return {name: _taken(column, chosen) for name, column in columns.items()}


def _taken(column: Array, chosen: Integers) -> Array:
    xp = namespace_of(column)
    places = xp.asarray(chosen, device=array_api_compat.device(column))
    return xp.take(column, places, axis=0)


class ArraySource(Source):
    """Rows of arrays in memory.

    Parameters
    ----------
    x : array of shape (n_samples, n_features)
    **columns : array of shape (n_samples,)
        Further columns by name, such as ``y``; they take the precision of x. ``origin`` holds
        points from which x was made, (n_samples, any), and ``key`` their hash, int64.

    Examples
    --------
    >>> source = ArraySource(np.zeros((10, 3)), y=np.ones(10))
    >>> source.n_rows, source.n_features
    (10, 3)
    """

    def __init__(self, x: Array, **columns: Array) -> None:
        x = as_real_array(x, "X", 2)
        check_finite(x, "X")
        self.n_rows, self.n_features = int(x.shape[0]), int(x.shape[1])
        self.local = isinstance(x, np.ndarray)
        self._columns = {"x": x}
        for name, given in columns.items():
            if name == "key":
                self._columns[name] = given
                continue
            column = as_real_array(given, name, 2 if name == "origin" else 1)
            check_finite(column, name)
            namespace_of(x, column)
            column = move_like(column, x)
            if column.shape[0] != self.n_rows:
                raise InputError(
                    "wrong_length",
                    "`{name}` has {n_rows} rows and X has {expected}; expected one value per row",
                    name=name,
                    n_rows=int(column.shape[0]),
                    expected=self.n_rows,
                )
            self._columns[name] = column

    def read(self, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002 (nothing to draw)
        """Return views of the rows."""
        return {
            name: column[rows.start : rows.stop, ...] for name, column in self._columns.items()
        }

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Return some rows; the arrays themselves if these are all rows."""
        if len(rows) == self.n_rows:
            return dict(self._columns)
        return super().pick(rows, what=what)


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

    Examples
    --------
    >>> source = CallableSource(lambda rows, rng: rng.normal(3), n_rows=1_000_000)
    >>> source.n_rows, source.n_features
    (1000000, 3)
    """

    def __init__(
        self, function: Callable[[range, RowDraws], Array | Block], n_rows: int | None = None
    ) -> None:
        if n_rows is not None and n_rows < 1:
            raise InputError(
                "not_positive",
                "{name} must be at least 1 or None, got {value}",
                name="n_rows",
                value=n_rows,
            )
        self._function, self.n_rows = function, n_rows
        probe = range(1)
        made = self._make(probe, RowDraws(0, probe, (Stream.ROWS,)))
        self.n_features = int(made["x"].shape[1])

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Call the function and check what it gives."""
        made = self._make(rows, rng)
        if made["x"].shape[1] != self.n_features:
            raise InputError(
                "features_changed",
                "the function returned points of {n_features} features, and {expected} before",
                n_features=int(made["x"].shape[1]),
                expected=self.n_features,
            )
        return made

    def _make(self, rows: range, rng: RowDraws) -> Block:
        made = self._function(rows, rng)
        columns = made if isinstance(made, Mapping) else {"x": made}
        if "x" not in columns:
            raise InputError(
                "points_missing",
                "the function returned the columns {columns}, expected the points under 'x'",
                columns=sorted(columns),
            )
        checked = {}
        for name, given in columns.items():
            column = as_real_array(given, name, 2 if name == "x" else 1)
            check_finite(column, name, rows.start)
            if column.shape[0] != len(rows):
                raise InputError(
                    "wrong_length",
                    "the function returned {n_rows} rows of {name!r} and was asked for {expected}",
                    name=name,
                    n_rows=int(column.shape[0]),
                    expected=len(rows),
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

    Examples
    --------
    >>> source = ArraySource(np.ones((4, 2)))
    >>> doubled = MappedSource(source, lambda block: {**block, "x": 2 * block["x"]})
    >>> doubled.pick(np.array([0]))["x"].tolist()
    [[2.0, 2.0]]
    """

    def __init__(
        self, source: Source, function: Callable[[Block], Block], n_features: int | None = None
    ) -> None:
        self._source, self._function = source, function
        self.n_rows, self.n_features = source.n_rows, n_features or source.n_features
        self.local = source.local

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read the rows and map them; ``"origin"`` keeps the points as they were read.

        Products of matrices round by the size of the block, so that mapped points are no key of
        a row; the points they were made from are.
        """
        return self._map(self._source.read(rows, rng))

    def fold(self, measure: Measure, rows: range, rows_per_block: int, **how: Any) -> Sums:
        """Let the other source pass over its rows, and map each block there."""
        return self._source.fold(_Mapped(measure, self._function), rows, rows_per_block, **how)

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Let the other source pick its rows, and map them."""
        return self._map(self._source.pick(rows, what=what))

    def _map(self, block: Block) -> Block:
        return _mapped(block, self._function)


def _mapped(block: Block, function: Callable[[Block], Block]) -> Block:
    return {**function(block), "origin": block.get("origin", block["x"])}


@dataclass(frozen=True)
class _Mapped:
    """A measure of blocks that are mapped first; it holds no source, and travels light."""

    measure: Measure
    function: Callable[[Block], Block]

    def __call__(self, block: Block, rows: range) -> Mapping[str, Array]:
        return self.measure(_mapped(block, self.function), rows)


class CountedSource(Source):
    """Rows of another source, of which each counts a number of times.

    Parameters
    ----------
    source : Source
    counts : array of shape (n_rows,)

    Examples
    --------
    >>> source = CountedSource(ArraySource(np.zeros((2, 3))), np.array([1.0, 4.0]))
    >>> source.n_rows, source.mass
    (2, 5.0)
    """

    def __init__(self, source: Source, counts: Array) -> None:
        self._source, self._counts = source, counts
        self.n_rows, self.n_features = source.n_rows, source.n_features
        self.local = source.local

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read the rows, and how often each counts."""
        return self._counted(self._source.read(rows, rng), rows)

    def fold(self, measure: Measure, rows: range, rows_per_block: int, **how: Any) -> Sums:
        """Let the other source pass over its rows, and count each block there."""

        def counted(block: Block, rows: range) -> Mapping[str, Array]:
            return measure(self._counted(block, rows), rows)

        return self._source.fold(counted, rows, rows_per_block, **how)

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Let the other source pick its rows, and count them."""
        block = self._source.pick(rows, what=what)
        return {**block, "counts": move_like(_taken(self._counts, rows), block["x"])}

    def _counted(self, block: Block, rows: range) -> Block:
        return {**block, "counts": move_like(self._counts[rows.start : rows.stop], block["x"])}


class DifferenceSource(Source):
    """Differences ``(s − s′)/√2`` of rows 2i and 2i + 1 of another source.

    Pairs share no row, so differences are as independent as the rows were.

    Examples
    --------
    >>> DifferenceSource(ArraySource(np.zeros((10, 3)))).n_rows
    5
    """

    def __init__(self, source: Source) -> None:
        if source.n_rows is not None and source.n_rows < 2:
            raise InputError(
                "too_few_rows",
                "a difference needs two rows, and there is {n_rows}",
                n_rows=source.n_rows,
            )
        self._source, self.n_features = source, source.n_features
        self.n_rows = None if source.n_rows is None else source.n_rows // 2

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read both rows of each pair and subtract."""
        pairs = range(2 * rows.start, 2 * rows.stop)
        x = self._source.read(pairs, RowDraws(rng.seed, pairs, (Stream.PAIRS,)))["x"]
        return {"x": (x[::2, :] - x[1::2, :]) / math.sqrt(2)}


def as_source(points: Source | Array | Callable[[range, RowDraws], Array | Block]) -> Source:
    """Make a source of an array, of a function, or of what is one already.

    Examples
    --------
    >>> as_source(np.zeros((10, 3))).n_features
    3
    """
    if isinstance(points, Source):
        return points
    return CallableSource(points) if callable(points) else ArraySource(points)
