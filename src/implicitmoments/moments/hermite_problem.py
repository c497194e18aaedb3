"""Hermite problems, and averages over their rows in the coordinates of a frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

from implicitmoments.arrays import (
    Array,
    Floats,
    as_real_array,
    check_finite,
    eye_like,
    index_like,
    move_like,
    namespace_of,
)
from implicitmoments.circuits import Circuit, hermite, scalar, vector
from implicitmoments.moments.chain import Frame
from implicitmoments.moments.problem import MomentProblem
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows import (
    After,
    Block,
    DrawPurpose,
    KeyedPermutation,
    Measure,
    Progress,
    RowDraws,
    Rows,
    Source,
    Sums,
    shares_of,
)

Weights: TypeAlias = Mapping[int, Array | None]
# points in the coordinates of the source -> ⟨H_m(x), M_m⟩ for the known orders m
Lower: TypeAlias = Callable[[Array], Mapping[int, Array]]
RowMeasure: TypeAlias = Callable[[Array, Weights], Sums]


class HermiteProblem(MomentProblem):
    r"""Moments of the form :math:`M_t = E[c_t \, He_t(x)]`, with :math:`He_t = \sqrt{t!} H_t`.

    All four problems of the paper have this form. The circuit is
    :math:`c \sqrt{t!}\, H_t(x, y)` with an auxiliary :math:`y \sim N(0, I)`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows, Source, or callable
        The points x.
    weight : callable, optional
        ``weight(order)`` returns :math:`c_t` for all rows, ``(n_samples,)``, or None for all
        ones. Models whose rows do not fit in memory override :meth:`weigh` instead.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row in every mean: a weight of 2 is equivalent to repeating the row,
        a weight of 0 to omitting it. Moments depend only on the ratios.

    Attributes
    ----------
    rows : Rows
        The points, with columns and multiplicities.
    uniform : bool
        Whether all orders have the same weights.
    reduces : bool
        Whether :meth:`reduce` removes lower orders from the weights.

    Examples
    --------
    The means of a mixture have weight 1, the default:

    >>> from implicitmoments import HermiteProblem, implicit_moments
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> X, truth = make_spherical_mixture(20_000, 3, 6, radius=3.0, random_state=0)
    >>> found = implicit_moments(HermiteProblem(X), n_components=3, order=2).components()
    >>> found.vectors.shape
    (3, 6)
    """

    reduces: bool = False

    def __init__(
        self,
        points: Array | Source | Rows | Callable[[range, RowDraws], Any],
        weight: Callable[[int], Array | None] | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        if not (weight is None or callable(weight)):
            raise InputTypeError(
                "weight_not_callable",
                "weight must be a function of the order that returns one weight per row, got "
                "{kind}; try weight=lambda order: w",
                kind=type(weight).__name__,
            )
        self.rows = Rows.of(points)
        self.n_features, self.n_rows = self.rows.n_features, self.rows.source.n_rows
        if sample_weight is not None:
            self.rows = self.rows.weighted(self._counted(sample_weight))
        # orders with the same weights can be combined
        self.uniform = weight is None and type(self).weigh is HermiteProblem.weigh
        self._weight = weight
        self._asked: dict[int, Array | None] = {}

    def weigh(self, order: int, block: Block, rows: range) -> Array | None:
        """Return the weights :math:`c_t` of one block of rows.

        Parameters
        ----------
        order : int
            The order t.
        block : mapping of str to array
            Columns of the block; ``"x"`` holds the points.
        rows : range
            Row numbers of the block.

        Returns
        -------
        array of shape (n,), or None
            None for all ones.
        """
        weights = self._all_weights(order)
        return None if weights is None else move_like(weights[rows.start : rows.stop], block["x"])

    def prepare(self, orders: Sequence[int]) -> None:
        """Compute what weights depend on beyond their own row, before a pass.

        Parameters
        ----------
        orders : sequence of int
            Orders whose weights the pass needs.
        """

    def _counted(self, sample_weight: Array) -> Array:
        if self.n_rows is None:
            template = "this problem generates its rows; omit sample_weight"
            raise InputError("weights_of_drawn_rows", template)
        counts = self._checked(sample_weight, "sample_weight")
        xp = namespace_of(counts)
        if bool(xp.any(counts < 0)):
            raise InputError("negative_weight", "sample_weight must not have negative entries")
        if float(xp.sum(counts)) == 0:
            raise InputError("weights_all_zero", "sample_weight is zero for every row")
        return counts

    def _all_weights(self, order: int) -> Array | None:
        """Call the user's function once per order, and check its result."""
        if order not in self._asked:
            given = None if self._weight is None else self._weight(order)
            checked = None if given is None else self._checked(given, f"weight({order})")
            self._asked[order] = checked
        return self._asked[order]

    def _checked(self, given: Array, name: str) -> Array:
        weights = as_real_array(given, name, 1)
        if self.n_rows is not None and weights.shape[0] != self.n_rows:
            raise InputError(
                "lengths_differ",
                "{name} has {n_rows} rows, expected one weight per point: {expected}",
                **{"name": name, "n_rows": weights.shape[0], "expected": self.n_rows},
            )
        check_finite(weights, name)
        return weights

    def has_order(self, order: int) -> bool:  # noqa: ARG002 (models override it)
        """Return whether the rows carry information about the moment of an order.

        Parameters
        ----------
        order : int
            The order of the moment.

        Returns
        -------
        bool
            False if the moment cannot be estimated.
        """
        return True

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:  # noqa: ARG002
        r"""Remove the part of the weights explained by lower orders.

        Under Gaussian points :math:`He_t(x)` is orthogonal to polynomials of lower degree, so
        the part of a weight that they explain is noise. Problems that support it set
        :attr:`reduces` and override this method.

        Parameters
        ----------
        order : int
            The order t of the weights.
        weights : array of shape (n,)
            The weights of a block of rows.
        lower : mapping of int to array of shape (n,)
            :math:`\langle H_m(x), M_m \rangle` for the known orders m.

        Returns
        -------
        array of shape (n,)
            Weights of smaller variance and the same moments.
        """
        return weights

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map hidden vectors to the user's coordinates.

        Parameters
        ----------
        vectors : array of shape (k, n_features)
            Hidden vectors in the coordinates of the problem.

        Returns
        -------
        array of shape (k, n_features)
            In the user's coordinates.
        """
        return vectors

    def circuit(self, order: int) -> Circuit:
        """Return ``c · √order! · hermite(x, y, order)``."""
        x, y, c = vector("x"), vector("y"), scalar("c")
        return math.sqrt(math.factorial(order)) * c * hermite(x, y, order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return points, weights and fresh auxiliary normals."""
        block = self.rows.read(rows, rng.fork(DrawPurpose.ROWS))
        return self._inputs(order, block, rows, rng, self._mean_count)

    def _fold(
        self, order: int, measure: Measure, rows: range, size: int, seed: int, after: After
    ) -> Sums:
        """Pass over the rows where they are."""
        self.prepare([order])
        mean_count = self._mean_count

        def dressed(block: Block, rows: range) -> Mapping[str, Array]:
            rng = RowDraws(seed, rows, (DrawPurpose.AUXILIARY, order))
            return measure(self._inputs(order, block, rows, rng, mean_count), rows)

        sized = replace(self.rows, rows_per_block=size)
        return sized.fold_numbered(dressed, rows, what=f"order {order}", seed=seed, after=after)

    @property
    def _mean_count(self) -> float:
        return self.rows.total / self.n_rows if self.n_rows else 1.0

    def _inputs(
        self, order: int, block: Block, rows: range, rng: RowDraws, mean_count: float
    ) -> Block:
        x = block["x"]
        c = self.weigh(order, block, rows)
        if c is None:
            c = namespace_of(x).ones_like(x[:, 0])
        counts = block.get("counts")
        if counts is not None:  # means are taken over rows, so that weights are 1 on average
            c = c * (counts / mean_count)
        return {"x": x, "c": c, "y": move_like(rng.normal(self.n_features), x)}


@dataclass(frozen=True)
class FramedRows:
    """Rows of a problem in the coordinates of a frame."""

    problem: HermiteProblem
    frame: Frame
    n_rows: int  # how many rows are used
    part: tuple[int, int] = (0, 1)  # ``(i, q)``: only the i-th of q parts of the rows is used
    rows_per_block: int | None = None  # by default fewer, the more numbers are computed per row
    seed: int = 0  # for a problem that generates its rows
    # evaluates lower moments, for problems that can remove them from their weights
    lower: Lower | None = None
    progress: Progress | None = None
    order: KeyedPermutation | None = None  # shuffled, if not all are used: the first of it are

    def in_frame(self, frame: Frame) -> FramedRows:
        """Return the same rows in another frame."""
        return replace(self, frame=frame)

    def measure_halves(
        self, orders: Sequence[int], measure: RowMeasure, block: Block, rows: range
    ) -> Sums:
        """Sum ``measure(points, weights)`` over each half of a block; names begin with the half.

        Weights include multiplicities. Parts and halves are determined by a hash of the point, so
        they depend neither on the block size nor on the order of the rows, and equal points are
        always in the same half.
        """
        points, (i, q) = self.frame.points(block["x"]), self.part
        xp, counts = namespace_of(points), block.get("counts")
        lower = None if self.lower is None else self.lower(block["x"])
        given = {t: self._weights(t, block, rows, lower) for t in orders}
        shares = shares_of(block, 2 * q)
        if self.order is not None:
            used = index_like(1 * self.order.chosen(rows, range(self.n_rows)), shares)
            shares = shares * used + used - 1  # no share of those left out
        sums: Sums = {}
        for half in (0, 1):
            (taken,) = xp.nonzero(shares == 2 * i + half)
            chosen = {t: c if c is None else xp.take(c, taken, axis=0) for t, c in given.items()}
            n = taken.shape[0] if counts is None else xp.sum(xp.take(counts, taken, axis=0))
            measured = measure(xp.take(points, taken, axis=0), chosen)
            sums |= {f"{half}{name}": value for name, value in measured.items()}
            sums[f"{half}"] = float(n)
        return sums

    def _weights(
        self, order: int, block: Block, rows: range, lower: Mapping[int, Array] | None
    ) -> Array | None:
        """Return the checked weights of a block at an order, times the multiplicities."""
        weights, counts = self.problem.weigh(order, block, rows), block.get("counts")
        if weights is None:
            return counts
        name, n, shape = f"the weight of order {order}", len(rows), tuple(weights.shape)
        if shape != (n,):
            template = "{name} has shape {shape}, expected ({n},)"
            raise InputError("wrong_shape", template, name=name, shape=shape, n=n)
        check_finite(weights, name, rows.start)
        if lower is not None:
            weights = self.problem.reduce(order, weights, lower)
        return weights if counts is None else weights * counts


def all_rows(
    problem: HermiteProblem,
    n_samples: int | None = None,
    rows_per_block: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> FramedRows:
    """Return the rows of a problem, or ``n_samples`` of them, in their own coordinates."""
    there = problem.n_rows
    n_rows = n_samples or there
    if n_rows is None:
        template = "the problem generates its rows; pass n_samples, their number"
        raise InputError("n_samples_missing", template)
    if there is not None and n_rows > there:
        template = "`n_samples={n_rows}` exceeds the number of rows, {there}"
        raise InputError("too_few_rows", template, n_rows=n_rows, there=there)
    eye = eye_like(problem.n_features, problem.rows.like)
    frame = Frame(eye, namespace_of(eye).zeros_like(eye[0, :]))
    order = None if there is None or n_rows == there else KeyedPermutation(there)
    return FramedRows(problem, frame, n_rows, (0, 1), rows_per_block, seed, None, progress, order)


@dataclass(frozen=True, eq=False)
class SplitMean:
    """A mean over rows, kept as the means of two halves."""

    halves: tuple[Array, Array]
    counts: tuple[float, float]  # rows in each half, with their multiplicity

    @cached_property
    def value(self) -> Array:
        """The mean over all rows."""
        n = sum(self.counts) or 1.0  # without rows both means are 0
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
    measure: RowMeasure,
    assemble: Callable[[Sums], Sums],
    what: str,
    width: int,
) -> dict[str, SplitMean]:
    """Average ``measure`` over the rows, and assemble the means of each half.

    ``measure(points, weights)`` returns named sums over rows, by weights of the given orders;
    ``assemble`` is a linear map of their named means. ``what`` names the pass for ``progress``,
    and ``width`` numbers are computed per row.
    """
    view.problem.prepare(orders)
    rows = view.problem.rows
    size, progress = view.rows_per_block or rows.rows_per_block, view.progress or rows.progress
    rows = replace(rows, rows_per_block=size, progress=progress)
    used = range(view.n_rows if view.order is None else view.order.n)
    halved = partial(replace(view, progress=None).measure_halves, orders, measure)
    sums = rows.fold_numbered(halved, used, width=width, what=what, seed=view.seed, keyed=True)
    counts = (float(sums.pop("0", 0.0)), float(sums.pop("1", 0.0)))
    n, names = sum(counts), [name[1:] for name in sums if name[0] == "0"]
    if min(counts) == 0:  # one row, or all rows equal: the noise is taken as large as the mean
        both = {name: (sums["0" + name] + sums["1" + name]) / (n or 1.0) for name in names}
        even, means = (n / 2, n / 2), assemble(both)
        return {name: SplitMean((2 * mean, 0 * mean), even) for name, mean in means.items()}
    first, second = (
        assemble({name: sums[f"{half}{name}"] / counts[half] for name in names}) for half in (0, 1)
    )
    return {name: SplitMean((first[name], second[name]), counts) for name in first}
