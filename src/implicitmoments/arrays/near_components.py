"""Softmax sums of rows for which few components matter: a list of pairs instead of a matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from implicitmoments.arrays.kernels import PROBED
from implicitmoments.arrays.namespace import TINY, Array, Floats

Numbers = np.ndarray[Any, np.dtype[Any]]

# A pair on a list takes as long as this many bytes of a matrix of all pairs: its row and its
# slopes are looked up. Measured for 10 to 256 features.
LIST_BYTES = 512
GATHERED = 2**20  # numbers that are looked up at a time


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Rows and components that may matter to them, in the order of the rows; (m,) each."""

    rows: Numbers
    components: Numbers

    @property
    def starts(self) -> Numbers:
        """The first pair of each row, (n,); every row has one."""
        return np.flatnonzero(np.diff(self.rows, prepend=-1))

    def linear(self, x: Numbers, slopes: Numbers) -> Numbers:
        """Return the products of rows (n, p) with slopes (p, k) of these pairs, (m,)."""
        turned, step = np.ascontiguousarray(slopes.T), max(1, GATHERED // len(slopes))
        found = np.empty(len(self.rows), dtype=x.dtype)
        for start in range(0, len(found), step):
            some = slice(start, start + step)
            left, right = x[self.rows[some]], turned[self.components[some]]
            np.einsum("ij,ij->i", left, right, out=found[some])
        return found


def near_pairs(x: Numbers, slopes: Floats, offsets: Floats) -> NearPairs | None:
    r"""Return the pairs whose responsibility is not lost in rounding; None where they are many.

    Responsibilities are the softmax of ``x @ slopes + offsets`` along rows. One below
    :math:`\epsilon / k` changes no sum: k of them are less than the rounding of the largest. The
    list is made in single precision, which takes less than half the time of a matrix in double
    precision and its softmax, with a bound of the rounding, so that no other pair is lost.

    Parameters
    ----------
    x : array of shape (n, p)
    slopes, offsets : arrays of shape (p, k) and (k,)
    """
    (p, k), single = slopes.shape, np.finfo(np.float32)
    margin = math.log(k / float(np.finfo(x.dtype).eps))
    if k * x.itemsize <= LIST_BYTES or not _few_matter(x[:PROBED], slopes, offsets, margin):
        return None
    # rows of length at most 1: neither factor leaves the range of single precision
    longest = math.sqrt(float(np.max(np.einsum("ij,ij->i", x, x))))
    slopes = max(longest, TINY) * slopes
    steepest = math.sqrt(float(np.max(np.sum(slopes**2, axis=0))))
    error = float(single.eps) * ((p + 3) * steepest + 2 * float(np.max(np.abs(offsets))))
    if not error < margin:  # single precision would tell nothing
        return None
    joint = (x / max(longest, TINY)).astype(np.float32) @ slopes.astype(np.float32)
    joint += offsets.astype(np.float32)
    least = joint.max(axis=1) - np.float32(margin + 2 * error)
    found = np.flatnonzero(joint >= least[:, None])
    return NearPairs(*np.divmod(found, k))


def _few_matter(x: Numbers, slopes: Floats, offsets: Floats, margin: float) -> bool:
    """Whether a list of pairs takes less time than the matrix, by some rows."""
    joint = x @ slopes.astype(x.dtype) + offsets.astype(x.dtype)
    matter = np.count_nonzero(joint >= joint.max(axis=1, keepdims=True) - margin)
    return bool(matter * LIST_BYTES < joint.nbytes)


def near_sums(
    x: Array, slopes: Floats, offsets: Floats, counts: Array | None
) -> dict[str, Any] | None:
    """Return sums of rows times responsibilities, equal to those of all pairs but for rounding.

    Parameters
    ----------
    x, slopes, offsets
        As for :func:`near_pairs`.
    counts : array of shape (n,) or None
        How often each row counts.

    Returns
    -------
    dict or None
        ``moments`` (k, p), ``counts`` (k,), ``log_likelihood``; None where many pairs matter, and
        for rows that are not in NumPy: devices are made for matrices.
    """
    if not isinstance(x, np.ndarray):
        return None
    near = near_pairs(x, slopes, offsets)
    if near is None:
        return None
    shares, starts = near.linear(x, slopes.astype(x.dtype)), near.starts
    shares += offsets.astype(x.dtype)[near.components]
    ends = np.append(starts, len(shares))
    top, per = np.maximum.reduceat(shares, starts), np.diff(ends)
    np.exp(shares - np.repeat(top, per), out=shares)
    total = np.add.reduceat(shares, starts)
    factors, densities = 1 / total, top + np.log(total)
    if counts is not None:
        factors, densities = factors * counts, densities * counts
    shares *= np.repeat(factors, per)
    k = slopes.shape[1]
    return {
        "moments": (csc_array((shares, near.components, ends), shape=(k, len(x))) @ x).astype(
            np.float64, copy=False
        ),
        "counts": np.bincount(near.components, shares, k),
        "log_likelihood": np.sum(densities, dtype=np.float64),
    }
