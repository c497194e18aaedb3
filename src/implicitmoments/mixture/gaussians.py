"""Gaussian components with covariances of any type: densities, and covariances from sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np

from implicitmoments.arrays import (
    TINY,
    Array,
    Entries,
    Floats,
    move_like,
    namespace_of,
    quadratic_rows,
)
from implicitmoments.rows import Block
from implicitmoments.rows.fold import lift_pairs, lift_points, lift_squares
from implicitmoments.search import Expectations, State
from implicitmoments.search.em import Places
from implicitmoments.search.noise import is_gaussian, log_constants, log_tails

if TYPE_CHECKING:
    Filled = Floats
else:
    Filled = Floats | None  # of a file of before; filled in when an object is made

# From the fewest to the most parameters.
COVARIANCE_TYPES = ("tied_spherical", "spherical", "tied_diag", "diag", "tied", "full")


@dataclass(frozen=True, eq=False)
class Gaussians(State):
    r"""The mixture :math:`\sum_i w_i N(\mu_i, C_i)`, with weights (k,).

    Or of multivariate t distributions, of which the covariances are the scale matrices.
    """

    means: Annotated[Floats, Entries(("k d",))]
    # (k, d, d), or diagonals (k, d); variances (k,) of all columns become diagonals
    covariances: Annotated[Floats, Entries(("k d d", "k d", "k"), variances=True)]
    # (k,), degrees of freedom, all equal; infinite, by default, for Gaussians
    freedom: Filled = cast(Floats, None)  # noqa: RUF009

    def __post_init__(self) -> None:
        if cast(Any, self.freedom) is None:
            object.__setattr__(self, "freedom", np.full(self.k, np.inf))
        if self.covariances.ndim == 1:
            diagonals = np.repeat(self.covariances[:, None], self.d, axis=1)
            object.__setattr__(self, "covariances", diagonals)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.means.shape[1])

    @property
    def gaussian(self) -> bool:
        """Whether components are Gaussian."""
        return is_gaussian(self.freedom)

    @property
    def log_peaks(self) -> Floats:
        """Log weight plus log density at the mean of each component, (k,)."""
        return self._log_scales + log_constants(self.freedom, self.d)

    @property
    def _log_scales(self) -> Floats:
        logs = np.log(np.maximum(self.weights, TINY))
        return np.asarray(logs - 0.5 * precisions_of(self.covariances)[1])

    def log_tails(self, joint: Array) -> Array:
        """Return the tails of rows, (n, k), from log weight plus log density of Gaussians."""
        xp = namespace_of(joint)
        peaks = self._log_scales - 0.5 * self.d * math.log(2 * math.pi)
        squares = xp.clip(2 * (move_like(peaks, joint) - joint), min=0.0)
        return log_tails(squares, move_like(self.freedom, joint))

    def in_law(self, joint: Array, tails: Array | None = None) -> Array:
        """Return log weight plus log density from that of Gaussians, (n, k).

        Parameters
        ----------
        tails : array of shape (n, k), optional
            From :meth:`log_tails`, where they are known.
        """
        if self.gaussian:
            return joint
        rate = move_like(-0.5 * (self.freedom + self.d), joint)
        tails = self.log_tails(joint) if tails is None else tails
        return rate * tails + move_like(self.log_peaks, joint)

    @property
    def diagonal(self) -> bool:
        """Whether covariances are diagonal."""
        return self.covariances.ndim == 2

    @property
    def variances(self) -> Floats:
        """Variances of the columns in each component, (k, d)."""
        if self.diagonal:
            return self.covariances
        return np.diagonal(self.covariances, axis1=1, axis2=2)

    @property
    def pooled(self) -> Floats:
        """Mean covariance of a row: (d, d), or its diagonal."""
        return np.tensordot(self.weights / self.weights.sum(), self.covariances, axes=1)

    @property
    def slopes(self) -> Floats:
        """Log weight plus log density of Gaussians, linear in (x, products, 1): (p, k).

        Products are pairs of columns i ≤ j, or squares for diagonal covariances.
        """
        linear, offsets, precisions = self.linear_parts(self.covariances)
        if self.diagonal:
            products = -0.5 * precisions
        else:
            i, j = pairs(self.d)
            products = precisions[:, i, j] * np.where(i == j, -0.5, -1.0)
        return np.vstack([linear.T, products.T, offsets])

    def linear_parts(self, covariances: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what log weight plus log density has beside products, and the precisions.

        Parameters
        ----------
        covariances : array
            Those of all components, or one that all share, (1, d, d) or (1, d).

        Returns
        -------
        linear, offsets, precisions : arrays of shape (k, d), (k,), and that of the covariances
        """
        precisions, log_dets = precisions_of(covariances)
        if self.diagonal:
            linear = precisions * self.means
        else:
            linear = np.matmul(precisions, self.means[:, :, None])[:, :, 0]
        logs = np.log(np.maximum(self.weights, TINY)) - 0.5 * self.d * math.log(2 * math.pi)
        offsets = logs - 0.5 * log_dets - 0.5 * np.sum(linear * self.means, axis=1)
        return linear, offsets, precisions

    def moved(self, center: Floats, scale: Floats | float) -> Gaussians:
        """Return the mixture of ``center + scale · x``, with one scale or one for each column."""
        scales = np.broadcast_to(np.asarray(scale, dtype=float), (self.d,))
        factors = scales**2 if self.diagonal else np.outer(scales, scales)
        means = center + scales * self.means
        return replace(self, means=means, covariances=self.covariances * factors)

    def take_columns(self, columns: Places) -> Gaussians:
        """Return the mixture of some columns."""
        covariances = self.covariances[:, columns]
        if not self.diagonal:
            covariances = covariances[:, :, columns]
        return replace(self, means=self.means[:, columns], covariances=covariances)

    @property
    def shared(self) -> bool:
        """Whether all components have the same covariance."""
        return bool(np.all(self.covariances == self.covariances[:1]))

    def expanded(self) -> Gaussians:
        """Return the mixture with covariances as matrices (k, d, d)."""
        if not self.diagonal:
            return self
        return replace(self, covariances=self.covariances[:, :, None] * np.eye(self.d))


@dataclass(frozen=True, eq=False)
class GaussianSums(Expectations):
    """Sums over rows that EM needs, each row times its responsibilities."""

    counts: Floats  # (k,)
    points: Floats  # (k, d)
    # (k, q), of products of pairs of columns i ≤ j, of squares, or of squared lengths (q = 1)
    products: Floats
    # (k,), factors and tails of Student's law; the counts and 0, by default, for Gaussians. Points
    # and products are sums of rows times these factors.
    factors: Filled = cast(Floats, None)  # noqa: RUF009
    tails: Filled = cast(Floats, None)  # noqa: RUF009
    # (k, d), points that were subtracted from the rows; 0 by default
    about: Filled = cast(Floats, None)  # noqa: RUF009

    def __post_init__(self) -> None:
        if cast(Any, self.factors) is None:
            object.__setattr__(self, "factors", self.counts)
            object.__setattr__(self, "tails", np.zeros(len(self.counts)))
        if cast(Any, self.about) is None:
            object.__setattr__(self, "about", np.zeros_like(self.points))
        object.__setattr__(self, "products", self.products.reshape(len(self.counts), -1))

    def __add__(self, other: Self) -> Self:
        return replace(super().__add__(other.around(self.about)), about=self.about)

    def times(self, factor: float) -> Self:
        """Return the sums of rows that count ``factor`` times as much."""
        return replace(super().times(factor), about=self.about)

    def join(self, i: Places, j: Places) -> Self:
        """Return the sums of components i and j as one, pair by pair."""
        one, other = self._take(i), self._take(j).around(self.about[i])
        joined = one + other
        return replace(joined, log_likelihood=self.log_likelihood, total=self.total)

    def _take(self, chosen: Places) -> Self:
        own = [getattr(self, each.name)[chosen] for each in fields(self)[2:]]
        return type(self)(self.log_likelihood, self.total, *own)

    def around(self, about: Floats) -> Self:
        """Return the same sums about other points (k, d)."""
        step = self.about - about
        if not step.any():
            return self
        # Σ (z + s)(z + s)ᵀ = Σ z zᵀ + p sᵀ + s pᵀ + n s sᵀ, with p the sum of n rows z
        q, factors = self.products.shape[1], self.factors[:, None]
        both = products_of(self.points + step, q) - products_of(self.points - step, q)
        products = self.products + both / 2 + factors * products_of(step, q)
        return replace(self, points=self.points + factors * step, products=products, about=about)


def products_of(points: Floats, width: int) -> Floats:
    """Return products of points (m, d): of pairs of columns, squares, or squared lengths.

    (m, ``width``), which says which of them.
    """
    d = points.shape[1]
    if width == 1:
        return np.asarray(np.sum(points**2, axis=1, keepdims=True))
    lifted: Any = quadratic_rows(points, pairs=width > d)
    return np.asarray(lifted[:, d:-1])


@cache
def pairs(d: int) -> tuple[Places, Places]:
    """Return the pairs of columns i ≤ j, in the order of their products, each (d (d + 1) / 2,)."""
    i, j = np.triu_indices(d)
    i.flags.writeable = j.flags.writeable = False
    return i, j


@cache
def symmetric(d: int) -> Places:
    """Return the place in that order of each entry of a symmetric matrix, (d, d)."""
    places = np.empty((d, d), dtype=np.int64)
    i, j = pairs(d)
    places[i, j] = places[j, i] = np.arange(len(i))
    places.flags.writeable = False
    return places


def precisions_of(covariances: Floats) -> tuple[Floats, Floats]:
    """Return inverses of covariances (k, d, d) or diagonals (k, d), and log determinants (k,)."""
    if covariances.ndim == 2:
        return 1 / covariances, np.log(covariances).sum(axis=1)
    inverse = inverse_roots(covariances)
    logs = np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1)
    return np.matmul(inverse.transpose(0, 2, 1), inverse), -2 * logs


def indefinite(matrices: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which of some matrices (k, d, d) are not positive definite, (k,).

    By Cholesky factors, in a tenth of the time of eigenvalues; half of the matrices after the
    other where there are such.
    """
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        half = len(matrices) // 2
        if half == 0:
            return np.ones(1, dtype=bool)
        return np.concatenate([indefinite(matrices[:half]), indefinite(matrices[half:])])
    return np.zeros(len(matrices), dtype=bool)


def inverse_roots(covariances: Floats) -> Floats:
    """Return inverses of the Cholesky factors of covariances, (k, d, d), lower triangular."""
    lower = np.linalg.cholesky(covariances)
    identity = np.broadcast_to(np.eye(covariances.shape[-1]), covariances.shape)
    return np.asarray(np.linalg.solve(lower, identity))


@dataclass(frozen=True)
class CovarianceType:
    """One of ``COVARIANCE_TYPES``: what it asks of rows, and covariances from their sums."""

    name: str

    @property
    def tied(self) -> bool:
        """Whether all components have one covariance."""
        return self.name.startswith("tied")

    @cached_property
    def shape(self) -> str:
        """Return full, diag or spherical: the shape of one covariance."""
        return {"tied": "full"}.get(self.name, self.name.removeprefix("tied_"))

    @property
    def lift(self) -> Callable[[Block], Block]:
        """Map of blocks to (x, products, 1)."""
        return {"full": lift_pairs, "diag": lift_squares, "spherical": lift_points}[self.shape]

    def n_numbers(self, d: int) -> int:
        """Count the parameters of one covariance."""
        return {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[self.shape]

    def n_parameters(self, k: int, d: int) -> int:
        """Count the free parameters of a mixture."""
        return k * (d + 1) - 1 + self.n_numbers(d) * self.n_covariances(k)

    def n_covariances(self, k: int) -> int:
        """Count the covariances of k components."""
        return 1 if self.tied else k

    def fewest_rows(self, d: int) -> float:
        """Return the rows that determine the mean and covariance of one component.

        Twice as many numbers as parameters; with fewer rows than d + 1 a full covariance is
        singular, whatever they are.
        """
        return 2.0 * (1 + self.n_numbers(d) / d)

    def slopes(self, state: Gaussians) -> Floats:
        """Return the slopes of a state for the lifted rows of this type, (p, k)."""
        slopes, d = state.slopes, state.d
        if self.shape != "spherical":
            return slopes
        return np.vstack([slopes[:d], slopes[d : d + 1], slopes[-1:]])

    def products(self, points: Floats) -> Floats:
        """Return the products of points (m, d) as rows are lifted, (m, q)."""
        return products_of(points, self.n_numbers(points.shape[1]))

    def scatter(self, points: Floats, counts: Floats) -> Floats:
        """Return the sums of products of points (n, d) that count as given, (1, q)."""
        if self.shape == "full":
            return self.gathered((points * counts[:, None]).T @ points)
        return self.gathered(counts @ points**2)

    def gathered(self, sums: Floats) -> Floats:
        """Return sums of products as rows are lifted, (1, q).

        Of sums for all pairs of columns, (d, d), if covariances are full, and of squares, (d,).
        """
        if self.shape == "full":
            return sums[None, *pairs(len(sums))]
        return sums[None] if self.shape == "diag" else sums.sum(keepdims=True)[None]

    def covariances(self, products: Floats, d: int) -> Floats:
        """Return covariances of mean products about the means: (m, q) to (m, d, d) or (m, d)."""
        if self.shape == "diag":
            return products
        if self.shape == "spherical":
            return np.repeat(products / d, d, axis=1)
        return products[:, symmetric(d)]

    def constrained(self, covariances: Floats) -> Floats:
        """Return the nearest covariances of this shape to matrices (m, d, d)."""
        if self.shape == "full":
            return covariances
        diagonals = np.diagonal(covariances, axis1=1, axis2=2)
        if self.shape == "spherical":
            means = diagonals.mean(axis=1, keepdims=True)
            return np.repeat(means, diagonals.shape[1], axis=1)
        return np.array(diagonals)

    def ridge(self, d: int, size: float) -> Floats:
        """Return ``size`` times the identity."""
        return size * (np.eye(d) if self.shape == "full" else np.ones(d))
