"""How well a fitted network is known: standard errors, and directions that can turn freely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.activation.network import (
    MOST_UNKNOWNS,
    Polished,
    normal_equations,
)
from implicitmoments.arrays import Floats
from implicitmoments.problems.labelled_rows import LabelledRows

__all__ = ["Certainty", "measure_certainty"]

SMALLEST_CURVATURE = 1e-12  # relative; below it a move changes the sum by rounding alone
TINY = float(np.finfo(np.float64).tiny) ** 0.5


@dataclass(frozen=True, eq=False)
class Certainty:
    """Standard errors from the curvature of the mean squared error.

    Attributes
    ----------
    weight_errors, direction_errors : array of shape (k,)
        Directions as lengths. NaN where there are too many unknowns to compute them.
    loose : array of bool of shape (k,)
        Directions that can turn without changing the sum.
    """

    weight_errors: Floats
    direction_errors: Floats
    loose: np.ndarray[Any, np.dtype[np.bool_]]


def measure_certainty(rows: LabelledRows, polished: Polished) -> Certainty:
    r"""Invert the normal equations: the covariance is :math:`s^2 (J^\top J)^{-1}`."""
    network = polished.network
    k, d = network.directions.shape
    if k * (d + 1) > MOST_UNKNOWNS:
        unknown = np.full(k, np.nan)
        return Certainty(unknown, unknown, np.zeros(k, dtype=bool))
    gram, _ = normal_equations(rows, network)
    # in units in which every unknown has curvature 1; weights and directions have their own
    curvatures = np.diag(gram)
    floors = [
        SMALLEST_CURVATURE * max(float(part.max()), TINY)
        for part in (curvatures[:k], curvatures[k:])
    ]
    still = curvatures <= np.repeat(floors, (k, k * d))
    root = np.where(still, 1.0, np.sqrt(np.maximum(curvatures, TINY)))
    scaled = gram / np.outer(root, root)
    scaled[still, :] = scaled[:, still] = 0.0
    values, vectors = np.linalg.eigh(scaled)
    inverse = (vectors**2) @ (1 / np.maximum(values, SMALLEST_CURVATURE))
    variance = polished.loss / max(rows.mass - network.n_unknowns, 1.0)
    by_move = (inverse / root**2)[k:].reshape(k, d)
    # of the d moves the one along the direction itself, of mean curvature, is no error
    own = 1 / np.maximum(curvatures[k:].reshape(k, d).mean(axis=1), TINY)
    loose = (inverse[k:].reshape(k, d).max(axis=1) > polished.rounding.looseness) | still[
        k:
    ].reshape(k, d).any(axis=1)
    own = np.where(loose, 0.0, own)
    return Certainty(
        np.sqrt(variance * (inverse / root**2)[:k]),
        np.sqrt(variance * np.maximum(by_move.sum(axis=1) - own, 0.0)),
        loose,
    )
