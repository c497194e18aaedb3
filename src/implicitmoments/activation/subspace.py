"""Turn the span of the directions to where the hypothesis fits better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.activation.polynomial import Polynomial
from implicitmoments.activation.precision import wide
from implicitmoments.arrays import Floats, move_like, namespace_of, outer_rows, to_numpy
from implicitmoments.problems.labelled_rows import LabelledRows, Rows
from implicitmoments.rows import Sums

__all__ = ["MOST_TURNS", "sharpen"]

MOST_TURNS = 3_000  # p (d − p): unknowns of the least squares
DAMPING = 1e-6


def sharpen(rows: LabelledRows, polynomial: Polynomial) -> tuple[Floats, float]:
    r"""Turn the span of a hypothesis by one Gauss-Newton step.

    For a hypothesis H on :math:`B x` the residual of a nearby basis :math:`B + D`, with D
    orthogonal to B, is to first order :math:`y - H(Bx) - \nabla H(Bx) \cdot D x`: a least
    squares in the p (d − p) entries of D. :math:`M_2` alone sees the span through labels of
    order two; this sees it through all orders together, with their noise removed.

    Returns
    -------
    basis : array of shape (p, d)
        Orthonormal rows.
    turn : float
        Sine of the largest angle by which the span turned.
    """
    basis = np.asarray(to_numpy(polynomial.tensors.frame.basis), dtype=np.float64)
    p, d = basis.shape
    off = np.linalg.svd(basis)[2][p:]  # (d − p, d)
    unknowns = p * (d - p)
    sums = rows.fold(_Turns(polynomial, off), unknowns, "turning the span")
    mass = float(sums["mass"])
    gram, right = to_numpy(sums["gram"]) / mass, to_numpy(sums["right"]) / mass
    gram[np.diag_indices_from(gram)] += DAMPING * max(float(np.trace(gram)) / unknowns, 1e-300)
    step = np.linalg.solve(gram, right).reshape(p, d - p)
    turned_basis = np.linalg.qr((basis + step @ off).T)[0].T
    inside = np.linalg.svd(turned_basis @ basis.T, compute_uv=False)
    turn = float(np.sqrt(max(0.0, 1 - float(inside[-1]) ** 2)))
    return np.ascontiguousarray(turned_basis), turn


@dataclass(frozen=True, eq=False)
class _Turns:
    """Sums the normal equations of D, whose columns are a basis (d − p, d) off the span."""

    polynomial: Polynomial
    off: Floats

    def __call__(self, rows: Rows) -> Sums:
        xp = namespace_of(rows.x)
        root = xp.sqrt(rows.counts)
        outside = rows.x @ xp.matrix_transpose(move_like(self.off, rows.x))
        turned = outer_rows(self.polynomial.gradient(rows.x) * root[:, None], outside)
        residual = (rows.y - self.polynomial(rows.x)) * root
        return {
            "gram": wide(xp.matrix_transpose(turned) @ turned),
            "right": wide(residual @ turned),
            "mass": xp.sum(wide(rows.counts)),
        }
