"""What is to be estimated: circuits whose mean is the moment, and rows to average them over."""

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
    Measure,
    RowDraws,
    Rows,
    Source,
    Stream,
    Sums,
    blocks,
    fold_blocks,
)

__all__ = ["HermiteProblem", "MomentProblem"]


class MomentProblem(ABC):
    r"""A family of estimators of :math:`M_t = \sum_i w_i v_i^{\otimes t}`, one for each order.

    The hypothesis of Proposition 3.2: for every order t that is asked for, a circuit
    :math:`\mathcal{S}_t` and a distribution :math:`\mathcal{D}_t` of its inputs such that the
    mean of the output is :math:`M_t`. Subclass it with two methods and two attributes.

    Attributes
    ----------
    n_features : int
        Length d of the vectors.
    n_rows : int or None
        How many independent rows there are; None when more can always be drawn.

    Examples
    --------
    Moments of vectors that are seen directly, with no noise to remove:

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
        """Return the circuit S_t, of order ``order``."""

    @abstractmethod
    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return the inputs of ``circuit(order)`` for the given rows: one block of D_t.

        Take randomness from ``rng`` alone, so that the numbers of a row do not depend on the
        block it comes in. Different rows are independent draws.
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
        """Sum over rows what ``measure`` gives of the inputs of ``circuit(order)``."""

        def read(piece: range) -> Block:
            inputs = self.draw(order, piece, RowDraws(seed, piece, (Stream.AUXILIARY, order)))
            array: Any
            for name, array in inputs.items():
                given = array.shape[0] if hasattr(array, "shape") else len(array)
                if given != len(piece):
                    raise InputError(
                        "lengths_differ",
                        "{kind}.draw gave {given} rows of {name!r} and was asked for {n_piece}",
                        kind=type(self).__name__,
                        given=given,
                        name=name,
                        n_piece=len(piece),
                    )
            return inputs

        return fold_blocks(read, measure, blocks(rows, rows_per_block), None, after)


class HermiteProblem(MomentProblem):
    r"""Moments of the form :math:`M_t = E[c_t \, He_t(x)]`, with :math:`He_t = \sqrt{t!} H_t`.

    All four problems of the paper are of this form. Its circuit is
    :math:`c \sqrt{t!}\, H_t(x, y)` with an auxiliary :math:`y \sim N(0, I)`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Rows, Source, or callable
    weight : callable, optional
        ``weight(order)`` returns :math:`c_t` for all rows, ``(n_samples,)``, or None for all
        ones. Models whose rows do not fit in memory override :meth:`weigh` instead.
    sample_weight : array of shape (n_samples,), optional
        How often each row counts in every mean: a weight of 2 is a row that is there twice, a
        weight of 0 one that is not. In moments only ratios matter.

    Examples
    --------
    The means of a mixture have the weight 1, which is the default:

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
        points: Array | Source | Rows,
        weight: Callable[[int], Array | None] | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        if not (weight is None or callable(weight)):
            raise InputTypeError(
                "weight_not_callable",
                "weight is a function of the order that returns one weight a row, got {kind}; try "
                "weight=lambda order: w",
                kind=type(weight).__name__,
            )
        self.rows = Rows.of(points)
        self.n_features, self.n_rows = self.rows.n_features, self.rows.source.n_rows
        if sample_weight is not None:
            self.rows = self.rows.weighted(self._counted(sample_weight))
        # all orders have the same weights, so that they can be mixed
        self.uniform = weight is None and type(self).weigh is HermiteProblem.weigh
        self._weight = weight
        self._asked: dict[int, Array | None] = {}

    def weigh(self, order: int, block: Block, rows: range) -> Array | None:
        """Return :math:`c_t` for one block of rows, or None for all ones."""
        weights = self._all_weights(order)
        return None if weights is None else move_like(weights[rows.start : rows.stop], block["x"])

    @property
    def mass(self) -> float:
        """The number of rows, with their multiplicity; 0 for a problem that makes its rows."""
        return self.rows.total

    def prepare(self, orders: Sequence[int]) -> None:
        """Compute what weights of these orders need of all rows, before a pass weighs any."""

    def _counted(self, sample_weight: Array) -> Array:
        if self.n_rows is None:
            raise InputError(
                "weights_of_drawn_rows",
                "sample_weight is for rows that are there, and this problem makes its",
            )
        counts = self._checked(sample_weight, "sample_weight")
        xp = namespace_of(counts)
        if bool(xp.any(counts < 0)):
            raise InputError(
                "negative_weight",
                "sample_weight has negative entries; weights are 0 or more",
            )
        if float(xp.sum(counts)) == 0:
            raise InputError(
                "weights_all_zero",
                "sample_weight is zero for every row; give some row a weight",
            )
        return counts

    def _all_weights(self, order: int) -> Array | None:
        """Ask the user's function once for each order, and check what it gives."""
        if order not in self._asked:
            given = None if self._weight is None else self._weight(order)
            self._asked[order] = (
                None if given is None else self._checked(given, f"weight({order})")
            )
        return self._asked[order]

    def _checked(self, given: Array, name: str) -> Array:
        weights = as_real_array(given, name, 1)
        if self.n_rows is not None and weights.shape[0] != self.n_rows:
            raise InputError(
                "lengths_differ",
                "{name} has {n_rows} rows, expected {expected}: one weight a point",
                name=name,
                n_rows=weights.shape[0],
                expected=self.n_rows,
            )
        check_finite(weights, name)
        return weights

    def has_order(self, order: int) -> bool:  # noqa: ARG002 (models override it)
        """Say whether the rows tell anything about the moment of this order."""
        return True

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:  # noqa: ARG002
        r"""Remove from the weights what lower orders explain of them.

        Under Gaussian points :math:`He_t(x)` is orthogonal to polynomials of lower degree, so
        what these explain of a weight is noise. Models that know how set :attr:`reduces` and
        override this.

        Parameters
        ----------
        order : int
        weights : array of shape (n,)
        lower : mapping of int to array of shape (n,)
            :math:`\langle H_m(x), M_m \rangle` for the orders m that are known.
        """
        return weights

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map hidden vectors (k, n_features) to the user's own coordinates."""
        return vectors

    def circuit(self, order: int) -> Circuit:
        """Return ``c · √order! · hermite(x, y, order)``."""
        x, y, c = vector("x"), vector("y"), scalar("c")
        return math.sqrt(math.factorial(order)) * c * hermite(x, y, order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return points, weights and fresh auxiliary normals."""
        block = self.rows.read(rows, rng.fork(Stream.ROWS))
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
            rng = RowDraws(seed, rows, (Stream.AUXILIARY, order))
            return measure(self._inputs(order, block, rows, rng, mean_count), rows)

        sized = replace(self.rows, rows_per_block=rows_per_block)
        return sized.fold_numbered(dressed, rows, what=f"order {order}", seed=seed, after=after)

    @property
    def _mean_count(self) -> float:
        return self.mass / self.n_rows if self.n_rows else 1.0

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
