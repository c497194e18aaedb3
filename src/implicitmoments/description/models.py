"""Description of each estimator, by the name of its class."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from implicitmoments.arrays import Entries, Floats
from implicitmoments.description.base import (
    FOUND,
    Description,
    Table,
    as_floats,
    column_names,
    error_table,
    numbered_rows,
)

# fitted attributes of a mixture: one per component, and for each of d features
WEIGHTS = Annotated[Floats, Entries(("k",), weights=True)]
PER_COMPONENT = Annotated[Floats, Entries(("k",))]
VECTORS = Annotated[Floats, Entries(("k d",))]
FREEDOM = Annotated[float, Entries(("",), positive=True)]
SHAPES = (  # of covariances
    *("full: k d d", "tied: d d", "diag: k d", "tied_diag: d", "spherical: k"),
    "tied_spherical:",
)
ASSUMED_NOISE = "noise assumed by the expansion"
PARAMETERS = {  # of a density: their names and meanings
    "degree_": ("degree", "Of the polynomial that multiplies a Gaussian."),
    "clip_": ("largest ratio to the Gaussian", "The polynomial is clipped there."),
    "normalizer_": ("normaliser", "The integral of the clipped polynomial times the Gaussian."),
    "acceptance_rate_": (
        "acceptance rate",
        "The share of proposals that are kept where rows are drawn.",
    ),
    "variance_": ("variance of the Gaussian", "That of the noise, along every direction."),
    "noise_": (
        ASSUMED_NOISE,
        "A standard deviation, estimated from the moments. It includes the spread of the "
        "intercepts, and is not the spread around each line.",
    ),
}


class MeansDescription(Description):
    """A model with means and weights."""

    vectors = "means_"
    points: ClassVar[tuple[str, ...]] = ("means_", "mean_errors_")

    weights_: Any
    means_: Any

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return int(self.means_.shape[0])


class SphericalDescription(MeansDescription):
    """A model with means, weights, and one variance for all components or one each."""

    variance_: Any
    _deviations: Floats | None = None  # (d,) or (k, d), of a copy in the units of the file

    def _variances(self) -> Floats:
        return np.broadcast_to(as_floats(self.variance_), self._k())

    def _findings(self) -> dict[str, Any]:
        found = super()._findings()
        if self._deviations is not None:  # columns differ, and the tables have them
            del found[FOUND["variance_"]]
        return found

    def _parameter_tables(self) -> list[Table]:
        if self._deviations is not None:
            return self._tables_in_units(np.broadcast_to(self._deviations, self.means_.shape))
        columns = [self.component, "weight", "variance", *column_names(self)]
        parts = (self.weights_, self._variances(), self.means_)
        errors = ("weight_errors_", "variance_errors_", "mean_errors_")
        return [
            Table(f"{self.component.capitalize()}s", columns, numbered_rows(*parts)),
            *error_table(self, columns, *errors),
        ]

    def _tables_in_units(self, deviations: Floats) -> list[Table]:
        """Return tables of a model whose columns have a standard deviation each, (k, d)."""
        names = column_names(self)
        columns = [self.component, "weight", *names]
        return [
            Table(
                f"{self.component.capitalize()}s",
                columns,
                numbered_rows(self.weights_, self.means_),
            ),
            *error_table(self, columns, "weight_errors_", "mean_errors_"),
            Table("Standard deviations", [self.component, *names], numbered_rows(deviations)),
        ]


class SphericalMixtureDescription(SphericalDescription):
    """Description of a ``SphericalMixture``."""

    kind = "mixture"
    results = (
        *("n_components_", "weights_", "means_", "variance_"),
        *("weight_errors_", "mean_errors_", "variance_errors_"),
        *("lower_bound_", "converged_", "n_iter_"),
    )


class SphericalMixtureClustererDescription(SphericalDescription):
    """Description of a ``SphericalMixtureClusterer``."""

    kind = "clusters"
    component = "cluster"
    results = ("n_components_", "weights_", "means_", "variance_", "order_")
    points = ("means_",)


class GaussianMixtureDescription(MeansDescription):
    """Description of a ``GaussianMixture``."""

    kind = "gaussian-mixture"
    results = (
        *("n_components_", "covariance_type_", "weights_", "means_", "covariances_"),
        *("degrees_of_freedom_", "weight_errors_", "mean_errors_", "covariance_errors_"),
        *("degrees_of_freedom_errors_", "lower_bound_", "converged_", "n_iter_"),
    )

    covariances_: Any
    covariance_type_: str
    degrees_of_freedom_: float

    def _column_variances(self) -> Floats:
        """Return the variance of each column in each component, (k, d); 0 for a constant one."""
        name, (k, d) = self.covariance_type_, self.means_.shape
        found = as_floats(self.covariances_)
        if name.startswith("tied"):
            found = np.repeat(found[None], k, axis=0)
        if name.endswith("spherical"):
            found = np.repeat(found[:, None], d, axis=1)
        variances = found if found.ndim == 2 else np.diagonal(found, axis1=1, axis2=2)
        constants = getattr(self, "_constants", None)  # NaN for columns that were fitted
        return variances if constants is None else np.where(np.isnan(constants), variances, 0.0)

    def _parameter_tables(self) -> list[Table]:
        names = column_names(self)
        columns, deviations = [self.component, "weight", *names], np.sqrt(self._column_variances())
        spread = "Scales" if np.isfinite(self.degrees_of_freedom_) else "Standard deviations"
        return [
            Table("Components", columns, numbered_rows(self.weights_, self.means_)),
            *error_table(self, columns, "weight_errors_", "mean_errors_"),
            Table(spread, [self.component, *names], numbered_rows(deviations)),
        ]


class RegressionMixtureDescription(Description):
    """Description of a ``RegressionMixture``."""

    kind = "regressions"
    component = "line"
    density_of_labels = True
    vectors = "coef_"
    results = (
        *("n_components_", "weights_", "coef_", "intercept_", "noise_", "degrees_of_freedom_"),
        *("weight_errors_", "coef_errors_", "intercept_errors_", "noise_errors_"),
        *("degrees_of_freedom_errors_", "lower_bound_", "converged_", "n_iter_"),
    )
    slopes = ("coef_", "coef_errors_")

    weights_: Any
    coef_: Any
    intercept_: Any
    noise_: Any
    degrees_of_freedom_: float

    @property
    def n_components_(self) -> int:
        """The number k of lines."""
        return int(self.weights_.shape[0])

    def _parameter_tables(self) -> list[Table]:
        names = column_names(self)
        parts = (self.weights_, self.noise_, self.intercept_, self.coef_)
        columns = ["line", "weight", "noise", "intercept", *names]
        table = Table("Lines", columns, numbered_rows(*parts))
        errors = ("weight_errors_", "noise_errors_", "intercept_errors_", "coef_errors_")
        return [table, *error_table(self, columns, *errors)]


class ActivationSumRegressorDescription(Description):
    """Description of an ``ActivationSumRegressor``."""

    kind = "activations"
    component = "direction"
    density_of_labels = True
    vectors = "directions_"
    results = (
        *("n_components_", "weights_", "directions_", "direction_errors_", "weight_errors_"),
        *("biases_", "bias_errors_", "degree_", "n_iter_"),
    )
    slopes = ("directions_",)
    score_name = "R²"

    degree_: int
    polynomial_: Any
    weights_: Any
    weight_errors_: Any
    directions_: Any
    direction_errors_: Any
    biases_: Any
    bias_errors_: Any

    def _predicts_by(self) -> str:
        return str(self.stats_.get("hypothesis", "model"))

    def _findings(self) -> dict[str, Any]:
        found, used = super()._findings(), self._predicts_by()
        found["predicts by the"] = used
        error = self.stats_.get(f"{used}_error", math.nan)
        if math.isfinite(error):  # method="paper" measures none
            found[f"expected squared error of the {used}"] = error
        return found

    def _parameter_tables(self) -> list[Table]:
        if not hasattr(self, "directions_"):
            rows = [["degree", self.degree_], ["directions", len(self.polynomial_.basis)]]
            return [Table("Polynomial", ["parameter", "value"], rows)]
        parts = [self.weights_, self.weight_errors_, self.direction_errors_, self.directions_]
        names = ["direction", "weight", "weight error", "angle error (rad)", *column_names(self)]
        if getattr(self, "biases_", None) is not None:
            parts[3:3], names[4:4] = [self.biases_, self.bias_errors_], ["bias", "bias error"]
        return [Table("Directions", names, numbered_rows(*parts))]


class DensityDescription(Description):
    """A density that is a clipped polynomial times a Gaussian."""

    def _density_table(self, *own: str) -> Table:
        names = ("degree_", "clip_", "normalizer_", "acceptance_rate_", *own)
        rows = [[PARAMETERS[name][0], getattr(self, name)] for name in names]
        return Table(
            "Density", ["parameter", "value"], rows, dict(PARAMETERS[name] for name in names)
        )


class SphericalMixtureDensityDescription(DensityDescription):
    """Description of a ``SphericalMixtureDensity``."""

    _deviations: Floats | None = None  # (d,), of a copy in the units of the file

    kind = "density"
    results = ("variance_", "center_", "degree_", "acceptance_rate_")
    points = ("center_",)

    variance_: Any
    center_: Any

    def _parameter_tables(self) -> list[Table]:
        parts = {"value": as_floats(self.center_)}
        if self._deviations is not None:
            parts["standard deviation"] = self._deviations
        values = (part.tolist() for part in parts.values())
        rows = [[*each] for each in zip(column_names(self), *values, strict=True)]
        center_table = Table("Centre of the Gaussian", ["column", *parts], rows)
        if np.ndim(self.variance_) == 0 and self._deviations is None:
            return [self._density_table("variance_"), center_table]
        return [self._density_table(), center_table]


class RegressionMixtureDensityDescription(DensityDescription):
    """Description of a ``RegressionMixtureDensity``."""

    kind = "regression-density"
    results = ("intercept_", "noise_", "coef_", "degree_", "acceptance_rate_")
    slopes = ("coef_",)

    intercept_: float
    coef_: Any

    def _findings(self) -> dict[str, Any]:
        found = super()._findings()
        own = FOUND["noise_"]
        return {ASSUMED_NOISE if name == own else name: value for name, value in found.items()}

    def _parameter_tables(self) -> list[Table]:
        values = [float(self.intercept_), *as_floats(self.coef_).tolist()]
        names = ["intercept", *column_names(self)]
        rows = [[*pair] for pair in zip(names, values, strict=True)]
        return [
            self._density_table("noise_"),
            Table("Least-squares line", ["column", "value"], rows),
        ]
