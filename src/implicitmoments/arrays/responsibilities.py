"""Responsibilities of components whose log densities are linear in the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicitmoments.arrays.kernels import (
    LOWEST_EXPONENT,
    PROBED,
    linear_rows,
    softmax_rows,
)
from implicitmoments.arrays.namespace import Array, Floats, move_like

Numbers = np.ndarray[Any, np.dtype[Any]]


def linear_responsibilities(x: Array, slopes: Floats, offsets: Floats) -> tuple[Array, Array]:
    """Return the softmax of ``x @ slopes + offsets`` along rows, (n, k), and logarithms of sums.

    In NumPy exponentials are taken relative to one number for all rows where their range allows
    it: the largest entry of each row is then neither looked for nor subtracted.

    Parameters
    ----------
    x : array of shape (n, p)
    slopes, offsets : arrays of shape (p, k) and (k,)
    """
    if isinstance(x, np.ndarray):
        found = _shifted(x, slopes.astype(x.dtype, copy=False), offsets.astype(x.dtype))
        if found is not None:
            return found
    joint = linear_rows(x, move_like(slopes, x))
    joint += move_like(offsets, x)
    return softmax_rows(joint)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # sums out of range are found
def _shifted(x: Numbers, slopes: Numbers, offsets: Numbers) -> tuple[Numbers, Numbers] | None:
    """Return the same with one shift for all rows; None where a sum leaves the range of numbers.

    A sum of at least tiny / ε has all its digits: what underflows, or is raised to the least
    exponent, is below its rounding.
    """
    number = np.finfo(x.dtype)
    least = number.tiny / number.eps
    probe = (x[:PROBED] @ slopes + offsets).max(axis=1)
    shift = probe.max()
    if not np.exp(probe.min() - shift) > least:
        return None
    joint = linear_rows(x, slopes).T  # (k, n)
    joint += (offsets - shift)[:, None]
    if x.dtype == np.float64 and joint[:, :PROBED].min() < LOWEST_EXPONENT:
        np.maximum(joint, LOWEST_EXPONENT, out=joint)
        least = max(least, len(joint) * np.exp(LOWEST_EXPONENT) / number.eps)
    np.exp(joint, out=joint)
    total = joint.sum(axis=0)
    if not (total.min() > least and total.max() < 1 / least):
        return None
    joint *= np.reciprocal(total)
    return joint.T, shift + np.log(total)
