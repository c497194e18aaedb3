"""Hermite problems, and averages over their rows in the coordinates of a frame."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from implicitmoments.arrays import (
    Array,
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
from implicitmoments.moments.split_mean import SplitMean
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows import (
    After,
    Block,
    DrawPurpose,
    KeyedPermutation,
    NumberedMeasure,
    Progress,
    RowDraws,
    Rows,
    Sums,
    Table,
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
    points : array of shape (n_samples, n_features), Rows, Table, or callable
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

    See Also
    --------
    MomentProblem : A problem defined by circuits.
    implicit_moments : Estimate moments of a problem.

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

    lowest_order = 0

    def __init__(
        self,
        points: Array | Table | Rows | Callable[[range, RowDraws], Any],
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
        self.n_features, self.n_rows = self.rows.n_features, self.rows.table.n_rows
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

    def circuit(self, order: int) -> Circuit:
        r"""Return the circuit :math:`c \sqrt{t!} \, H_t(x, y)` of order t."""
        x, y, c = vector("x"), vector("y"), scalar("c")
        return math.sqrt(math.factorial(order)) * c * hermite(x, y, order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return points, weights and fresh auxiliary normals."""
        block = self.rows.read(rows, rng.seed)
        return self._inputs(order, block, rows, rng, self._mean_count)

    def _fold(
        self, order: int, measure: NumberedMeasure, rows: range, size: int, seed: int, after: After
    ) -> Sums:
        """Pass over the rows where they are."""
        self.prepare([order])
        mean_count = self._mean_count

        def dressed(block: Block, rows: range) -> Mapping[str, Array]:
            rng = RowDraws(seed, rows, (DrawPurpose.AUXILIARY, order))
            return measure(self._inputs(order, block, rows, rng, mean_count), rows)

        def progress(_: str, done: int, __: int) -> None:
            after(rows.start + done)

        sized = replace(self.rows, rows_per_block=size, progress=progress)
        return sized.fold_numbered(dressed, rows, what=f"order {order}", seed=seed)

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
    # groups into which these rows are divided, to estimate the noise of a mean; an even number
    n_groups: int = 2
    rows_per_block: int | None = None  # by default fewer, the more numbers are computed per row
    seed: int = 0  # for a problem that generates its rows
    # evaluates lower moments, for problems that can remove them from their weights
    lower: Lower | None = None
    progress: Progress | None = None
    order: KeyedPermutation | None = None  # shuffled, if not all are used: the first of it are

    def in_frame(self, frame: Frame) -> FramedRows:
        """Return the same rows in another frame."""
        return replace(self, frame=frame)

    def measure_groups(
        self, orders: Sequence[int], measure: RowMeasure, block: Block, rows: range
    ) -> Sums:
        """Sum ``measure(points, weights)`` over each group of a block, named ``group:name``.

        Weights include multiplicities. Parts and groups are determined by a hash of the point, so
        they depend neither on the block size nor on the order of the rows, and equal points are
        always in the same group.
        """
        points, (i, q) = self.frame.points(block["x"]), self.part
        xp, counts = namespace_of(points), block.get("counts")
        lower = None if self.lower is None else self.lower(block["x"])
        given = {t: self._weights(t, block, rows, lower) for t in orders}
        shares = shares_of(block, self.n_groups * q)
        if self.order is not None:
            used = index_like(1 * self.order.chosen(rows, range(self.n_rows)), shares)
            shares = xp.where(used > 0, shares, -1)  # no share of those left out
        sums: Sums = {}
        for group in range(self.n_groups):
            (taken,) = xp.nonzero(shares == self.n_groups * i + group)
            chosen = {t: c if c is None else xp.take(c, taken, axis=0) for t, c in given.items()}
            n = taken.shape[0] if counts is None else xp.sum(xp.take(counts, taken, axis=0))
            measured = measure(xp.take(points, taken, axis=0), chosen)
            sums |= {f"{group}:{name}": value for name, value in measured.items()}
            sums[f"{group}"] = float(n)
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
    return FramedRows(
        problem,
        frame,
        n_rows,
        rows_per_block=rows_per_block,
        seed=seed,
        progress=progress,
        order=order,
    )


def average(
    view: FramedRows,
    orders: Sequence[int],
    measure: RowMeasure,
    assemble: Callable[[Sums], Sums],
    what: str,
    width: int,
) -> dict[str, SplitMean]:
    """Average ``measure`` over the rows, and assemble the means of each group.

    ``measure(points, weights)`` returns named sums over rows, by weights of the given orders;
    ``assemble`` is a linear map of their named means. ``what`` names the pass for ``progress``,
    and ``width`` numbers are computed per row.
    """
    view.problem.prepare(orders)
    rows = view.problem.rows
    size, progress = view.rows_per_block or rows.rows_per_block, view.progress or rows.progress
    rows = replace(rows, rows_per_block=size, progress=progress)
    grouped = partial(replace(view, progress=None).measure_groups, orders, measure)
    used = range(view.n_rows if view.order is None else view.order.n)
    names = [str(group) for group in range(view.n_groups)]
    sums = rows.fold_numbered(
        grouped,
        used,
        width=width,
        parts=2 * view.n_groups,  # by the sign of the weight, too
        what=what,
        seed=view.seed,
        keyed=True,
    )
    counts = tuple(float(sums.pop(group, 0.0)) for group in names)
    by_group: list[Sums] = [{} for _ in names]
    for name, total in sums.items():
        group, own = name.split(":", 1)
        by_group[int(group)][own] = total
    if min(sum(counts[::2]), sum(counts[1::2])) == 0:
        # one row, or all rows equal: the noise is taken as large as the mean
        n, first = sum(counts), by_group[0]
        both = {name: sum(one[name] for one in by_group) / (n or 1.0) for name in first}
        even, whole = (n / 2, n / 2), assemble(both)
        return {name: SplitMean((2 * mean, 0 * mean), even) for name, mean in whole.items()}
    means = [
        assemble({name: total / (count or 1.0) for name, total in one.items()})
        for one, count in zip(by_group, counts, strict=True)
    ]
    return {name: SplitMean(tuple(mean[name] for mean in means), counts) for name in means[0]}
