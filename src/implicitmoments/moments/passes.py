"""One pass over the rows: sums in two halves, whose difference measures their noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from implicitmoments.backends import Array, namespace_of
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
    "signed_gram",
    "whole_view",
]

Weights: TypeAlias = Mapping[int, Array | None]
Sums: TypeAlias = dict[str, Array]
# points as the source gives them -> ⟨H_m(x), M_m⟩ for the orders m that are known
Lower: TypeAlias = Callable[[Array], Mapping[int, Array]]

# Rows a block: enough for matrix products near their best, and 32 MB at the widest.
FEWEST_ROWS, MOST_ROWS, BLOCK_NUMBERS = 1_024, 16_384, 2**22


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
        ``(i, q)``: only rows i, i + q, i + 2q, … are used.
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

    @property
    def rows(self) -> range:
        """The rows that are used."""
        return range(self.part[0], self.n_rows, self.part[1])

    def taking(self, i: int, q: int) -> View:
        """Return rows i, i + q, i + 2q, … of all."""
        return replace(self, part=(i, q))

    def seen(self, frame: Frame) -> View:
        """Return the same rows in another frame."""
        return replace(self, frame=frame)

    def knowing(self, lower: Lower | None) -> View:
        """Return the same rows with lower moments known."""
        return replace(self, lower=lower)

    def halves(
        self, orders: Sequence[int], what: str, width: int
    ) -> Iterator[tuple[int, Array, Weights]]:
        """Yield ``(half, points, weights)`` block by block; neighbouring rows go to either half.

        Halves are told by row number, so they do not depend on the size of blocks; and they
        alternate, so that rows sorted by component do not make the halves differ.
        """
        residue, modulus = self.part
        chosen_rows = min(max(FEWEST_ROWS, BLOCK_NUMBERS // width), MOST_ROWS)
        for rows in blocks(range(self.n_rows), self.block_rows or chosen_rows):
            block = self.problem.source.read(rows, RowDraws(self.seed, rows, (Stream.ROWS,)))
            points = self.frame.points(block["x"])
            weights = {t: self._weigh(t, block, rows) for t in orders}
            for half in (0, 1):
                first = (residue + half * modulus - rows.start) % (2 * modulus)
                taken = slice(first, None, 2 * modulus)
                chosen = {t: None if c is None else c[taken] for t, c in weights.items()}
                yield half, points[taken, :], chosen
            if self.progress is not None:
                self.progress(what, rows.stop, self.n_rows)

    def _weigh(self, order: int, block: Block, rows: range) -> Array | None:
        weights = self.problem.weigh(order, block, rows)
        if weights is None or self.lower is None:
            return weights
        return self.problem.reduce(order, weights, self.lower(block["x"]))


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
    counts : pair of int
        Rows in each half.
    """

    halves: tuple[Array, Array]
    counts: tuple[int, int]

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
    counts = [0, 0]
    for half, points, weights in view.halves(orders, what, width):
        if points.shape[0] == 0:
            continue
        counts[half] += int(points.shape[0])
        for name, value in measure(points, weights).items():
            before = totals[half].get(name)
            totals[half][name] = value if before is None else before + value
    means = [{name: value / counts[i] for name, value in totals[i].items()} for i in (0, 1)]
    return {
        name: Estimate((build(means[0]), build(means[1])), (counts[0], counts[1]))
        for name, build in assemble.items()
    }


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
        if chosen.shape[0]:
            root = xp.sqrt(xp.abs(xp.take(weights, chosen, axis=0)))
            yield sign, xp.take(points, chosen, axis=0), root[:, None]


def signed_gram(rows: Array, sign: float) -> Array:
    """Return ``sign · rowsᵀ rows``; NumPy makes a symmetric rank-n update of it."""
    gram = namespace_of(rows).matrix_transpose(rows) @ rows
    return gram if sign > 0 else -gram
