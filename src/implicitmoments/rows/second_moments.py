"""Mean and covariance of points, standardisation by them, and tests of normality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from implicitmoments.arrays import (
    Array,
    Floats,
    as_real_array,
    check_squares,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.notes import InputError, Note
from implicitmoments.rows.draws import Integers
from implicitmoments.rows.fold import Block, Sums, join_labels, weights_of
from implicitmoments.rows.sources import Source
from implicitmoments.rows.view import Rows

SIGNIFICANCE = 1e-6  # of tests of normality: false alarms are rare even over many fits
# Beyond these a deviation is reported; with many rows, smaller ones are significant too.
CLEAR_SKEW, CLEAR_KURTOSIS, CLEAR_EXCESS = 0.3, 0.6, 0.1


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


def mean_and_covariance(rows: Rows, *, labelled: bool = False) -> SecondMoments:
    """Return the weighted mean and covariance of rows as mapped, in one pass.

    Sums are taken about a point among the rows, so that rows far from the origin lose no digits.

    Parameters
    ----------
    labelled : bool
        Append the labels to the points, as the last column.

    Examples
    --------
    >>> found = mean_and_covariance(Rows.of(np.array([[1.0], [3.0]])))
    >>> found.mean.tolist(), found.covariance.tolist()
    ([2.0], [[1.0]])
    """
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

    @np.errstate(over="ignore", invalid="ignore")  # check_squares looks at the sums
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


SMALLEST_VARIANCE = 1e-10  # of correlations, relative to the largest: smaller ones are rounding
FLAT = 8 * float(np.finfo(np.float64).eps)  # of the mean of a column: deviations that are rounding
DEPENDENT = 1e-6  # of a column of unit length that is outside of the directions that vary


@dataclass(frozen=True, eq=False)
class Whitening:
    r"""The map :math:`x \mapsto (x - m) D^{-1} R^{-1/2}` to points of covariance I.

    m, D and R are the estimated mean, deviations and correlations of the columns. So the points
    do not depend on the units of the columns.

    Attributes
    ----------
    mean : array of shape (d,)
    root : array of shape (d, d)
        :math:`R^{1/2} D`; root\ :sup:`T` root is the covariance.
    inverse_root : array of shape (d, p)
        :math:`D^{-1} R^{-1/2}`; or, where the covariance has no inverse and the points are
        reduced, the p coordinates in which they vary.

    Examples
    --------
    >>> import numpy as np
    >>> from implicitmoments.rows import ArraySource, Whitening
    >>> X = 3.0 + 2.0 * np.random.default_rng(0).normal(size=(500, 2))
    >>> z = Whitening.of(ArraySource(X)).apply({"x": X})["x"]
    >>> bool(np.allclose(z.mean(axis=0), 0)), bool(np.allclose(z.T @ z / 500, np.eye(2)))
    (True, True)
    """

    mean: Floats
    root: Floats
    inverse_root: Floats

    @classmethod
    def of(
        cls, rows: Rows | Source, sample_weight: Array | None = None, *, reduce: bool = False
    ) -> Whitening:
        """Estimate mean and covariance in one pass.

        Parameters
        ----------
        rows : Rows or Source
        sample_weight : array of shape (n_rows,), optional
            Multiplies the weights of the rows.
        reduce : bool
            Leave out directions in which the points do not vary, rather than refuse them.

        Returns
        -------
        Whitening
        """
        rows = Rows.of(rows)
        if sample_weight is not None:
            rows = rows.weighted(sample_weight)
        if rows.kept < 2:
            raise InputError(
                "whitening_needs_two_rows",
                "whitening needs two rows or more, and {n} are given",
                n=rows.kept,
            )
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
        flat = deviations <= FLAT * np.abs(moments.mean)
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
        raise InputError(
            "columns_collinear",
            "the features are collinear or constant (around column {column}), so their "
            "covariance cannot be inverted; drop that column or reduce by PCA first",
            column=int(np.argmax(np.where(flat, 2.0, np.abs(vectors[:, 0])))),
        )

    @property
    def n_features(self) -> int:
        """Coordinates of a standardised point."""
        return int(self.inverse_root.shape[1])

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the columns, (d,); 0 for constant ones."""
        return np.asarray(np.linalg.norm(self.root, axis=0))

    def column_notes(self, names: Sequence[str] | None = None) -> list[Note]:
        """Return notes on columns that are constant, and on those that depend on others.

        Parameters
        ----------
        names : sequence of str, optional
            Of the columns; their numbers by default.

        Returns
        -------
        list of Note
        """
        kept = self.deviations > 0
        notes, varying = list[Note](), np.flatnonzero(kept)

        def named(columns: Any) -> list[Any]:
            return [str(names[j]) if names is not None else int(j) for j in columns]

        if len(varying) < len(kept):
            notes.append(Note("columns_left_out", {"columns": named(np.flatnonzero(~kept))}))
        if self.n_features < len(varying):
            A = self.deviations[varying, None] * self.inverse_root[varying]
            outside = 1 - np.einsum("dp,pd->d", A, np.linalg.pinv(A))
            columns = named(varying[outside > DEPENDENT])
            values = {"columns": columns, "n": self.n_features, "of": len(varying)}
            notes.append(Note("inputs_dependent", values))
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
        Names of the columns; their numbers by default.

    Returns
    -------
    dict or None
        ``columns`` that are rejected one by one, none of them where only all together are;
        ``skewness`` and ``kurtosis``, the largest of any column; ``fourth_moment_ratio``, the
        mean of |z|⁴ over that of a Gaussian; ``p_value``, the smallest of all tests.
    """
    spread = whitening.deviations
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
        "columns": [str(names[j]) if names is not None else j for j in columns.tolist()],
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
