"""Standardisation of points by their mean and covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like
from implicitmoments.column_names import unnamed_column, unnamed_columns
from implicitmoments.notes import InputError, Note
from implicitmoments.rows.constants import resolution
from implicitmoments.rows.fold import Block, KeyGrid
from implicitmoments.rows.second_moments import SecondMoments, mean_and_covariance
from implicitmoments.rows.sources import Source
from implicitmoments.rows.view import Rows

SMALLEST_VARIANCE = 1e-10  # of correlations, relative to the largest: smaller ones are rounding
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
        raise InputError(
            "columns_collinear",
            "the features are collinear or constant (around column {column}), so their "
            "covariance cannot be inverted; drop that column or reduce by PCA first",
            column=unnamed_column(int(np.argmax(np.where(flat, 2.0, np.abs(vectors[:, 0]))))),
        )

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
        return KeyGrid.of(self.mean, self.deviations)

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
