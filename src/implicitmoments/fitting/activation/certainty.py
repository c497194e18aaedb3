"""How well a fitted network is known: standard errors, and directions that can turn freely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.activation.network import MOST_UNKNOWNS, Network, normal_equations
from implicitmoments.fitting.rows import LabelledRows

__all__ = ["Certainty", "measure_certainty"]

SMALLEST_CURVATURE = 1e-12  # relative; below it a move changes the sum by rounding alone
LOOSE = 1e7  # mean curvature over that of the loosest moves of one direction


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


def measure_certainty(rows: LabelledRows, network: Network, loss: float) -> Certainty:
    r"""Invert the normal equations: the covariance is :math:`s^2 (J^\top J)^{-1}`."""
    k, d = network.directions.shape
    if k * (d + 1) > MOST_UNKNOWNS:
        unknown = np.full(k, np.nan)
        return Certainty(unknown, unknown, np.zeros(k, dtype=bool))
    gram, _ = normal_equations(rows, network)
    # in units in which every unknown has curvature 1
    root = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(gram / np.outer(root, root))
    inverse = (vectors**2) @ (1 / np.maximum(values, SMALLEST_CURVATURE))
    n = sum(float(block.counts.sum()) for block in rows.blocks(1))
    variance = loss / max(n - network.n_unknowns, 1.0)
    spread = (inverse / root**2)[k:].reshape(k, d).sum(axis=1)
    # of the d moves the one along the direction itself is no error
    own = np.array([1 / max(float(v @ gram_of @ v), 1e-300) for v, gram_of in _own(gram, network)])
    loose = inverse[k:].reshape(k, d).max(axis=1) > LOOSE
    return Certainty(
        np.sqrt(variance * (inverse / root**2)[:k]),
        np.sqrt(variance * np.maximum(spread - own, 0.0)),
        loose,
    )


def _own(gram: Floats, network: Network) -> list[tuple[Floats, Floats]]:
    """Pair each direction with the block of the matrix that is its own."""
    k, d = network.directions.shape
    starts = [k + i * d for i in range(k)]
    return [
        (v, gram[a : a + d, a : a + d]) for v, a in zip(network.directions, starts, strict=True)
    ]
