"""Tables: rows that are read in blocks, one after the other, as often as a fit asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any

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
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows.draws import DrawPurpose, Integers, RowDraws
from implicitmoments.rows.passes import (
    DEFAULT_BUDGET,
    After,
    Block,
    Measure,
    Sums,
    blocks,
    fold_blocks,
)
from implicitmoments.validation import check_whole, unnamed_columns

# What estimators call the columns of a block.
ARGUMENTS = {"x": "X", "y": "y", "counts": "sample_weight"}


class Table(ABC):
    """Rows that are read in order, in blocks, any number of times.

    Attributes
    ----------
    n_rows : int
    n_features : int
        Columns of the points ``"x"``.
    names : tuple of str or None
        Names of these columns.
    columns : mapping of str to str
        Names of further columns by role, ``"target"`` and ``"weight"``.

    See Also
    --------
    ArrayTable : Rows of arrays in memory.
    GeneratedTable : Rows drawn by a function.
    open_file : Rows of files.

    Examples
    --------
    >>> from implicitmoments.rows import ArrayTable
    >>> table = ArrayTable(np.arange(6.0).reshape(3, 2))
    >>> [block["x"].shape for block in table.blocks(2)]
    [(2, 2), (1, 2)]
    """

    n_rows: int
    n_features: int
    names: tuple[str, ...] | None = None
    columns: Mapping[str, str] = {}
    _first: Block | None = None

    @abstractmethod
    def blocks(self, size: int) -> Iterator[Block]:
        """Read all rows in order.

        Parameters
        ----------
        size : int
            Rows of every block; the last one may have fewer.

        Yields
        ------
        mapping of str to array
            ``"x"`` of shape (n, n_features), others (n,): ``"y"`` holds labels, ``"counts"`` the
            multiplicity of each row.
        """

    def fold(self, measure: Measure, size: int, after: After | None = None) -> Sums:
        """Sum ``measure(block)`` over all blocks, in the order of the rows.

        Parameters
        ----------
        measure : callable
            Returns named sums. It may travel to other processes, and holds small arrays only.
        size : int
            Rows that are measured at a time.
        after : callable, optional
            Called with the number of rows that were summed so far.

        Returns
        -------
        dict of str to array
            The sums.
        """
        return fold_blocks(self.blocks(size), measure, -(-self.n_rows // size), after)

    def select(self, numbers: Integers) -> Iterator[tuple[Integers, Block]]:
        """Read some rows, in one pass that ends with the last of them.

        Parameters
        ----------
        numbers : array of int
            Row numbers in ascending order.

        Yields
        ------
        array of int, mapping of str to array
            Some of the numbers, and the columns of these rows.
        """
        start = 0
        for block in self.blocks(
            DEFAULT_BUDGET.rows_per_block(self.n_features, self.first()["x"])
        ):
            stop = start + int(block["x"].shape[0])
            low, high = np.searchsorted(numbers, (start, stop))
            if low < high:
                yield numbers[low:high], take_places(block, numbers[low:high] - start)
            if high == len(numbers):
                return
            start = stop

    def take(self, numbers: Integers) -> Block:
        """Return some rows.

        Parameters
        ----------
        numbers : as for :meth:`select`

        Returns
        -------
        mapping of str to array
            The columns, in memory.
        """
        return join_blocks((block for _, block in self.select(numbers)), len(numbers))

    def first(self) -> Block:
        """Return the first row, which has the library, precision and device of all rows.

        Returns
        -------
        mapping of str to array
            One row.
        """
        if self._first is None:
            self._first = take_places(next(iter(self.blocks(1))), np.arange(1))
        return self._first

    def given_numbers(self, numbers: Integers) -> Integers:
        """Return the numbers that rows had before incomplete ones were left out.

        Parameters
        ----------
        numbers : array of int

        Returns
        -------
        array of int
        """
        return numbers


class ArrayTable(Table):
    """Rows of arrays in memory.

    Parameters
    ----------
    x : array of shape (n_samples, n_features)
    **columns : array of shape (n_samples,)
        Further columns by name, such as ``y``; they take the precision of x.

    See Also
    --------
    GeneratedTable : Rows drawn by a function.
    open_file : Rows of files.

    Examples
    --------
    >>> table = ArrayTable(np.zeros((10, 3)), y=np.ones(10))
    >>> table.n_rows, table.n_features
    (10, 3)
    """

    def __init__(self, x: Array, **columns: Array) -> None:
        self._hold(checked_block({"x": x, **columns}))

    @classmethod
    def of(cls, block: Block) -> ArrayTable:
        """Return a table of the columns of a block, which were checked before.

        Parameters
        ----------
        block : mapping of str to array

        Returns
        -------
        ArrayTable
        """
        table = cls.__new__(cls)
        table._hold(block)
        return table

    def _hold(self, block: Block) -> None:
        self._block = block
        self.n_rows, self.n_features = (int(length) for length in block["x"].shape)

    @property
    def block(self) -> Block:
        """All columns."""
        return self._block

    def blocks(self, size: int) -> Iterator[Block]:
        """Return views of the rows."""
        return (slice_rows(self._block, rows) for rows in blocks(range(self.n_rows), size))


class GeneratedTable(Table):
    """Rows drawn by a function.

    Parameters
    ----------
    function : callable
        ``function(rows, rng)`` returns the points of those rows, ``(len(rows), n_features)``,
        or a mapping of columns with the points under ``"x"``. Use ``rng.normal(width)``,
        ``rng.uniform(width)`` and ``rng.categorical(p)`` for randomness: they are keyed by row.
    n_rows : int

    See Also
    --------
    ArrayTable : Rows of arrays in memory.
    open_file : Rows of files.

    Examples
    --------
    >>> table = GeneratedTable(lambda rows, rng: rng.normal(3), n_rows=1_000_000)
    >>> table.n_rows, table.n_features
    (1000000, 3)
    """

    def __init__(self, function: Callable[[range, RowDraws], Array | Block], n_rows: int) -> None:
        self._function, self.n_rows = function, check_whole("n_rows", n_rows, 1)
        self.n_features = int(self._draw(range(1))["x"].shape[1])

    def blocks(self, size: int) -> Iterator[Block]:
        """Draw the rows."""
        for rows in blocks(range(self.n_rows), size):
            block = self._draw(rows)
            shape, expected = tuple(block["x"].shape), (len(rows), self.n_features)
            if shape != expected:
                template = "the function returned points of shape {shape}, expected {expected}"
                raise InputError("rows_differ", template, shape=shape, expected=expected)
            yield block

    def _draw(self, rows: range) -> Block:
        made = self._function(rows, RowDraws(0, rows, (DrawPurpose.ROWS,)))
        return checked_block(made if isinstance(made, Mapping) else {"x": made}, rows.start)


def checked_block(given: Mapping[str, Any], first_row: int = 0) -> Block:
    """Return columns as finite numbers, in the library and precision of the points, or raise."""
    x, block = as_real_array(given["x"], "X", 2), {}
    for name, column in given.items():
        label = ARGUMENTS.get(name, name)
        array = as_real_array(column, label, 2 if name == "x" else 1)
        check_finite(array, label, first_row)
        namespace_of(x, array)
        if array.shape[0] != x.shape[0]:
            template = "`{name}` has {n_rows} rows, expected {expected}: one value per row of X"
            values = {"name": label, "n_rows": int(array.shape[0]), "expected": int(x.shape[0])}
            raise InputError("wrong_length", template, **values)
        block[name] = move_like(array, x)
    return block


def slice_rows(block: Block, rows: range) -> Block:
    """Return consecutive rows of a block, without a copy."""
    return {name: column[rows.start : rows.stop, ...] for name, column in block.items()}


def take_places(block: Block, places: Integers) -> Block:
    """Return some rows of a block."""
    at = index_like(places, block["x"])
    return {name: namespace_of(column).take(column, at, axis=0) for name, column in block.items()}


def join_blocks(parts: Iterable[Block], n: int) -> Block:
    """Join blocks of at most n rows in all, in order; one block as it is.

    They are copied as they come: memory holds all rows once, and one of the blocks.
    """
    remaining = iter(parts)
    first, second = next(remaining), next(remaining, None)
    if second is None:
        return first
    made: dict[str, Any] = {}
    for name, column in first.items():
        how = {"dtype": column.dtype, "device": array_api_compat.device(column)}
        made[name] = namespace_of(column).empty((n, *column.shape[1:]), **how)
    end = 0
    for part in chain([first, second], remaining):
        start, end = end, end + int(part["x"].shape[0])
        for name, column in made.items():
            column[start:end, ...] = part[name]
    return slice_rows(made, range(end))


def in_blocks_of(size: int, pieces: Iterable[Block]) -> Iterator[Block]:
    """Cut and join pieces of any number of rows into blocks of ``size`` rows."""
    waiting: list[Block] = []
    n = 0
    for piece in pieces:
        length = int(piece["x"].shape[0])
        for start, stop in pairwise([0, *range(size - n, length, size), length]):
            waiting.append(slice_rows(piece, range(start, stop)))
            n += stop - start
            if n == size:
                yield join_blocks(waiting, n)
                waiting, n = [], 0
    if n:
        yield join_blocks(waiting, n)


def check_cells(name: str, given: Any) -> None:
    """Raise an error that names the column and the row of the first entry that is no number."""
    if getattr(getattr(given, "dtype", None), "kind", "O") not in "OUST":
        return
    cells: Any = np.asarray(given, dtype=object)
    if cells.size == 0 or cells.ndim not in (1, 2) or isinstance(cells.flat[0], list):
        return  # another check has the better words
    table = cells.reshape(len(cells), -1)
    names = list(getattr(given, "columns", unnamed_columns(table.shape[1])))
    for row, j in np.ndindex(*table.shape):
        cell = table[row, j]
        try:
            float(0.0 if cell is None else cell)
        except (ValueError, TypeError) as reason:
            kind = InputError if isinstance(reason, ValueError) else InputTypeError
            raise kind(
                "cell_not_a_number",
                "column {column!r} of {name} holds {cell!r} of type {kind} in row {row}; an "
                "argument must be a number or a string of a number: encode text and "
                "categories as numbers, or leave the column out",
                name=name,
                column=names[j] if cells.ndim == 2 else name,
                cell=cell,
                kind=type(cell).__name__,
                row=row,
            ) from None
