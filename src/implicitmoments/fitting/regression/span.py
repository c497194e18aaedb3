"""The span of the regressors, where there are many more features than lines."""

from __future__ import annotations

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.regression.features import FeatureRows

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
    first, second = np.zeros(q - 1), np.zeros((q - 1, q - 1))
    for block in rows.blocks():
        x = block.u[1:-1]
        cosine = np.cos(OMEGA * block.y) * block.counts
        first += x @ (np.sin(OMEGA * block.y) * block.counts)
        second -= (x * cosine) @ x.T - cosine.sum() * np.eye(q - 1)
    _, vectors = np.linalg.eigh(second)
    top = vectors[:, : -OVERSAMPLING * k - 1 : -1]
    directions, _ = np.linalg.qr(np.column_stack([first, top]))
    basis = np.zeros((1 + directions.shape[1], q))
    basis[0, 0] = 1.0
    basis[1:, 1:] = directions.T
    return basis
