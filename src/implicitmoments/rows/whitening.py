"""Points of unknown mean and covariance, made standard, and vectors mapped back."""

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
from implicitmoments.rows.draws import RowDraws, Stream
from implicitmoments.rows.fold import Block, Sums
from implicitmoments.rows.sources import CountedSource, Source

__all__ = ["Whitening"]


BLOCK_ROWS = 16_384
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
        cls, source: Source, sample_weight: Array | None = None, *, reduce: bool = False
    ) -> Whitening:
        """Estimate mean and covariance in one pass over the rows of a source.

        Sums are taken about the first row, so that points far from the origin lose no digits.

        Parameters
        ----------
        source : Source
        sample_weight : array of shape (n_rows,), optional
            How often each row counts; rows of weight 0 are not looked at.
        reduce : bool
            Leave directions out in which the points do not vary, rather than refuse them.
        """
        n = source.n_rows
        if n is None or n < 2:
            raise ValueError(f"whitening takes two rows or more, and {n or 'no'} are given")
        if sample_weight is not None:
            source = CountedSource(source, sample_weight)
        begin = range(1)
        first = to_numpy(source.read(begin, RowDraws(0, begin, (Stream.ROWS,)))["x"])[0]
        first = first.astype(np.float64)
        sums = source.fold(_Second(first), range(n), BLOCK_ROWS, what="mean and covariance")
        check_squares("X", sums["square"])
        mass = float(sums["mass"])
        mean = to_numpy(sums["total"]) / mass
        square = to_numpy(sums["square"]) / mass
        values, vectors = np.linalg.eigh(square - np.outer(mean, mean))
        mean = mean + first
        varying = values > SMALLEST_VARIANCE * values[-1]
        if reduce and varying.any() and not varying.all():
            V, spread = vectors[:, varying], np.sqrt(values[varying])
            return cls(mean, (V * spread) @ V.T, V / spread)
        if not varying.all():
            column = int(np.argmax(np.abs(vectors[:, 0])))
            raise ValueError(
                f"the features are collinear or constant (around column {column}), so their "
                "covariance cannot be inverted; drop that column or reduce by PCA first"
            )
        root = (vectors * np.sqrt(values)) @ vectors.T
        return cls(mean, root, (vectors / np.sqrt(values)) @ vectors.T)

    @property
    def n_features(self) -> int:
        """Coordinates of a standardised point."""
        return int(self.inverse_root.shape[1])

    def apply(self, block: Block) -> Block:
        """Standardise the points of a block."""
        x = block["x"]
        centred = x - move_like(self.mean, x)[None, :]
        return {**block, "x": centred @ move_like(self.inverse_root, x)}

    def original(self, vectors: Floats) -> Floats:
        r"""Map vectors v' with :math:`v' \cdot x' = v \cdot (x - m)` back to v."""
        mapped: Floats = vectors @ self.inverse_root.T
        return mapped


@dataclass(frozen=True, eq=False)
class _Second:
    """Sums of points and of their products, about a point; in float64."""

    about: Floats

    @quiet_overflow
    def __call__(self, block: Block, rows: range) -> Sums:
        x = block["x"]
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64)
        x = x - move_like(self.about, x)[None, :]
        counts = block.get("counts")
        weighted = x if counts is None else x * xp.astype(counts, xp.float64)[:, None]
        return {
            "mass": len(rows) if counts is None else float(xp.sum(counts)),
            "total": xp.sum(weighted, axis=0),
            "square": xp.matrix_transpose(weighted) @ x,
        }
