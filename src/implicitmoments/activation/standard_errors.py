"""Standard errors of a fitted sum of activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.activation.least_squares import MOST_UNKNOWNS, mean_curvature
from implicitmoments.activation.network import FittedNetwork
from implicitmoments.arrays import TINY, Floats
from implicitmoments.rows import Rows

SMALLEST_CURVATURE = 1e-12  # relative; below it a move changes the sum by rounding only
LEAST = TINY**0.5  # its square is still a normal number


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors from the curvature of the mean squared error."""

    # (k,), directions as lengths. NaN where there are too many unknowns to compute them
    weights: Floats
    directions: Floats  # (k,)
    biases: Floats | None  # (k,)
    # (k,), directions that can turn without changing the sum
    free: np.ndarray[Any, np.dtype[np.bool_]]

    def take(self, chosen: Any) -> StandardErrors:
        """Return the errors of some components, NaN where a direction is not identified."""
        free = self.free[chosen]

        def known(errors: Floats) -> Floats:
            return np.where(free, np.nan, errors[chosen])

        biases = None if self.biases is None else known(self.biases)
        return StandardErrors(known(self.weights), known(self.directions), biases, free)


def standard_errors(rows: Rows, fitted: FittedNetwork) -> StandardErrors:
    r"""Invert the normal equations: the covariance is :math:`s^2 (J^\top J)^{-1}`."""
    network = fitted.network
    (k, d), q = network.directions.shape, network.rows.shape[1]
    if k * (q + 1) > MOST_UNKNOWNS:
        unknown = np.full(k, np.nan)
        biases = None if network.biases is None else unknown
        return StandardErrors(unknown, unknown, biases, np.zeros(k, dtype=bool))
    gram = mean_curvature(rows, network)
    # in units in which every unknown has curvature 1; weights and directions have their own
    curvatures = np.diag(gram)
    largest = np.repeat([curvatures[:k].max(), curvatures[k:].max()], (k, k * q))
    still = curvatures <= SMALLEST_CURVATURE * np.maximum(largest, LEAST)
    root = np.where(still, 1.0, np.sqrt(np.maximum(curvatures, LEAST)))
    scaled = gram / np.outer(root, root)
    scaled[still, :] = scaled[:, still] = 0.0
    values, vectors = np.linalg.eigh(scaled)
    inverse = (vectors**2) @ (1 / np.maximum(values, SMALLEST_CURVATURE))
    variance = fitted.loss / max(rows.total - network.n_unknowns, 1.0)
    by_move = (inverse / root**2)[k:].reshape(k, q)
    # of the d moves the one along the direction itself, of mean curvature, is no error
    own = 1 / np.maximum(curvatures[k:].reshape(k, q)[:, :d].mean(axis=1), LEAST)
    # relative variance above which a direction is free to turn
    loose = 1e7 if fitted.double else 0.1 / fitted.eps**0.75
    free = inverse[k:].reshape(k, q).max(axis=1) > loose
    free |= still[k:].reshape(k, q).any(axis=1)
    own = np.where(free, 0.0, own)
    return StandardErrors(
        np.sqrt(variance * (inverse / root**2)[:k]),
        np.sqrt(variance * np.maximum(by_move[:, :d].sum(axis=1) - own, 0.0)),
        None if network.biases is None else np.sqrt(variance * by_move[:, d]),
        free,
    )
