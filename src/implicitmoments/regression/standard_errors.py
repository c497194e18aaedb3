"""Standard errors of mixtures of regressions, from the information of all parameters together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.regression.lines import Lines, Model, responsibilities
from implicitmoments.regression.products import columns_of
from implicitmoments.rows import Block, Rows
from implicitmoments.search import ComponentScores, parameter_covariance, weight_errors
from implicitmoments.search.noise import Derivatives, is_estimated


@dataclass(frozen=True, eq=False)
class LineErrors:
    """Covariances and standard errors of lines; NaN where they are not known.

    Attributes
    ----------
    weights, noise : array of shape (k,)
        Standard errors of weights and of standard deviations.
    coef : array of shape (k, q, q)
        Covariances of the coefficients of each line; 0 for an intercept that is not fitted.
    freedom : float
        Standard error of the degrees of freedom; 0 for Gaussian noise.
    """

    weights: Floats
    coef: Floats
    noise: Floats
    freedom: float


@dataclass(frozen=True, eq=False)
class ScoredLines:
    r"""Lines with their scores, in the terms of :class:`implicitmoments.search.ScoredComponents`.

    With u the residual of a line over its deviation, the parameters of a line are g and
    :math:`\lambda`, about g = 0 and :math:`\lambda = 1`, on which its density depends through
    :math:`\delta = \lambda (u - g \cdot z / \lambda)^2` and :math:`\log \lambda / 2`. Gaussian
    noise has the score :math:`(u z, (1 - u^2)/2)` there, and its information does not depend on u.
    The logarithm of the degrees of freedom of Student's law is common to all lines.
    """

    lines: Lines
    model: Model

    @property
    def weights(self) -> Floats:
        """Weights of the lines."""
        return self.lines.weights

    @property
    def n_slopes(self) -> int:
        """Coefficients of a line."""
        return int(self.lines.coef.shape[1]) - self.model.first

    @property
    def n_own(self) -> int:
        """Coefficients, and a noise that is not shared."""
        return self.n_slopes + (not self.model.shared)

    @property
    def n_common(self) -> int:
        """The noise that is shared, and degrees of freedom that are estimated."""
        return self.model.shared + is_estimated(self.freedom)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the noise."""
        return float(self.lines.freedom[0])

    def __call__(self, block: Block) -> ComponentScores:
        """Return the scores of a block of rows."""
        lines, columns = self.lines, columns_of(block)
        xp = namespace_of(columns)
        shares = xp.matrix_transpose(responsibilities(lines, columns)[0])
        z = xp.matrix_transpose(columns[self.model.first : -1, :])
        residuals = columns[-1, :] - move_like(lines.coef, columns) @ columns[:-1, :]
        u = xp.matrix_transpose(residuals / move_like(np.sqrt(lines.variances), columns)[:, None])
        law = Derivatives.of(u**2, self.freedom, 1)
        # by g · z, λ and log ν: scores, and minus second derivatives
        scores = [law.factors * u, 0.5 * (1 - law.factors * u**2)]
        curved = [
            [law.factors - 2 * u**2 * law.bends, u**3 * law.bends],
            [u**3 * law.bends, 0.5 - 0.5 * u**4 * law.bends],
        ]
        if law.tails is not None:
            score, cross, curvature = law.tails
            scores.append(score)
            edge = [-2 * u * cross, u**2 * cross]
            curved = [[*row, each] for row, each in zip(curved, edge, strict=True)]
            curved.append([*edge, curvature])
        slopes = scores[0][:, :, None] * z[:, None, :]
        own = xp.concat([slopes, xp.stack(scores[1:], axis=2)], axis=2)
        weighted = shares * block["counts"][:, None]
        curvatures = [_curvature(z, weighted[:, i], curved, i) for i in range(lines.k)]
        return ComponentScores(shares, own, np.stack(curvatures))

    def leverages(self, block: Block, covariances: Floats) -> Array:
        """Return the leverage of each row on each line, (n, k), by the expected information."""
        p, nu = self.n_slopes, self.freedom
        slopes, noise = (1.0, 1.0) if np.isinf(nu) else ((nu + 1) / (nu + 3), nu / (nu + 3))
        z = columns_of(block)[self.model.first : -1, :]
        xp = namespace_of(z)
        squares = [xp.sum(z * (move_like(V[:p, :p], z) @ z), axis=0) for V in covariances]
        return slopes * xp.stack(squares, axis=1) + move_like(
            0.5 * noise * covariances[:, p, p], z
        )


def _curvature(z: Array, weight: Array, curved: list[list[Array]], i: int) -> Floats:
    """Return the sum over rows of minus second derivatives of line i, (q, q).

    Parameters
    ----------
    z : array of shape (n, p)
    weight : array of shape (n,)
    curved : matrix of arrays of shape (n, k)
        Minus second derivatives by g · z and by the other parameters.
    """
    p, m = int(z.shape[1]), len(curved) - 1
    one = namespace_of(z).ones_like(z[:, :1])
    found = np.zeros((p + m, p + m))
    parts = [slice(0, p), *(slice(p + j, p + j + 1) for j in range(m))]
    for a, row in enumerate(curved):
        for b, each in enumerate(row):
            left, right = (z if at == 0 else one for at in (a, b))
            found[parts[a], parts[b]] = to_numpy(
                cross_sums(left * (weight * each[:, i])[:, None], right)
            )
    return found


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
    coef, freedom = np.zeros((k, q, q)), 0.0 if np.isinf(scored.freedom) else np.nan
    coef[:, first:, first:] = np.nan
    covariance = parameter_covariance(rows, scored, robust=robust, n=n)
    if covariance is None:
        return LineErrors(np.full(k, np.nan), coef, np.full(k, np.nan), freedom)
    p, own, noise = q - first, scored.n_own, np.zeros(k)
    for i, variance in enumerate(lines.variances):
        part = slice(i * own, i * own + p)
        coef[i, first:, first:] = variance * covariance[part, part]  # b = s g
        at = k * own if model.shared else i * own + p
        noise[i] = np.sqrt(variance * covariance[at, at]) / 2  # of s / √λ
    if is_estimated(scored.freedom):
        at = k * own + model.shared
        freedom = scored.freedom * float(np.sqrt(covariance[at, at]))
    return LineErrors(weight_errors(covariance, lines.weights), coef, noise, freedom)
