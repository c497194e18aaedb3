r"""Coordinates in which a mixture of regressions is near the standard Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.backends import Floats
from implicitmoments.fitting.rows import LabelledRows
from implicitmoments.moments import HermiteProblem
from implicitmoments.samples import ArraySource, Block, CallableSource, RowDraws, Whitening

__all__ = ["RegressionFrame", "find_frame", "frame_rows", "squared_norm"]

SMALLEST_SPREAD = 1e-9  # of labels about a line, relative to their own
ROUNDING = 1e-13  # and to their size


@dataclass(frozen=True, eq=False)
class RegressionFrame:
    r"""The map :math:`(x, y) \mapsto (B x', z)` of rows, and the Gaussian it makes standard.

    :math:`x' = (x - m) W` is standard normal, and
    :math:`z = (y - c - b \cdot x') / s` is what the line of least squares leaves of the label,
    in units of s. With :math:`b = \sum_i w_i \beta_i` the rows (x', z) are again a mixture of
    regressions, with vectors :math:`\beta_i' = (\beta_i - b)/s` of mean zero: they are shorter,
    and k of them span k − 1 dimensions. For one component nothing is left to learn.

    Attributes
    ----------
    mean : array of shape (d,)
    whitener, root : array of shape (d, d)
        W and its inverse.
    slope : array of shape (d,)
        The vector b.
    intercept, scale : float
        The numbers c and s.
    basis : array of shape (p, d)
        Orthonormal rows B, which span the :math:`\beta_i'`.
    spectrum : array of shape (d,) or None
        Eigenvalues of the moment that B was read off, from the largest down.
    """

    mean: Floats
    whitener: Floats
    root: Floats
    slope: Floats
    intercept: float
    scale: float
    basis: Floats
    spectrum: Floats | None = None

    @property
    def p(self) -> int:
        """Number of coordinates, with the label."""
        return len(self.basis) + 1

    def standard(self, X: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Map rows and labels to x' (n, d) and z (n,)."""
        x = (X - self.mean) @ self.whitener
        return x, (y - self.intercept - x @ self.slope) / self.scale

    def labels(self, x: Floats, z: Floats | float) -> Floats:
        """Map z back to labels, for points x' (n, d)."""
        y: Floats = self.intercept + (x @ self.slope) + self.scale * z
        return y

    def coordinates(self, X: Floats) -> Floats:
        """Map rows (n, d + 1), labels last, to coordinates (n, p)."""
        x, z = self.standard(X[:, :-1], X[:, -1])
        return np.column_stack([x @ self.basis.T, z])

    def log_density(self, X: Floats) -> Floats:
        """Return the logarithm of G at rows (n, d + 1), with the Jacobian of the map."""
        x, z = self.standard(X[:, :-1], X[:, -1])
        logs: Floats = (
            self.log_density_of_points(x)
            - z**2 / 2
            - math.log(2 * math.pi) / 2
            - math.log(self.scale)
        )
        return logs

    def log_density_of_points(self, x: Floats) -> Floats:
        """Return the logarithm of the density of X at points given as x' (n, d)."""
        constant = len(self.mean) / 2 * math.log(2 * math.pi) - self._log_volume
        logs: Floats = -np.sum(x**2, axis=1) / 2 - constant
        return logs

    @property
    def _log_volume(self) -> float:
        return float(np.linalg.slogdet(self.whitener)[1])

    def complete(self, coordinates: Floats, rng: RowDraws) -> Floats:
        """Return rows (n, d + 1) with these coordinates, drawn from G otherwise."""
        x = rng.normal(len(self.mean))
        x += (coordinates[:, :-1] - x @ self.basis.T) @ self.basis
        y = self.labels(x, coordinates[:, -1])
        return np.column_stack([self.mean + x @ self.root, y])


def find_frame(
    X: Floats,
    y: Floats,
    k: int,
    *,
    whiten: bool,
    centred: bool,
    label_scale: float,
    sample_weight: Floats | None = None,
) -> RegressionFrame:
    """Standardise rows, and reduce to the span of the regressors.

    Parameters
    ----------
    X, y : array of shape (n, d) and (n,)
    k : int
        Number of components.
    whiten : bool
        Estimate the mean and covariance of x; otherwise it is taken to be from N(0, I).
    centred : bool
        Take the mean of y for 0 where x is not whitened: the setting of the paper.
    label_scale : float
        The unit of z over the spread of the labels about their line.
    sample_weight : array of shape (n,), optional
    """
    d = X.shape[1]
    counts = np.ones(len(X)) if sample_weight is None else sample_weight
    mean, whitener, root = np.zeros(d), np.eye(d), np.eye(d)
    if whiten:
        found = Whitening.of(ArraySource(X), sample_weight)
        mean, whitener, root = found.mean, found.inverse_root, found.root
    plain = RegressionFrame(mean, whitener, root, np.zeros(d), 0.0, 1.0, np.zeros((0, d)))
    slope, intercept, spread = _line(frame_rows(X, y, plain, sample_weight), centred)
    about = math.sqrt(float(np.average((y - np.average(y, weights=counts)) ** 2, weights=counts)))
    if not spread > max(SMALLEST_SPREAD * about, ROUNDING * float(np.max(np.abs(y)))):
        raise ValueError(
            "the labels are constant or lie on one line without noise, so that (x, y) has no "
            "density; use sklearn.linear_model.LinearRegression, or check that y is the label"
        )
    frame = replace(plain, slope=slope, intercept=intercept, scale=label_scale * spread)
    p = min(k - 1, d)
    basis, spectrum = _span(frame_rows(X, y, frame, sample_weight), d, p)
    return replace(frame, basis=basis, spectrum=spectrum)


def frame_rows(
    X: Floats, y: Floats, frame: RegressionFrame, sample_weight: Floats | None = None
) -> LabelledRows:
    """Return rows (x', z), block by block."""

    def read(rows: range, _: RowDraws) -> Block:
        taken = slice(rows.start, rows.stop)
        x, z = frame.standard(X[taken], y[taken])
        return {"x": x, "y": z}

    source = CallableSource(read, len(X))
    return LabelledRows(HermiteProblem(source, sample_weight=sample_weight))


def _line(rows: LabelledRows, centred: bool) -> tuple[Floats, float, float]:
    """Fit a line by least squares: slope, intercept, and the spread about it."""
    d = rows.problem.n_features
    gram, total = np.zeros((d + 2, d + 2)), 0.0
    for block in rows.blocks(d + 2):
        table = np.column_stack([block.x, np.ones(len(block.y)), block.y])
        gram += (table * block.counts[:, None]).T @ table
        total += float(np.sum(block.counts))
    gram /= total
    used = d if centred else d + 1
    solved = np.zeros(d + 1)
    solved[:used] = np.linalg.lstsq(gram[:used, :used], gram[:used, -1], rcond=1e-12)[0]
    slope, intercept = solved[:d], float(solved[d])
    squares = 0.0
    for block in rows.blocks(d + 2):  # about the line itself: differences of sums lose digits
        squares += float(block.counts @ (block.y - block.x @ slope - intercept) ** 2)
    return slope, intercept, math.sqrt(squares / total)


def _span(rows: LabelledRows, d: int, p: int) -> tuple[Floats, Floats | None]:
    r"""Return the top p eigenvectors of :math:`M_2 = E[(z^2 - 1)/2\,(x x^\top - I)]`.

    And its eigenvalues, where there was something to look for.
    """
    if p == 0:
        return np.zeros((0, d)), None
    moment, trace = np.zeros((d, d)), 0.0
    for block in rows.blocks(d):
        weight = block.counts * (block.y**2 - 1) / 2
        moment += (block.x * weight[:, None]).T @ block.x
        trace += float(np.sum(weight))
    values, vectors = np.linalg.eigh((moment - trace * np.eye(d)) / rows.mass)
    return np.ascontiguousarray(vectors[:, ::-1][:, :p].T), values[::-1]


def squared_norm(rows: LabelledRows) -> tuple[float, float]:
    r"""Return :math:`\sum_i w_i \|\beta_i'\|^2`, the trace of :math:`M_2`, and the mean of z².

    What is left of the mean of z² is the variance of the noise, in units of s².
    """
    d = rows.problem.n_features
    trace, square, total = 0.0, 0.0, 0.0
    for block in rows.blocks(d):
        squares = block.y**2
        trace += float(block.counts @ ((squares - 1) * (np.sum(block.x**2, axis=1) - d))) / 2
        square += float(block.counts @ squares)
        total += float(np.sum(block.counts))
    return trace / total, square / total
