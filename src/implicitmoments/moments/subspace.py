"""The choice of subspaces: which eigenvectors of an averaged moment are kept."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtrit

from implicitmoments.arrays import Array, Floats, descending_eigh, namespace_of, to_numpy
from implicitmoments.moments.chain import Window
from implicitmoments.moments.split_mean import SplitMean

POSITIVE, SINGULAR = SUBSPACES = ("positive", "singular")
MARGIN = 1.25  # the largest of many noise eigenvalues may slightly exceed the floor
# Share of the top eigenvalue at which a negative one is a rival: without it a fifth of the squared
# Frobenius norm of the two is lost.
RIVAL = 0.5
LEVEL = 1e-4  # of the test that it is not noise, which every step of every fit makes


def leading_eigenpairs(matrix: Array, subspace: str) -> tuple[Array, Array]:
    """Return eigenvalues and eigenvectors (columns) of the symmetric part, leading ones first.

    ``"positive"`` orders them by value: with positive weights a moment of even order is positive
    semidefinite, and a negative eigenvalue is noise. ``"singular"`` orders them by magnitude.
    """
    values, vectors = descending_eigh(matrix)
    if subspace == POSITIVE:
        return values, vectors
    xp = namespace_of(values)
    order = xp.argsort(xp.abs(values), descending=True, stable=True)
    return xp.take(values, order, axis=0), xp.take(vectors, order, axis=1)


def top_subspace(matrix: Array, k: int, subspace: str = POSITIVE) -> tuple[Array, Floats]:
    """Return an orthonormal basis of the top-k subspace as rows, and the whole spectrum.

    ``"singular"`` takes the left singular vectors, as the box does; the spectrum has the singular
    values, negative where the two singular vectors are opposite: the eigenvalues of a symmetric
    matrix. ``"positive"`` takes the eigenvectors of the symmetric part (erratum 8). With fewer
    than k dimensions all are kept.
    """
    xp = namespace_of(matrix)
    if subspace == SINGULAR:
        vectors, sizes, right = xp.linalg.svd(matrix)
        agree = xp.sum(vectors * xp.matrix_transpose(right), axis=0)
        values = xp.where(agree < 0, -sizes, sizes)
    else:
        values, vectors = leading_eigenpairs(matrix, subspace)
    basis = xp.matrix_transpose(vectors[:, : min(k, int(matrix.shape[0]))])
    return basis, np.asarray(to_numpy(values), dtype=np.float64)


def rival_eigenvalue(spectrum: Floats, noise: float) -> float:
    """Return the magnitude of a negative eigenvalue that rivals the top one, or 0.

    It has to be above the noise of the average: noise alone has eigenvalues of both signs.
    """
    below = max(0.0, -float(np.min(spectrum)))
    return below if below > max(noise, RIVAL * float(np.max(spectrum))) else 0.0


def largest_noise(moment: SplitMean) -> float:
    """Return what noise alone exceeds with probability ``LEVEL`` at most, by split halves.

    The Frobenius norm of half their difference, which is not below the spectral norm; a matrix of
    few entries may be small by chance, and Student's t with as many degrees of freedom allows for
    that.
    """
    difference = moment.half_difference
    p = int(difference.shape[0])
    entries = p * (p + 1) / 2
    factor = max(1.0, float(stdtrit(entries, 1 - LEVEL)) / math.sqrt(entries))
    return factor * float(namespace_of(difference).linalg.matrix_norm(difference))


def symmetrised(window: Window, matrix: Array) -> Array:
    r"""Return :math:`\Pi A \Pi` with the symmetriser of the window: A on symmetric tensors."""
    weights = window.symmetry
    return matrix if weights is None else weights[:, None] * matrix * weights[None, :]
