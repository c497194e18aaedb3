"""One pass over the rows: sums in two halves, whose difference measures their noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from implicitmoments.arrays import (
    Array,
    check_finite,
    eye_like,
    gram,
    namespace_of,
)
from implicitmoments.moments.accumulate import Progress
from implicitmoments.moments.frames import Frame
from implicitmoments.moments.problem import HermiteProblem
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, Rows, Sums, shares_of

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
# points as the source gives them -> ⟨H_m(x), M_m⟩ for the orders m that are known
Lower: TypeAlias = Callable[[Array], Mapping[int, Array]]


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
    rows_per_block : int or None
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
    rows_per_block: int | None = None
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

    def fold(
        self,
        orders: Sequence[int],
        measure: Callable[[Array, Weights], Sums],
        what: str,
        width: int,
    ) -> tuple[list[Sums], list[float]]:
        """Sum over either half of the rows what ``measure`` gives; return sums and rows.

        Rows are counted with their multiplicity, which the weights hold already.

        Parts and halves are told by what a point holds, so they depend neither on the size of
        blocks nor on the order of the rows; and equal points are never independent witnesses.
        """
        self.problem.prepare(orders)
        halved = _Halved(replace(self, progress=None), tuple(orders), measure)
        total = self._rows.fold_numbered(
            halved, range(self.n_rows), width=width, what=what, seed=self.seed, keyed=True
        )
        counts = [float(total.pop(f"{half}:rows", 0.0)) for half in (0, 1)]
        sums: list[Sums] = [{}, {}]
        for name, value in total.items():
            sums[int(name[0])][name[2:]] = value
        return sums, counts

    @property
    def _rows(self) -> Rows:
        rows = self.problem.rows
        return replace(
            rows,
            rows_per_block=self.rows_per_block or rows.rows_per_block,
            progress=self.progress or rows.progress,
        )

    def weights(
        self,
        order: int,
        block: Block,
        rows: range,
        lower: Mapping[int, Array] | None,
    ) -> Array | None:
        """Return the weights of a block at an order, checked, times how often rows count."""
        weights = self.problem.weigh(order, block, rows)
        counts = block.get("counts")
        if weights is None:
            return counts
        name = f"the weight of order {order}"
        if tuple(weights.shape) != (len(rows),):
            raise InputError(
                "wrong_shape",
                "{name} has shape {shape}, expected ({n_rows},)",
                name=name,
                shape=tuple(weights.shape),
                n_rows=len(rows),
            )
        check_finite(weights, name, rows.start)
        if lower is not None:
            weights = self.problem.reduce(order, weights, lower)
        return weights if counts is None else weights * counts


@dataclass(frozen=True)
class _Halved:
    """Measures both halves of a block: what a pass sends to where the rows are."""

    view: View
    orders: tuple[int, ...]
    measure: Callable[[Array, Weights], Sums]

    def __call__(self, block: Block, rows: range) -> Sums:
        view, (i, q) = self.view, self.view.part
        points = view.frame.points(block["x"])
        xp, counts = namespace_of(points), block.get("counts")
        lower = None if view.lower is None else view.lower(block["x"])
        weights = {t: view.weights(t, block, rows, lower) for t in self.orders}
        shares = shares_of(block, 2 * q)
        sums: Sums = {}
        for half in (0, 1):
            (taken,) = xp.nonzero(shares == 2 * i + half)
            chosen = {
                t: None if c is None else xp.take(c, taken, axis=0) for t, c in weights.items()
            }
            n = taken.shape[0] if counts is None else xp.sum(xp.take(counts, taken, axis=0))
            sums[f"{half}:rows"] = float(n)
            measured = self.measure(xp.take(points, taken, axis=0), chosen)
            sums |= {f"{half}:{name}": value for name, value in measured.items()}
        return sums


def whole_view(
    problem: HermiteProblem,
    n_samples: int | None = None,
    rows_per_block: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> View:
    """See all rows as they are."""
    n_rows = n_samples or problem.n_rows
    if n_rows is None:
        raise InputError(
            "n_samples_missing",
            "the problem makes its rows, as many as asked for: give n_samples",
        )
    if problem.n_rows is not None and n_rows > problem.n_rows:
        raise InputError(
            "too_few_rows",
            "`n_samples={n_rows}` is more than the {there} rows there are",
            n_rows=n_rows,
            there=problem.n_rows,
        )
    eye = eye_like(problem.n_features, problem.rows.like)
    xp = namespace_of(eye)
    frame = Frame(eye, xp.zeros_like(eye[0, :]))
    return View(problem, frame, n_rows, (0, 1), rows_per_block, seed, None, progress)


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
    totals, counts = view.fold(orders, measure, what, width)
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
    """Return ``sign · rowsᵀ rows``, by a symmetric rank-n update."""
    made = gram(rows)
    return made if sign > 0 else -made
