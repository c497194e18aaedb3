"""Points of unknown mean and covariance, made standard, and vectors mapped back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like
from implicitmoments.notes import InputError
from implicitmoments.rows.covariance import SecondMoments, mean_and_covariance
from implicitmoments.rows.fold import Block
from implicitmoments.rows.sources import Source
from implicitmoments.rows.view import Rows

SMALLEST_VARIANCE = 1e-10  # relative to the largest


@dataclass(frozen=True, eq=False)
class Whitening:
    r"""The map :math:`x \mapsto \Sigma^{-1/2} (x - m)` with estimated m and :math:`\Sigma`.

    Attributes
    ----------
    mean : array of shape (d,)
    root : array of shape (d, d)
        :math:`\Sigma^{1/2}`, symmetric.
    inverse_root : array of shape (d, p)
        :math:`\Sigma^{-1/2}`, symmetric; or, where the covariance has no inverse and the points
        are reduced, the p coordinates in which they vary.

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
        values, vectors = np.linalg.eigh(moments.covariance)
        varying = values > SMALLEST_VARIANCE * values[-1]
        if reduce and varying.any() and not varying.all():
            V, spread = vectors[:, varying], np.sqrt(values[varying])
            return cls(moments.mean, (V * spread) @ V.T, V / spread)
        if not varying.all():
            raise InputError(
                "columns_collinear",
                "the features are collinear or constant (around column {column}), so their "
                "covariance cannot be inverted; drop that column or reduce by PCA first",
                column=int(np.argmax(np.abs(vectors[:, 0]))),
            )
        root = (vectors * np.sqrt(values)) @ vectors.T
        return cls(moments.mean, root, (vectors / np.sqrt(values)) @ vectors.T)

    @property
    def n_features(self) -> int:
        """Coordinates of a standardised point."""
        return int(self.inverse_root.shape[1])

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
