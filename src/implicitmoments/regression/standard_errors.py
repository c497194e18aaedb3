"""Standard errors of mixtures of regressions, from the information of all parameters together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    cross_sums,
    index_like,
    move_like,
    namespace_of,
    to_numpy,
)
from implicitmoments.regression.lines import Lines, Model, responsibilities
from implicitmoments.regression.products import (
    WIDEST_PRODUCTS,
    as_sum,
    columns_of,
    pair_columns,
    unfold,
)
from implicitmoments.rows import Block, Rows, Sums
from implicitmoments.search import (
    ComponentScores,
    information_sums,
    parameter_covariance,
    weight_errors,
)
from implicitmoments.search.information import Layout
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
class _Derivatives:
    """Derivatives of the log densities of k lines at n rows."""

    z: Array  # (p, n)
    shares: Array  # (k, n), responsibilities
    slopes: Array  # (k, n): those by g are these times z
    others: list[Array]  # (k, n), by the other parameters
    curved: list[list[Array]]  # (k, n), minus second derivatives by g · z and by the others


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
        at = self._derivatives(block)
        xp = namespace_of(at.z)
        z, shares, slopes = map(xp.matrix_transpose, (at.z, at.shares, at.slopes))
        others = xp.stack([xp.matrix_transpose(each) for each in at.others], axis=2)
        scores = xp.concat([slopes[:, :, None] * z[:, None, :], others], axis=2)
        weighted = at.shares * block["counts"]
        curvatures = [_curvature(z, weighted[i, :], at.curved, i) for i in range(self.lines.k)]
        return ComponentScores(shares, scores, np.stack(curvatures))

    def _derivatives(self, block: Block) -> _Derivatives:
        lines, columns = self.lines, columns_of(block)
        shares = responsibilities(lines, columns)[0]
        residuals = columns[-1, :] - move_like(lines.coef, columns) @ columns[:-1, :]
        u = residuals / move_like(np.sqrt(lines.variances), columns)[:, None]
        squares = u * u
        law = Derivatives.of(squares, self.freedom, 1)
        others, bent = [0.5 * (1 - law.factors * squares)], squares * law.bends
        curved = [
            [law.factors - 2 * bent, u * bent],
            [u * bent, 0.5 - 0.5 * squares * bent],
        ]
        if law.tails is not None:
            score, cross, curvature = law.tails
            others.append(score)
            edge = [-2 * u * cross, squares * cross]
            curved = [[*row, each] for row, each in zip(curved, edge, strict=True)]
            curved.append([*edge, curvature])
        z = columns[self.model.first : -1, :]
        return _Derivatives(z, shares, law.factors * u, others, curved)

    def information(self, block: Block) -> Sums:
        """Return the sums of which the information is made.

        All scores are a number times z, or a number: sums of products of numbers with z zᵀ and
        with z are all that is needed, as in an E-step.
        """
        if self.n_slopes > WIDEST_PRODUCTS:
            return information_sums(self, block)
        at, c = self._derivatives(block), block["counts"]
        xp, pairs = namespace_of(c), np.triu_indices(self.lines.k)
        slopes = at.shares * at.slopes
        one, other = (xp.take(slopes, index_like(each, c), axis=0) for each in pairs)
        within = at.shares * (at.slopes**2 - at.curved[0][0])
        numbers = xp.concat([one * other, within], axis=0) * c
        squares = as_sum(numbers @ xp.matrix_transpose(pair_columns(at.z)))
        squares = unfold(squares, self.n_slopes)
        n_between = len(pairs[0])
        return {
            "outer": self._outer(at, c, squares[:n_between]),
            **_sums_by_line(at, c, squares[n_between:]),
        }

    def _outer(self, at: _Derivatives, c: Array, between: Floats) -> Floats:
        """Return the sum of products of the scores of rows, (m, m).

        Parameters
        ----------
        between : array of shape (k (k + 1) / 2, p, p)
            Those of the slopes of two lines.
        """
        layout, xp, k, p = Layout.of(self), namespace_of(c), self.lines.k, self.n_slopes
        # scores of rows in what is not a slope, in the order of Layout
        parts, own = [at.shares * each for each in at.others], self.n_own - p
        common = [xp.sum(each, axis=0, keepdims=True) for each in parts[own:]]
        w = move_like(self.weights[:-1], c)[:, None]
        rest = xp.concat([*parts[:own], *common, at.shares[:-1, :] - w], axis=0)
        slopes = (at.shares * at.slopes)[:, None, :] * (rest * c)
        mixed = xp.reshape(slopes, (-1, int(c.shape[0]))) @ xp.matrix_transpose(at.z)
        edge = as_sum(mixed).reshape(k, -1, p).transpose(0, 2, 1).reshape(k * p, -1)
        (i, j), every = np.triu_indices(k), np.zeros((k, p, k, p))
        every[i, :, j, :] = every[j, :, i, :] = between
        places = (np.arange(k)[:, None] * self.n_own + np.arange(p)).ravel()  # of slopes
        others = np.setdiff1d(np.arange(layout.size), places)
        outer = np.zeros((layout.size, layout.size))
        outer[np.ix_(places, places)] = every.reshape(k * p, k * p)
        outer[np.ix_(places, others)] = edge
        outer[np.ix_(others, places)] = edge.T
        outer[np.ix_(others, others)] = as_sum((rest * c) @ xp.matrix_transpose(rest))
        return outer

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
    curved : matrix of arrays of shape (k, n)
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
                cross_sums(left * (weight * each[i, :])[:, None], right)
            )
    return found


def _sums_by_line(at: _Derivatives, c: Array, within: Floats) -> Sums:
    """Return the sums of :func:`implicitmoments.search.information_sums` by line.

    Parameters
    ----------
    within : array of shape (k, p, p)
        Products of the slopes of each line.
    """
    (k, p, _), xp = within.shape, namespace_of(c)
    z, weighted = xp.matrix_transpose(at.z), at.shares * c
    products = np.zeros((k, p + len(at.others), p + len(at.others)))
    products[:, :p, :p] = within
    scores = [as_sum((weighted * at.slopes) @ z)]
    for a, one in enumerate(at.others):
        scores.append(as_sum(xp.sum(weighted * one, axis=1))[:, None])
        side = as_sum((weighted * (at.slopes * one - at.curved[0][1 + a])) @ z)
        products[:, :p, p + a] = products[:, p + a, :p] = side
        for b, other in enumerate(at.others):
            number = weighted * (one * other - at.curved[1 + a][1 + b])
            products[:, p + a, p + b] = as_sum(xp.sum(number, axis=1))
    masses = as_sum(xp.sum(weighted, axis=1))
    return {"products": products, "scores": np.hstack(scores), "masses": masses}


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
