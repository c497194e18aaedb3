"""Mean and covariance of points, and the factor of a known covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    as_real_array,
    check_squares,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.fold import Block, Sums, join_labels
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

    @property
    def points(self) -> SecondMoments:
        """Those of the points, where the last column is that of the labels."""
        return replace(self, mean=self.mean[:-1], covariance=self.covariance[:-1, :-1])


def mean_and_covariance(
    rows: Rows, *, labelled: bool = False, double: bool = True
) -> SecondMoments:
    """Return the weighted mean and covariance of rows as mapped, in one pass.

    Sums are taken about a point among the rows, so that rows far from the origin lose no digits.

    Parameters
    ----------
    labelled : bool
        Append the labels to the points, as the last column.
    double : bool
        Multiply rows in double precision; otherwise in theirs, and add the products of blocks in
        double precision.

    Examples
    --------
    >>> found = mean_and_covariance(Rows.of(np.array([[1.0], [3.0]])))
    >>> found.mean.tolist(), found.covariance.tolist()
    ([2.0], [[1.0]])
    """
    first = rows.first_kept
    about = to_numpy(join_labels(first) if labelled else first["x"])[0].astype(np.float64)
    products = _Products(about, labelled, double)
    sums = rows.fold(products, width=3 * len(about), what="mean and covariance")
    if labelled:
        check_squares("y", to_numpy(sums["products"])[-1, -1])
    check_squares("X", sums["products"])
    total = float(sums["total"])
    mean = to_numpy(sums["sum"]) / total
    covariance = to_numpy(sums["products"]) / total - np.outer(mean, mean)
    return SecondMoments(int(sums["n"]), total, mean + about, covariance)


def factor_covariance(covariance: Array, d: int, columns: Integers | None = None) -> Floats:
    """Return the Cholesky factor of a known covariance (d, d) of the components.

    Of some columns, where they are given.
    """
    given = np.asarray(to_numpy(as_real_array(covariance, "variance", 2)), dtype=np.float64)
    if given.shape != (d, d):
        raise InputError(
            "wrong_shape",
            "`variance` has the shape {shape}, expected a number or ({d}, {d}), the covariance of "
            "the {d:count feature}",
            shape=given.shape,
            d=d,
        )
    if columns is not None:
        given = given[columns][:, columns]
    try:
        if not np.allclose(given, given.T, rtol=1e-6, atol=1e-12 * float(np.max(np.abs(given)))):
            raise np.linalg.LinAlgError
        return np.asarray(np.linalg.cholesky((given + given.T) / 2), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise InputError(
            "covariance_not_positive_definite",
            "`variance` must be symmetric and positive definite",
        ) from None


def whitener_of(factor: Floats) -> Floats:
    """Return the matrix W with which rows x W have noise of variance 1, for Σ = L Lᵀ."""
    return np.asarray(np.linalg.inv(factor).T, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Products:
    """Sums of rows and of their products about a point."""

    about: Floats
    labelled: bool
    double: bool = True

    @np.errstate(over="ignore", invalid="ignore")  # check_squares looks at the sums
    def __call__(self, block: Block) -> Sums:
        x: Array = join_labels(block) if self.labelled else block["x"]
        xp, counts = namespace_of(x), block.get("counts")
        x = as_double(x) if self.double else x
        x = x - move_like(self.about, x)[None, :]
        weighted, total = x, float(x.shape[0])
        if counts is not None:
            weighted = x * xp.astype(counts, x.dtype, copy=False)[:, None]
            total = float(xp.sum(counts, dtype=xp.float64))
        return {
            "n": int(x.shape[0]),
            "total": total,
            "sum": xp.sum(weighted, axis=0, dtype=xp.float64),
            "products": as_double(xp.matrix_transpose(weighted) @ x),
        }
