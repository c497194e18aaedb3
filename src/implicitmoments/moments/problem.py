"""What is to be estimated: circuits whose mean is the moment, and rows to average them over."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from implicitmoments.backends import Array, as_real_array, check_finite, move_like, namespace_of
from implicitmoments.circuits import Circuit, hermite, scalar, vector
from implicitmoments.samples import Block, RowDraws, Source, as_source

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


class HermiteProblem(MomentProblem):
    r"""Moments of the form :math:`M_t = E[c_t \, He_t(x)]`, with :math:`He_t = \sqrt{t!} H_t`.

    All four problems of the paper are of this form. Its circuit is
    :math:`c \sqrt{t!}\, H_t(x, y)` with an auxiliary :math:`y \sim N(0, I)`.

    Parameters
    ----------
    points : array of shape (n_samples, n_features), Source, or callable
    weight : callable, optional
        ``weight(order)`` returns :math:`c_t` for all rows, ``(n_samples,)``, or None for all
        ones. Models whose rows do not fit in memory override :meth:`weigh` instead.
    """

    def __init__(
        self,
        points: Array | Source,
        weight: Callable[[int], Array | None] | None = None,
    ) -> None:
        self.source = as_source(points)
        self.n_features, self.n_rows = self.source.n_features, self.source.n_rows
        self._weight = weight

    def weigh(self, order: int, block: Block, rows: range) -> Array | None:
        """Return :math:`c_t` for one block of rows, or None for all ones."""
        if self._weight is None:
            return None
        given = self._weight(order)
        if given is None:
            return None
        name = f"weight({order})"
        weights = as_real_array(given, name, 1)
        if self.n_rows is not None and weights.shape[0] != self.n_rows:
            raise ValueError(
                f"{name} has {weights.shape[0]} rows, expected {self.n_rows}: one weight a point"
            )
        check_finite(weights, name)
        return move_like(weights[rows.start : rows.stop], block["x"])

    def circuit(self, order: int) -> Circuit:
        """Return ``c · √order! · hermite(x, y, order)``."""
        x, y, c = vector("x"), vector("y"), scalar("c")
        return math.sqrt(math.factorial(order)) * c * hermite(x, y, order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:
        """Return points, weights and fresh auxiliary normals."""
        block = self.source.read(rows, rng)
        x = block["x"]
        c = self.weigh(order, block, rows)
        if c is None:
            c = namespace_of(x).ones_like(x[:, 0])
        return {"x": x, "c": c, "y": move_like(rng.normal(self.n_features), x)}
