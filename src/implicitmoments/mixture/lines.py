"""Mixtures of linear regressions, as a family."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of
from implicitmoments.mixture.family import (
    TINY,
    Family,
    pair_columns,
    principal_scores,
    symmetric,
    triangle,
)
from implicitmoments.mixture.gaussians import LOG_2PI
from implicitmoments.rows import Block, Rows
from implicitmoments.rows.second_moments import SecondMoments, mean_and_covariance

FLOOR = 1e-9  # least variance of the noise, of that of y
LEAST_RATIO = 1e-3  # of the noise of one line to that of all
VARYING = 1e-10  # least variance of a direction of the standardised inputs that is used
RIDGE = 1e-6  # of a row: keeps lines with few rows determined


class Line(NamedTuple):
    """Parameters of a mixture of regressions."""

    weights: Floats  # (k,)
    coef: Floats  # (k, d)
    intercept: Floats  # (k,)
    variances: Floats  # (k,) of the noise


@dataclass(frozen=True, eq=False)
class Lines(Family):
    """Regression lines; features are the products of z = (1, whitened x, scaled y).

    Parameters
    ----------
    separate_noise : bool
        One variance of the noise for each line, or one for all.
    fit_intercept : bool
        Without an intercept, lines go through the origin.
    """

    separate_noise: bool = False
    fit_intercept: bool = True
    # of the rows; ``prepare`` sets them
    centre: Floats = field(default_factory=lambda: np.zeros(0))  # (d,) of x
    whitener: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (d, q - 1)
    y_centre: float = 0.0
    y_unit: float = 1.0

    @property
    def q(self) -> int:
        """Entries of z without y: the constant and the whitened inputs."""
        return 1 + int(self.whitener.shape[1])

    @property
    def n_features(self) -> int:
        """Products of pairs of entries of z."""
        return int((self.q + 1) * (self.q + 2) // 2)

    @property
    def n_own(self) -> int:
        """All features have coefficients per line."""
        return self.n_features

    @property
    def similar_if_near(self) -> bool:
        """Neighbours may be of different lines."""
        return False

    @property
    def log_jacobian(self) -> float:
        """Log density of y in the user's units less that of its scaled values."""
        return -float(np.log(self.y_unit))

    def prepare(self, rows: Rows) -> Lines:
        """Return the family with inputs whitened and y in units of its deviation."""
        moments = mean_and_covariance(rows, labelled=True)
        if not self.fit_intercept:
            zero = np.zeros_like(moments.mean)
            moments = SecondMoments(moments.n, moments.total, zero, moments.second_moment)
        units = np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
        units = np.where(units > 0, units, 1.0)
        correlations = (moments.covariance / units / units[:, None])[:-1, :-1]
        values, axes = np.linalg.eigh(correlations)
        axes[np.diag(correlations) == 0] = 0.0  # constant inputs, but for rounding
        used = values > VARYING * max(float(values[-1]), 1.0)
        whitener = axes[:, used] / np.sqrt(values[used]) / units[:-1, None]
        return replace(
            self,
            centre=moments.mean[:-1],
            whitener=whitener,
            y_centre=float(moments.mean[-1]),
            y_unit=float(units[-1]),
        )

    def features(self, block: Block) -> Array:
        """Return the products of pairs of entries of z = (1, x, y)."""
        x, y = block["x"], block["y"]
        xp = namespace_of(x)
        x, y = (xp.astype(part, xp.float64, copy=False) for part in (x, y))
        x = (x - move_like(self.centre, x)) @ move_like(self.whitener, x)
        y = (y[:, None] - self.y_centre) / self.y_unit
        return pair_columns(xp.concat([xp.ones_like(y), x, y], axis=1))

    @property
    def _with_y(self) -> np.ndarray:
        """Places of the products of y with 1, x and itself."""
        return np.flatnonzero(triangle(self.q + 1)[1] == self.q)

    def scaled_lines(self, coefficients: Array) -> tuple[Array, Array]:
        """Return b (..., k, q + 1) and the logits at a residual of 0, from coefficients.

        The product of b and z is the residual in units of the noise, so that a logit is its
        peak less half the square of that.
        """
        xp = namespace_of(coefficients)
        last = xp.take(coefficients, index_like(self._with_y, coefficients), axis=-1)
        precision = -2 * last[..., -1:]
        b = xp.concat([last[..., :-1], -precision], axis=-1) / xp.sqrt(precision)
        return b, coefficients[..., :1] + 0.5 * b[..., :1] ** 2

    def logits(self, coefficients: Array, features: Array) -> Array:
        """Return log densities by the squares of residuals: q products per row, not q²/2."""
        xp = namespace_of(features)
        b, peaks = self.scaled_lines(coefficients)
        residuals = b @ xp.matrix_transpose(features[..., : self.q + 1])
        if isinstance(residuals, np.ndarray):
            np.multiply(residuals, residuals, out=residuals)
            residuals *= -0.5
            residuals += peaks
            return residuals
        return peaks - 0.5 * residuals * residuals

    def peaks(self, coefficients: Floats) -> Floats:
        """Return the largest log density of each line, (..., k, 1)."""
        return np.asarray(self.scaled_lines(coefficients)[1])

    @property
    def n_noise(self) -> int:
        """Dimension of the noise."""
        return 1

    def solve(self, sums: Floats) -> tuple[Floats, Floats]:
        """Return lines (..., k, q) and the sums of their squared residuals (..., k)."""
        products, q = symmetric(sums, self.q + 1), self.q
        places = np.arange(1, q)
        products[..., places, places] += RIDGE
        products[..., 0, 0] = np.maximum(products[..., 0, 0], RIDGE)
        first = 0 if self.fit_intercept else 1
        gram, right = products[..., first:q, first:q], products[..., first:q, q]
        lines = np.zeros((*sums.shape[:-1], q))
        lines[..., first:] = np.linalg.solve(gram, right[..., None])[..., 0]
        squares = products[..., q, q] - (lines[..., first:] * right).sum(-1)
        return lines, np.maximum(squares, 0.0)

    def pool(self, sums: Floats, rest: Floats) -> Floats:  # noqa: ARG002
        """Return the variance of the noise of all rows, (..., 1)."""
        squares = self.solve(sums)[1].sum(-1, keepdims=True)
        sizes = sums[..., 0].sum(-1, keepdims=True) + TINY
        return np.asarray(np.maximum(squares / sizes, FLOOR))

    def variances(self, sums: Floats, squares: Floats, shared: Floats) -> Floats:
        """Return the variances of the noise, (..., k) or (..., 1)."""
        if not self.separate_noise:
            return shared
        sizes = np.maximum(sums[..., 0], TINY)
        missing = np.clip(self.q + 2 - sizes, 0, None)
        own = (squares + missing * shared) / (sizes + missing)
        return np.asarray(np.maximum(own, LEAST_RATIO * shared))

    def natural(self, sums: Floats, shared: Floats | None) -> Floats:
        """Return the most likely coefficients (..., k, s)."""
        if shared is None:
            raise ValueError("lines share a variance")
        lines, squares = self.solve(sums)
        return self._coefficients(lines, self.variances(sums, squares, shared))

    def _coefficients(self, lines: Floats, variances: Floats) -> Floats:
        """Return the coefficients (..., k, s) of lines (..., k, q) with some noise."""
        ends = np.full((*lines.shape[:-1], 1), -1.0)
        b = np.concatenate([lines, ends], axis=-1) / np.sqrt(variances)[..., None]
        first, second = triangle(self.q + 1)
        found = -0.5 * np.where(first == second, 1.0, 2.0) * b[..., first] * b[..., second]
        found[..., 0] -= 0.5 * (np.log(variances) + LOG_2PI)
        return found

    def split_scores(self, features: Floats, weights: Floats, coefficients: Floats) -> Floats:  # noqa: ARG002
        """Return residuals, and residual times input along its principal axes.

        These are the directions in which the slopes of two lines in one differ.
        """
        z = features[..., : self.q + 1]
        lines = self.solve((weights[:, None] @ features)[:, 0].astype(np.float64))[0]
        residuals = z[..., -1] - np.einsum("kmq,kq->km", z[..., :-1], lines)
        turned = principal_scores(residuals[..., None] * z[..., :-1], weights)
        return np.concatenate([turned, residuals[..., None]], axis=-1)

    def points(self, features: Floats) -> Floats:
        """Return the residuals of one line: parallel lines are groups of them."""
        line = self.solve(features.sum(0).astype(np.float64))[0]
        return np.asarray(features[:, : self.q + 1] @ np.append(-line, 1.0)[:, None])

    def leading(self, features: Floats, weights: Floats, k: int) -> tuple[Lines, Floats] | None:
        r"""Return residuals of one line on the k - 1 directions in which slopes differ.

        The residual r of a line with mean slope has
        :math:`E[r^2 z z^T] = E[r^2] I + 2 \sum_i w_i \delta_i \delta_i^T` for normal inputs z,
        where :math:`\delta_i` are the differences of the slopes from their mean.
        """
        if k == 1 or self.q <= k + 1:
            return None
        z = features[:, 1 : self.q].astype(np.float64)
        line = self.solve((weights @ features).astype(np.float64))[0]
        residuals = features[:, self.q] - features[:, : self.q] @ line
        squares = weights * residuals**2
        axes = np.linalg.eigh((z * squares[:, None]).T @ z)[1][:, -(k - 1) :]
        unit = np.sqrt(squares.sum() / weights.sum())
        family = replace(self, whitener=self.whitener @ axes, y_unit=self.y_unit * unit)
        columns = np.column_stack([features[:, :1], z @ axes, residuals / unit])
        return family, np.ascontiguousarray(pair_columns(columns))

    def n_parameters(self, k: int) -> int:
        """Return the number of free parameters of k lines."""
        coefficients = self.q - (not self.fit_intercept)
        return k - 1 + k * coefficients + (k if self.separate_noise else 1)

    def parameters(self, sums: Floats, rest: Floats) -> Line:
        """Return weights, slopes, intercepts and variances of the noise in the user's units."""
        lines, squares = self.solve(sums)
        variances = self.variances(sums, squares, self.pool(sums, rest))
        coef = self.y_unit * lines[:, 1:] @ self.whitener.T
        intercept = self.y_centre + self.y_unit * lines[:, 0] - coef @ self.centre
        variances = np.broadcast_to(self.y_unit**2 * variances, len(sums)).copy()
        return Line(sums[:, 0] / sums[:, 0].sum(), coef, intercept, variances)

    def _scaled(self, parameters: Line) -> tuple[Floats, Floats]:
        """Return lines (k, q) and variances (k,) of scaled y on whitened x."""
        _, coef, intercept, variances = parameters
        slopes = coef @ np.linalg.pinv(self.whitener.T) / self.y_unit
        level = (intercept + coef @ self.centre - self.y_centre) / self.y_unit
        return np.column_stack([level, slopes]), variances / self.y_unit**2

    def vectors(self, parameters: Line) -> tuple[Floats, Floats]:
        """Return lines, without the constant if there is none, and variances of the noise."""
        lines, variances = self._scaled(parameters)
        lines = lines[:, 0 if self.fit_intercept else 1 :]
        if self.separate_noise:
            return np.column_stack([lines, variances]), np.zeros(0)
        return lines, variances[:1]

    def steps(self, own: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return deviations of the noise for lines, and its variance."""
        if self.separate_noise:
            sizes = np.repeat(np.sqrt(own[:, -1:]), own.shape[1], axis=1)
            sizes[:, -1] = own[:, -1]
            return sizes[..., None] * np.eye(own.shape[1]), np.zeros((0, 0))
        sizes = np.full(own.shape, np.sqrt(shared[0]))
        return sizes[..., None] * np.eye(own.shape[1]), np.diag(shared)

    def coefficients_at(self, own: Floats, shared: Floats) -> Floats:
        """Return the coefficients (..., k, s) of lines and variances."""
        lines = own[..., :-1] if self.separate_noise else own
        variances = own[..., -1] if self.separate_noise else shared
        if not self.fit_intercept:
            lines = np.concatenate([np.zeros_like(lines[..., :1]), lines], axis=-1)
        return self._coefficients(lines, variances)

    def errors(self, covariance: Floats, k: int) -> Line:
        """Return standard errors of slopes, intercepts and variances in the user's units."""
        n_shared = 0 if self.separate_noise else 1
        width = (len(covariance) - n_shared) // k
        skip = 0 if self.fit_intercept else 1
        # slopes and intercept are linear in a line of z
        to_coef = self.y_unit * self.whitener
        to_all = np.zeros((1 + len(self.centre), self.q))
        to_all[1:, 1:] = to_coef
        to_all[0] = np.append(self.y_unit, -self.centre @ to_coef)
        to_all = to_all[:, skip:]
        found = np.empty((k, len(to_all)))
        for i in range(k):
            own = slice(i * width, i * width + to_all.shape[1])
            found[i] = np.sqrt(np.einsum("ab,bc,ac->a", to_all, covariance[own, own], to_all))
        deviations = np.sqrt(np.diag(covariance))
        noise = np.full(k, deviations[-1]) if n_shared else deviations.reshape(k, -1)[:, -1]
        intercept = found[:, 0] if self.fit_intercept else np.zeros(k)
        return Line(np.zeros(k), found[:, 1:], intercept, self.y_unit**2 * noise)

    def sums_of(self, parameters: Line, n: float) -> Floats:
        """Return the sums (k, s) of n rows with these parameters and the inputs' moments."""
        lines, variances = self._scaled(parameters)
        products = np.zeros((len(lines), self.q + 1, self.q + 1))
        products[:, : self.q, : self.q] = np.eye(self.q)
        products[:, self.q, : self.q] = products[:, : self.q, self.q] = lines
        products[:, self.q, self.q] = (lines**2).sum(1) + variances
        first, second = triangle(self.q + 1)
        return n * np.asarray(parameters.weights)[:, None] * products[:, first, second]
