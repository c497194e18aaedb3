"""Means over rows, kept as the means of two halves whose difference estimates the noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from implicitmoments.arrays import Array, gram, namespace_of
from implicitmoments.moments.framed_rows import FramedRows, Weights
from implicitmoments.rows import Sums


@dataclass(frozen=True, eq=False)
class SplitMean:
    """A mean over rows, kept as the means of two halves."""

    halves: tuple[Array, Array]
    counts: tuple[float, float]  # rows in each half, with their multiplicity

    @cached_property
    def value(self) -> Array:
        """The mean over all rows."""
        n = sum(self.counts)
        return self.halves[0] * (self.counts[0] / n) + self.halves[1] * (self.counts[1] / n)

    @cached_property
    def half_difference(self) -> Array:
        """Half the difference of the halves: as large as the error of the mean."""
        return (self.halves[0] - self.halves[1]) / 2

    def map(self, function: Callable[[Array], Array]) -> SplitMean:
        """Apply a linear function to both halves."""
        return SplitMean((function(self.halves[0]), function(self.halves[1])), self.counts)


def average(
    view: FramedRows,
    orders: Sequence[int],
    measure: Callable[[Array, Weights], Sums],
    assemble: Mapping[str, Callable[[Sums], Array]],
    what: str,
    width: int,
) -> dict[str, SplitMean]:
    """Average ``measure`` over the rows, and assemble the means of each half.

    Parameters
    ----------
    orders : sequence of int
        Orders whose weights ``measure`` reads.
    measure : callable
        ``measure(points, weights)`` returns named sums over a block of rows.
    assemble : mapping of str to callable
        Linear functions of the named means.
    what : str
        Name of the pass, reported to ``progress``.
    width : int
        Numbers computed per row.
    """
    totals, counts = view.fold(orders, measure, what, width)
    if min(counts) == 0:  # one row, or all rows equal: the noise is unknown
        means = {name: (totals[0][name] + totals[1][name]) / sum(counts) for name in totals[0]}
        return {n: _all_noise(build(means), sum(counts)) for n, build in assemble.items()}
    halves = [{name: value / counts[i] for name, value in totals[i].items()} for i in (0, 1)]
    return {
        name: SplitMean((build(halves[0]), build(halves[1])), (counts[0], counts[1]))
        for name, build in assemble.items()
    }


def _all_noise(value: Array, n: float) -> SplitMean:
    """Return a mean whose estimated noise is as large as itself."""
    return SplitMean((2 * value, 0 * value), (n, n))


def by_sign(points: Array, weights: Array | None) -> Iterator[tuple[float, Array, Array | None]]:
    """Yield ``(sign, points, √|weight|)`` for the rows of positive and of negative weight.

    A signed sum of outer products is then a difference of two symmetric products over a
    partition of the rows: no row is multiplied twice, and each product costs half a general one.
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
