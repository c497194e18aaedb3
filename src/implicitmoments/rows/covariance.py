"""The mean and covariance of rows, in one pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    check_squares,
    move_like,
    namespace_of,
    quiet_overflow,
    to_numpy,
)
from implicitmoments.rows.block_map import join_labels
from implicitmoments.rows.fold import Block, Sums
from implicitmoments.rows.view import Rows


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """First and second moments of rows, in double precision."""

    n: int  # rows of positive weight
    total: float  # the sum of their weights
    mean: Floats  # (d,)
    covariance: Floats  # (d, d), the mean of the products about the mean

    @property
    def second_moment(self) -> Floats:
        """The mean of the products about zero, (d, d)."""
        second: Floats = self.covariance + np.outer(self.mean, self.mean)
        return second


def mean_and_covariance(
    rows: Rows, *, labelled: bool = False, about: Floats | None = None
) -> SecondMoments:
    """Return the weighted mean and covariance of rows as mapped, in one pass.

    Sums are taken about a point among the rows, so that rows far from the origin lose no digits.

    Parameters
    ----------
    labelled : bool
        Append the labels to the points, as the last column.
    about : array of shape (d,), optional
        A point among the rows; the first row that is kept by default.

    Examples
    --------
    >>> found = mean_and_covariance(Rows.of(np.array([[1.0], [3.0]])))
    >>> found.mean.tolist(), found.covariance.tolist()
    ([2.0], [[1.0]])
    """
    if about is None:
        first = rows.first_kept
        about = to_numpy(join_labels(first) if labelled else first["x"])[0].astype(np.float64)
    sums = rows.fold(_Products(about, labelled), width=3 * len(about), what="mean and covariance")
    if labelled:
        check_squares("y", to_numpy(sums["products"])[-1, -1])
    check_squares("X", sums["products"])
    total = float(sums["total"])
    mean = to_numpy(sums["sum"]) / total
    covariance = to_numpy(sums["products"]) / total - np.outer(mean, mean)
    return SecondMoments(int(sums["n"]), total, mean + about, covariance)


@dataclass(frozen=True, eq=False)
class _Products:
    """Sums of rows and of their products about a point."""

    about: Floats
    labelled: bool

    @quiet_overflow
    def __call__(self, block: Block) -> Sums:
        x: Array = join_labels(block) if self.labelled else block["x"]
        xp, counts = namespace_of(x), block.get("counts")
        x = xp.astype(x, xp.float64, copy=False)
        x = x - move_like(self.about, x)[None, :]
        weighted, total = x, float(x.shape[0])
        if counts is not None:
            counts = xp.astype(counts, xp.float64, copy=False)
            weighted, total = x * counts[:, None], float(xp.sum(counts))
        return {
            "n": int(x.shape[0]),
            "total": total,
            "sum": xp.sum(weighted, axis=0),
            "products": xp.matrix_transpose(weighted) @ x,
        }
