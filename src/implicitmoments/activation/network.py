r"""The model :math:`\sum_i w_i \sigma(v_i \cdot x + b_i)`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Entries,
    Floats,
    move_like,
    namespace_of,
)
from implicitmoments.problems.activations import Activation

SMALLEST_WEIGHT = 1e-9  # relative: a weight of zero would freeze its direction


@dataclass(frozen=True, eq=False)
class Network:
    """Weights, unit directions and biases of a sum of activations."""

    weights: Annotated[Floats, Entries(("k",))]
    directions: Annotated[Floats, Entries(("k d",))]
    activation: Activation
    # None for a model without them
    biases: Annotated[Floats | None, Entries(("k",))] = None
    positive: bool = True  # weights are kept positive
    # (d + 1,), a linear function and a constant that are added while a start is searched
    affine: Floats | None = None

    def __call__(self, x: Array) -> Array:
        """Evaluate at points (n, d)."""
        hidden: Array = self.activation(self.inputs(x))
        values = hidden @ move_like(self.weights, hidden)
        if self.affine is None:
            return values
        return values + x @ move_like(self.affine[:-1], x) + float(self.affine[-1])

    def inputs(self, x: Array) -> Array:
        """Return the inputs v_i · x + b_i (n, k) of the activations."""
        along: Array = x @ namespace_of(x).matrix_transpose(move_like(self.directions, x))
        return along if self.biases is None else along + move_like(self.biases, x)[None, :]

    @property
    def k(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def simple(self) -> bool:
        """Whether this is the model of Theorem 4.7, whose moments have positive weights."""
        return self.positive and self.biases is None

    @property
    def rows(self) -> Floats:
        """Directions, followed by biases where there are any: (k, d) or (k, d + 1)."""
        if self.biases is None:
            return self.directions
        return np.column_stack([self.directions, self.biases])

    def lift(self, x: Array) -> Array:
        """Return points with a 1 for the bias where there is one, so that inputs are products."""
        return x if self.biases is None else with_ones(x)

    @property
    def n_unknowns(self) -> int:
        """Degrees of freedom: weights, unit vectors, and biases."""
        return int(self.rows.size) + (0 if self.affine is None else len(self.affine))

    def take(self, chosen: Any) -> Network:
        """Return some of the components, in this order."""
        biases = None if self.biases is None else self.biases[chosen]
        weights, directions = self.weights[chosen], self.directions[chosen]
        return replace(self, weights=weights, directions=directions, biases=biases)

    def with_rows(self, weights: Floats, rows: Floats) -> Network:
        """Return the network of other weights and rows, with directions scaled to length 1."""
        d = self.directions.shape[1]
        biases = None if self.biases is None else rows[:, d]
        return replace(self, weights=weights, directions=unit_rows(rows[:, :d]), biases=biases)

    def through(self, basis: Floats) -> Network:
        """Return the network of points y = x · basisᵀ, for x in the span of the basis.

        Parameters
        ----------
        basis : array of shape (d, p)
            A map of directions.
        """
        return replace(self, directions=unit_rows(self.directions @ basis))

    def moved(self, step: Floats) -> Network:
        """Take a step in weights, directions and biases, back onto the unit sphere."""
        weights, rows = self.weights + step[: self.k], self.rows
        if self.positive:
            weights = np.maximum(weights, SMALLEST_WEIGHT * max(float(weights.max()), TINY))
        end = self.k + rows.size
        moved = self.with_rows(weights, rows + step[self.k : end].reshape(rows.shape))
        return moved if self.affine is None else replace(moved, affine=self.affine + step[end:])


def with_ones(x: Array) -> Array:
    """Return points (n, d) with a 1 at the end: (n, d + 1)."""
    xp = namespace_of(x)
    return xp.concat([x, xp.ones_like(x[:, :1])], axis=1)


def unit_rows(vectors: Floats) -> Floats:
    """Return vectors (k, d) scaled to length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A network and how it was reached."""

    network: Network
    loss: float  # mean squared error on the rows
    size: float  # mean square of the labels
    eps: float  # precision of the rows
    history: tuple[float, ...] = ()  # the loss at the start and after every step
    converged: bool = True

    @property
    def double(self) -> bool:
        """Whether the rows have double precision."""
        return self.eps <= float(np.finfo(np.float64).eps)

    @property
    def rounding(self) -> float:
        """Relative loss that is rounding: a smaller one means nothing."""
        return 1e-28 if self.double else 100 * self.eps**2

    @property
    def resolved_loss(self) -> float:
        """The loss, or the smallest loss that exceeds rounding."""
        least = 1e-20 if self.double else 1e3 * self.eps**2
        return max(self.loss, least * self.size, TINY)

    def expected_error(self, n: float) -> float:
        """Estimate the mean squared error on new rows by Akaike's final prediction error."""
        unknowns = self.network.n_unknowns
        return self.loss * (n + unknowns) / (n - unknowns) if n > unknowns else math.inf
