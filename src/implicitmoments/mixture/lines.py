"""Mixtures of linear regressions, as a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, pair_rows
from implicitmoments.mixture.family import (
    TINY,
    Family,
    Parameters,
    Places,
    principal_scores,
    symmetric,
    triangle,
)
from implicitmoments.mixture.gaussians import LOG_2PI
from implicitmoments.notes import InputError
from implicitmoments.rows import Block, Rows, mean_and_covariance

FLOOR = 1e-9  # least variance of the noise, of that of y
BORROWED = 1e-6  # of a row of the pooled line, which keeps lines with few rows determined
LEAST_RATIO = 1e-3  # of the noise of one line to that of all


@dataclass(frozen=True, eq=False)
class Lines(Family):
    """Regression lines; features are the products of z = (1, whitened x, scaled y).

    Parameters are ``lines`` (k, q), the constant first, and ``variances`` of the noise (k, 1),
    with one component if all lines share one.

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
    centre: Floats = field(default_factory=partial(np.zeros, 0))  # (d,) of x
    whitener: Floats = field(default_factory=partial(np.zeros, (0, 0)))  # (d, q - 1)
    root: Floats = field(default_factory=partial(np.zeros, (0, 0)))  # (q - 1, d), its inverse
    y_centre: float = 0.0
    y_unit: float = 1.0
    q: int = 1  # entries of z without y: the constant and the whitened inputs
    _: KW_ONLY
    similar_if_near: bool = False  # neighbours may be of different lines
    name: str = "separate"  # of the richer type
    option: ClassVar[tuple[str, str]] = ("RegressionMixture", "noise_type")
    d: ClassVar[int] = 1  # dimension of the noise

    def prepare(self, rows: Rows) -> Lines:
        """Return the family with inputs whitened and y in units of its deviation."""
        moments = mean_and_covariance(rows, labelled=True)
        centre, covariance = moments.mean, moments.covariance
        if not self.fit_intercept:
            centre, covariance = np.zeros_like(centre), moments.second_moment
        units = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        units = np.where(units > 0, units, 1.0)
        correlations = (covariance / units / units[:, None])[:-1, :-1]
        values, axes = np.linalg.eigh(correlations)
        axes[np.diag(correlations) == 0] = 0.0  # constant inputs, but for rounding
        used = values > 1e-10 * max(float(values[-1]), 1.0)
        if not (self.fit_intercept or used.any()):
            template = "all features are 0 in every row, so lines without intercepts are 0"
            raise InputError("all_inputs_zero", template)
        deviations = np.sqrt(values[used])
        whitener = axes[:, used] / deviations / units[:-1, None]
        root = (axes[:, used] * deviations).T * units[:-1]
        q, y_unit = whitener.shape[1] + 1, float(units[-1])
        n = (q + 1) * (q + 2) // 2
        found = replace(self, centre=centre[:-1], whitener=whitener, root=root, q=q)
        found = replace(found, y_centre=float(centre[-1]), y_unit=y_unit)
        return replace(found, n_own=n, n_features=n, log_jacobian=-float(np.log(y_unit)))

    def features(self, block: Block) -> Array:
        """Return the products of pairs of entries of z = (1, x, y)."""
        x, y = block["x"], block["y"]
        xp = namespace_of(x)
        x = (x - move_like(self.centre, x)) @ move_like(self.whitener, x)
        y = (y[:, None] - self.y_centre) / self.y_unit
        return pair_rows(xp.concat([xp.ones_like(y), x, y], axis=1))

    def logits(self, coefficients: Array, features: Array) -> Array:
        """Return log densities by the squares of residuals: q products per row, not q²/2.

        A logit is its peak less half the square of a product b · z, the residual in units of
        the noise. The entries of b are the coefficients of the products of y.
        """
        xp = namespace_of(features)
        with_y = np.flatnonzero(triangle(self.q + 1)[1] == self.q)
        last = xp.take(coefficients, index_like(with_y, coefficients), axis=-1)
        precision = -2 * last[..., -1:]
        b = xp.concat([last[..., :-1], -precision], axis=-1) / xp.sqrt(precision)
        peaks = coefficients[..., :1] + 0.5 * b[..., :1] ** 2
        residuals = b @ xp.matrix_transpose(features[..., : self.q + 1])
        residuals *= residuals
        residuals *= -0.5
        residuals += peaks
        return residuals

    def solve(self, sums: Floats, pooled: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Return lines (..., k, q) and the sums of their squared residuals (..., k, 1).

        Lines with too few rows follow a pooled line, (..., 1, q), where rows say nothing.
        """
        products, q = symmetric(sums, self.q + 1), self.q
        places, first = np.arange(q), 0 if self.fit_intercept else 1
        products[..., places, places] += BORROWED
        products[..., :q, q] += BORROWED * pooled
        products[..., q, q] += BORROWED * np.sum(np.square(pooled), axis=-1)
        gram, right = products[..., first:q, first:q], products[..., first:q, q]
        lines = np.zeros((*sums.shape[:-1], q))
        lines[..., first:] = np.linalg.solve(gram, right[..., None])[..., 0]
        squares = products[..., q, q] - (lines[..., first:] * right).sum(-1)
        return lines, np.maximum(squares, 0.0)[..., None]

    def pool(self, sums: Floats, rest: Floats) -> Floats:  # noqa: ARG002
        """Return one line of all rows and the variance of the noise, (..., 1, q + 1)."""
        pooled = self.solve(sums.sum(-2, keepdims=True))[0]
        squares = self.solve(sums, pooled)[1].sum(-2, keepdims=True)
        sizes = sums[..., :1].sum(-2, keepdims=True) + TINY
        return np.concatenate([pooled, np.maximum(squares / sizes, FLOOR)], axis=-1)

    def estimate(self, sums: Floats, shared: Any) -> Parameters:
        """Return lines and variances of the noise, for sums (..., k, s)."""
        lines, squares = self.solve(sums, shared[..., :-1])
        shared = shared[..., -1:]
        if not self.separate_noise:
            return {"lines": lines, "variances": shared}
        sizes = np.maximum(sums[..., :1], TINY)
        missing = np.clip(self.q + 2 - sizes, 0, None)
        own = (squares + missing * shared) / (sizes + missing)
        return {"lines": lines, "variances": np.maximum(own, LEAST_RATIO * shared)}

    def at_floor(self, sums: Floats, shared: Any) -> Places:
        """Return the lines with the least noise that is allowed."""
        least = LEAST_RATIO * shared[..., -1:] if self.separate_noise else FLOOR
        low = self.estimate(sums, shared)["variances"] <= 1.01 * least
        return np.flatnonzero(np.broadcast_to(low[:, 0], len(sums)))

    def richer(self) -> Sequence[Family]:
        """Return lines with a variance of the noise each."""
        return () if self.separate_noise else (replace(self, separate_noise=True),)

    def coefficients(self, parameters: Parameters) -> tuple[Floats, Floats | None]:
        """Return the coefficients (..., k, s) of lines with some noise."""
        lines = parameters["lines"]
        ends = np.full((*lines.shape[:-1], 1), -1.0)
        b = np.concatenate([lines, ends], axis=-1) / np.sqrt(parameters["variances"])
        first, second = triangle(self.q + 1)
        found = -0.5 * np.where(first == second, 1.0, 2.0) * b[..., first] * b[..., second]
        found[..., :1] += self.peaks(parameters)
        return found, None

    def peaks(self, parameters: Parameters) -> Floats:
        """Return the largest log density of each line, (..., k, 1)."""
        return np.asarray(-0.5 * (np.log(parameters["variances"]) + LOG_2PI))

    def split_scores(self, features: Floats, weights: Floats) -> Floats:
        """Return residuals, and residual times input along its principal axes.

        These are the directions in which the slopes of two lines in one differ.
        """
        z = features[..., : self.q + 1]
        lines = self.solve((weights[:, None] @ features)[:, 0].astype(np.float64))[0]
        residuals = z[..., -1] - np.einsum("kmq,kq->km", z[..., :-1], lines)
        turned = principal_scores(residuals[..., None] * z[..., :-1], weights)
        return np.concatenate([turned, residuals[..., None]], axis=-1)

    def n_parameters(self, k: int) -> int:
        """Return the number of free parameters of k lines."""
        coefficients = self.q if self.fit_intercept else self.q - 1
        return k - 1 + k * coefficients + (k if self.separate_noise else 1)

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return intercepts, coefficients of the columns, and deviations of the noise."""
        lines, variances = parameters["lines"], parameters["variances"]
        coef = self.y_unit * lines[..., 1:] @ self.whitener.T
        intercept = self.y_centre + self.y_unit * lines[..., 0] - coef @ self.centre
        noise = np.broadcast_to(self.y_unit * np.sqrt(variances[..., 0]), intercept.shape)
        return {"intercept": intercept, "coef": coef, "noise": noise}

    def left_out(self) -> Places:
        """Return the inputs that do not vary."""
        return np.flatnonzero(~self.whitener.any(axis=1))

    def steps(self, parameters: Parameters) -> Parameters:
        """Return deviations of the noise for lines, and its variances."""
        variances, first = parameters["variances"], 0 if self.fit_intercept else 1
        free = np.eye(self.q)[first:]
        lines = np.sqrt(variances)[..., None] * free
        lines = np.broadcast_to(lines, (len(parameters["lines"]), *free.shape))
        return {"lines": lines, "variances": variances[..., None]}
