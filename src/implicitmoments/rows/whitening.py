"""Constant columns, mean and covariance, standardisation, and tests of normality."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2

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
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.rows import Rows, restore_columns
from implicitmoments.rows.table import Block, Sums, Table, join_labels, weights_of

KOLMOGOROV_CHANCE = 2.0  # a Kolmogorov distance exceeds this / √n by chance once in 1,500
SIGNIFICANCE = 1e-6  # of tests of normality: false alarms are rare even over many fits


def find_constants(rows: Rows, *, few: int = 100) -> Floats | None:
    """Return the values of columns that are the same in all rows kept, (d,), NaN in others.

    None where no column is constant, or all are. A pass over all rows only where some column
    does not vary among the first few of them.
    """
    values = to_numpy(rows.first_kept["x"])[0].astype(np.float64)
    epsilon = machine_epsilon(rows.table.first["x"])

    def count(block: Block) -> Sums:
        xp, off = namespace_of(block["x"]), cells_off(values, epsilon, block["x"])
        return {"off": xp.sum(xp.astype(off, xp.int64), axis=0)}

    head = next(rows.blocks())["x"][:few, :]
    if np.all(to_numpy(count({"x": head})["off"]) > 0):
        return None
    found = rows.fold(count, width=2 * len(values), what="constant columns")
    varies = to_numpy(found["off"]) > 0
    return None if varies.all() or not varies.any() else np.where(varies, np.nan, values)


def restore_matrices(matrices: Floats, constants: Floats | None) -> Floats:
    """Put columns that were left out back into matrices (…, p, p): (…, d, d), as zeros."""
    rows = restore_columns(matrices, constants, 0.0)
    return np.swapaxes(restore_columns(np.swapaxes(rows, -1, -2), constants, 0.0), -1, -2)


def cells_off(constants: Floats, epsilon: float, x: Array) -> Array:
    """Say which cells of rows (n, d) differ from constants beyond rounding; NaN admits any."""
    xp, center = namespace_of(x), np.nan_to_num(constants)
    size = np.where(np.isnan(constants), np.inf, 4 * epsilon * np.abs(center))
    return xp.abs(x - move_like(center, x)) > move_like(size, x)


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
        return np.asarray(self.covariance + np.outer(self.mean, self.mean))

    @property
    def points(self) -> SecondMoments:
        """Those of the points, where the last column is that of the labels."""
        return replace(self, mean=self.mean[:-1], covariance=self.covariance[:-1, :-1])

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the columns, (d,); 0 for constant ones."""
        found: Floats = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        found[found <= 4 * np.finfo(np.float64).eps * np.abs(self.mean)] = 0.0  # but for rounding
        return found


def mean_and_covariance(rows: Rows, *, labelled: bool = False) -> SecondMoments:
    """Return the weighted mean and covariance of rows as mapped, in one pass.

    Sums are taken in double precision about a point among the rows, so that rows far from the
    origin lose no digits. Labels are the last column, if they are asked for.

    Examples
    --------
    >>> found = mean_and_covariance(Rows.of(np.array([[1.0], [3.0]])))
    >>> found.mean.tolist(), found.covariance.tolist()
    ([2.0], [[1.0]])
    """

    def columns(block: Block) -> Array:
        return as_double(join_labels(block) if labelled else block["x"])

    about = to_numpy(columns(rows.first_kept))[0]

    def measure(block: Block) -> Sums:
        x, weights = columns(block), as_double(weights_of(block))
        xp = namespace_of(x)
        with np.errstate(over="ignore", invalid="ignore"):  # check_squares looks at the sums
            x = x - move_like(about, x)[None, :]
            weighted = x * weights[:, None] if "counts" in block else x
            return {
                "n": int(x.shape[0]),
                "total": float(xp.sum(weights)),
                "sum": xp.sum(weighted, axis=0),
                "products": xp.matrix_transpose(weighted) @ x,
            }

    sums = rows.fold(measure, width=3 * len(about), what="mean and covariance")
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
        template = "`variance` has the shape {shape}, expected a number or shape ({d}, {d})"
        raise InputError("wrong_shape", template, shape=given.shape, d=d)
    if columns is not None:
        given = given[columns][:, columns]
    if np.allclose(given, given.T, rtol=1e-6, atol=1e-12 * float(np.max(np.abs(given)))):
        with suppress(np.linalg.LinAlgError):
            return np.asarray(np.linalg.cholesky((given + given.T) / 2), dtype=np.float64)
    template = "`variance` must be symmetric and positive definite"
    raise InputError("covariance_not_positive_definite", template)


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
    >>> z = Whitening.of(ArrayTable(X)).apply(X)
    >>> bool(np.allclose(z.mean(axis=0), 0)), bool(np.allclose(z.T @ z / 500, np.eye(2)))
    (True, True)
    """

    mean: Floats
    root: Floats
    inverse_root: Floats

    @classmethod
    def of(cls, rows: Rows | Table | SecondMoments, *, reduce: bool = False) -> Whitening:
        """Estimate mean and covariance in one pass, or take them as they were estimated.

        Parameters
        ----------
        rows : Rows, Table or SecondMoments
        reduce : bool, default False
            Leave out directions in which the points do not vary, rather than refuse them.

        Returns
        -------
        Whitening
        """
        moments = rows if isinstance(rows, SecondMoments) else mean_and_covariance(Rows.of(rows))
        flat = moments.deviations == 0
        units = np.where(flat, 1.0, moments.deviations)
        correlations = moments.covariance / units / units[:, None]
        correlations[flat], correlations[:, flat] = 0.0, 0.0
        values, vectors = np.linalg.eigh(correlations)
        varying = values > 1e-10 * max(values[-1], 1.0)  # smaller ones are rounding
        V, spread = vectors[:, varying], np.sqrt(values[varying])
        V[flat] = 0.0  # but for rounding
        if not varying.all() and not (reduce and varying.any()):
            template = "the features are collinear or constant (around column {column}), so their "
            template += "covariance has no inverse; drop that column, or reduce by PCA first"
            column = f"x{np.argmax(np.where(flat, 2.0, np.abs(vectors[:, 0])))}"
            raise InputError("columns_collinear", template, column=column)
        inverse = (V / spread) @ V.T if varying.all() else V / spread
        return cls(moments.mean, (V * spread) @ V.T * units, inverse / units[:, None])

    @property
    def n_features(self) -> int:
        """Coordinates of a standardised point."""
        return int(self.inverse_root.shape[1])

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the columns, (d,); 0 for constant ones."""
        return np.asarray(np.linalg.norm(self.root, axis=0))

    def column_notes(self, names: Sequence[str]) -> list[Note]:
        """Return a note on columns that are constant or depend on others, if there are any.

        Parameters
        ----------
        names : sequence of str
            Of the columns.

        Returns
        -------
        list of Note
        """
        A = self.deviations[:, None] * self.inverse_root
        outside = 1 - np.einsum("dp,pd->d", A, np.linalg.pinv(A))  # of the directions that vary
        left_out = np.flatnonzero((self.deviations == 0) | (outside > 1e-6))
        columns = {"columns": [str(names[j]) for j in left_out.tolist()]}
        return [Note("columns_left_out", columns)] if len(left_out) else []

    def apply(self, x: Array) -> Array:
        """Standardise points.

        Parameters
        ----------
        x : array of shape (n, d)

        Returns
        -------
        array of shape (n, p)
        """
        return (x - move_like(self.mean, x)[None, :]) @ move_like(self.inverse_root, x)

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
        return np.asarray(vectors @ self.inverse_root.T)


def find_deviations(rows: Rows, whitening: Whitening, names: Sequence[str]) -> dict[str, Any]:
    """Return how columns deviate from a Gaussian, as values of a note; one pass.

    By the test of Jarque and Bera. Small deviations, which are significant with many rows, are
    left out.

    Parameters
    ----------
    rows : Rows
        Points as they were given.
    whitening : Whitening
        Their mean and covariance.
    names : sequence of str
        Names of the columns.

    Returns
    -------
    dict
        ``columns`` that are rejected; ``skewness`` and ``kurtosis``, the largest of any column.
        Nothing if all columns pass.
    """
    spread = whitening.deviations

    def measure(block: Block) -> Sums:
        z, w = block["x"], as_double(weights_of(block))
        square = z * z
        return {"cubes": w @ (square * z), "fourths": w @ (square * square)}

    units = np.diag(1 / np.where(spread > 0, spread, 1.0))
    standard = replace(rows, wide=True).mapped(whitening.mean, units)
    sums = standard.fold(measure, width=4 * rows.n_features, what="shape of the inputs")
    skewness = to_numpy(sums["cubes"]) / rows.total
    kurtosis = np.where(spread > 0, to_numpy(sums["fourths"]) / rows.total - 3, 0.0)
    p_values = chi2.sf(rows.total / 6 * (skewness**2 + kurtosis**2 / 4), 2)
    clear = (np.abs(skewness) > 0.3) | (np.abs(kurtosis) > 0.4)
    columns = np.flatnonzero((p_values * len(spread) < SIGNIFICANCE) & clear)  # by Bonferroni
    if not len(columns):
        return {}
    return {
        "columns": [str(names[j]) for j in columns.tolist()],
        "skewness": float(skewness[np.argmax(np.abs(skewness))]),
        "kurtosis": float(kurtosis[np.argmax(np.abs(kurtosis))]),
    }


def looks_standard(whitening: Whitening, n: float) -> bool:
    """Say whether mean 0 and covariance I are consistent with n rows.

    Under N(0, I) both n |mean|² and n/2 |covariance − I|² are nearly χ².
    """
    d = len(whitening.mean)
    off = whitening.root.T @ whitening.root - np.eye(d)
    squares = [n * float(whitening.mean @ whitening.mean), n / 2 * float(np.sum(off**2))]
    chances = chi2.sf(np.asarray(squares), [d, d * (d + 1) / 2])
    return whitening.n_features == d and bool(np.all(chances > SIGNIFICANCE))
