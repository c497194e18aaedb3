"""Mixtures of Gaussians with six types of covariance, as a family."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from implicitmoments.arrays import Array, Floats, move_like, namespace_of, to_numpy
from implicitmoments.mixture.family import (
    TINY,
    Family,
    pair_columns,
    principal_scores,
    symmetric,
    triangle,
)
from implicitmoments.rows import Block, Rows, weights_of

LOG_2PI = float(np.log(2 * np.pi))
COVARIANCE_TYPES = ("full", "tied", "diag", "tied_diag", "spherical", "tied_spherical")
LEAST_RATIO = 1e-7  # of a variance to the pooled one within components
FAR = 10.0  # deviations from the centre within which rows are taken to lie
ROUNDING = 1e-13  # of sums of squares of standardised columns


class Gaussian(NamedTuple):
    """Parameters of a mixture of Gaussians."""

    weights: Floats  # (k,)
    means: Floats  # (k, d)
    covariances: Floats  # (k, d, d), or (k, d) if diagonal or spherical


@dataclass(frozen=True, eq=False)
class Gaussians(Family):
    """Gaussians of one covariance type; features are 1, z and products of columns of z.

    z are the columns, centred and in units of their standard deviations (one unit for spherical
    types). With a tied covariance the products are shared features: their coefficients are the
    same for all components.

    Parameters
    ----------
    covariance_type : str
        One of ``COVARIANCE_TYPES``.
    ridge : float
        Least variance, relative to the variances of the columns.
    variance : float, optional
        Known variance of tied spherical components, in the user's units.
    separable : bool
        Whether shared features may be left out of the components' coefficients.
    """

    covariance_type: str = "full"
    ridge: float = 0.0
    variance: float | None = None
    separable: bool = True
    # of the rows; ``prepare`` sets them
    centre: Floats = field(default_factory=lambda: np.zeros(0))  # (d,)
    unit: Floats = field(default_factory=lambda: np.ones(0))  # (d,)
    floor: Floats = field(default_factory=lambda: np.zeros(0))  # (d,), or (1,): least variances

    @property
    def tied(self) -> bool:
        """Whether all components have one covariance."""
        return self.covariance_type.startswith("tied")

    @property
    def shape(self) -> str:
        """``"full"``, ``"diag"`` or ``"spherical"``."""
        return "full" if self.covariance_type == "tied" else self.covariance_type.split("_")[-1]

    @property
    def name(self) -> str:
        """The covariance type."""
        return self.covariance_type

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @property
    def n_second(self) -> int:
        """Features of second order."""
        return {"full": self.d * (self.d + 1) // 2, "diag": self.d, "spherical": 1}[self.shape]

    @property
    def n_features(self) -> int:
        """All features."""
        return 1 + self.d + self.n_second

    @property
    def n_own(self) -> int:
        """Features with coefficients per component."""
        return 1 + self.d if self.tied and self.separable else self.n_features

    @property
    def log_jacobian(self) -> float:
        """Log density in the user's units less that of z."""
        return float(-np.log(self.unit).sum())

    def prepare(self, rows: Rows) -> Gaussians:
        """Return the family in the units of some rows."""
        sums = rows.fold(_ColumnSums(to_numpy(rows.first_kept["x"])[0]), width=3, what="units")
        total, first, second = (np.asarray(to_numpy(sums[name])) for name in _SUMS)
        mean = first / total
        deviations = np.sqrt(np.maximum(second / total - mean**2, 0.0))
        centre = mean + to_numpy(rows.first_kept["x"])[0]
        unit = np.where(deviations > 0, deviations, 1.0)
        if self.shape == "spherical":
            unit = np.full(len(unit), np.sqrt(np.mean(deviations**2)) or 1.0)
        sizes = np.abs(centre) + FAR * deviations
        return self._with_floor(replace(self, centre=centre, unit=unit), rows, sizes)

    @staticmethod
    def _with_floor(family: Gaussians, rows: Rows, sizes: Floats) -> Gaussians:
        """Add least variances: rounding of sums, the ridge, and steps of rounded columns."""
        epsilon = np.finfo(np.float64).eps
        floor = ROUNDING + (epsilon * sizes / family.unit) ** 2
        steps = rounding_steps(rows.sample(20_000, 0).points) / family.unit
        floor = np.maximum(floor + family.ridge, steps**2 / (2 * np.pi))
        if family.shape == "spherical":
            floor = floor.mean(keepdims=True)
        return replace(family, floor=floor)

    def retyped(self, covariance_type: str) -> Gaussians:
        """Return the family of another covariance type in the same units."""
        found = replace(self, covariance_type=covariance_type, variance=None)
        size = 1 if found.shape == "spherical" else self.d
        return replace(found, floor=np.resize(self.floor, size))

    def features(self, block: Block) -> Array:
        """Return 1, z and the products of columns."""
        x = block["x"]
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64, copy=False)
        z = (x - move_like(self.centre, x)) / move_like(self.unit, x)
        if self.shape == "full":
            second = pair_columns(z)
        elif self.shape == "diag":
            second = z * z
        else:
            second = xp.sum(z * z, axis=1, keepdims=True)
        return xp.concat([xp.ones_like(z[:, :1]), z, second], axis=1)

    def _second(self, points: Floats) -> Floats:
        """Return the second-order features of points (..., d)."""
        if self.shape == "full":
            first, second = triangle(self.d)
            return points[..., first] * points[..., second]
        squares = points**2
        return squares if self.shape == "diag" else squares.sum(-1, keepdims=True)

    @property
    def _per_variance(self) -> int:
        """Columns that share one variance."""
        return self.d if self.shape == "spherical" else 1

    def pool(self, sums: Floats, rest: Floats) -> Floats:
        """Return the covariance within components, (..., 1, n_second).

        All components have it if tied; those with few rows borrow from it otherwise.
        """
        if self.variance is not None:
            return np.full((*sums.shape[:-2], 1, 1), self.variance / self.unit[0] ** 2)
        sizes = np.maximum(sums[..., :1], TINY)
        means = sums[..., 1 : 1 + self.d] / sizes
        total = rest if self.n_own == 1 + self.d else sums[..., 1 + self.d :].sum(-2)
        within: Floats = (total - (sizes * self._second(means)).sum(-2)) / sizes.sum(-2)
        within = within[..., None, :] / self._per_variance
        return within if self.shape == "full" else np.maximum(within, self.floor)

    def covariances(self, sums: Floats, shared: Floats) -> Floats:
        """Return covariances (..., k, n_second); of tied types the shared one, (..., 1, ·)."""
        if self.tied:
            return shared
        sizes = np.maximum(sums[..., :1], TINY)
        means = sums[..., 1 : 1 + self.d] / sizes
        within: Floats = sums[..., 1 + self.d :] / sizes - self._second(means)
        # a component with fewer rows than its covariance needs borrows the missing ones
        needed = self.d + 2 if self.shape == "full" else 3
        missing = np.clip(needed - sizes, 0, needed)
        within = (sizes * within / self._per_variance + missing * shared) / (sizes + missing)
        return within if self.shape == "full" else np.maximum(within, self._least(shared))

    def _least(self, shared: Floats) -> Floats:
        """Return the smallest variances of components."""
        if self.shape == "full":
            first, second = triangle(self.d)
            shared = shared[..., first == second]
        return self.floor + (0.0 if self.tied else LEAST_RATIO) * np.maximum(shared, 0)

    def matrices(self, covariances: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return full covariances (..., d, d) above their floor, and log-determinants.

        A covariance is accepted by its Cholesky factor; otherwise its eigenvalues are raised.
        """
        whole, least = symmetric(covariances, self.d), self._least(shared)
        try:
            np.linalg.cholesky(whole - least[..., None] * np.eye(self.d))
        except np.linalg.LinAlgError:
            # the most likely covariances that are at least diag(least)
            roots = np.sqrt(least)
            roots = roots[..., :, None] * roots[..., None, :]
            values, axes = np.linalg.eigh(whole / roots)
            low = values[..., :1, None] < 1
            raised = (axes * np.maximum(values, 1.0)[..., None, :]) @ axes.swapaxes(-1, -2)
            whole = np.where(low, raised * roots, whole)
        factors = np.linalg.cholesky(whole)
        return whole, 2 * np.log(np.diagonal(factors, 0, -2, -1)).sum(-1)

    def _precisions(self, covariances: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return precisions in the shape of covariances, and log-determinants (..., 1)."""
        if self.shape != "full":
            logs = np.log(covariances).sum(-1, keepdims=True) * self._per_variance
            return 1 / covariances, logs
        whole, log_determinants = self.matrices(covariances, shared)
        first, second = triangle(self.d)
        precisions: Floats = np.asarray(np.linalg.inv(whole), dtype=np.float64)
        return precisions[..., first, second], log_determinants[..., None]

    def natural(self, sums: Floats, shared: Floats | None) -> Floats:
        """Return the most likely coefficients (..., k, s)."""
        if shared is None:
            raise ValueError("Gaussians share a covariance")
        sizes = np.maximum(sums[..., :1], TINY)
        means = sums[..., 1 : 1 + self.d] / sizes
        precisions, log_determinants = self._precisions(self.covariances(sums, shared), shared)
        found = self._coefficients(means, precisions, log_determinants)
        return found[..., : self.n_own]

    def _coefficients(self, means: Floats, precisions: Floats, log_determinants: Floats) -> Floats:
        """Return coefficients (..., k, n_features) of Gaussians with some precisions."""
        if self.shape == "full":
            linear = (symmetric(precisions, self.d) @ means[..., None])[..., 0]
        else:
            linear = precisions * means
        squares = (means * linear).sum(-1, keepdims=True)
        constant = -0.5 * (squares + log_determinants + self.d * LOG_2PI)
        second = np.broadcast_to(self._halved(precisions), (*means.shape[:-1], self.n_second))
        return np.concatenate([constant, linear, second], axis=-1)

    def _halved(self, precisions: Floats) -> Floats:
        """Return -P/2 as coefficients; products of two different columns occur once."""
        if self.shape != "full":
            return -0.5 * precisions
        first, second = triangle(self.d)
        return -precisions * np.where(first == second, 0.5, 1.0)

    def peaks(self, coefficients: Floats) -> Floats:
        """Return the largest log density of each component, (..., k, 1)."""
        linear, second = coefficients[..., 1 : 1 + self.d], coefficients[..., 1 + self.d :]
        if self.shape == "full":
            first, other = triangle(self.d)
            precisions = symmetric(-second * np.where(first == other, 2.0, 1.0), self.d)
            means = np.linalg.solve(precisions, linear[..., None])[..., 0]
        else:
            means = linear / (-2 * second)
        return np.asarray(coefficients[..., :1] + 0.5 * (means * linear).sum(-1, keepdims=True))

    @property
    def n_noise(self) -> int:
        """Dimension of the noise."""
        return self.d

    def shared_coefficients(self, shared: Floats | None) -> Floats | None:
        """Return the coefficients of the products where all components share them."""
        if shared is None or self.n_own > 1 + self.d:
            return None
        return self._halved(self._precisions(shared, shared)[0])[..., 0, :]

    def split_scores(self, features: Floats, weights: Floats, coefficients: Floats) -> Floats:  # noqa: ARG002
        """Return coordinates on the principal axes of each component."""
        return principal_scores(features[..., 1 : 1 + self.d], weights)

    def points(self, features: Floats) -> Floats:
        """Return z."""
        return features[:, 1 : 1 + self.d]

    def n_parameters(self, k: int) -> int:
        """Return the number of free parameters of k components."""
        covariances = 1 if self.tied else k
        return k - 1 + k * self.d + covariances * self.n_second * (self.variance is None)

    def parameters(self, sums: Floats, rest: Floats) -> Gaussian:
        """Return weights, means and covariances in the user's units."""
        shared, k = self.pool(sums, rest), len(sums)
        covariances = self.covariances(sums, shared)
        if self.shape == "full":
            whole = self.matrices(covariances, shared)[0] * np.outer(self.unit, self.unit)
            covariances = np.broadcast_to(whole, (k, self.d, self.d))
        else:
            covariances = np.broadcast_to(covariances * self.unit**2, (k, self.d))
        means = sums[:, 1 : 1 + self.d] / np.maximum(sums[:, :1], TINY)
        weights = sums[:, 0] / sums[:, 0].sum()
        return Gaussian(weights, means * self.unit + self.centre, covariances.copy())

    def _scaled(self, parameters: Gaussian) -> tuple[Floats, Floats]:
        """Return means (k, d) and covariances (k, n_second) of z."""
        covariances = np.asarray(parameters.covariances)
        if self.shape == "full":
            first, second = triangle(self.d)
            within = (covariances / np.outer(self.unit, self.unit))[:, first, second]
        else:
            within = covariances / self.unit**2
            within = within.mean(1, keepdims=True) if self.shape == "spherical" else within
        return (parameters.means - self.centre) / self.unit, within

    def vectors(self, parameters: Gaussian) -> tuple[Floats, Floats]:
        """Return means and covariances of z; a tied covariance is shared, a known one fixed."""
        means, within = self._scaled(parameters)
        if self.variance is not None:
            return means, np.zeros(0)
        return (means, within[0]) if self.tied else (np.hstack([means, within]), np.zeros(0))

    def steps(self, own: Floats, shared: Floats) -> tuple[Floats, Floats]:
        """Return steps of means along L, and of covariances L (1 + E) Lᵀ along entries of E."""
        if self.variance is not None:
            within = np.full((1, 1), self.variance / self.unit[0] ** 2)
        else:
            within = shared[None] if self.tied else own[:, self.d :]
        if self.shape == "full":
            first, second = triangle(self.d)
            roots = np.linalg.cholesky(symmetric(within, self.d))
            # entry (c, e) of L E Lᵀ for the symmetric unit matrix E of (a, b)
            one = roots[:, first][..., first] * roots[:, second][..., second]
            other = roots[:, first][..., second] * roots[:, second][..., first]
            products = np.where(first == second, one, one + other)
        else:
            deviations = np.broadcast_to(np.sqrt(within), (len(within), self.d))
            roots = deviations[..., None] * np.eye(self.d)
            products = within[..., None] * np.eye(self.n_second)
        means = np.broadcast_to(roots, (len(own), self.d, self.d))
        if self.variance is not None:
            return means, np.zeros((0, 0))
        if self.tied:
            return means, products[0]
        width = own.shape[1]
        found = np.zeros((len(own), width, width))
        found[:, : self.d, : self.d] = means
        found[:, self.d :, self.d :] = products
        return found, np.zeros((0, 0))

    def coefficients_at(self, own: Floats, shared: Floats) -> Floats:
        """Return the coefficients (..., k, n_features) of means and covariances."""
        means = own[..., : self.d]
        if self.variance is not None:
            within = np.full((*own.shape[:-2], 1, 1), self.variance / self.unit[0] ** 2)
        else:
            within = shared[..., None, :] if self.tied else own[..., self.d :]
        if self.shape != "full":
            logs = np.log(within).sum(-1, keepdims=True) * self._per_variance
            return self._coefficients(means, 1 / within, logs)
        whole = symmetric(within, self.d)
        first, second = triangle(self.d)
        logs = 2 * np.log(np.diagonal(np.linalg.cholesky(whole), 0, -2, -1)).sum(-1)
        precisions: Floats = np.asarray(np.linalg.inv(whole), dtype=np.float64)
        return self._coefficients(means, precisions[..., first, second], logs[..., None])

    def errors(self, covariance: Floats, k: int) -> Gaussian:
        """Return standard errors of means and covariances in the user's units."""
        deviations = np.sqrt(np.diag(covariance))
        n_shared = self.n_second if self.tied and self.variance is None else 0
        split = len(deviations) - n_shared
        own = deviations[:split].reshape(k, -1)
        within = own[:, self.d :]
        if self.tied:
            within = np.broadcast_to(deviations[split:], (k, n_shared))
        if self.variance is not None:
            within = np.zeros((k, 1))
        if self.shape == "full":
            found = symmetric(within, self.d) * np.outer(self.unit, self.unit)
        else:
            found = np.broadcast_to(within, (k, self.d if self.shape == "diag" else 1))
            found = found * self.unit**2
        return Gaussian(np.zeros(k), own[:, : self.d] * self.unit, found)

    def sums_of(self, parameters: Gaussian, n: float) -> Floats:
        """Return the sums (k, s) of n rows with these parameters."""
        z, within = self._scaled(parameters)
        sizes = n * np.asarray(parameters.weights)[:, None]
        second = sizes * (within * self._per_variance + self._second(z))
        return np.hstack([sizes, sizes * z, second])[:, : self.n_own]


_SUMS = ("total", "first", "second")


@dataclass(frozen=True, eq=False)
class _ColumnSums:
    """Sums of columns and of their squares about a row."""

    about: Floats

    def __call__(self, block: Block) -> dict[str, Array]:
        x = block["x"]
        xp = namespace_of(x)
        x = xp.astype(x, xp.float64, copy=False)
        weights = xp.astype(weights_of(block), xp.float64, copy=False)
        apart = x - move_like(self.about, x)
        return {
            "total": xp.sum(weights),
            "first": weights @ apart,
            "second": weights @ (apart * apart),
        }


def rounding_steps(x: Floats) -> Floats:
    """Return the distance between neighbouring values of each rounded column (n, d), else 0.

    A column is rounded if it has fewer distinct values than half of the rows.
    """
    steps = np.zeros(x.shape[1])
    for j, column in enumerate(x.T):
        values = np.unique(column)
        if 1 < len(values) < len(column) / 2:
            steps[j] = np.quantile(np.diff(values), 0.1)
    return steps
