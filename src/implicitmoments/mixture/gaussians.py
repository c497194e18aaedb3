"""Mixtures of Gaussians with six types of covariance, as a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from implicitmoments.arrays import Array, Floats, index_like, move_like, namespace_of, pair_rows
from implicitmoments.mixture.family import (
    TINY,
    Family,
    Parameters,
    Places,
    empty_features,
    principal_scores,
    symmetric,
    triangle,
    upper_triangle,
)
from implicitmoments.rows import (
    Block,
    Rows,
    find_constants,
    restore_columns,
    restore_matrices,
)

LOG_2PI = float(np.log(2 * np.pi))
COVARIANCE_TYPES = ("full", "tied", "diag", "tied_diag", "spherical", "tied_spherical")


@dataclass(frozen=True, eq=False)
class Gaussians(Family):
    """Gaussians of one covariance type; features are 1, z and the products of columns of z.

    z are the columns that vary, centred and in units of their standard deviations (one unit for
    spherical types). With a tied covariance the products are shared features: their coefficients
    are the same for all components. Parameters are ``means`` (k, d) and ``covariances``, with one
    component if tied: (k, d, d), (k, d) if diagonal, (k, 1) if spherical.

    Parameters
    ----------
    name : str
        One of ``COVARIANCE_TYPES``.
    ridge : float
        Least variance, relative to the variances of the columns.
    variance : float, optional
        Known variance of tied spherical components, in the user's units.
    """

    name: str = "full"
    ridge: float = 0.0
    variance: float | None = None
    # of the rows; ``prepare`` sets them
    centre: Floats = field(default_factory=partial(np.zeros, 0))  # (d,)
    unit: Floats = field(default_factory=partial(np.ones, 0))  # (d,)
    floor: Floats = field(default_factory=partial(np.zeros, 0))  # (d,), or (1,): least variances
    d: int = 0  # columns that vary; the dimension of the noise
    shape: str = ""  # "full", "diag" or "spherical"
    tied: bool = False  # whether all components have one covariance
    per_variance: int = 1  # columns that share one variance

    option: ClassVar[tuple[str, str]] = ("GaussianMixture", "covariance_type")

    def prepare(self, rows: Rows) -> Gaussians:
        """Return the family in the units of some rows.

        Least variances come from the rounding of sums, the ridge, and steps of rounded columns.
        """
        constants, sample = find_constants(rows), rows.sample(20_000, 0)
        points, weights = np.asarray(sample.points, dtype=np.float64), sample.counts
        if constants is not None:
            points = points[:, np.isnan(constants)]
        about = points[0]
        centre = about + weights @ (points - about) / weights.sum()
        deviations = np.sqrt(weights @ (points - centre) ** 2 / weights.sum())
        unit = np.where(deviations > 0, deviations, 1.0)
        if self.name.endswith("spherical"):
            unit = np.full(len(unit), np.sqrt(np.mean(deviations**2)) or 1.0)
        sizes = np.abs(centre) + 10 * deviations  # of nearly all rows
        rounding = 1e-13 + (np.finfo(np.float64).eps * sizes / unit) ** 2  # of sums of squares
        steps = rounding_steps(points) / unit
        floor = np.maximum(rounding + self.ridge, steps**2 / (2 * np.pi))
        found = replace(self, centre=centre, unit=unit, floor=floor, constants=constants)
        found = replace(found, log_jacobian=float(-np.log(unit).sum()))
        return found.retyped(self.name, self.variance)

    def retyped(self, name: str, variance: float | None = None) -> Gaussians:
        """Return the family of another covariance type in the same units."""
        d, tied = len(self.centre), name.startswith("tied")
        shape = "full" if name == "tied" else name.removeprefix("tied_")
        second = {"full": d * (d + 1) // 2, "diag": d, "spherical": 1}[shape]
        floor, per_variance = np.broadcast_to(self.floor, d), 1
        if shape == "spherical":
            floor, per_variance = floor.mean(keepdims=True), d
        found = replace(self, name=name, variance=variance, d=d, shape=shape, tied=tied)
        found = replace(found, n_own=1 + d + (0 if tied else second), n_features=1 + d + second)
        return replace(found, floor=floor, per_variance=per_variance)

    def features(self, block: Block) -> Array:
        """Return 1, z and the products of columns."""
        x = block["x"]
        xp = namespace_of(x)
        if self.constants is not None:
            x = xp.take(x, index_like(np.flatnonzero(np.isnan(self.constants)), x), axis=1)
        found = empty_features(x, self.n_features)
        z = found[:, 1 : 1 + self.d]
        z[...] = x
        z -= move_like(self.centre, x)
        z *= move_like(1 / self.unit, x)
        found[:, 0] = 1.0
        found[:, 1 + self.d :] = pair_rows(z) if self.shape == "full" else self._second(z)
        return found

    def _second(self, z: Array) -> Array:
        """Return the second-order features of points (..., d)."""
        if self.shape == "spherical" and isinstance(z, np.ndarray):
            return np.asarray(np.einsum("...d,...d->...", z, z))[..., None]
        if self.shape == "spherical":
            return namespace_of(z).sum(z * z, axis=-1, keepdims=True)
        if self.shape == "diag":
            return z * z
        first, second = triangle(self.d)
        return z[..., first] * z[..., second]

    def pool(self, sums: Floats, rest: Floats) -> Floats:
        """Return the covariance within components, (..., 1, ·).

        All components have it if tied; those with few rows borrow from it otherwise.
        """
        if self.variance is not None:
            return np.full((*sums.shape[:-2], 1, 1), self.variance / self.unit[0] ** 2)
        sizes = np.maximum(sums[..., :1], TINY)
        means = sums[..., 1 : 1 + self.d] / sizes
        total = rest if self.n_own == 1 + self.d else sums[..., 1 + self.d :].sum(-2)
        within: Floats = (total - (sizes * self._second(means)).sum(-2)) / sizes.sum(-2)
        within = within[..., None, :] / self.per_variance
        return within if self.shape == "full" else np.maximum(within, self.floor)

    def estimate(self, sums: Floats, shared: Any) -> Parameters:
        """Return the means and covariances of sums (..., k, s)."""
        sizes = np.maximum(sums[..., :1], TINY)
        means = sums[..., 1 : 1 + self.d] / sizes
        within = shared
        if not self.tied:
            within = sums[..., 1 + self.d :] / sizes - self._second(means)
            # a component with fewer rows than its covariance needs borrows the missing ones
            needed = self.d + 2 if self.shape == "full" else 3
            missing = np.clip(needed - sizes, 0, needed)
            within = sizes * within / self.per_variance + missing * shared
            within = within / (sizes + missing)
        covariances = symmetric(within, self.d) if self.shape == "full" else within
        return {"means": means, "covariances": self._at_least(covariances, shared)}

    def _at_least(self, covariances: Floats, shared: Floats, times: float = 1.0) -> Floats:
        """Return the most likely covariances that are at least the smallest allowed, some times.

        These are diagonal: the floor, and 1e-7 of the pooled variances. A matrix is accepted by
        its Cholesky factor; otherwise its eigenvalues are raised.
        """
        pooled = shared[..., np.equal(*triangle(self.d))] if self.shape == "full" else shared
        least = times * (self.floor + (0.0 if self.tied else 1e-7 * np.maximum(pooled, 0)))
        if self.shape != "full":
            return np.maximum(covariances, least)
        try:
            np.linalg.cholesky(covariances - least[..., None] * np.eye(self.d))
        except np.linalg.LinAlgError:
            roots = np.sqrt(least)
            roots = roots[..., :, None] * roots[..., None, :]
            values, axes = np.linalg.eigh(covariances / roots)
            low = values[..., :1, None] < 1
            raised = (axes * np.maximum(values, 1.0)[..., None, :]) @ axes.swapaxes(-1, -2)
            return np.where(low, raised * roots, covariances)
        return covariances

    def at_floor(self, sums: Floats, shared: Any) -> Places:
        """Return the components whose variance along some direction is the least allowed."""
        found = self.estimate(sums, shared)["covariances"]
        changed = self._at_least(found, shared, 1.01) != found
        low = np.any(changed.reshape(len(found), -1), axis=1)
        return np.flatnonzero(np.broadcast_to(low, len(sums)))

    def richer(self) -> Sequence[Family]:
        """Return the types that have this one as a special case."""
        shapes = ("spherical", "diag", "full")
        wider = shapes[shapes.index(self.shape) :]
        types = [self.retyped(name) for name in COVARIANCE_TYPES if name != self.name]
        types = [each for each in types if each.shape in wider]
        return types if self.tied else [each for each in types if not each.tied]

    def convert(self, features: Floats, richer: Family) -> Floats:
        """Return the features of rows for a richer type."""
        z = np.asarray(self.points(features), dtype=np.float64)
        x = restore_columns(z * self.unit + self.centre, self.constants)
        return np.asarray(richer.features({"x": x}))

    def unshared(self) -> Gaussians:
        """Return the family in which each component has all coefficients of its own."""
        return replace(self, n_own=self.n_features)

    def coefficients(self, parameters: Parameters) -> tuple[Floats, Floats | None]:
        """Return the coefficients of Gaussians, and of the products if these are shared."""
        means, covariances = parameters["means"], parameters["covariances"]
        if self.shape == "full":
            precisions: Floats = np.asarray(np.linalg.inv(covariances))
            linear = (precisions @ means[..., None])[..., 0]
            first, second = triangle(self.d)  # products of two different columns occur once
            products = -upper_triangle(precisions) * np.where(first == second, 0.5, 1.0)
        else:
            linear, products = means / covariances, -0.5 / covariances
        squares = np.einsum("...d,...d->...", means, linear)[..., None]
        own = [self.peaks(parameters) - 0.5 * squares, linear]
        if self.n_own == 1 + self.d:
            return np.concatenate(own, axis=-1), products
        products = np.broadcast_to(products, (*means.shape[:-1], products.shape[-1]))
        return np.concatenate([*own, products], axis=-1), None

    def peaks(self, parameters: Parameters) -> Floats:
        """Return the largest log density of each component, (..., k, 1)."""
        variances = parameters["covariances"]
        if self.shape == "full":  # squares of the diagonal of Cholesky factors
            factors = np.linalg.cholesky(variances)
            variances = np.diagonal(factors, 0, -2, -1) ** 2
        logs = np.log(variances).sum(-1, keepdims=True) * self.per_variance
        return np.asarray(-0.5 * (logs + self.d * LOG_2PI))

    def split_scores(self, features: Floats, weights: Floats) -> Floats:
        """Return coordinates on the principal axes, and on the column of least kurtosis.

        Two groups far apart have a kurtosis of 1 on their column, whatever its variance.
        """
        z, weights = features[..., 1 : 1 + self.d], weights.astype(features.dtype, copy=False)
        total = weights.sum(-1)[:, None, None] + TINY
        squares = (z - weights[:, None] @ z / total) ** 2
        kurtosis = (weights[:, None] @ squares**2) / ((weights[:, None] @ squares) ** 2 + TINY)
        least = np.take_along_axis(z, kurtosis.argmin(-1)[..., None], axis=-1)
        return np.concatenate([principal_scores(z, weights), least], axis=-1)

    def points(self, features: Floats) -> Floats:
        """Return z."""
        return features[:, 1 : 1 + self.d]

    def leading(self, features: Floats, weights: Floats, k: int) -> tuple[Family, Floats] | None:
        """Return spherical components on the k - 1 principal axes, which hold their means."""
        if self.shape != "spherical" or k == 1 or self.d <= 4 * k:
            return None
        z = self.points(features).astype(np.float32)
        axes = np.linalg.eigh((z.T * weights.astype(np.float32)) @ z)[1][:, -(k - 1) :]
        points = (z @ axes).astype(np.float64)
        family = replace(self, centre=np.zeros(k - 1), unit=np.ones(k - 1), constants=None)
        family = family.retyped(self.name, self.variance and self.variance / self.unit[0] ** 2)
        return family, np.asarray(family.features({"x": points}))

    def n_parameters(self, k: int) -> int:
        """Return the number of free parameters of k components."""
        covariances = 0 if self.variance is not None else self.n_features - 1 - self.d
        return k - 1 + k * self.d + covariances * (1 if self.tied else k)

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return means and covariances of the columns; these in the shapes of scikit-learn."""
        means = restore_columns(parameters["means"] * self.unit + self.centre, self.constants)
        found = parameters["covariances"] * self._squared_units
        if self.shape == "full":
            found = restore_matrices(found, self.constants)
        elif self.shape == "diag":
            found = restore_columns(found, self.constants, 0.0)
        if self.tied:
            found = found.squeeze(-3 if self.shape == "full" else -2)
        found = found[..., 0] if self.shape == "spherical" else found
        return {"means": means, "covariances": found}

    @property
    def _squared_units(self) -> Floats:
        """Units of covariances: (d, d), (d,) or (1,)."""
        units = self.unit[: len(self.floor)]
        return np.outer(units, units) if self.shape == "full" else units**2

    def sums_of(self, given: Parameters, sizes: Floats) -> Floats:
        """Return the sums (k, s) of rows with some means and covariances of the columns."""
        varying = slice(None) if self.constants is None else np.isnan(self.constants)
        z = (given["means"][:, varying] - self.centre) / self.unit
        within = given["covariances"][None] if self.tied else given["covariances"]
        if self.shape == "full":
            within = upper_triangle(within[:, varying][:, :, varying] / self._squared_units)
        else:
            within = within[:, varying] if self.shape == "diag" else within[:, None]
            within = within * self.per_variance / self._squared_units
        second = within + self._second(z)
        return np.column_stack([np.ones(len(z)), z, second])[:, : self.n_own] * sizes[:, None]

    def steps(self, parameters: Parameters) -> Parameters:
        """Return steps of means along L, and of covariances L (1 + E) Lᵀ along entries of E."""
        means, covariances = parameters["means"], parameters["covariances"]
        if self.shape == "full":
            roots = np.linalg.cholesky(covariances).swapaxes(-1, -2)  # a step is a row
            first, second = triangle(self.d)
            products = roots[:, first, :, None] * roots[:, second, None, :]
            products = products + products.swapaxes(-1, -2)
        else:
            deviations = np.broadcast_to(np.sqrt(covariances), (len(covariances), self.d))
            roots = deviations[..., None] * np.eye(self.d)
            products = covariances[..., None] * np.eye(covariances.shape[-1])
        found = {"means": np.broadcast_to(roots, (len(means), self.d, self.d))}
        return found if self.variance is not None else found | {"covariances": products}

    def draw(self, parameters: Parameters, labels: Places, noise: Floats) -> Floats:
        """Return rows of some components in the user's units, from noise (n, d) of variance 1."""
        means, covariances = parameters["means"], parameters["covariances"]
        covariances = np.broadcast_to(covariances, (len(means), *covariances.shape[1:]))
        if self.shape == "full":
            noise = noise.copy()
            for i, root in enumerate(np.linalg.cholesky(covariances)):
                noise[labels == i] = noise[labels == i] @ root.T
        else:
            noise = noise * np.sqrt(covariances)[labels]
        return restore_columns((means[labels] + noise) * self.unit + self.centre, self.constants)


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
