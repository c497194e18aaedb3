"""Tables: rows that are read in blocks, one after the other, as often as a fit asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
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
    After,
    Block,
    Measure,
    Sums,
    blocks,
    fold_blocks,
    weights_of,
)
from implicitmoments.validation import check_whole, unnamed_columns

# Rows, and numbers of them, that a pass reads at a time where nothing is computed from them.
READ_ROWS, READ_NUMBERS = 16_384, 2**20


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
        for block in self.blocks(self.read_rows):
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

    @property
    def read_rows(self) -> int:
        """Rows that are read at a time where nothing is computed from them."""
        return max(1, min(READ_ROWS, READ_NUMBERS // max(1, self.n_features)))

    def first(self) -> Block:
        """Return the first row, which has the library, precision and device of all rows.

        Returns
        -------
        mapping of str to array
            One row.
        """
        return next(iter(self.blocks(1)))

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
        Further columns by name, such as ``y``; they take the precision of x. ``key`` holds a hash
        of the points that x was made from, int64.

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
        x = as_real_array(x, "X", 2)
        check_finite(x, "X")
        self.n_rows, self.n_features = int(x.shape[0]), int(x.shape[1])
        self._block = {"x": x}
        for name, given in columns.items():
            if name == "key":
                self._block[name] = given
                continue
            column = as_real_array(given, name, 1)
            check_finite(column, name)
            namespace_of(x, column)
            if column.shape[0] != self.n_rows:
                template = "`{name}` has {n_rows} rows and X has {expected}; expected one "
                template += "value per row"
                values = {"name": name, "n_rows": int(column.shape[0]), "expected": self.n_rows}
                raise InputError("wrong_length", template, **values)
            self._block[name] = move_like(column, x)

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
        table._block = dict(block)
        table.n_rows, table.n_features = (int(length) for length in block["x"].shape)
        return table

    @property
    def block(self) -> Block:
        """All columns."""
        return self._block

    def blocks(self, size: int) -> Iterator[Block]:
        """Return views of the rows."""
        return (_slice(self._block, *ends) for ends in ends_of(self.n_rows, size))

    def select(self, numbers: Integers) -> Iterator[tuple[Integers, Block]]:
        """Copy some rows, a part of them at a time."""
        host = isinstance(self._block["x"], np.ndarray)  # on devices an operation costs more
        for start, stop in ends_of(len(numbers), self.read_rows if host else len(numbers)):
            yield numbers[start:stop], take_places(self._block, numbers[start:stop])

    def take(self, numbers: Integers) -> Block:
        """Return some rows; the arrays themselves if these are all rows."""
        return self._block if len(numbers) == self.n_rows else take_places(self._block, numbers)


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
        return map(self._draw, blocks(range(self.n_rows), size))

    def _draw(self, rows: range) -> Block:
        made = self._function(rows, RowDraws(0, rows, (DrawPurpose.ROWS,)))
        checked = {}
        for name, given in (made if isinstance(made, Mapping) else {"x": made}).items():
            checked[name] = as_real_array(given, name, 2 if name == "x" else 1)
            check_finite(checked[name], name, rows.start)
        shapes = {name: tuple(column.shape) for name, column in checked.items()}
        width = getattr(self, "n_features", shapes.get("x", (0, 0))[1])
        if {shape[0] for shape in shapes.values()} != {len(rows)} or (
            shapes.get("x") != (len(rows), width)
        ):
            template = "the function returned {shapes}, expected 'x' of {n} rows and {d} features"
            raise InputError("rows_differ", template, shapes=shapes, n=len(rows), d=width)
        return checked


class TableElsewhere(Table):
    """Placeholder for rows in another process; keeps them out of measures that are sent there."""

    def __init__(self, table: Table) -> None:
        self.n_rows, self.n_features = table.n_rows, table.n_features

    def blocks(self, size: int) -> Iterator[Block]:  # noqa: ARG002
        """Refuse: there are no rows here."""
        raise InputError("rows_elsewhere", "a measure takes what it needs from its block")


def ends_of(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the first row of each block, and the first one after it."""
    return ((start, min(start + size, n)) for start in range(0, n, size))


def take_along(column: Array, chosen: Integers) -> Array:
    """Return some entries of a column, or some rows of points."""
    xp = namespace_of(column)
    places = index_like(chosen, column)
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.flags.f_contiguous:
        return xp.take(column.T, places, axis=1).T  # which stays in column-major order
    return xp.take(column, places, axis=0)


def take_places(block: Block, places: Integers) -> Block:
    """Return some rows of a block."""
    return {name: take_along(column, places) for name, column in block.items()}


def join_blocks(parts: Iterable[Block], n: int) -> Block:
    """Join blocks of at most n rows in all, in order; one block as it is.

    They are copied as they come: memory holds all rows once, and one of the blocks. Rows of blocks
    without weights have weight 1 where others have weights.
    """
    remaining = iter(parts)
    first, second = next(remaining), next(remaining, None)
    if second is None:
        return first
    made, end = {name: _empty_like(column, n) for name, column in first.items()}, 0
    for part in chain([first, second], remaining):
        start, end = end, end + int(part["x"].shape[0])
        if "counts" in part and "counts" not in made:
            made["counts"] = _empty_like(part["counts"], n)
            made["counts"][:start] = 1.0
        for name, column in made.items():
            column[start:end, ...] = part[name] if name in part else weights_of(part)
    return {name: column[:end, ...] for name, column in made.items()}


def _empty_like(column: Array, n: int) -> Array:
    """Return an array for n rows, in the library and layout of those of another."""
    shape = (n, *column.shape[1:])
    if isinstance(column, np.ndarray):
        by_columns = column.ndim == 2 and column.flags.f_contiguous
        return np.empty(shape, column.dtype, order="F" if by_columns else "C")
    xp: Any = namespace_of(column)
    empty: Array = xp.empty(shape, dtype=column.dtype, device=array_api_compat.device(column))
    return empty


def in_blocks_of(size: int, pieces: Iterable[Block]) -> Iterator[Block]:
    """Cut and join pieces of any number of rows into blocks of ``size`` rows."""
    waiting: list[Block] = []
    n = 0
    for piece in pieces:
        start, n_piece = 0, int(piece["x"].shape[0])
        while n + n_piece - start >= size:
            stop = start + size - n
            waiting.append(_slice(piece, start, stop))
            yield join_blocks(waiting, size)
            waiting, n, start = [], 0, stop
        if start < n_piece:
            waiting.append(_slice(piece, start, n_piece))
            n += n_piece - start
    if waiting:
        yield join_blocks(waiting, n)


def _slice(block: Block, start: int, stop: int) -> Block:
    return {name: column[start:stop, ...] for name, column in block.items()}


def check_cells(name: str, given: Any) -> None:
    """Raise an error that names the column and the row of the first entry that is no number."""
    cells, dtype = np.asarray(given, dtype=object), getattr(given, "dtype", None)
    flat = cells.size > 0 and cells.ndim in (1, 2)
    if not flat or getattr(dtype, "kind", "O") not in "OUST" or isinstance(cells.flat[0], list):
        return  # another check has the better words
    names = list(getattr(given, "columns", unnamed_columns(cells.size // len(cells))))
    for column_name, column in zip(names, cells.reshape(len(cells), -1).T, strict=True):
        for row, cell in enumerate(column):
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
                    column=column_name if cells.ndim == 2 else name,
                    cell=cell,
                    kind=type(cell).__name__,
                    row=row,
                ) from None
