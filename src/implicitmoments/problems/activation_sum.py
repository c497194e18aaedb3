"""Positive sums of activations (section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from implicitmoments.arrays import Array, Floats
from implicitmoments.moments import HermiteProblem
from implicitmoments.notes import InputError, InputTypeError
from implicitmoments.problems.activations import Activation
from implicitmoments.rows import Block, Rows, Source, Whitening

__all__ = ["ActivationSumProblem"]

SMALLEST_COEFFICIENT = 1e-12  # a sine of a multiple of π is not quite zero


class ActivationSumProblem(HermiteProblem):
    r"""Moments of the directions of :math:`y = \sum_i w_i \sigma(v_i \cdot x)`, x from N(0, I).

    Lemma 4.12: :math:`E[y\, H_t(x)] = c_{\sigma,t} \sum_i w_i v_i^{\otimes t}`. Labels may carry
    noise of mean zero.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or Rows or Source with a column ``y``
    y : array of shape (n_samples,), or None for Rows and Source
    activation : Activation
    whitening : Whitening, optional
        Standardise the points by it first; the directions are those of standardised points.
    sample_weight : array of shape (n_samples,), optional
        How often each row counts.

    Examples
    --------
    >>> from implicitmoments import implicit_moments
    >>> from implicitmoments.datasets import make_activation_sum
    >>> from implicitmoments.problems import ActivationSumProblem, relu
    >>> X, y, _ = make_activation_sum(20_000, 3, 6, random_state=0)
    >>> problem = ActivationSumProblem(X, y, relu())
    >>> implicit_moments(problem, n_components=3, order=2).components()
    <3 of 3 components told apart at order 2>
    """

    reduces = True

    def __init__(
        self,
        X: Array | Source | Rows,
        y: Array | None,
        activation: Activation,
        *,
        whitening: Whitening | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        if not isinstance(activation, Activation):
            raise InputTypeError(
                "not_an_activation",
                "activation is one of relu(), cosine(...) or an Activation, got {activation!r}",
                activation=activation,
            )
        rows = Rows.of(X, y=y)
        super().__init__(
            rows if whitening is None else whitening.map(rows), sample_weight=sample_weight
        )
        self.activation, self.whitening = activation, whitening

    def original_vectors(self, vectors: Floats) -> Floats:
        """Return the directions that act on points as they were given, less their mean."""
        return vectors if self.whitening is None else self.whitening.original(vectors)

    def through(self, basis: Floats) -> ActivationSumProblem:
        """Return the problem of the points' coordinates in an orthonormal basis (p, d).

        Directions in the span of the basis keep their moments: Hermite tensors commute with
        projection.
        """
        return ActivationSumProblem(self.rows.mapped(linear=basis.T), None, self.activation)

    def has_order(self, order: int) -> bool:
        """Say whether the activation has a part of this degree."""
        return abs(self.activation.coefficient(order)) > SMALLEST_COEFFICIENT

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:
        """Put for y its residual after what the known lower orders explain of it."""
        explained: Any = 0.0
        for m, inner in lower.items():
            if m < order:
                explained = explained + self.activation.coefficient(m) * inner
        left: Array = weights - explained / self._divisor(order)
        return left

    def _divisor(self, order: int) -> float:
        return self.activation.coefficient(order) * math.sqrt(math.factorial(order))

    def weigh(self, order: int, block: Block, rows: range) -> Array:  # noqa: ARG002
        """Return ``y / (c_t · √t!)``."""
        if not self.has_order(order):
            raise InputError(
                "order_without_data",
                "the Hermite coefficient of order {order} of {name} is zero, so labels say "
                "nothing about the moment of order {order}; ask for another order",
                order=order,
                name=self.activation.name,
            )
        return block["y"] / self._divisor(order)
