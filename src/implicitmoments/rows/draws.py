"""Random numbers keyed by row: a row gets the same numbers whatever the chunks."""

from __future__ import annotations

import math
from enum import IntEnum
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeAlias, cast

import numpy as np
from scipy.special import ndtri

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError, InputTypeError

# a module is ``np.random``, NumPy's global generator
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | ModuleType | None
Integers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class DrawPurpose(IntEnum):
    """What random numbers are for: numbers of different streams are independent.

    Examples
    --------
    >>> RowDraws(0, range(2), (DrawPurpose.ROWS,)).normal(3).shape
    (2, 3)
    """

    HIDDEN = 0  # hidden vectors of synthetic data
    ROWS = 1  # rows themselves; the same in every pass
    PAIRS = 2  # rows that are read two at a time
    AUXILIARY = 3  # auxiliary inputs of an average, by order
    QUERY = 4  # auxiliary inputs of a query, by draw
    ORDER = 5  # an order of the rows that does not depend on how they are sorted


STRETCH = 2**20  # rows among which row numbers are drawn at a time: limits memory
WORDS_PER_COUNTER = 4  # Philox turns one counter into four 64-bit words
ROUNDS = 6  # of a Feistel network; four make a pseudorandom permutation (Luby and Rackoff)


def as_seed(random_state: RandomState) -> int:
    """Convert a ``random_state`` of scikit-learn to an integer seed.

    None and ``np.random`` draw it from NumPy's global generator, which ``np.random.seed`` sets.

    Examples
    --------
    >>> as_seed(7)
    7
    """
    if random_state is None or random_state is np.random:
        return int(np.random.randint(2**31))  # noqa: NPY002 (as scikit-learn does)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, bool) or not hasattr(random_state, "__index__"):
        raise InputTypeError(
            "not_a_random_state",
            "`random_state` is an integer, a NumPy generator, np.random or None, got {given!r}",
            given=random_state,
        )
    seed = int(cast(int, random_state))
    if seed < 0:
        raise InputError("out_of_range", "`random_state` is at least 0, got {given}", given=seed)
    return seed


class RowDraws:
    """Random numbers for a range of rows, independent of how rows are grouped into blocks.

    A counter-based generator is set to the place of the first row, and every number takes one
    uniform; so row 7 gets the same numbers whether it comes in a block of 1 or of 1,000.
    Successive calls give independent numbers.

    Parameters
    ----------
    seed : int
    rows : range
        Consecutive row numbers.
    stream : tuple of int
        What the numbers are for; different streams are independent.

    Examples
    --------
    >>> whole = RowDraws(0, range(10)).normal(3)
    >>> part = RowDraws(0, range(4, 6)).normal(3)
    >>> bool((whole[4:6] == part).all())
    True
    """

    def __init__(self, seed: int, rows: range, stream: tuple[int, ...] = ()) -> None:
        if rows.step != 1:
            raise InputError(
                "rows_not_consecutive",
                "rows are consecutive, got a step of {step}",
                step=rows.step,
            )
        self.seed, self.rows, self.stream = seed, rows, stream
        self._calls = 0

    def fork(self, stream: DrawPurpose) -> RowDraws:
        """Return draws for the same rows and another purpose.

        Parameters
        ----------
        stream : DrawPurpose

        Returns
        -------
        RowDraws
            Independent of these draws.
        """
        return RowDraws(self.seed, self.rows, (stream,))

    def uniform(self, width: int | None = None) -> Floats:
        """Return uniform random numbers.

        Parameters
        ----------
        width : int, optional
            Numbers per row.

        Returns
        -------
        array of shape (n_rows, width), or (n_rows,) without a width
            Numbers in (0, 1).
        """
        columns = 1 if width is None else width
        first, last = self.rows.start * columns, self.rows.stop * columns
        counter, skipped = divmod(first, WORDS_PER_COUNTER)
        key = np.random.SeedSequence(self.seed, spawn_key=(*self.stream, self._calls))
        self._calls += 1
        words = np.random.Philox(counter=counter, key=key.generate_state(2, np.uint64))
        raw = words.random_raw(last - counter * WORDS_PER_COUNTER)[skipped:]
        # 53 bits, shifted by a half so that neither 0 nor 1 occurs
        numbers: Floats = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return numbers if width is None else numbers.reshape(len(self.rows), columns)

    def normal(self, width: int | None = None) -> Floats:
        """Return normal random numbers.

        Parameters
        ----------
        width : as for :meth:`uniform`

        Returns
        -------
        array of the shape that :meth:`uniform` has
        """
        normals: Floats = ndtri(self.uniform(width))
        return normals

    def categorical(self, probabilities: Floats) -> Integers:
        """Return one random index per row.

        Parameters
        ----------
        probabilities : array of shape (k,)
            Normalised to sum 1.

        Returns
        -------
        array of int of shape (n_rows,)
            One index per row.
        """
        edges = np.cumsum(probabilities)
        drawn: Integers = np.searchsorted(edges / edges[-1], self.uniform(), side="right")
        return drawn


class KeyedPermutation:
    """A random permutation of row numbers that is computed row by row, in O(√n) memory.

    A Feistel network: a number is two digits (a, b) in base ⌈√n⌉, and each round replaces them by
    (b, a + table[b]) with a random table. Numbers that leave the range go round again.

    Parameters
    ----------
    n : int
        How many numbers are permuted.
    seed : int, default 0
        The key; with the default the order depends on n alone.

    Examples
    --------
    >>> sorted(KeyedPermutation(5, 0).places(range(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, n: int, seed: int = 0) -> None:
        self.n, self.base = n, max(1, math.isqrt(max(n - 1, 0)) + 1)
        key = np.random.SeedSequence(seed, spawn_key=(DrawPurpose.ORDER,))
        self._tables = np.random.default_rng(key).integers(self.base, size=(ROUNDS, self.base))

    def places(self, rows: range) -> Integers:
        """Return the place of each of some rows in the new order.

        Parameters
        ----------
        rows : range
            Row numbers below n.

        Returns
        -------
        array of int of shape (n_rows,)
            The place of each row.
        """
        found: Integers = self._shuffle(np.arange(rows.start, rows.stop))
        (outside,) = np.nonzero(found >= self.n)
        while len(outside):
            found[outside] = self._shuffle(found[outside])
            outside = outside[found[outside] >= self.n]
        return found

    def chosen(self, rows: range, places: range) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which of some rows have one of some consecutive places.

        Parameters
        ----------
        rows, places : range

        Returns
        -------
        array of bool of shape (n_rows,)
            One entry per row.
        """
        found = self.places(rows)
        taken: np.ndarray[Any, np.dtype[np.bool_]] = (found >= places.start) & (
            found < places.stop
        )
        return taken

    def _shuffle(self, numbers: Integers) -> Integers:
        a, b = np.divmod(numbers, self.base)
        for table in self._tables:
            a, b = b, (a + table[b]) % self.base
        shuffled: Integers = a * self.base + b
        return shuffled


def draw_numbers(n_rows: int, n: int, rng: np.random.Generator | int) -> Integers:
    """Draw n of the numbers below ``n_rows``, in ascending order; all if there are no more.

    Every stretch of a million numbers gives its share of them at random, so that no array of the
    length of all rows is made.

    Examples
    --------
    >>> draw_numbers(10**9, 3, 0).shape
    (3,)
    """
    if n >= n_rows:
        return np.arange(n_rows)
    rng = np.random.default_rng(rng)
    drawn = []
    for low, high in pairwise([*range(0, n_rows, STRETCH), n_rows]):
        quota = n * high // n_rows - n * low // n_rows
        drawn.append(low + np.sort(rng.choice(high - low, quota, replace=False)))
    return np.concatenate(drawn)
