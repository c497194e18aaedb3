"""Standard errors of a fitted network, and directions that are not identified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.activation.network import MOST_UNKNOWNS, FittedNetwork, normal_equations
from implicitmoments.arrays import Floats
from implicitmoments.rows import Rows

__all__ = ["StandardErrors", "standard_errors"]

SMALLEST_CURVATURE = 1e-12  # relative; below it a move changes the sum by rounding only
TINY = float(np.finfo(np.float64).tiny) ** 0.5


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors from the curvature of the mean squared error.

    Attributes
    ----------
    weights, directions : array of shape (k,)
        Directions as lengths. NaN where there are too many unknowns to compute them.
    free : array of bool of shape (k,)
        Directions that can turn without changing the sum.
    """

    weights: Floats
    directions: Floats
    free: np.ndarray[Any, np.dtype[np.bool_]]


def standard_errors(rows: Rows, fitted: FittedNetwork) -> StandardErrors:
    r"""Invert the normal equations: the covariance is :math:`s^2 (J^\top J)^{-1}`."""
    network = fitted.network
    k, d = network.directions.shape
    if k * (d + 1) > MOST_UNKNOWNS:
        unknown = np.full(k, np.nan)
        return StandardErrors(unknown, unknown, np.zeros(k, dtype=bool))
    gram, _ = normal_equations(rows, network)
    # in units in which every unknown has curvature 1; weights and directions have their own
    curvatures, least = np.diag(gram), TINY
    floors = [
        SMALLEST_CURVATURE * max(float(part.max()), least)
        for part in (curvatures[:k], curvatures[k:])
    ]
    still = curvatures <= np.repeat(floors, (k, k * d))
    root = np.where(still, 1.0, np.sqrt(np.maximum(curvatures, least)))
    scaled = gram / np.outer(root, root)
    scaled[still, :] = scaled[:, still] = 0.0
    values, vectors = np.linalg.eigh(scaled)
    inverse = (vectors**2) @ (1 / np.maximum(values, SMALLEST_CURVATURE))
    variance = fitted.loss / max(rows.total - network.n_unknowns, 1.0)
    by_move = (inverse / root**2)[k:].reshape(k, d)
    # of the d moves the one along the direction itself, of mean curvature, is no error
    own = 1 / np.maximum(curvatures[k:].reshape(k, d).mean(axis=1), least)
    free = inverse[k:].reshape(k, d).max(axis=1) > fitted.looseness
    free |= still[k:].reshape(k, d).any(axis=1)
    own = np.where(free, 0.0, own)
    return StandardErrors(
        np.sqrt(variance * (inverse / root**2)[:k]),
        np.sqrt(variance * np.maximum(by_move.sum(axis=1) - own, 0.0)),
        free,
    )
