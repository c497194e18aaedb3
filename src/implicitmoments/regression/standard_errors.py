"""Standard errors of mixtures of regressions, from the information of all parameters together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of
from implicitmoments.regression.lines import Lines, Model, columns_of, responsibilities
from implicitmoments.rows import Block, Rows
from implicitmoments.search import ComponentScores, parameter_covariance, weight_errors


@dataclass(frozen=True, eq=False)
class LineErrors:
    """Covariances and standard errors of lines; NaN where they are not known.

    Attributes
    ----------
    weights, noise : array of shape (k,)
        Standard errors of weights and of standard deviations.
    coef : array of shape (k, q, q)
        Covariances of the coefficients of each line; 0 for an intercept that is not fitted.
    """

    weights: Floats
    coef: Floats
    noise: Floats


@dataclass(frozen=True, eq=False)
class ScoredLines:
    r"""Lines with their scores, in the terms of :class:`implicitmoments.search.ScoredComponents`.

    With u the residual of a line over its deviation, the parameters of a line are g and
    :math:`\lambda` of the density :math:`\exp(-\lambda u^2/2 + (g \cdot z) u - A)`, about g = 0
    and :math:`\lambda = 1`: its score is :math:`(u z, (1 - u^2)/2)` there, and its information
    does not depend on u.
    """

    lines: Lines
    model: Model

    @property
    def weights(self) -> Floats:
        """Weights of the lines."""
        return self.lines.weights

    @property
    def n_own(self) -> int:
        """Coefficients, and a noise that is not shared."""
        return int(self.lines.coef.shape[1]) - self.model.first + (not self.model.shared)

    @property
    def n_common(self) -> int:
        """The noise that is shared."""
        return int(self.model.shared)

    def __call__(self, block: Block) -> ComponentScores:
        """Return the scores of a block of rows."""
        lines, columns, counts = self.lines, columns_of(block), block["counts"]
        xp, k = namespace_of(columns), lines.k
        shares, _ = responsibilities(lines, columns)
        z = xp.matrix_transpose(columns[self.model.first : -1, :])
        residuals = columns[-1, :] - move_like(lines.coef, columns) @ columns[:-1, :]
        u = xp.matrix_transpose(residuals / move_like(np.sqrt(lines.variances), columns)[:, None])
        scores = xp.concat([u[:, :, None] * z[:, None, :], 0.5 * (1 - u**2)[:, :, None]], axis=2)
        turned, p = xp.matrix_transpose(z), z.shape[1]
        curvatures = xp.zeros((k, p + 1, p + 1), dtype=z.dtype, device=z.device)
        for i in range(k):
            weight = shares[i, :] * counts
            curvatures[i, :p, :p] = (turned * weight) @ z
            curvatures[i, p, p] = 0.5 * xp.sum(weight)
        return ComponentScores(xp.matrix_transpose(shares), scores, curvatures)

    def leverages(self, block: Block, covariances: Floats) -> Array:
        """Return the leverage of each row on each line, (n, k)."""
        columns, noise = columns_of(block), covariances[:, -1, -1]
        xp, z = namespace_of(columns), columns[self.model.first : -1, :]
        squares = [xp.sum(z * (move_like(V[:-1, :-1], z) @ z), axis=0) for V in covariances]
        return xp.stack(squares, axis=1) + move_like(0.5 * noise, z)


def line_errors(
    rows: Rows, scored: ScoredLines, *, robust: bool = False, n: int | None = None
) -> LineErrors:
    """Return the standard errors of lines, in standard coordinates.

    Parameters
    ----------
    rows : Rows
        A design, rows (1, x, y).
    robust : bool
        The sandwich instead of the inverse of the observed information.
    n : int, optional
        Rows on which the information is measured, or more where it is indefinite there.
    """
    lines, model = scored.lines, scored.model
    (k, q), first = lines.coef.shape, model.first
    coef = np.zeros((k, q, q))
    coef[:, first:, first:] = np.nan
    covariance = parameter_covariance(rows, scored, robust=robust, n=n)
    if covariance is None:
        return LineErrors(np.full(k, np.nan), coef, np.full(k, np.nan))
    p, own, noise = q - first, scored.n_own, np.zeros(k)
    for i, variance in enumerate(lines.variances):
        part = slice(i * own, i * own + p)
        coef[i, first:, first:] = variance * covariance[part, part]  # b = s g
        at = k * own if model.shared else i * own + p
        noise[i] = np.sqrt(variance * covariance[at, at]) / 2  # of s / √λ
    return LineErrors(weight_errors(covariance, lines.weights), coef, noise)
