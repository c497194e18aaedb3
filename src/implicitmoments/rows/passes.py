"""Blocks of rows, and sums over them in the order of the rows: the basis of every pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeAlias

from threadpoolctl import ThreadpoolController

from implicitmoments.arrays import Array, device_memory, namespace_of, on_host
from implicitmoments.validation import check_whole

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
    pieces: Iterable[Block], measure: Measure, n_blocks: int, after: After | None = None
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
    measured: Measured = (
        _measure_in_threads(pieces, measure, n_threads)
        if threaded
        else ((block, measure(block)) for block in pieces)
    )
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

    # Rows that matrix products need to be near their best; that are enough for anything; and
    # that even the widest blocks have.
    GOOD_ROWS, MOST_ROWS, FEWEST_ROWS = 2_048, 16_384, 256

    def rows_per_block(self, width: int, like: Array) -> int:
        """Return the rows per block when ``width`` numbers are computed per row.

        Parameters
        ----------
        width : int
        like : array
            Of the library and on the device of the rows.
        """
        width = max(1, width)
        if not on_host(like):
            return max(self.GOOD_ROWS, min(self.device, device_memory(like) // 64) // width)
        enough = min(self.GOOD_ROWS, self.block // width)
        return min(max(self.cache // width, enough, self.FEWEST_ROWS), self.MOST_ROWS)


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


class BlasThreads:
    """Threads of BLAS, which belong to the process: one limit for all threads that fit or predict.

    It is set by the first of overlapping holders, and the last one restores what was before.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self._holders: list[object] = []
        self._before: list[tuple[Any, int]] = []

    @cached_property
    def libraries(self) -> list[Any]:
        """The controllers of BLAS libraries: finding them takes milliseconds."""
        return list(ThreadpoolController().select(user_api="blas").lib_controllers)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit BLAS to one thread."""
        holder = object()
        try:  # begins before the limit is set: an interruption at any point releases it
            with self.lock:
                if not self._holders:
                    self._before = [(library, library.num_threads) for library in self.libraries]
                    self._set([(library, 1) for library in self.libraries])
                self._holders.append(holder)
            yield
        finally:
            with self.lock:
                self._holders = [other for other in self._holders if other is not holder]
                if not self._holders:  # a library of more threads was changed by the user since
                    self._set([each for each in self._before if each[0].num_threads == 1])
                    self._before = []

    def _set(self, limits: Sequence[tuple[Any, int]]) -> None:
        """Set the threads of libraries from any thread of the process.

        From version 3.8 on, threadpoolctl ignores all threads but the first that has set those of
        OpenBLAS, until that ends.
        """
        for library, n_threads in limits:
            release = getattr(library, "clear_controlling_thread", lambda **_: None)
            release(force=True)
            library.set_num_threads(n_threads)
            release(force=True)


BLAS = BlasThreads()
_threads_of_folds: ContextVar[int | None] = ContextVar("threads of folds", default=None)


def allowed_threads() -> int:
    """Return the number of threads that the user, joblib or the machine allows BLAS.

    While another thread of the process is in a fit, that is one: it has the others.
    """
    given = _threads_of_folds.get()
    if given is not None:
        return given
    with BLAS.lock:
        return max((library.num_threads for library in BLAS.libraries), default=1)


@contextmanager
def threads_for_folds(n_threads: int | None = None) -> Iterator[None]:
    """Give folds the threads that BLAS may use, and BLAS one, for as long as it is open.

    For fits whose products are small: threads of BLAS would only wait for one another.

    Parameters
    ----------
    n_threads : int, optional
        Threads of a fold; those that BLAS may use by default, and 1 where folds themselves run in
        threads, as tasks of Dask do.
    """
    token = _threads_of_folds.set(allowed_threads() if n_threads is None else n_threads)
    try:
        with BLAS.limited():
            yield
    finally:
        _threads_of_folds.reset(token)
