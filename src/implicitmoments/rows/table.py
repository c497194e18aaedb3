"""Blocks of rows, passes over them, and tables that are read block by block as often as asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.arrays import (
    Array,
    allowed_threads,
    as_real_array,
    check_finite,
    device_memory,
    index_like,
    move_like,
    namespace_of,
    on_host,
    threads_for_folds,
)
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows.draws import DrawPurpose, Integers, RowDraws
from implicitmoments.validation import check_whole, unnamed_columns

# Columns of some rows by name: "x" (n, d), "y" for labels and "counts" for weights, (n,)
Block: TypeAlias = Mapping[str, Array]
Sums: TypeAlias = dict[str, Any]
Measure: TypeAlias = Callable[[Block], Mapping[str, Any]]
# after(rows that were summed so far)
After: TypeAlias = Callable[[int], None]
# progress(what, rows done, rows in all)
Progress: TypeAlias = Callable[[str, int, int], None]
Measured: TypeAlias = Generator[tuple[Block, Mapping[str, Any]], None, None]


def blocks(rows: range, rows_per_block: int) -> Iterator[range]:
    """Cut a range of rows into consecutive ranges of at most ``rows_per_block``.

    Examples
    --------
    >>> list(blocks(range(5), 2))
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    check_whole("rows_per_block", rows_per_block, 1)
    for start in range(rows.start, rows.stop, rows_per_block):
        yield range(start, min(start + rows_per_block, rows.stop))


def add_sums(total: Sums, other: Mapping[str, Any]) -> Sums:
    """Add named sums to a total; a sum that it does not have is new.

    Examples
    --------
    >>> add_sums({"n": 2}, {"n": 3, "x": 1.5})
    {'n': 5, 'x': 1.5}
    """
    for name, value in other.items():
        total[name] = total[name] + value if name in total else value
    return total


def fold_blocks(
    pieces: Iterable[Block], measure: Measure, n_blocks: int, after: Any = None
) -> Sums:
    """Sum the results of ``measure`` over blocks, in the order of the rows.

    Blocks are read one after the other. In a pass of many blocks in main memory, as many are
    measured at a time as BLAS may use threads, each with one thread. Sums are added in the order
    of the rows, so they have the same bits for any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> pieces = [{"x": np.ones((2, 1))}, {"x": np.ones((1, 1))}]
    >>> fold_blocks(pieces, lambda block: {"sum": float(block["x"].sum())}, 2)["sum"]
    3.0
    """
    n_threads = allowed_threads()
    threaded = n_threads > 1 and n_blocks >= 4 * n_threads  # fewer do not repay the threads
    measured: Measured = ((block, measure(block)) for block in pieces)
    if threaded:
        measured = _measure_in_threads(pieces, measure, n_threads)
    total: Sums = {}
    done = 0
    with closing(measured):  # an error would keep the threads until its traceback is forgotten
        for block, sums in measured:
            add_sums(total, sums)
            done += int(block["x"].shape[0])
            if after is not None:
                after(done)
    return total


def _measure_in_threads(pieces: Iterable[Block], measure: Measure, n_threads: int) -> Measured:
    """Yield blocks and their sums in order, measured several at a time; on devices one by one."""
    waiting: deque[tuple[Block, Future[Mapping[str, Any]]]] = deque()
    with threads_for_folds(1), ThreadPoolExecutor(n_threads) as pool:
        for block in pieces:
            waiting.append((block, pool.submit(measure, block)))
            if len(waiting) > n_threads or not on_host(block["x"]):
                oldest, sums = waiting.popleft()
                yield oldest, sums.result()
        for block, sums in waiting:
            yield block, sums.result()


@dataclass(frozen=True)
class MemoryBudget:
    """Memory limits of passes over rows.

    Examples
    --------
    >>> import numpy as np
    >>> [DEFAULT_BUDGET.rows_per_block(width, np.ones(1)) for width in (1, 60, 1_000, 10**6)]
    [16384, 8738, 2048, 256]
    """

    cache: int = 2**19  # numbers of a block on the host that stay in the cache: 4 MB of float64
    block: int = 2**23  # numbers of a block on the host at the most, where rows are wide: 64 MB
    # numbers of a block on a device, which has no such cache, and where starting an operation
    # takes longer than carrying it out on few rows: 4 GB, or a 64th of its bytes, so that eight
    # such arrays of float64 fill it
    device: int = 2**29
    # numbers held in memory, of rows or computed from them: 256 MB
    held: int = 2**25

    def rows_per_block(self, width: int, like: Array) -> int:
        """Return the rows per block when ``width`` numbers are computed per row.

        Parameters
        ----------
        width : int
        like : array
            Of the library and on the device of the rows.
        """
        width, good = max(1, width), 2_048  # rows that matrix products need to be near their best
        if not on_host(like):
            return max(good, min(self.device, device_memory(like) // 64) // width)
        # even the widest blocks have 256 rows, and 16,384 are enough for anything
        return min(max(self.cache // width, min(good, self.block // width), 256), 16_384)


DEFAULT_BUDGET = MemoryBudget()


def weights_of(block: Block) -> Array:
    """Return the weight of each row of a block: the number of times that it counts."""
    counts, x = block.get("counts"), block["x"]
    return namespace_of(x).ones_like(x[:, 0]) if counts is None else counts


def join_labels(block: Block) -> Array:
    """Return rows (n, d + 1) of points and labels."""
    x = block["x"]
    return namespace_of(x).concat([x, block["y"][:, None]], axis=1)


def take_rows(block: Block, kept: Array | None) -> Block:
    """Return the rows of a block that are kept; all for None."""
    if kept is None:
        return block
    xp = namespace_of(kept)
    (places,) = xp.nonzero(kept)
    if places.shape[0] == kept.shape[0]:
        return block
    return {name: xp.take(column, places, axis=0) for name, column in block.items()}


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
        start, size = 0, DEFAULT_BUDGET.rows_per_block(self.n_features, self.first["x"])
        for block in self.blocks(size):
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

    @cached_property
    def first(self) -> Block:
        """The first row, which has the library, precision and device of all rows."""
        return take_places(next(iter(self.blocks(1))), np.arange(1))

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
        self.block = block  # all columns
        self.n_rows, self.n_features = (int(length) for length in block["x"].shape)

    def blocks(self, size: int) -> Iterator[Block]:
        """Return views of the rows."""
        return (slice_rows(self.block, rows) for rows in blocks(range(self.n_rows), size))


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
        block = made if isinstance(made, Mapping) else {"x": made}
        return checked_block(block, rows.start, len(rows))


def checked_block(given: Mapping[str, Any], first_row: int = 0, n: int | None = None) -> Block:
    """Return columns of n rows as finite numbers, in the library and precision of the points."""
    x, block = as_real_array(given["x"], "X", 2), {}
    n = int(x.shape[0]) if n is None else n
    for name, column in given.items():
        label = ARGUMENTS.get(name, name)
        array = as_real_array(column, label, 2 if name == "x" else 1)
        check_finite(array, label, first_row)
        if array.shape[0] != n:
            values = {"name": label, "n_rows": int(array.shape[0]), "expected": n}
            raise InputError("wrong_length", "{name} has {n_rows} rows, not {expected}", **values)
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


def check_cells(name: str, columns: Mapping[str, Any], first: int = 0, check: Any = float) -> None:
    """Raise an error that names the column and the row of the first cell that is no number."""
    for column, cells in columns.items():
        for row, cell in enumerate(cells, first):
            try:
                check(0.0 if cell is None else cell)
            except (ValueError, TypeError) as reason:
                kind = InputError if isinstance(reason, ValueError) else InputTypeError
                template = "{name}: column {column!r} holds {cell!r} in row {row} (counted from "
                template += "0), but each argument must be a number or the string of a number; "
                template += "list the columns of numbers in `columns`, or encode text (in files, "
                template += "see also `sep`, `decimal` and `na_values`)"
                short = cell[:80] if isinstance(cell, str) else cell
                values = {"name": name, "column": column, "cell": short, "row": row}
                raise kind("cell_not_a_number", template, **values) from None


@contextmanager
def naming_cells(given: Mapping[str, Any]) -> Iterator[None]:
    """Raise an error that names a cell of text, where reading arrays or data frames fails."""
    try:
        yield
    except (ValueError, TypeError):
        for name, array in given.items():
            may_be_text = getattr(getattr(array, "dtype", None), "kind", "O") in "OUST"
            cells: Any = np.asarray(array if may_be_text else (), dtype=object)
            if cells.size and cells.ndim in (1, 2) and not isinstance(cells.flat[0], list):
                table = cells.reshape(len(cells), -1)
                names = unnamed_columns(table.shape[1]) if cells.ndim == 2 else [name]
                columns = zip(getattr(array, "columns", names), table.T, strict=True)
                check_cells(name, dict(columns))
        raise
