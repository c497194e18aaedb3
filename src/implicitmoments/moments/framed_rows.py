"""Rows of a problem in the coordinates of a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from implicitmoments.arrays import Array, check_finite, eye_like, move_like, namespace_of
from implicitmoments.moments.problem import HermiteProblem
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, Progress, Rows, Sums, shares_of

Weights: TypeAlias = Mapping[int, Array | None]
# points in the coordinates of the source -> ⟨H_m(x), M_m⟩ for the known orders m
Lower: TypeAlias = Callable[[Array], Mapping[int, Array]]


@dataclass(frozen=True, eq=False)
class Frame:
    r"""An affine map of points, :math:`x \mapsto (h, B (x - c)) / s`, and its effect on noise."""

    basis: Array  # (p, d), orthonormal rows B that span the subspace kept
    center: Array  # (d,), the point c that becomes the origin
    scale: float = 1.0  # the unit of length s. Moments of order t are divided by :math:`s^t`
    # A constant first coordinate h. Hidden vectors become :math:`(h, v)`: their signs are then
    # determined, and short vectors contribute to high moments. None for no such coordinate
    height: float | None = None

    @property
    def p(self) -> int:
        """Number of coordinates."""
        return int(self.basis.shape[0]) + (self.height is not None)

    @property
    def noise(self) -> Array:
        """Covariance (p, p) of standard Gaussian noise in the frame; the constant has none."""
        xp = namespace_of(self.basis)
        covariance = eye_like(self.p, self.basis) / self.scale**2
        if self.height is None:
            return covariance
        return xp.concat([covariance[:1, :] * 0, covariance[1:, :]])

    def points(self, x: Array) -> Array:
        """Map points (n, d) to coordinates (n, p)."""
        xp = namespace_of(x)
        basis, center = move_like(self.basis, x), move_like(self.center, x)
        moved = (x - center[None, :]) @ xp.matrix_transpose(basis) / self.scale
        if self.height is None:
            return moved
        first = xp.ones_like(moved[:, :1]) * (self.height / self.scale)
        return xp.concat([first, moved], axis=1)

    def vectors(self, coordinates: Array) -> Array:
        """Map hidden vectors (k, p) back to (k, d).

        With a height, the first coordinate determines the length and sign of a vector.
        """
        if self.height is None:
            moved = coordinates * self.scale
        else:
            moved = coordinates[:, 1:] * (self.height / coordinates[:, :1])
        return moved @ self.basis + self.center[None, :]


@dataclass(frozen=True)
class FramedRows:
    """Rows of a problem in the coordinates of a frame."""

    problem: HermiteProblem
    frame: Frame
    n_rows: int  # the first ``n_rows`` rows are used
    part: tuple[int, int] = (0, 1)  # ``(i, q)``: only the i-th of q parts of the rows is used
    # block size; by default it decreases with the numbers computed per row
    rows_per_block: int | None = None
    seed: int = 0  # for a problem that generates its rows
    # evaluates lower moments, for problems that can remove them from their weights
    lower: Lower | None = None
    progress: Progress | None = None

    def take_part(self, i: int, q: int) -> FramedRows:
        """Return the i-th of q parts of the rows."""
        return replace(self, part=(i, q))

    def in_frame(self, frame: Frame) -> FramedRows:
        """Return the same rows in another frame."""
        return replace(self, frame=frame)

    def with_lower(self, lower: Lower | None) -> FramedRows:
        """Return the same rows with known lower moments."""
        return replace(self, lower=lower)

    def fold(
        self,
        orders: Sequence[int],
        measure: Callable[[Array, Weights], Sums],
        what: str,
        width: int,
    ) -> tuple[list[Sums], list[float]]:
        """Sum ``measure(points, weights)`` over each half of the rows; return sums and counts.

        Counts include multiplicities, which the weights contain already. Parts and halves are
        determined by a hash of the point, so they depend neither on the block size nor on the
        order of the rows, and equal points are always in the same half.
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
        size = self.rows_per_block or rows.rows_per_block
        return replace(rows, rows_per_block=size, progress=self.progress or rows.progress)

    def weights(
        self, order: int, block: Block, rows: range, lower: Mapping[int, Array] | None
    ) -> Array | None:
        """Return the checked weights of a block at an order, times the multiplicities."""
        weights = self.problem.weigh(order, block, rows)
        counts = block.get("counts")
        if weights is None:
            return counts
        name, shape = f"the weight of order {order}", tuple(weights.shape)
        if shape != (len(rows),):
            template = "{name} has shape {shape}, expected ({n_rows},)"
            raise InputError("wrong_shape", template, name=name, shape=shape, n_rows=len(rows))
        check_finite(weights, name, rows.start)
        if lower is not None:
            weights = self.problem.reduce(order, weights, lower)
        return weights if counts is None else weights * counts


@dataclass(frozen=True)
class _Halved:
    """Measures both halves of a block; picklable, so that it can be sent to a cluster."""

    view: FramedRows
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


def all_rows(
    problem: HermiteProblem,
    n_samples: int | None = None,
    rows_per_block: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FramedRows:
    """Return the rows of a problem, or the first ``n_samples``, in their own coordinates."""
    n_rows = n_samples or problem.n_rows
    if n_rows is None:
        raise InputError(
            "n_samples_missing", "the problem generates its rows; pass n_samples, their number"
        )
    if problem.n_rows is not None and n_rows > problem.n_rows:
        template = "`n_samples={n_rows}` exceeds the number of rows, {there}"
        raise InputError("too_few_rows", template, n_rows=n_rows, there=problem.n_rows)
    eye = eye_like(problem.n_features, problem.rows.like)
    frame = Frame(eye, namespace_of(eye).zeros_like(eye[0, :]))
    return FramedRows(problem, frame, n_rows, (0, 1), rows_per_block, seed, None, progress)


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
    assemble: Callable[[Sums], Sums],
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
    assemble : callable
        Linear: maps the named means to the named results.
    what : str
        Name of the pass, reported to ``progress``.
    width : int
        Numbers computed per row.
    """
    totals, counts = view.fold(orders, measure, what, width)
    n = sum(counts)
    if min(counts) == 0:  # one row, or all rows equal: the noise is taken as large as the mean
        mean = assemble({name: (totals[0][name] + totals[1][name]) / n for name in totals[0]})
        return {name: SplitMean((2 * value, 0 * value), (n, n)) for name, value in mean.items()}
    first, second = (
        assemble({name: value / counts[i] for name, value in totals[i].items()}) for i in (0, 1)
    )
    return {name: SplitMean((first[name], second[name]), (counts[0], counts[1])) for name in first}
