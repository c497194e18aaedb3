"""The top-k subspace of a symmetric moment matrix, and its distance from the truth."""

from __future__ import annotations

import math

import numpy as np

from implicitmoments.arrays import Array, Floats, descending_eigh, namespace_of, to_numpy
from implicitmoments.projections import RecursiveProjection
from implicitmoments.rows import Truth


def top_subspace(matrix: Array, k: int) -> tuple[Array, Floats]:
    """Return an orthonormal basis of the top-k eigenspace as rows, and all eigenvalues.

    Erratum 8: the box takes singular vectors; the moment of even order is positive
    semidefinite, so a large negative eigenvalue is noise and is left out. With fewer than k
    dimensions all are kept.
    """
    values, vectors = descending_eigh(matrix)
    xp = namespace_of(vectors)
    basis = xp.matrix_transpose(vectors[:, : min(k, int(matrix.shape[0]))])
    return basis, np.asarray(to_numpy(values), dtype=np.float64)


def distances_to_truth(projection: RecursiveProjection, truth: Truth) -> Floats:
    r"""Return :math:`\eta_r = \max_i \mathrm{dist}(\sqrt{w_i} v_i^{\otimes r}, U_r)` for every r.

    The part of :math:`v^{\otimes r}` outside :math:`U_r` is a sum of orthogonal pieces: the part
    dropped by each step times the norms of the following slots. Adding their squares avoids the
    cancellation in :math:`\|v\|^{2r} - \|\Phi_r v^{\otimes r}\|^2`.

    Returns
    -------
    array of shape (order,)
    """
    vectors, norms2 = truth.vectors, np.sum(truth.vectors**2, axis=1)
    image = np.ones((len(vectors), 1))
    dropped2 = np.zeros(len(vectors))
    etas = []
    for step in projection.steps:
        theta = np.asarray(to_numpy(step.as_matrix()), dtype=np.float64)
        joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        image = joined @ theta.T
        dropped2 = norms2 * dropped2 + np.sum((joined - image @ theta) ** 2, axis=1)
        etas.append(math.sqrt(float(np.max(truth.weights * dropped2))))
    return np.array(etas)


def projected_moment(projection: RecursiveProjection, truth: Truth) -> Floats:
    r"""Return :math:`(\Phi_r \otimes I) M_{2r+2} (\Phi_r \otimes I)^\top` of the truth.

    With r = ``projection.order``; a square matrix of side ``projection.dim · n_features``.
    """
    vectors = truth.vectors
    image = np.ones((len(vectors), 1))
    for step in projection.steps:
        image = to_numpy(step.apply(image, vectors))
    joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
    moment: Floats = (joined * truth.weights[:, None]).T @ joined
    return moment
