"""Units of the file: a fit may divide columns by a scale, and readers see them as they were."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.description.base import LEVEL, Description, as_floats, fit_columns

ALONG_A_COLUMN = 0.99  # cosine from which a direction is called by the name of its column


@dataclass(frozen=True, eq=False)
class FileUnits:
    """Map a fitted model and its rows to the units of the file that was fitted.

    Shapes: n rows of d columns, k components.
    """

    scale: Floats | None = None  # (d,), what the columns were divided by; None where they were not

    @classmethod
    def of(cls, model: Description) -> FileUnits:
        """Return the units of the columns that a model was fitted to."""
        return cls(fit_columns(model).get("scale"))

    def points(self, x: Floats) -> Floats:
        """Return rows or means, (n, d) or (d,), in the units of the file."""
        return x if self.scale is None else x * self.scale

    def slopes(self, v: Floats) -> Floats:
        """Return coefficients of columns, (k, d) or (d,), for columns of the file."""
        return v if self.scale is None else v / self.scale

    def axis(self, direction: Floats) -> tuple[int | None, float]:
        """Return the column that a direction (d,) is, or None, and the unit along it.

        A direction of several columns has no unit of the file.
        """
        column = int(np.abs(direction).argmax())
        if abs(direction[column]) < ALONG_A_COLUMN * float(np.linalg.norm(direction)):
            return None, 1.0
        return column, 1.0 if self.scale is None else float(self.scale[column])

    def log_volume(self, model: Any) -> float:
        """Return by how much log densities of scaled columns exceed those of the columns."""
        if self.scale is None or model.density_of_labels:
            return 0.0
        return math.fsum(np.log(self.scale))

    def attributes(self, model: Any) -> dict[str, Any]:
        """Return the fitted attributes that have units.

        Spherical covariances of scaled columns are diagonal in the units of the file.
        """
        found: dict[str, Any] = {
            name: (self.points if name in model.points else self.slopes)(
                to_numpy(getattr(model, name))
            )
            for name in (*model.points, *model.slopes)
            if getattr(model, name, None) is not None
        }
        if self.scale is None or not hasattr(model, "covariances_"):
            return found
        kind, factors = model.covariance_type_, self.scale**2
        if kind in ("full", "tied"):
            factors = np.outer(self.scale, self.scale)
        constants, spherical = getattr(model, "_constants", None), "spherical" in kind
        if spherical and constants is not None:  # columns without variation
            factors = np.where(np.isnan(constants), factors, 0.0)
        for name in ("covariances_", "covariance_errors_"):
            if getattr(model, name, None) is not None:
                values = np.asarray(to_numpy(getattr(model, name)))
                found[name] = (values[..., None] if spherical else values) * factors
        return {**found, "covariance_type_": kind.replace("spherical", "diag")}

    def deviations(self, model: Any) -> Floats | None:
        """Return the standard deviation of each column within components of one variance.

        Of shape (d,), or (k, d) if components differ; None where columns were not scaled.
        """
        variance = getattr(model, "variance_", None)
        if self.scale is None or variance is None or np.ndim(variance) > 1:
            return None
        return np.asarray(np.sqrt(as_floats(variance))[..., None] * self.scale)

    def described(self, model: Any) -> Any:
        """Return a copy of a model whose tables and findings are in the units of the file."""
        if self.scale is None:
            return model
        twin = copy.copy(model)
        vars(twin).update(self.attributes(model))
        twin._deviations = self.deviations(model)
        if model.score_name == LEVEL and hasattr(model, "lower_bound_"):
            twin.lower_bound_ = model.lower_bound_ - self.log_volume(model)
        return twin
