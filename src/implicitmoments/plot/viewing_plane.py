"""Two directions to look along."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Floats

__all__ = ["leading_plane", "name_of_axis"]

NOTHING = 1e-9  # of the largest singular value
ALONG_AN_AXIS = 0.99


def leading_plane(vectors: Floats, rows: Floats) -> Floats:
    """Return orthonormal rows (2, d), or (1, d) of one feature: the leading directions of vectors.

    Where vectors span less than a plane, rows give what is missing: the direction in which they
    vary most.

    Parameters
    ----------
    vectors : array of shape (k, d)
    rows : array of shape (n, d)
        Centred.
    """
    d = rows.shape[1]
    plane = _leading(vectors, min(2, d))
    if len(plane) < min(2, d):
        left = rows - (rows @ plane.T) @ plane
        plane = np.vstack([plane, _leading(left, min(2, d) - len(plane))])
    if len(plane) < min(2, d):  # rows without any spread
        left = np.eye(d) - plane.T @ plane
        plane = np.vstack([plane, _leading(left, min(2, d) - len(plane))])
    # signs are free: the largest entry is positive, so that pictures do not flip
    largest = np.abs(plane).argmax(axis=1)
    signed: Floats = plane * np.sign(plane[np.arange(len(plane)), largest])[:, None]
    return signed


def _leading(vectors: Floats, most: int) -> Floats:
    if not len(vectors) or most == 0:
        return np.zeros((0, vectors.shape[1]))
    _, sizes, directions = np.linalg.svd(vectors, full_matrices=False)
    kept = sizes[:most] > NOTHING * max(float(sizes[0]), np.finfo(np.float64).tiny)
    leading: Floats = directions[:most][kept]
    return leading


def name_of_axis(direction: Floats, names: Floats | None, otherwise: str) -> str:
    """Return the name of the column that a direction is, or other words."""
    i = int(np.abs(direction).argmax())
    if abs(direction[i]) < ALONG_AN_AXIS * float(np.linalg.norm(direction)):
        return otherwise
    # a dollar sign would begin a formula
    return f"column {i}" if names is None else str(names[i]).replace("$", r"\$")
