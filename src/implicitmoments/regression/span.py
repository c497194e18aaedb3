"""The span of the regressors, where there are many more features than lines."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.regression.design_rows import FeatureBlock, FeatureRows, as_sum
from implicitmoments.rows import Sums

__all__ = ["search_span"]

FEW = 30  # features in which random points still find the peaks
OVERSAMPLING = 2
OMEGA = 1.5  # between the best of order 1 and that of order 2, over the deviation of y


def search_span(rows: FeatureRows, k: int) -> Floats | None:
    r"""Return an orthonormal basis (r, q) to search in, or None where all features will do.

    With Fourier weights :math:`-E[\cos(\omega y)(x x^T - I)] / \omega^2` is a positive combination
    of :math:`\beta_i \beta_i^T`: its top eigenvectors, and those of
    :math:`E[\sin(\omega y) x]`, span the regressors (order 2 of Lemma 4.23). The constant is kept.
    """
    q = rows.n_features
    if q - 1 <= max(FEW, OVERSAMPLING * k + 1):
        return None
    sums = rows.fold(_wave_moments, 3 * q, "span of the regressors")
    first = sums["first"]
    second = float(sums["mass"]) * np.eye(q - 1) - sums["second"]
    _, vectors = np.linalg.eigh(second)
    top = vectors[:, : -OVERSAMPLING * k - 1 : -1]
    directions, _ = np.linalg.qr(np.column_stack([first, top]))
    basis = np.zeros((1 + directions.shape[1], q))
    basis[0, 0] = 1.0
    basis[1:, 1:] = directions.T
    return basis


def _wave_moments(block: FeatureBlock) -> Sums:
    """Sum sin(ωy) x, cos(ωy) x xᵀ and cos(ωy)."""
    x, xp = block.u[1:-1, :], namespace_of(block.u)
    cosine = xp.cos(OMEGA * block.y) * block.counts
    return {
        "first": as_sum(x @ (xp.sin(OMEGA * block.y) * block.counts)),
        "second": as_sum((x * cosine) @ xp.matrix_transpose(x)),
        "mass": as_sum(xp.sum(cosine)),
    }
