"""Blocks of rows, and sums over them block by block: the basis of every pass over the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    device_memory,
    key_shares,
    lift_rows,
    move_like,
    namespace_of,
    on_host,
    row_keys,
    to_numpy,
)
from implicitmoments.notes import InputError
from implicitmoments.rows.blas_threads import allowed_threads, threads_for_folds
from implicitmoments.rows.draws import Integers

Block: TypeAlias = Mapping[str, Array]
Sums: TypeAlias = dict[str, Any]
# measure(block, its row numbers) -> named sums over those rows; the rows of a block are in order
Measure: TypeAlias = Callable[[Block, range], Mapping[str, Any]]
# after(sums so far, first row that is not in them)
After: TypeAlias = Callable[[Sums, int], None]
# progress(what, rows done, rows in all)
Progress: TypeAlias = Callable[[str, int, int], None]

LARGEST = "largest "  # begins the name of a number that is no sum: the largest of all blocks
STEPS = 2.0**14  # of a grid of keys to a deviation
THREADED_BLOCKS = 4  # minimum blocks per thread for threading to pay off


def blocks(rows: range, rows_per_block: int) -> Iterator[range]:
    """Cut a range of rows into consecutive ranges of at most ``rows_per_block``.

    Examples
    --------
    >>> list(blocks(range(5), 2))
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    if rows_per_block < 1:
        raise InputError(
            "not_positive",
            "{name} must be at least 1, got {value}",
            name="rows_per_block",
            value=rows_per_block,
        )
    for start in range(rows.start, rows.stop, rows_per_block):
        yield range(start, min(start + rows_per_block, rows.stop))


def add_sums(one: Mapping[str, Array], other: Mapping[str, Array]) -> Sums:
    """Add named sums; a sum that only one of them has is copied.

    Of numbers whose name begins with ``LARGEST`` the larger is kept.

    Examples
    --------
    >>> add_sums({"n": 2, "largest x": 5.0}, {"n": 3, "largest x": 4.0})
    {'n': 5, 'largest x': 5.0}
    """
    total = dict(one)
    for name, value in other.items():
        if name not in total:
            total[name] = value
        elif name.startswith(LARGEST):
            total[name] = max(total[name], value)
        else:
            total[name] = total[name] + value
    return total


def fold_blocks(
    read: Callable[[range], Block],
    measure: Measure,
    pieces: Iterable[range],
    initial: Mapping[str, Array] | None = None,
    after: After | None = None,
) -> Sums:
    """Sum the results of ``measure`` over the pieces, in row order.

    Blocks are read one after the other. Where BLAS may use several threads and the blocks are in
    main memory, as many blocks are measured at a time instead, each with one thread: products
    and what lies between them then both scale. Sums are added in the order of the rows, so the
    result has the same bits for any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(6.0)
    >>> pieces = blocks(range(6), 4)
    >>> fold_blocks(
    ...     lambda rows: {"x": X[rows.start : rows.stop, None]},
    ...     lambda block, rows: {"sum": float(block["x"].sum())},
    ...     pieces,
    ... )["sum"]
    15.0
    """
    total, pieces = dict(initial or {}), list(pieces)
    n_threads = _threads_for(len(pieces))
    if n_threads > 1:
        first = read(pieces[0])
        if all(array_api_compat.is_numpy_array(array) for array in first.values()):
            return _fold_in_threads(read, measure, pieces, total, after, n_threads)
    for piece in pieces:
        total = add_sums(total, measure(read(piece), piece))
        if after is not None:
            after(total, piece.stop)
    return total


def threads_of_whole(n_pieces: int, n_left: int) -> AbstractContextManager[Any]:
    """Process the last blocks of a pass with the same threads as the whole pass.

    In a pass of many blocks BLAS has one thread per block; in a pass of few blocks it has all
    threads, and may round differently.
    """
    if _threads_for(n_pieces) > 1 and _threads_for(n_left) == 1:
        return threads_for_folds(1)
    return nullcontext()


def _threads_for(n_pieces: int) -> int:
    """Return the number of threads for a given number of blocks."""
    n_threads = allowed_threads() if n_pieces > 2 * THREADED_BLOCKS else 1
    return n_threads if n_pieces >= THREADED_BLOCKS * n_threads else 1


def _fold_in_threads(
    read: Callable[[range], Block],
    measure: Measure,
    pieces: list[range],
    total: Sums,
    after: After | None,
    n_threads: int,
) -> Sums:
    waiting: deque[tuple[range, Future[Mapping[str, Array]]]] = deque()

    def collect(total: Sums) -> Sums:
        piece, sums = waiting.popleft()
        total = add_sums(total, sums.result())
        if after is not None:
            after(total, piece.stop)
        return total

    with threads_for_folds(1), ThreadPoolExecutor(n_threads) as pool:
        for piece in pieces:
            if len(waiting) > n_threads:  # n_threads blocks in memory, and one being read
                total = collect(total)
            waiting.append((piece, pool.submit(measure, read(piece), piece)))
        while waiting:
            total = collect(total)
    return total


@dataclass(frozen=True)
class MemoryBudget:
    """Memory limits of passes over rows.

    Examples
    --------
    >>> import numpy as np
    >>> [DEFAULT_BUDGET.rows_per_block(width, np.ones(1)) for width in (1, 30, 1_000, 10**6)]
    [16384, 8738, 2048, 256]
    """

    cache: int = 2**18  # numbers of a block on the host that stay in the cache: 2 MB of float64
    block: int = 2**23  # numbers of a block on the host at the most, where rows are wide: 64 MB
    # numbers of a block on a device, which has no such cache, and where starting an operation
    # takes longer than carrying it out on few rows: 4 GB, or a 64th of its bytes, so that eight
    # such arrays of float64 fill it
    device: int = 2**29
    # numbers held in memory, of rows or computed from them: 256 MB
    held: int = 2**25
    picked: int = 2**22  # rows that are looked up one by one for a sample

    # Rows that matrix products need to be near their best; that are enough for anything; and
    # that even the widest blocks have.
    GOOD_ROWS, MOST_ROWS, FEWEST_ROWS = 2_048, 16_384, 256

    def rows_per_block(self, width: int, like: Array, parts: int = 1) -> int:
        """Return the rows per block when ``width`` numbers are computed per row.

        Parameters
        ----------
        width : int
        like : array
            Of the library and on the device of the rows.
        parts : int
            Parts into which the rows of a block are divided, with a matrix product for each.
        """
        width = max(1, width)
        if not on_host(like):
            return max(self.GOOD_ROWS, min(self.device, device_memory(like) // 64) // width)
        enough = min(parts * self.GOOD_ROWS, self.block // width)
        return min(max(self.cache // width, enough, self.FEWEST_ROWS), self.MOST_ROWS)


DEFAULT_BUDGET = MemoryBudget()


def lift_points(block: Block) -> Block:
    """Return a block with points (z, |z|², 1): Gaussian log densities are linear in them."""
    return {**block, "x": lift_rows(block["x"])}


def weights_of(block: Block) -> Array:
    """Return the weight of each row of a block: the number of times that it counts."""
    counts, x = block.get("counts"), block["x"]
    return namespace_of(x).ones_like(x[:, 0]) if counts is None else counts


def count_rows(block: Block) -> Sums:
    """Count the rows of a block, and add up their weights."""
    counts = weights_of(block)
    total = namespace_of(counts).sum(counts, dtype=namespace_of(counts).float64)
    return {"kept": int(counts.shape[0]), "total": float(total)}


@dataclass(frozen=True, eq=False)
class KeyGrid:
    """A grid with steps of a part of each column's deviation, on which rows have their keys.

    So shares of rows do not depend on the units, signs and origins of the columns: an offset of
    1e8 deviations rounds a row by 1e-8 of one, which moves it to another point of the grid in one
    of thousands of rows. The operations are of single numbers: a key does not depend on the block.
    """

    center: Floats  # (d,), in columns of the source
    steps: Floats  # (d,), to a unit of the column; 0 for one that does not vary

    @classmethod
    def of(cls, center: Floats, deviations: Floats) -> KeyGrid:
        """Return the grid of columns with these means and deviations."""
        steps = np.zeros_like(deviations)
        return cls(center, np.divide(STEPS, deviations, where=deviations > 0, out=steps))

    def keys(self, x: Array) -> Array:
        """Return the keys of rows, (n,) int64."""
        x = as_double(x)
        places = (x - move_like(self.center, x)) * move_like(self.steps, x)
        xp = namespace_of(x)
        return row_keys(xp.abs(xp.round(places)))


def keys_of(block: Block, grid: KeyGrid | None = None) -> Array:
    """Return the keys of rows of an unmapped block: those that it brings, or of its content."""
    if "key" in block:
        return block["key"]
    return row_keys(block["x"]) if grid is None else grid.keys(block["x"])


def shares_of(block: Block, n_shares: int, grid: KeyGrid | None = None) -> Array:
    """Return the share of each row of a block, (n,) numbers from 0 on, by its content."""
    return key_shares(keys_of(block, grid), n_shares)


def order_by_keys(x: Array) -> tuple[Integers, bool]:
    """Return the order of rows (n, d) by a hash of each, and whether some have the same one."""
    keys = to_numpy(row_keys(as_double(x)))
    order = np.argsort(keys, kind="stable")
    return order, bool(np.any(keys[order[1:]] == keys[order[:-1]]))


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


def gather_blocks(parts: Iterable[Block], n: int) -> Block:
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
    xp = namespace_of(column)
    return xp.empty(shape, dtype=column.dtype, device=array_api_compat.device(column))


def leave_out_rows(
    block: Block, kept: Array | None, center: Floats | None, grid: KeyGrid | None = None
) -> Block:
    """Give rows that are not kept a weight of 0, and move them where nothing overflows."""
    if kept is None:
        return block
    x, counts = block["x"], weights_of(block)
    xp = namespace_of(x)
    moved = np.zeros(int(x.shape[1])) if center is None else center
    found = {
        **block,
        "counts": counts * xp.astype(kept, counts.dtype),
        "x": xp.where(kept[:, None], x, move_like(moved, x)[None, :]),
    }
    if "y" in block:
        found["y"] = xp.where(kept, block["y"], xp.zeros_like(block["y"]))
    found["key"] = keys_of(block, grid)  # of the original content: points were replaced above
    return found
