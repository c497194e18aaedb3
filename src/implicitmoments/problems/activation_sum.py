"""Positive sums of activations (section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from implicitmoments.arrays import Array, Floats
from implicitmoments.moments import HermiteProblem
from implicitmoments.notes import InputError
from implicitmoments.problems.activations import Activation, as_activation
from implicitmoments.rows import Block, Rows, Source, Whitening

SMALLEST_COEFFICIENT = 1e-12  # rounding: a sine of a multiple of π is not exactly zero


class ActivationSumProblem(HermiteProblem):
    r"""Moments of the directions of :math:`y = \sum_i w_i \sigma(v_i \cdot x)`, x from N(0, I).

    Lemma 4.12: :math:`E[y\, H_t(x)] = c_{\sigma,t} \sum_i w_i v_i^{\otimes t}`. Labels may carry
    noise of mean zero.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), or Rows or Source with a column ``y``
    y : array of shape (n_samples,), or None for Rows and Source
    activation : str, Activation or callable
        The function :math:`\sigma`, as accepted by :func:`as_activation`.
    whitening : Whitening, optional
        Whitens the points first; the directions are those of whitened points.
    sample_weight : array of shape (n_samples,), optional
        Multiplicity of each row.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, y, _ = im.datasets.make_activation_sum(20_000, 3, 6, random_state=0)
    >>> problem = im.problems.ActivationSumProblem(X, y, "relu")
    >>> im.implicit_moments(problem, n_components=3, order=2).components()
    <3 of 3 components resolved from orders 4 and 6>
    """

    reduces = True

    def __init__(
        self,
        X: Array | Source | Rows,
        y: Array | None,
        activation: str | Activation | Callable[[Array], Array],
        *,
        whitening: Whitening | None = None,
        sample_weight: Array | None = None,
    ) -> None:
        rows = Rows.of(X, y=y)
        super().__init__(
            rows if whitening is None else whitening.map(rows), sample_weight=sample_weight
        )
        self.activation, self.whitening = as_activation(activation), whitening

    def original_vectors(self, vectors: Floats) -> Floats:
        """Map directions to those that act on the original points, less their mean.

        Parameters
        ----------
        vectors : array of shape (k, n_features)
            Directions of whitened points.

        Returns
        -------
        array of shape (k, n_features)
            In the user's coordinates.
        """
        return vectors if self.whitening is None else self.whitening.original(vectors)

    def through(self, basis: Floats) -> ActivationSumProblem:
        """Return the problem of the points' coordinates in an orthonormal basis.

        Directions in the span of the basis keep their moments: Hermite tensors commute with
        projection.

        Parameters
        ----------
        basis : array of shape (p, n_features)
            Orthonormal rows.

        Returns
        -------
        ActivationSumProblem
            In p features.
        """
        return ActivationSumProblem(self.rows.mapped(linear=basis.T), None, self.activation)

    def has_order(self, order: int) -> bool:
        """Return whether the Hermite coefficient of this order is not zero."""
        return abs(self.activation.coefficient(order)) > SMALLEST_COEFFICIENT

    def reduce(self, order: int, weights: Array, lower: Mapping[int, Array]) -> Array:
        """Replace y by its residual after the known lower orders."""
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
                "the Hermite coefficient of order {order} of {name} is zero, so labels carry no "
                "information about the moment of order {order}; use another order",
                **{"order": order, "name": self.activation.name},
            )
        return block["y"] / self._divisor(order)
