r"""Coordinates in which a mixture of regressions is near the standard Gaussian."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2, norm

from implicitmoments.arrays import (
    Array,
    Floats,
    move_like,
    namespace_of,
    on_host,
    to_numpy,
)
from implicitmoments.moments import HermiteProblem
from implicitmoments.problems.labelled_rows import LabelledRows, Rows
from implicitmoments.rows import (
    Block,
    MappedSource,
    RowDraws,
    Source,
    Stream,
    Sums,
    Whitening,
)
from implicitmoments.rows.outliers import join_labels

__all__ = ["RegressionFrame", "find_frame", "frame_rows", "intercepts_differ", "squared_norm"]

SMALLEST_SPREAD = 1e-9  # of labels about a line, relative to their own
ROUNDING = 1e-13  # and to their size
RARE = 1e-4  # chance with which intercepts that are equal are said to differ
DEVICE_ROWS = 65_536  # of a block on a device, which wants long products


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
    """

    mean: Floats
    whitener: Floats
    root: Floats
    slope: Floats
    intercept: float
    scale: float
    basis: Floats

    @property
    def p(self) -> int:
        """Number of coordinates, with the label."""
        return len(self.basis) + 1

    def points(self, block: Block) -> Array:
        """Return the rows (n, d + 1) of a block, labels last."""
        return join_labels(block)

    def standard(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Map rows and labels to x' (n, d) and z (n,)."""
        mean, whitener = move_like(self.mean, X), move_like(self.whitener, X)
        x = (X - mean[None, :]) @ whitener
        return x, (y - self.intercept - x @ move_like(self.slope, X)) / self.scale

    def labels(self, x: Array, z: Array | float) -> Array:
        """Map z back to labels, for points x' (n, d)."""
        return self.intercept + (x @ move_like(self.slope, x)) + self.scale * z

    def on_span(self, x: Array) -> Array:
        """Map points x' (n, d) to coordinates of the span of the regressors."""
        return x @ namespace_of(x).matrix_transpose(move_like(self.basis, x))

    def coordinates(self, X: Array) -> Array:
        """Map rows (n, d + 1), labels last, to coordinates (n, p)."""
        x, z = self.standard(X[:, :-1], X[:, -1])
        return namespace_of(X).concat([self.on_span(x), z[:, None]], axis=1)

    def log_density(self, X: Array) -> Array:
        """Return the logarithm of G at rows (n, d + 1), with the Jacobian of the map."""
        x, z = self.standard(X[:, :-1], X[:, -1])
        constant = math.log(2 * math.pi) / 2 + math.log(self.scale)
        return self.log_density_of_points(x) - z**2 / 2 - constant

    def log_density_of_points(self, x: Array) -> Array:
        """Return the logarithm of the density of X at points given as x' (n, d)."""
        constant = len(self.mean) / 2 * math.log(2 * math.pi) - self._log_volume
        return -namespace_of(x).sum(x * x, axis=1) / 2 - constant

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
    source: Source, k: int, *, whiten: bool, centred: bool, label_scale: float
) -> tuple[RegressionFrame, Floats | None]:
    """Standardise rows, and reduce to the span of the regressors, in four passes.

    Parameters
    ----------
    source : Source
        Of labelled rows.
    k : int
        Number of components.
    whiten : bool
        Estimate the mean and covariance of x; otherwise it is taken to be from N(0, I).
    centred : bool
        Take the mean of y for 0 where x is not whitened: the setting of the paper.
    label_scale : float
        The unit of z over the spread of the labels about their line.

    Returns
    -------
    frame : RegressionFrame
    spectrum : array of shape (d,) or None
        Eigenvalues of the moment that the span was read off, from the largest down.
    """
    d = source.n_features
    mean, whitener, root = np.zeros(d), np.eye(d), np.eye(d)
    if whiten:
        found = Whitening.of(source)
        mean, whitener, root = found.mean, found.inverse_root, found.root
    plain = RegressionFrame(mean, whitener, root, np.zeros(d), 0.0, 1.0, np.zeros((0, d)))
    line = _line(frame_rows(source, plain), centred)
    if not line.spread > max(SMALLEST_SPREAD * line.about, ROUNDING * line.size):
        raise ValueError(
            "the labels are constant or lie on one line without noise, so that (x, y) has no "
            "density; use sklearn.linear_model.LinearRegression, or check that y is the label"
        )
    frame = replace(
        plain, slope=line.slope, intercept=line.intercept, scale=label_scale * line.spread
    )
    p = min(k - 1, d)
    basis, spectrum = _span(frame_rows(source, frame), d, p)
    return replace(frame, basis=basis), spectrum


def frame_rows(source: Source, frame: RegressionFrame) -> LabelledRows:
    """Return rows (x', z), block by block."""
    begin = range(1)
    probe = source.read(begin, RowDraws(0, begin, (Stream.ROWS,)))["x"]
    mapped = MappedSource(source, _Standard(frame))
    return LabelledRows(HermiteProblem(mapped), None if on_host(probe) else DEVICE_ROWS)


@dataclass(frozen=True, eq=False)
class _Standard:
    """Maps labelled rows to (x', z)."""

    frame: RegressionFrame

    def __call__(self, block: Block) -> Block:
        x, z = self.frame.standard(block["x"], block["y"])
        return {**block, "x": x, "y": z}


@dataclass(frozen=True, eq=False)
class _Line:
    """A line of least squares.

    Attributes
    ----------
    slope : array of shape (d,)
    intercept : float
    spread : float
        Of the labels about the line.
    about : float
        Of the labels about their mean.
    size : float
        Root mean square of the labels.
    """

    slope: Floats
    intercept: float
    spread: float
    about: float
    size: float


def _line(rows: LabelledRows, centred: bool) -> _Line:
    """Fit a line by least squares."""
    d = rows.problem.n_features
    sums = rows.fold(_line_products, d + 2, "line of least squares")
    gram, total = to_numpy(sums["gram"]), float(sums["mass"])
    gram = gram / total
    used = d if centred else d + 1
    solved = np.zeros(d + 1)
    solved[:used] = np.linalg.lstsq(gram[:used, :used], gram[:used, -1], rcond=1e-12)[0]
    slope, intercept = solved[:d], float(solved[d])
    # about the line itself: differences of sums lose digits
    left = _Left(slope, intercept, float(gram[d, -1]))
    sums = rows.fold(left, d + 2, "spread about the line")
    spread, about = (math.sqrt(float(sums[name]) / total) for name in ("line", "mean"))
    return _Line(slope, intercept, spread, about, math.sqrt(float(gram[-1, -1])))


def _line_products(rows: Rows) -> Sums:
    xp = namespace_of(rows.x)
    y = rows.y[:, None]
    table = xp.concat([rows.x, xp.ones_like(y), y], axis=1)
    gram = xp.matrix_transpose(table * rows.counts[:, None]) @ table
    return {"gram": xp.astype(gram, xp.float64), "mass": _total(rows.counts)}


@dataclass(frozen=True, eq=False)
class _Left:
    """Sums squares of what a line, and the mean, leave of the labels."""

    slope: Floats
    intercept: float
    mean: float

    def __call__(self, rows: Rows) -> Sums:
        left = rows.y - rows.x @ move_like(self.slope, rows.x) - self.intercept
        about = rows.y - self.mean
        return {
            "line": _total(rows.counts * left * left),
            "mean": _total(rows.counts * about * about),
        }


def _total(values: Array) -> float:
    xp = namespace_of(values)
    return float(xp.sum(values, dtype=xp.float64))


def _span(rows: LabelledRows, d: int, p: int) -> tuple[Floats, Floats | None]:
    r"""Return the top p eigenvectors of :math:`M_2 = E[(z^2 - 1)/2\,(x x^\top - I)]`.

    And its eigenvalues, where there was something to look for.
    """
    if p == 0:
        return np.zeros((0, d)), None
    sums = rows.fold(_second_moment, d, "span of the regressors")
    moment = to_numpy(sums["moment"]) - float(sums["trace"]) * np.eye(d)
    values, vectors = np.linalg.eigh(moment / float(sums["mass"]))
    return np.ascontiguousarray(vectors[:, ::-1][:, :p].T), values[::-1]


def _second_moment(rows: Rows) -> Sums:
    xp = namespace_of(rows.x)
    weight = rows.counts * (rows.y**2 - 1) / 2
    moment = xp.matrix_transpose(rows.x * weight[:, None]) @ rows.x
    return {
        "moment": xp.astype(moment, xp.float64),
        "trace": _total(weight),
        "mass": _total(rows.counts),
    }


def squared_norm(rows: LabelledRows) -> tuple[float, float]:
    r"""Return :math:`\sum_i w_i \|\beta_i'\|^2`, the trace of :math:`M_2`, and the mean of z².

    What is left of the mean of z² is the variance of the noise, in units of s².
    """
    sums = rows.fold(_squares, rows.problem.n_features, "noise")
    total = float(sums["mass"])
    return float(sums["trace"]) / total, float(sums["square"]) / total


def _squares(rows: Rows) -> Sums:
    xp = namespace_of(rows.x)
    squares = rows.y**2
    lengths = xp.sum(rows.x * rows.x, axis=1) - rows.x.shape[1]
    return {
        "trace": _total(rows.counts * (squares - 1) * lengths) / 2,
        "square": _total(rows.counts * squares),
        "mass": _total(rows.counts),
    }


def intercepts_differ(rows: LabelledRows, square: float) -> bool:
    r"""Say whether components clearly have intercepts of their own, given the mean of z².

    Lines that meet at the mean of x make (x, z) a mixture of Gaussians about 0. Its odd moments
    are 0, and it has no less kurtosis than one Gaussian: tested are
    :math:`E[(z^2 - m) x] = 2 \sum_i w_i c_i \beta_i`, :math:`E[z^3]` and :math:`E[z^4] - 3 m^2`.
    """
    d = rows.problem.n_features
    sums = rows.fold(_Odd(square), d + 3, "intercepts")
    n = float(sums["mass"])
    means, squares = to_numpy(sums["sum"]) / n, to_numpy(sums["square"]) / n
    t = means / np.sqrt(np.maximum(squares - means**2, np.finfo(float).tiny) / n)
    odd = chi2.sf(float(np.sum(t[:-1] ** 2)), d + 1)
    return bool(odd < RARE or norm.cdf(t[-1]) < RARE)


@dataclass(frozen=True, eq=False)
class _Odd:
    """Sums terms of odd moments, of kurtosis, and their squares: (d + 2,) numbers each."""

    mean_square: float

    def __call__(self, rows: Rows) -> Sums:
        xp, m = namespace_of(rows.x), self.mean_square
        z, squares = rows.y[:, None], rows.y[:, None] ** 2
        # as they are after the mean and the variance of z are taken off
        odd = [(squares - m) * rows.x, (squares - 3 * m) * z]
        terms = xp.concat([*odd, squares**2 - 6 * m * squares + 3 * m**2], axis=1)
        counts = rows.counts[:, None]
        return {
            "sum": xp.sum(counts * terms, axis=0, dtype=xp.float64),
            "square": xp.sum(counts * terms**2, axis=0, dtype=xp.float64),
            "mass": _total(rows.counts),
        }
