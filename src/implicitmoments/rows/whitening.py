"""Constant columns, mean and covariance, standardisation, and tests of normality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    as_real_array,
    check_squares,
    machine_epsilon,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.notes import InputError, Note
from implicitmoments.rows.draws import Integers, KeyGrid
from implicitmoments.rows.passes import Block, Sums, join_labels, weights_of
from implicitmoments.rows.rows import Rows, restore_columns
from implicitmoments.rows.table import Table
from implicitmoments.validation import unnamed_columns

SMALLEST_VARIANCE = 1e-10  # of correlations, relative to the largest: smaller ones are rounding
DEPENDENT = 1e-6  # of a column of unit length that is outside of the directions that vary
# Differences of equal numbers that were rounded twice each, in epsilons of their size.
ROUNDINGS = 4
DOUBLE = float(np.finfo(np.float64).eps)
FEW = 100  # first rows, in which columns are compared before all rows are
KOLMOGOROV_CHANCE = 2.0  # a Kolmogorov distance exceeds this / √n by chance once in 1,500
SIGNIFICANCE = 1e-6  # of tests of normality: false alarms are rare even over many fits
# Beyond these a deviation is reported; with many rows, smaller ones are significant too.
CLEAR_SKEW, CLEAR_KURTOSIS, CLEAR_EXCESS = 0.3, 0.6, 0.1


def find_constants(rows: Rows) -> Floats | None:
    """Return the values of columns that are the same in all rows kept, (d,), NaN in others.

    None where no column is constant, or all are. A pass over all rows only where some column
    does not vary among a few of them.
    """
    values = to_numpy(rows.first_kept["x"])[0].astype(np.float64)
    count = partial(_count_off, values, precision_of(rows.first["x"]))
    head = next(rows.blocks())["x"][:FEW, :]
    if np.all(to_numpy(count({"x": head})["off"]) > 0):
        return None
    found = rows.fold(count, width=2 * len(values), what="constant columns")
    varies = to_numpy(found["off"]) > 0
    return None if varies.all() or not varies.any() else np.where(varies, np.nan, values)


def restore_matrices(matrices: Floats, constants: Floats | None, diagonal: float = 0.0) -> Floats:
    """Put columns that were left out back into matrices (…, p, p): (…, d, d).

    They have zeros, and ``diagonal`` on the diagonal.
    """
    if constants is None:
        return matrices
    rows = restore_columns(matrices, constants, 0.0)
    whole = restore_columns(np.swapaxes(rows, -1, -2), constants, 0.0)
    left_out = np.flatnonzero(~np.isnan(constants))
    whole[..., left_out, left_out] = diagonal
    return np.swapaxes(whole, -1, -2)


def resolution(size: Floats | float, epsilon: float = DOUBLE) -> Floats:
    """Return by how much numbers of a size differ that are equal but for rounding."""
    return np.asarray(ROUNDINGS * epsilon * np.abs(size))


def precision_of(array: Array) -> float:
    """Return the epsilon of the precision of an array; integers pass for double precision."""
    real = namespace_of(array).isdtype(array.dtype, "real floating")
    return machine_epsilon(array) if real else DOUBLE


def cells_off(constants: Floats, epsilon: float, x: Array) -> Array:
    """Say which cells of rows (n, d) differ from constants beyond rounding; NaN admits any."""
    xp, center = namespace_of(x), np.nan_to_num(constants)
    size = np.where(np.isnan(constants), np.inf, resolution(center, epsilon))
    return xp.abs(x - move_like(center, x)) > move_like(size, x)


def _count_off(constants: Floats, epsilon: float, block: Block) -> Sums:
    xp, off = namespace_of(block["x"]), cells_off(constants, epsilon, block["x"])
    return {"off": xp.sum(xp.astype(off, xp.int64), axis=0)}


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

    @property
    def grid(self) -> KeyGrid:
        """The grid of keys that do not depend on the units of the columns."""
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        varying = deviations > resolution(self.mean)
        return KeyGrid.of(self.mean, np.where(varying, deviations, 0.0))


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
        template = "`variance` has the shape {shape}, expected a number or ({d}, {d}), "
        template += "the covariance of the {d:count feature}"
        raise InputError("wrong_shape", template, shape=given.shape, d=d)
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


@dataclass(frozen=True, eq=False)
class Whitening:
    r"""The map :math:`x \mapsto (x - m) D^{-1} R^{-1/2}` to points of covariance I.

    m, D and R are the estimated mean, deviations and correlations of the columns. So the points
    do not depend on the units of the columns.

    Attributes
    ----------
    mean : array of shape (d,)
    root : array of shape (d, d)
        :math:`R^{1/2} D`; its Gram matrix is the covariance.
    inverse_root : array of shape (d, p)
        :math:`D^{-1} R^{-1/2}`; or, where the covariance has no inverse and the points are
        reduced, the p coordinates in which they vary.

    See Also
    --------
    Rows : A view of the rows of a source.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.rows import ArrayTable, Whitening
    >>> X = 3.0 + 2.0 * np.random.default_rng(0).normal(size=(500, 2))
    >>> z = Whitening.of(ArrayTable(X)).apply({"x": X})["x"]
    >>> bool(np.allclose(z.mean(axis=0), 0)), bool(np.allclose(z.T @ z / 500, np.eye(2)))
    (True, True)
    """

    mean: Floats
    root: Floats
    inverse_root: Floats

    @classmethod
    def of(cls, rows: Rows | Table, *, reduce: bool = False) -> Whitening:
        """Estimate mean and covariance in one pass.

        Parameters
        ----------
        rows : Rows or Table
        reduce : bool
            Leave out directions in which the points do not vary, rather than refuse them.

        Returns
        -------
        Whitening
        """
        rows = Rows.of(rows)
        if rows.kept < 2:
            template = "whitening needs two rows or more, and {n} are given"
            raise InputError("too_few_rows", template, n=rows.kept)
        return cls.from_moments(mean_and_covariance(rows), reduce=reduce)

    @classmethod
    def from_moments(cls, moments: SecondMoments, *, reduce: bool = False) -> Whitening:
        """Take mean and covariance as they were estimated; see :meth:`of`.

        Parameters
        ----------
        moments : SecondMoments
            Mean and covariance.
        reduce : bool, default False
            As for :meth:`of`.

        Returns
        -------
        Whitening
            The map.
        """
        deviations = np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
        flat = deviations <= resolution(moments.mean)
        units = np.where(flat, 1.0, deviations)
        correlations = moments.covariance / units / units[:, None]
        correlations[flat], correlations[:, flat] = 0.0, 0.0
        values, vectors = np.linalg.eigh(correlations)
        varying = values > SMALLEST_VARIANCE * max(values[-1], 1.0)
        V, spread = vectors[:, varying], np.sqrt(values[varying])
        V[flat] = 0.0  # but for rounding
        if varying.all():
            return cls(
                moments.mean, (V * spread) @ V.T * units, (V / spread) @ V.T / units[:, None]
            )
        if reduce and varying.any():
            return cls(moments.mean, (V * spread) @ V.T * units, V / spread / units[:, None])
        template = "the features are collinear or constant (around column {column}), so "
        template += "their covariance cannot be inverted; drop that column or reduce by "
        template += "PCA first"
        column = f"x{np.argmax(np.where(flat, 2.0, np.abs(vectors[:, 0])))}"
        raise InputError("columns_collinear", template, column=column)

    @property
    def n_features(self) -> int:
        """Coordinates of a standardised point."""
        return int(self.inverse_root.shape[1])

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the columns, (d,); 0 for constant ones."""
        return np.asarray(np.linalg.norm(self.root, axis=0))

    @property
    def grid(self) -> KeyGrid:
        """The grid of keys that do not depend on the units of the columns."""
        scale, steps = self.deviations, np.zeros(len(self.mean))
        np.divide(2.0**14, scale, where=scale > 0, out=steps)  # points to a deviation
        return KeyGrid(self.mean, steps)

    def column_notes(self, names: Sequence[str] | None = None) -> list[Note]:
        """Return notes on columns that are constant, and on those that depend on others.

        Parameters
        ----------
        names : sequence of str, optional
            Of the columns; x0, x1, … by default.

        Returns
        -------
        list of Note
        """
        kept = self.deviations > 0
        notes, varying = list[Note](), np.flatnonzero(kept)
        every = unnamed_columns(len(kept)) if names is None else names

        def named(columns: Any) -> list[str]:
            return [str(every[j]) for j in columns]

        if len(varying) < len(kept):
            notes.append(Note("columns_left_out", {"columns": named(np.flatnonzero(~kept))}))
        if self.n_features < len(varying):
            A = self.deviations[varying, None] * self.inverse_root[varying]
            outside = 1 - np.einsum("dp,pd->d", A, np.linalg.pinv(A))
            columns = named(varying[outside > DEPENDENT])
            notes.append(Note("columns_left_out", {"columns": columns}))
        return notes

    def map(self, rows: Rows) -> Rows:
        """Return the rows with their points standardised.

        Parameters
        ----------
        rows : Rows
            The rows.

        Returns
        -------
        Rows
            With whitened points.
        """
        return rows.mapped(self.mean, self.inverse_root)

    def apply(self, block: Block) -> Block:
        """Standardise the points of a block.

        Parameters
        ----------
        block : mapping of str to array
            Columns; ``"x"`` holds the points.

        Returns
        -------
        mapping of str to array
            The columns, with whitened points.
        """
        x = block["x"]
        centred = x - move_like(self.mean, x)[None, :]
        return {**block, "x": centred @ move_like(self.inverse_root, x)}

    def original(self, vectors: Floats) -> Floats:
        r"""Map vectors v' with :math:`v' \cdot x' = v \cdot (x - m)` back to v.

        Parameters
        ----------
        vectors : array of shape (k, p)
            Vectors that act on whitened points.

        Returns
        -------
        array of shape (k, d)
            Vectors that act on the original points.
        """
        mapped: Floats = vectors @ self.inverse_root.T
        return mapped


def find_deviations(
    rows: Rows, whitening: Whitening, names: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Return how points deviate from a Gaussian, as values of a note, or None; one pass.

    Columns are tested one by one by Jarque and Bera's test, all together by Mardia's test of
    kurtosis: the mean of |z|⁴ of standardised points is d (d + 2).

    Parameters
    ----------
    rows : Rows
        Points as they were given.
    whitening : Whitening
        Their mean and covariance.
    names : sequence of str, optional
        Names of the columns; x0, x1, … by default.

    Returns
    -------
    dict or None
        ``columns`` that are rejected one by one, none of them where only all together are;
        ``skewness`` and ``kurtosis``, the largest of any column; ``fourth_moment_ratio``, the
        mean of |z|⁴ over that of a Gaussian; ``p_value``, the smallest of all tests.
    """
    spread = whitening.deviations
    called = unnamed_columns(len(spread)) if names is None else names
    scale = np.where(spread > 0, spread, 1.0)

    def measure(block: Block) -> Sums:
        x = block["x"]
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64)
        w = xp.astype(weights_of(block), x.dtype)
        z = (x - move_like(whitening.mean, x)[None, :]) / move_like(scale, x)[None, :]
        square = z * z
        lengths = xp.sum(whitening.apply({"x": x})["x"] ** 2, axis=1)
        return {
            "total": float(xp.sum(w)),
            "cubes": w @ (square * z),
            "fourths": w @ (square * square),
            "joint": float(w @ lengths**2),
        }

    sums = rows.fold(measure, width=4 * rows.n_features, what="shape of the inputs")
    n, p, d = float(sums["total"]), whitening.n_features, len(scale)
    skewness = to_numpy(sums["cubes"]) / n
    kurtosis = np.where(spread > 0, to_numpy(sums["fourths"]) / n - 3, 0.0)
    excess = float(sums["joint"]) / n / (p * (p + 2)) - 1
    column_p = chi2.sf(n / 6 * (skewness**2 + kurtosis**2 / 4), 2) * d  # by Bonferroni
    joint_p = float(2 * norm.sf(abs(excess) * math.sqrt(n * d * (d + 2) / 8)))
    clear = (np.abs(skewness) > CLEAR_SKEW) | (np.abs(kurtosis) > CLEAR_KURTOSIS)
    columns = np.flatnonzero((column_p < SIGNIFICANCE) & clear)
    if not len(columns) and not (joint_p < SIGNIFICANCE and abs(excess) > CLEAR_EXCESS):
        return None
    return {
        "columns": [str(called[j]) for j in columns.tolist()],
        "skewness": float(skewness[np.argmax(np.abs(skewness))]),
        "kurtosis": float(kurtosis[np.argmax(np.abs(kurtosis))]),
        "fourth_moment_ratio": 1 + excess,
        "p_value": min(float(column_p.min()), joint_p, 1.0),
    }


def looks_standard(whitening: Whitening, n: float) -> bool:
    """Say whether mean 0 and covariance I are consistent with n rows.

    Under N(0, I) both n |mean|² and n/2 |covariance − I|² are nearly χ².
    """
    d = len(whitening.mean)
    if whitening.n_features < d:
        return False
    off = whitening.root.T @ whitening.root - np.eye(d)
    mean = n * float(whitening.mean @ whitening.mean)
    covariance = n / 2 * float(np.sum(off**2))
    return bool(
        chi2.sf(mean, d) > SIGNIFICANCE and chi2.sf(covariance, d * (d + 1) / 2) > SIGNIFICANCE
    )
