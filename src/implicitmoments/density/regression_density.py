"""The hypothesis of Theorem 4.22 on (x, y): its coordinates, marginal and conditionals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.arrays import Array, Floats, dot_rows, move_like, namespace_of, to_numpy
from implicitmoments.density.clipped_density import FLOOR, ClippedDensity
from implicitmoments.density.expansion import GradedExpansion
from implicitmoments.notes import InputError
from implicitmoments.rows import (
    DEFAULT_BUDGET,
    Block,
    DrawPurpose,
    RowDraws,
    Rows,
    Sums,
    Whitening,
    blocks,
    join_labels,
    mean_and_covariance,
    weights_of,
)

REACH, NODES = 10.0, 2_001  # of the grid on which the density of z is tabulated
STEP = 2 * REACH / (NODES - 1)  # 0.01 standard deviations
LABELS = (DrawPurpose.ROWS, 3)  # random stream


@dataclass(frozen=True, eq=False)
class RegressionFrame:
    r"""The map :math:`(x, y) \mapsto (B x', z)` of rows, and the Gaussian it makes standard.

    :math:`x' = (x - m) W` is standard normal, and :math:`z = (y - c - b \cdot x') / s` is the
    residual of the least-squares line, in units of s. With :math:`b = \sum_i w_i \beta_i` the rows
    (x', z) are again a mixture of regressions, with vectors :math:`\beta_i' = (\beta_i - b)/s` of
    mean zero: they are shorter, and k of them span k − 1 dimensions. For one component nothing is
    left to learn.
    """

    mean: Floats  # (d,)
    whitener: Floats  # (d, d), W and its inverse
    root: Floats  # (d, d)
    slope: Floats  # (d,), the vector b
    intercept: float  # the numbers c and s
    scale: float
    basis: Floats  # (p, d), orthonormal rows B, which span the :math:`\beta_i'`
    spread: float = 1.0  # variance of the rows along z

    @property
    def p(self) -> int:
        """Number of coordinates, with the label."""
        return len(self.basis) + 1

    @property
    def variances(self) -> Floats:
        """Variances of the rows along the coordinates, (p,)."""
        return np.append(np.ones(len(self.basis)), self.spread)

    def at_scale(self, scale: float) -> RegressionFrame:
        """Return the frame with G wider along z, by a factor."""
        return replace(self, scale=scale * self.scale, spread=self.spread / scale**2)

    def on_coordinates(self, rows: Rows) -> Rows:
        """Return the rows as (B x', z)."""
        return self.rows(rows).mapped(linear=self.basis.T)

    def rows(self, rows: Rows) -> Rows:
        """Return the rows as (x', z)."""
        return rows.mapped(self.mean, self.whitener, self.standard_labels)

    def standard(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Map rows and labels to x' (n, d) and z (n,)."""
        mean, whitener = move_like(self.mean, X), move_like(self.whitener, X)
        return (X - mean[None, :]) @ whitener, self.standard_labels(X, y)

    def standard_labels(self, X: Array, y: Array) -> Array:
        """Map labels of rows X to z."""
        mean, slope = move_like(self.mean, X), move_like(self.whitener @ self.slope, X)
        return (y - self.intercept - (X - mean[None, :]) @ slope) / self.scale

    def labels(self, x: Array, z: Array | float) -> Array:
        """Map z back to labels, for points x' (n, d)."""
        return self.intercept + (x @ move_like(self.slope, x)) + self.scale * z

    def on_span(self, x: Array) -> Array:
        """Map points x' (n, d) to coordinates on the span of the regressors."""
        return x @ namespace_of(x).matrix_transpose(move_like(self.basis, x))

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d + 1), labels last, to coordinates (n, p)."""
        x, z = self.standard(X[:, :-1], X[:, -1])
        return namespace_of(X).concat([self.on_span(x), z[:, None]], axis=1)

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G at rows (n, d + 1), with the Jacobian of the map."""
        x, z = self.standard(X[:, :-1], X[:, -1])
        constant = math.log(2 * math.pi) / 2 + math.log(self.scale)
        return self._log_density_of_points(x) - z**2 / 2 - constant

    def log_density_of_inputs(self, X: Array) -> Array:
        """Return the logarithm of the density of inputs (n, d), a Gaussian."""
        return self._log_density_of_points(self.standard(X, X[:, 0])[0])

    def _log_density_of_points(self, x: Array) -> Array:
        log_volume = float(np.linalg.slogdet(self.whitener)[1])
        constant = len(self.mean) / 2 * math.log(2 * math.pi) - log_volume
        return -dot_rows(x, x) / 2 - constant

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows (n, d + 1) with these coordinates, drawn from G otherwise."""
        x = rng.normal(len(self.mean))
        x += (coordinates[:, :-1] - x @ self.basis.T) @ self.basis
        y = self.labels(x, coordinates[:, -1])
        return np.column_stack([self.mean + x @ self.root, y])


def find_frame(rows: Rows, k: int) -> tuple[RegressionFrame, Floats]:
    r"""Standardise rows, and reduce to the span of the regressors, in three passes.

    The span is that of the top k − 1 eigenvectors of :math:`M_2 = E[(z^2 - 1)/2\,(x x^\top - I)]`,
    whose eigenvalues are returned too, in decreasing order. The unit of z is the standard
    deviation of the labels about their line.
    """
    d = rows.n_features
    moments = mean_and_covariance(rows, labelled=True)
    whitening = Whitening.of(moments.points)
    mean, whitener = whitening.mean, whitening.inverse_root
    slope = whitener.T @ moments.covariance[:d, d]  # of least squares, as x' is standard
    intercept = float(moments.mean[d])
    none = np.zeros((0, d))
    frame = RegressionFrame(mean, whitener, whitening.root, slope, intercept, 1.0, none)
    # about the line itself: differences of second moments lose digits
    residuals = mean_and_covariance(frame.rows(rows), labelled=True)
    spread = math.sqrt(float(residuals.second_moment[d, d]))
    deviation = math.sqrt(float(moments.covariance[d, d]))
    size = math.sqrt(float(moments.second_moment[d, d]))
    if not spread > max(1e-9 * deviation, 1e-13 * size):  # more is not rounding
        raise InputError(
            "labels_on_a_line",
            "`y` is constant or an exact linear function of X, so (x, y) has no density; use "
            "sklearn.linear_model.LinearRegression, or check that `y` holds the labels",
        )
    frame = replace(frame, scale=spread)
    sums = frame.rows(rows).fold(_sum_second_moment, width=2 * d, what="span of the regressors")
    moment = to_numpy(sums["moment"]) - float(sums["trace"]) * np.eye(d)
    values, vectors = np.linalg.eigh(moment / moments.total)
    basis = np.ascontiguousarray(vectors[:, ::-1][:, : min(k - 1, d)].T)
    return replace(frame, basis=basis), values[::-1]


def _sum_second_moment(block: Block) -> Sums:
    x, weight = block["x"], weights_of(block) * (block["y"] ** 2 - 1) / 2
    xp = namespace_of(x)
    moment = xp.matrix_transpose(x * weight[:, None]) @ x
    return {"moment": xp.astype(moment, xp.float64), "trace": xp.sum(weight, dtype=xp.float64)}


@dataclass(frozen=True, eq=False)
class RegressionDensity(ClippedDensity):
    r"""The hypothesis on rows (x, y), and its conditional distributions.

    At a point x the ratio R' to G is a polynomial in z, whose coefficients are found once. The
    density of z, proportional to R'(x, z) times the standard normal one, is tabulated at nodes
    0.01 apart; in a draw it is constant between them.
    """

    reference: RegressionFrame
    expansion: GradedExpansion

    def log_joint(self, X: Array, y: Array) -> Array:
        """Return the logarithm of the density at rows (n, d) with labels (n,)."""
        return self.log_density(join_labels({"x": X, "y": y}))

    def sample_labels(self, X: Array, n_samples: int, *, seed: int, first: int = 0) -> Floats:
        """Draw labels at rows (n, d) in main memory: (n, n_samples).

        ``first`` is the number of the first row, by which random numbers are keyed.
        """
        rows = np.asarray(to_numpy(X), dtype=np.float64)
        x, _ = self.reference.standard(rows, np.zeros(len(rows)))
        points, z = self.reference.on_span(x), np.empty((len(rows), n_samples))
        grid = np.linspace(-REACH, REACH, NODES)
        for part in blocks(range(len(rows)), DEFAULT_BUDGET.rows_per_block(NODES, x)):
            ratio = self.expansion.on_grid(points[part.start : part.stop], grid)
            density = np.clip(ratio, FLOOR, self.clip) * np.exp(-(grid**2) / 2)
            cells = (density[:, 1:] + density[:, :-1]) / 2
            below = np.cumsum(cells, axis=1)
            keyed = range(first + part.start, first + part.stop)
            uniform = RowDraws(seed, keyed, LABELS).uniform(n_samples) * below[:, -1:]
            for i in range(len(below)):
                cell = np.minimum(np.searchsorted(below[i], uniform[i]), NODES - 2)
                left = (below[i, cell] - uniform[i]) / cells[i, cell]
                z[part.start + i] = grid[cell + 1] - STEP * left
        middle = np.asarray(self.reference.labels(x, 0.0), dtype=np.float64)
        return np.asarray(middle[:, None] + self.reference.scale * z)
