"""One pass over the rows: sums in two halves, whose difference measures their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.backends import Array, check_finite, namespace_of, to_numpy
from implicitmoments.moments.accumulate import Progress
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.problem import HermiteProblem
from implicitmoments.samples import Block, RowDraws, Stream, blocks

__all__ = [
    "Estimate",
    "Lower",
    "Sums",
    "View",
    "Weights",
    "average",
    "by_sign",
    "share_rows",
    "signed_gram",
    "whole_view",
]

Weights: TypeAlias = Mapping[int, Array | None]
Sums: TypeAlias = dict[str, Array]
# points as the source gives them -> ⟨H_m(x), M_m⟩ for the orders m that are known
Lower: TypeAlias = Callable[[Array], Mapping[int, Array]]

# Rows a block: enough for matrix products near their best, and if possible few enough that what
# is made of them, 16 MB, is still in the cache when it is multiplied.
FEWEST_ROWS, MOST_ROWS, BLOCK_NUMBERS = 4_096, 16_384, 2**21


@dataclass(frozen=True)
class View:
    """Rows of a problem, seen in a frame.

    Attributes
    ----------
    problem : HermiteProblem
    frame : Frame
    n_rows : int
        Rows from the first on that are used.
    part : pair of int
        ``(i, q)``: only the i-th of q parts of the rows is used.
    block_rows : int or None
        Rows read at a time; by default fewer the wider what is made of them.
    seed : int
        Of a problem that makes its rows.
    lower : callable or None
        Evaluates the lower moments, for problems that can remove them from their weights.
    progress : callable or None
    """

    problem: HermiteProblem
    frame: Frame
    n_rows: int
    part: tuple[int, int] = (0, 1)
    block_rows: int | None = None
    seed: int = 0
    lower: Lower | None = None
    progress: Progress | None = None

    def taking(self, i: int, q: int) -> View:
        """Return the i-th of q parts of the rows."""
        return replace(self, part=(i, q))

    def seen(self, frame: Frame) -> View:
        """Return the same rows in another frame."""
        return replace(self, frame=frame)

    def knowing(self, lower: Lower | None) -> View:
        """Return the same rows with lower moments known."""
        return replace(self, lower=lower)

    def halves(
        self, orders: Sequence[int], what: str, width: int
    ) -> Iterator[tuple[int, float, Array, Weights]]:
        """Yield ``(half, rows, points, weights)`` block by block.

        Rows are counted with their multiplicity, which the weights hold already.

        Parts and halves are told by what a point holds, so they depend neither on the size of
        blocks nor on the order of the rows; and equal points are never independent witnesses.
        """
        i, q = self.part
        for rows in blocks(range(self.n_rows), self.block_rows or _rows_for(width)):
            block = self.problem.source.read(rows, RowDraws(self.seed, rows, (Stream.ROWS,)))
            points = self.frame.points(block["x"])
            lower = None if self.lower is None else self.lower(block["x"])
            counts = self.problem.multiplicity(rows, points)
            weights = {t: self._weigh(t, block, rows, lower, counts) for t in orders}
            xp = namespace_of(points)
            shares = share_rows(block.get("origin", block["x"]), 2 * q)
            for half in (0, 1):
                taken = xp.asarray(np.flatnonzero(shares == 2 * i + half))
                chosen = {
                    t: None if c is None else xp.take(c, taken, axis=0) for t, c in weights.items()
                }
                n = taken.shape[0] if counts is None else xp.sum(xp.take(counts, taken, axis=0))
                yield half, float(n), xp.take(points, taken, axis=0), chosen
            if self.progress is not None:
                self.progress(what, rows.stop, self.n_rows)

    def _weigh(
        self,
        order: int,
        block: Block,
        rows: range,
        lower: Mapping[int, Array] | None,
        counts: Array | None,
    ) -> Array | None:
        weights = self.problem.weigh(order, block, rows)
        if weights is None:
            return counts
        name = f"the weight of order {order}"
        if tuple(weights.shape) != (len(rows),):
            raise ValueError(f"{name} has shape {tuple(weights.shape)}, expected ({len(rows)},)")
        check_finite(weights, name, rows.start)
        if lower is not None:
            weights = self.problem.reduce(order, weights, lower)
        return weights if counts is None else weights * counts


def whole_view(
    problem: HermiteProblem,
    n_samples: int | None = None,
    block_rows: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> View:
    """See all rows as they are."""
    n_rows = n_samples or problem.n_rows
    if n_rows is None:
        raise ValueError("the problem makes its rows, as many as asked for: give n_samples")
    if problem.n_rows is not None and n_rows > problem.n_rows:
        raise ValueError(f"n_samples={n_rows} is more than the {problem.n_rows} rows there are")
    x = problem.source.read(range(1), RowDraws(seed, range(1), (Stream.ROWS,)))["x"]
    xp = namespace_of(x)
    eye = xp.eye(problem.n_features, dtype=x.dtype)
    frame = Frame(eye, xp.zeros_like(eye[0, :]))
    return View(problem, frame, n_rows, (0, 1), block_rows, seed, None, progress)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over rows, kept as the means of two halves.

    Attributes
    ----------
    halves : pair of arrays
    counts : pair of float
        Rows in each half, with their multiplicity.
    """

    halves: tuple[Array, Array]
    counts: tuple[float, float]

    @cached_property
    def value(self) -> Array:
        """The mean over all rows."""
        n = sum(self.counts)
        return self.halves[0] * (self.counts[0] / n) + self.halves[1] * (self.counts[1] / n)

    @cached_property
    def half_difference(self) -> Array:
        """Half the difference of the halves: as large as the error of the mean."""
        return (self.halves[0] - self.halves[1]) / 2

    def map(self, function: Callable[[Array], Array]) -> Estimate:
        """Apply a linear function to both halves."""
        return Estimate((function(self.halves[0]), function(self.halves[1])), self.counts)


def average(
    view: View,
    orders: Sequence[int],
    measure: Callable[[Array, Weights], Sums],
    assemble: Mapping[str, Callable[[Sums], Array]],
    what: str,
    width: int,
) -> dict[str, Estimate]:
    """Sum over rows what ``measure`` gives, and assemble the means of either half.

    Parameters
    ----------
    view : View
    orders : sequence of int
        Orders whose weights ``measure`` reads.
    measure : callable
        ``measure(points, weights)`` returns named sums over those rows.
    assemble : mapping of str to callable
        Linear functions of the named means.
    what : str
        What the pass is for, told to ``progress``.
    width : int
        Numbers that are made of one row.

    Returns
    -------
    dict of str to Estimate
    """
    totals: tuple[Sums, Sums] = ({}, {})
    counts = [0.0, 0.0]
    for half, n, points, weights in view.halves(orders, what, width):
        counts[half] += n
        for name, value in measure(points, weights).items():
            before = totals[half].get(name)
            totals[half][name] = value if before is None else before + value
    if min(counts) == 0:  # one row in all, or all rows equal: nothing is known of the noise
        means = {name: (totals[0][name] + totals[1][name]) / sum(counts) for name in totals[0]}
        return {n: _all_noise(build(means), sum(counts)) for n, build in assemble.items()}
    halves = [{name: value / counts[i] for name, value in totals[i].items()} for i in (0, 1)]
    return {
        name: Estimate((build(halves[0]), build(halves[1])), (counts[0], counts[1]))
        for name, build in assemble.items()
    }


def _all_noise(value: Array, n: float) -> Estimate:
    """Return an estimate whose noise is as large as itself."""
    return Estimate((2 * value, 0 * value), (n, n))


def _rows_for(width: int) -> int:
    return min(max(FEWEST_ROWS, BLOCK_NUMBERS // width), MOST_ROWS)


def share_rows(x: Array, n_shares: int) -> np.ndarray[Any, Any]:
    """Send every row to one of some shares, by a hash of its entries: (n,) numbers from 0 on."""
    mixed = x[:, 0] * math.pi
    for j in range(1, int(x.shape[1])):  # in one order, whatever the block and its layout
        mixed = mixed + x[:, j] * (math.pi * math.sqrt(j + 1))
    mixed = to_numpy(mixed).astype(np.float64)
    bits = (mixed + 0.0).view(np.uint64)  # + 0.0 makes −0 and 0 the same
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)  # splitmix64
    shares: np.ndarray[Any, Any] = bits % np.uint64(n_shares)
    return shares


def by_sign(points: Array, weights: Array | None) -> Iterator[tuple[float, Array, Array | None]]:
    """Yield ``(sign, points, √|weight|)`` for the rows of positive and of negative weight.

    A signed sum of outer products is then a difference of two symmetric products over a
    partition of the rows: no row is multiplied twice, and each product is half a general one.
    """
    if weights is None:
        yield 1.0, points, None
        return
    xp = namespace_of(points)
    for sign in (1.0, -1.0):
        (chosen,) = xp.nonzero(sign * weights > 0)
        root = xp.sqrt(xp.abs(xp.take(weights, chosen, axis=0)))
        yield sign, xp.take(points, chosen, axis=0), root[:, None]


def signed_gram(rows: Array, sign: float) -> Array:
    """Return ``sign · rowsᵀ rows``; NumPy makes a symmetric rank-n update of it."""
    gram = namespace_of(rows).matrix_transpose(rows) @ rows
    return gram if sign > 0 else -gram
