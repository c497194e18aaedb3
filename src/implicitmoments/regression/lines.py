"""Lines, their densities at rows (1, x, y), the sums of an E-step, and standard coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from implicitmoments.arrays import (
    Array,
    Entries,
    Floats,
    map_into,
    move_like,
    namespace_of,
)
from implicitmoments.notes import InputError
from implicitmoments.regression.products import (
    FEWEST_FOR_PRODUCTS,
    WIDEST_PRODUCTS,
    as_sum,
    columns_of,
    lift_design,
    pair_columns,
    unfold,
    weighted_products,
)
from implicitmoments.rows import (
    Block,
    Census,
    LabelMap,
    Rows,
    SecondMoments,
    Sums,
    Whitening,
    mean_and_covariance,
)
from implicitmoments.rows.constants import resolution
from implicitmoments.search import Expectations, State
from implicitmoments.search.noise import (
    FIRST,
    expected_factors,
    is_gaussian,
    log_constants,
    log_tails,
)


@dataclass(frozen=True)
class Model:
    """Which parameters are free.

    Attributes
    ----------
    shared : bool
        One noise variance for all lines.
    intercept : bool
        Lines have intercepts.
    student : bool
        The noise has Student's law, with degrees of freedom that all lines share.
    """

    shared: bool = True
    intercept: bool = True
    student: bool = False

    @property
    def first(self) -> int:
        """The first feature of z = (1, x) that has a coefficient."""
        return 0 if self.intercept else 1

    def n_parameters(self, k: int, q: int) -> int:
        """Count the free parameters of k lines in q features, the constant among them."""
        return k * (q - self.first) + (k - 1) + (1 if self.shared else k) + self.student

    def freedom(self, k: int) -> Floats:
        """Return the degrees of freedom at which a fit of k lines starts, (k,)."""
        return np.full(k, FIRST if self.student else np.inf)


@dataclass(frozen=True, eq=False)
class Lines(State):
    r"""A mixture of regressions :math:`y = b_i \cdot z + \sqrt{v_i} e`, with z = (1, x).

    The noise e is standard normal, or has Student's law.

    Attributes
    ----------
    weights : array of shape (k,)
    coef : array of shape (k, q)
        The intercept first.
    variances : array of shape (k,)
        Equal where they are shared; squared scales of Student's law.
    freedom : array of shape (k,)
        Degrees of freedom, all equal; infinite, by default, for Gaussian noise.
    """

    coef: Annotated[Floats, Entries(("k q",))]
    variances: Annotated[Floats, Entries(("k",), variances=True)]
    freedom: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.freedom):
            object.__setattr__(self, "freedom", np.full(self.k, np.inf))

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return is_gaussian(self.freedom)


@dataclass(frozen=True, eq=False)
class LineSums(Expectations):
    """Sums of responsibility times factor times u uᵀ, u = (1, x, y).

    Factors are those of Student's law; 1 for Gaussian noise.
    """

    products: Floats  # (k, q + 1, q + 1)
    counts: Floats  # (k,), of responsibilities
    tails: Floats  # (k,), of responsibilities times tails; 0 for Gaussian noise

    @classmethod
    def of(
        cls, log_likelihood: float, total: float, products: Floats, extra: Sums | None = None
    ) -> LineSums:
        """Return the sums; ``extra`` are those of Student's law."""
        counts = products[:, 0, 0]
        extra = extra or {"counts": counts, "tails": np.zeros_like(counts)}
        return cls(log_likelihood, total, products, extra["counts"], extra["tails"])


def design(block: Block) -> Block:
    """Return rows with points u = (1, x, y), each column contiguous, and their counts.

    In NumPy in double precision, which costs little there.
    """
    x, y, counts = block["x"], block["y"], block.get("counts")
    xp = namespace_of(x)
    if isinstance(x, np.ndarray):
        u = np.empty((x.shape[1] + 2, len(x)))
        u[0], u[1:-1], u[-1] = 1.0, x.T, y
        counts = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
        return {"x": u.T, "counts": counts}
    ones = xp.ones_like(y)
    columns = xp.concat([ones[None, :], xp.matrix_transpose(x), y[None, :]], axis=0)
    return {"x": xp.matrix_transpose(columns), "counts": ones if counts is None else counts}


LOG_TWO_PI = math.log(2 * math.pi)  # of the normal density


def log_joint(lines: Lines, u: Array) -> Array:
    """Return the log weight of each line plus the log density of y given x, (k, n)."""
    return joint_of_residuals(lines, _residuals(lines, u))


def _residuals(lines: Lines, u: Array) -> Array:
    return u[-1, :] - move_like(lines.coef, u) @ u[:-1, :]


def joint_of_residuals(lines: Lines, residuals: Array) -> Array:
    """Return :func:`log_joint` of residuals (k, n), which are overwritten."""
    joint, like = residuals, residuals
    weights = np.maximum(lines.weights, np.finfo(float).tiny)
    constant = np.log(weights) - 0.5 * np.log(lines.variances) + log_constants(lines.freedom, 1)
    if lines.gaussian:
        joint *= joint
        joint *= move_like(-0.5 / lines.variances, like)[:, None]
    else:
        joint = move_like(-0.5 * (lines.freedom + 1), like)[:, None] * _tails(lines, residuals)
    joint += move_like(constant, like)[:, None]
    return joint


def _tails(lines: Lines, residuals: Array) -> Array:
    """Return the tails of Student's law of residuals (k, n), which are overwritten."""
    residuals *= residuals
    residuals /= move_like(lines.variances, residuals)[:, None]
    return log_tails(residuals, move_like(lines.freedom, residuals)[:, None])


def apply_factors(lines: Lines, u: Array, shares: Array) -> tuple[Array, Sums | None]:
    """Return shares (k, n) times the factors of Student's law, and the sums for its tails.

    The shares themselves, and None, for Gaussian noise.
    """
    if lines.gaussian:
        return shares, None
    xp, tails = namespace_of(u), _tails(lines, _residuals(lines, u))
    sums = {
        "counts": as_sum(xp.sum(shares, axis=1)),
        "tails": as_sum(xp.sum(shares * tails, axis=1)),
    }
    return shares * expected_factors(tails, move_like(lines.freedom, u)[:, None], 1), sums


def responsibilities(lines: Lines, u: Array) -> tuple[Array, Array]:
    """Return the probability of each line given the row (k, n), and log densities (n,).

    Parameters
    ----------
    u : array of shape (q + 1, n)
        Rows (1, x, y) as columns.
    """
    joint, xp = log_joint(lines, u), namespace_of(u)
    largest = xp.max(joint, axis=0)
    joint -= largest
    joint = map_into("exp", joint)
    total = xp.sum(joint, axis=0)
    joint /= total
    return joint, largest + xp.log(total)


def expect(rows: Rows, lines: Lines) -> LineSums:
    """Return the sums of one pass over the rows of a design: the E-step."""
    side, lifted = rows.n_features, lift_design(rows)
    fast = lifted is None and lines.k >= FEWEST_FOR_PRODUCTS and side <= WIDEST_PRODUCTS
    width = 4 * lines.k + (side * (side + 1) // 2 + side if fast else 3 * side)
    measure = _Expect(lines, fast, lifted is not None)
    sums = (lifted or rows).fold(measure, width=width, what="EM")
    products = sums["products"]
    if fast or lifted is not None:
        products = unfold(products, side)
    extra = None if lines.gaussian else sums
    return LineSums.of(float(sums["log_likelihood"]), float(sums["mass"]), products, extra)


@dataclass(frozen=True, eq=False)
class _Expect:
    """Log-likelihood, and products of features by responsibility; in half if they are many."""

    lines: Lines
    fast: bool
    lifted: bool  # blocks hold the products of features

    def __call__(self, block: Block) -> Sums:
        u, counts = columns_of(block), block["counts"]
        pairs, u = u, u[: self.lines.coef.shape[1] + 1, :]
        shares, logs = responsibilities(self.lines, u)
        sums = _likelihood(counts, logs)
        shares *= counts
        shares, extra = apply_factors(self.lines, u, shares)
        sums |= extra or {}
        if self.fast or self.lifted:
            pairs = namespace_of(shares).matrix_transpose(
                pairs if self.lifted else pair_columns(u)
            )
            return {**sums, "products": as_sum(shares @ pairs)}
        return {**sums, "products": weighted_products(shares, u)}


def _likelihood(counts: Array, logs: Array) -> Sums:
    """Sum in double precision: the last steps of EM gain little."""
    xp = namespace_of(logs)
    counts, logs = (xp.astype(a, xp.float64, copy=False) for a in (counts, logs))
    return {"log_likelihood": as_sum(counts @ logs), "mass": as_sum(xp.sum(counts))}


@dataclass(frozen=True, eq=False)
class Standard:
    r"""Points :math:`W^T (x - m)` of covariance I, and labels of variance 1.

    Attributes
    ----------
    whitening : Whitening
        Without directions in which points do not vary. Without intercepts its mean is 0, and the
        second moment takes the place of the covariance.
    center, scale : float
        Of the labels: y is ``center + scale * (standard y)``.
    constant : bool
        Labels do not vary; their scale is 1.
    mass : float
        Rows, with their multiplicity.
    about_mean : Whitening or None
        Of the points about their mean, where ``whitening`` is about 0; models of files of before
        have none.
    """

    whitening: Whitening
    center: float
    scale: float
    constant: bool
    mass: float
    about_mean: Whitening | None = None

    @property
    def inputs(self) -> Whitening:
        """Mean and covariance of the points."""
        return self.about_mean or self.whitening

    @property
    def n_features(self) -> int:
        """Coordinates in which the points vary."""
        return self.whitening.n_features

    def original(self, lines: Lines) -> tuple[Floats, Floats, Floats]:
        """Return coefficients (k, d), intercepts (k,) and deviations (k,) in the user's units."""
        coef = self.scale * self.whitening.original(lines.coef[:, 1:])
        intercept = self.center + self.scale * lines.coef[:, 0] - coef @ self.whitening.mean
        return coef, intercept, self.scale * np.sqrt(lines.variances)

    def errors(self, covariances: Floats) -> tuple[Floats, Floats]:
        """Return standard errors of coefficients and intercepts from (k, q, q) covariances."""
        # (intercept, coef) = scale · T b, with T of shape (1 + d, q)
        W, mean = self.whitening.inverse_root, self.whitening.mean
        T = np.zeros((1 + len(W), covariances.shape[1]))
        T[0, 0], T[0, 1:], T[1:, 1:] = 1.0, -mean @ W, W
        squares = np.einsum("aq,kqr,ar->ka", T, covariances, T)
        errors = self.scale * np.sqrt(np.maximum(squares, 0.0))
        return errors[:, 1:], errors[:, 0]


def standardise(rows: Rows, *, intercept: bool) -> tuple[Standard, Rows]:
    """Estimate mean and covariance of points and labels in one pass, and map the rows.

    Without intercepts rows are scaled about zero instead of their mean.

    Parameters
    ----------
    rows : Rows
        With labels.

    Returns
    -------
    Standard, Rows
        The map, and the design: rows (1, x, y) in standard coordinates.
    """
    found, about_mean = mean_and_covariance(rows, labelled=True), None
    if not intercept:
        about_mean = _about_mean(found.points)
        found = replace(found, mean=np.zeros(len(found.mean)), covariance=found.second_moment)
    points = found.points
    if not intercept and not points.covariance.any():
        raise InputError(
            "all_inputs_zero", "all features are 0 in every row, so lines without intercepts are 0"
        )
    center, spread = float(found.mean[-1]), math.sqrt(max(float(found.covariance[-1, -1]), 0.0))
    constant = spread <= max(float(resolution(center)), np.finfo(float).tiny)
    scale = 1.0 if constant else spread
    whitening = Whitening.from_moments(points, reduce=True)
    counted = replace(rows, known=Census(found.n, found.total))
    mapped = counted.mapped(whitening.mean, whitening.inverse_root, LabelMap(center, scale))
    standard = Standard(whitening, center, scale, constant, found.total, about_mean)
    return standard, design_rows(mapped)


def _about_mean(points: SecondMoments) -> Whitening:
    """Return the whitening of points, which has no coordinates if none vary."""
    try:
        return Whitening.from_moments(points, reduce=True)
    except InputError:
        d = len(points.mean)
        return Whitening(points.mean, np.zeros((d, d)), np.zeros((d, 0)))


def design_rows(rows: Rows) -> Rows:
    """Return rows (1, x, y); those of this process are held in memory if they are few enough."""
    made = rows.transformed(design)
    return made.hold() if rows.source.local and made.small else made
