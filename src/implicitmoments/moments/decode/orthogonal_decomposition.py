r"""Decompose a symmetric three-way array into orthogonal components.

:math:`T = \sum_i \lambda_i u_i^{\otimes 3}` with orthonormal :math:`u_i`: iterate
:math:`U \leftarrow \mathrm{polar}([T(\cdot, u_i, u_i)]_i)` from a random orthogonal U. All
components are found simultaneously, so errors do not accumulate as they do with deflation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats

N_STARTS = 3
TOLERANCE = 1e-8
MAX_ITERATIONS = 200


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Orthogonal components of a symmetric array."""

    vectors: Floats  # (k, k), orthonormal columns u_i
    values: Floats  # (k,), λ_i = T(u_i, u_i, u_i)
    iterations: int
    # relative difference between the best and the worst objective of the starts; of the order of
    # rounding if all starts found the same components
    spread: float = 0.0

    @property
    def objective(self) -> float:
        """The objective of the iteration: the sum of squares of the values."""
        return float(np.sum(self.values**2))


def decompose(array: Floats, *, seed: int = 0, n_starts: int = N_STARTS) -> Decomposition:
    """Return the best of several random starts."""
    rng = np.random.default_rng(seed)
    k = len(array)
    found = []
    for _ in range(n_starts):
        start, _ = np.linalg.qr(rng.normal(size=(k, k)))
        found.append(refine(array, start))
    found.sort(key=lambda d: d.objective)
    best, worst = found[-1], found[0]
    spread = 1 - worst.objective / best.objective if best.objective > 0 else 0.0
    return Decomposition(best.vectors, best.values, best.iterations, spread)


def refine(array: Floats, start: Floats, tolerance: float = TOLERANCE) -> Decomposition:
    """Iterate from one orthogonal matrix until convergence."""
    vectors, iteration = start, 0
    while iteration < MAX_ITERATIONS:
        iteration += 1
        left, _, right = np.linalg.svd(_apply(array, vectors))
        moved = left @ right
        change = float(np.abs(moved - vectors).max())
        vectors = moved
        if change < tolerance:
            break
    values = np.sum(_apply(array, vectors) * vectors, axis=0)
    return Decomposition(vectors, values, iteration)


def _apply(array: Floats, vectors: Floats) -> Floats:
    """Return T(·, u_i, u_i) as columns."""
    k = len(array)
    once = (array.reshape(k * k, k) @ vectors).reshape(k, k, k)
    twice: Floats = np.einsum("abi,bi->ai", once, vectors)
    return twice
