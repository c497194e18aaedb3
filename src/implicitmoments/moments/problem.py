"""Moment problems: circuits whose mean is the moment, and rows to average them over."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from implicitmoments.arrays import (
    Array,
    Floats,
    as_real_array,
    check_finite,
    move_like,
    namespace_of,
)
from implicitmoments.circuits import Circuit, hermite, scalar, vector
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.rows import (
    After,
    Block,
    DrawPurpose,
    Measure,
    RowDraws,
    Rows,
    Source,
    Sums,
    blocks,
    fold_blocks,
)


class MomentProblem(ABC):
    r"""Estimators of :math:`M_t = \sum_i w_i v_i^{\otimes t}`, one for each order.

    The hypothesis of Proposition 3.2: for every order t, a circuit :math:`\mathcal{S}_t` and a
    distribution :math:`\mathcal{D}_t` of its inputs such that the mean of the output is
    :math:`M_t`. A subclass defines two methods and two attributes.

    Attributes
    ----------
    n_features : int
        Length d of the vectors.
    n_rows : int or None
        Number of independent rows; None if rows can be drawn without limit.

    Examples
    --------
    Moments of vectors that are observed without noise:

    >>> import numpy as np
    >>> from implicitmoments.circuits import power, vector
    >>> class Raw(MomentProblem):
    ...     def __init__(self, V):
    ...         self.V, (self.n_rows, self.n_features) = V, V.shape
    ...     def circuit(self, order):
    ...         return power(vector("v"), order)
    ...     def draw(self, order, rows, rng):
    ...         return {"v": self.V[rows.start : rows.stop]}
    >>> Raw(np.eye(3)).circuit(4).order
    4
    """

    n_features: int
    n_rows: int | None = None

    @abstractmethod
    def circuit(self, order: int) -> Circuit:
        """Return the circuit S_t.

        Parameters
        ----------
        order : int
            The order t.

        Returns
        -------
        Circuit
            Of order ``order``.
        """

    @abstractmethod
    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return the inputs of ``circuit(order)`` for the given rows: one block of D_t.

        Different rows are independent draws.

        Parameters
        ----------
        order : int
            The order t.
        rows : range
            Row numbers.
        rng : RowDraws
            The only source of randomness, so that the values of a row do not depend on the block
            that contains it.

        Returns
        -------
        mapping of str to array
            Inputs by name, one entry per row.
        """

    def fold(
        self,
        order: int,
        measure: Measure,
        rows: range,
        rows_per_block: int,
        *,
        seed: int = 0,
        after: After | None = None,
    ) -> Sums:
        """Sum ``measure`` of the inputs of ``circuit(order)`` over rows.

        Parameters
        ----------
        order : int
            The order t.
        measure : callable
            ``measure(inputs, rows)`` returns named sums over a block.
        rows : range
            Row numbers.
        rows_per_block : int
            Block size.
        seed : int, default 0
            Seed of the draws.
        after : callable, optional
            Called as ``after(sums, rows_done)`` after each block.

        Returns
        -------
        dict of str to array
            The sums.
        """

        def read(piece: range) -> Block:
            inputs = self.draw(order, piece, RowDraws(seed, piece, (DrawPurpose.AUXILIARY, order)))
            array: Any
            for name, array in inputs.items():
                given = array.shape[0] if hasattr(array, "shape") else len(array)
                if given != len(piece):
                    raise InputError(
                        "lengths_differ",
                        "{kind}.draw returned {given} rows of {name!r}, expected {n}",
                        **{"kind": type(self).__name__, "given": given, "name": name},
                        n=len(piece),
                    )
            return inputs

        return fold_blocks(read, measure, blocks(rows, rows_per_block), None, after)


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
            raise InputError(
                "weights_of_drawn_rows", "this problem generates its rows; omit sample_weight"
            )
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

    def fold(
        self,
        order: int,
        measure: Measure,
        rows: range,
        rows_per_block: int,
        *,
        seed: int = 0,
        after: After | None = None,
    ) -> Sums:
        """Pass over the rows where they are."""
        self.prepare([order])
        mean_count = self._mean_count

        def dressed(block: Block, rows: range) -> Mapping[str, Array]:
            rng = RowDraws(seed, rows, (DrawPurpose.AUXILIARY, order))
            return measure(self._inputs(order, block, rows, rng, mean_count), rows)

        sized = replace(self.rows, rows_per_block=rows_per_block)
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
