"""Sources of rows: arrays in memory, or a function that generates rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import array_api_compat
import numpy as np

from implicitmoments.arrays import (
    Array,
    as_real_array,
    check_finite,
    index_like,
    move_like,
    namespace_of,
)
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import DrawPurpose, Integers, RowDraws
from implicitmoments.rows.fold import After, Block, Measure, Sums, blocks, fold_blocks

PICKED_ROWS = 65_536  # read at a time when picking rows: limits memory


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
        """Return the columns of some consecutive rows.

        Parameters
        ----------
        rows : range
            Row numbers.
        rng : RowDraws
            Random numbers of these rows, for a source that generates them.

        Returns
        -------
        mapping of str to array
            ``"x"`` of shape (n, n_features), others (n,): ``"y"`` holds labels, ``"counts"`` the
            multiplicity of each row.
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
        """Sum ``measure`` over the blocks of the rows, in one pass.

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

        Returns
        -------
        dict of str to array
            The sums.
        """
        read = partial(self.block, seed=seed)
        return fold_blocks(read, measure, blocks(rows, rows_per_block), initial, after)

    def pick(self, rows: Integers, *, what: str = "") -> Block:  # noqa: ARG002
        """Return the columns of some rows.

        Parameters
        ----------
        rows : array of int
            Row numbers in ascending order.
        what : str
            Name of the pass.

        Returns
        -------
        mapping of str to array
            The columns, in memory.
        """
        taken: list[Block] = []
        cuts = np.flatnonzero(np.diff(rows // PICKED_ROWS)) + 1
        for near in np.split(rows, cuts):
            block = self.block(range(int(near[0]), int(near[-1]) + 1))
            taken.append(_take(block, near - near[0]))
        return join_blocks(taken)

    @property
    def n(self) -> int:
        """The number of rows; 0 for a source that generates any number of rows."""
        return 0 if self.n_rows is None else self.n_rows

    def block(self, rows: range, seed: int = 0) -> Block:
        """Return the columns of ``rows`` as a pass reads them.

        Parameters
        ----------
        rows : range
            Row numbers.
        seed : int, default 0
            For a source that generates its rows.

        Returns
        -------
        mapping of str to array
            The columns.
        """
        return self.read(rows, RowDraws(seed, rows, (DrawPurpose.ROWS,)))

    def first(self) -> Block:
        """Return the columns of the first row.

        Returns
        -------
        mapping of str to array
            One row; it has the library, precision and device of all rows.
        """
        return self.block(range(1))


def _take(block: Block, places: Integers) -> Block:
    """Return some rows of a block, by their places."""
    return {name: take_along(column, places) for name, column in block.items()}


def take_along(column: Array, chosen: Integers) -> Array:
    """Return some entries of a column, or some rows of points."""
    xp = namespace_of(column)
    places = index_like(chosen, column)
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.flags.f_contiguous:
        return xp.take(column.T, places, axis=1).T  # which stays in column-major order
    return xp.take(column, places, axis=0)


def join_blocks(parts: Sequence[Block]) -> Block:
    """Return the rows of some blocks as one block."""
    xp = namespace_of(parts[0]["x"])
    return {name: xp.concat([part[name] for part in parts]) for name in parts[0]}


class ArraySource(Source):
    """Rows of arrays in memory.

    Parameters
    ----------
    x : array of shape (n_samples, n_features)
    **columns : array of shape (n_samples,)
        Further columns by name, such as ``y``; they take the precision of x. ``key`` holds a hash
        of the points that x was made from, int64.

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
            column = as_real_array(given, name, 1)
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

    def pick(self, rows: Integers, *, what: str = "") -> Block:  # noqa: ARG002
        """Return some rows; the arrays themselves if these are all rows."""
        every = len(rows) == self.n_rows and bool(np.all(np.diff(rows) == 1))
        return dict(self._columns) if every else _take(self._columns, rows)


class CallableSource(Source):
    """Rows generated by a function.

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
        self._function, self.n_rows, self.n_features = function, n_rows, 0
        self.n_features = int(self.first()["x"].shape[1])

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Call the function and check its result."""
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
        if self.n_features not in (0, checked["x"].shape[1]):
            raise InputError(
                "features_changed",
                "the function returned points of {n_features} features, and {expected} before",
                n_features=int(checked["x"].shape[1]),
                expected=self.n_features,
            )
        return checked


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
        x = self._source.read(pairs, RowDraws(rng.seed, pairs, (DrawPurpose.PAIRS,)))["x"]
        return {"x": (x[::2, :] - x[1::2, :]) / math.sqrt(2)}


class ElsewhereSource(Source):
    """Placeholder for rows in another process; keeps them out of pickled measures."""

    def __init__(self, n_rows: int | None, n_features: int) -> None:
        self.n_rows, self.n_features = n_rows, n_features

    def read(self, rows: range, rng: RowDraws) -> NoReturn:  # noqa: ARG002
        """Refuse: there are no rows here."""
        raise InputError(
            "rows_elsewhere",
            "the rows of this source stayed in the process that made it; a measure takes what it "
            "needs from its block",
        )


def as_source(points: Source | Array | Callable[[range, RowDraws], Array | Block]) -> Source:
    """Return a source for an array, a function or a source.

    Examples
    --------
    >>> as_source(np.zeros((10, 3))).n_features
    3
    """
    if isinstance(points, Source):
        return points
    return CallableSource(points) if callable(points) else ArraySource(points)


def is_frame(value: Any) -> bool:
    """Return whether a value is a Dask DataFrame or Series."""
    return hasattr(value, "to_dask_array") and hasattr(value, "map_partitions")


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array or DataFrame; Dask need not be installed.

    Examples
    --------
    >>> is_dask([[1.0, 2.0]])
    False
    """
    return bool(array_api_compat.is_dask_array(value)) or is_frame(value)
