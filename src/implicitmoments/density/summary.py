"""Summary of fitted densities: findings, parameters, evidence and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from implicitmoments.density.clipped_density import ClippedDensity
from implicitmoments.density.hermite_expansion import (
    Constant,
    Expansion,
    JointExpansion,
    OrderByOrder,
)
from implicitmoments.density.regression_contraction import ContractedExpansion, PaperExpansion
from implicitmoments.density.regression_density import RegressionDensity
from implicitmoments.density.regression_expansion import (
    GradedExpansion,
    LabelConstant,
    LabelExpansion,
)
from implicitmoments.estimator import (
    FOUND,
    KOLMOGOROV_CHANCE,
    Fact,
    FittedEstimator,
    Table,
    as_floats,
    column_names,
)
from implicitmoments.mixture.mean_span import SphericalSpan
from implicitmoments.mixture.summary import DENSITY_AXIS
from implicitmoments.notes import Note
from implicitmoments.picture_data import (
    Densities,
    Distribution,
    FitView,
    NoPictureError,
    RowSample,
)

MEASURED_ROWS = 262_144  # rows at which the distance is measured, at most
PROPOSALS = 1_000_000  # of the rejection sampler, for a picture
FEWEST_DRAWN = 200  # fewer rows do not show a distribution (starting value)
LEAST_VARIANCE = 1e-5  # of that of the rows: less is the floor of the fit
# notes that a density differs from the rows
FAR_CODES = frozenset({"density_far_from_rows", "regression_density_far_from_rows"})
ASSUMED_NOISE = "noise assumed by the expansion"
PARAMETERS = {
    "degree_": ("degree", "Of the polynomial that multiplies a Gaussian."),
    "clip_": ("largest ratio to the Gaussian", "The polynomial is clipped there."),
    "normalizer_": ("normaliser", "The integral of the clipped polynomial times the Gaussian."),
    "acceptance_rate_": ("acceptance rate", "The share of proposals that sample() keeps."),
    "variance_": ("variance of the Gaussian", "That of the noise, along every direction."),
    "noise_": (
        ASSUMED_NOISE,
        "A standard deviation, estimated from the moments unless given. It includes the spread of "
        "the intercepts, and is not the spread around each line.",
    ),
}


class DensitySummary(FittedEstimator):
    """A clipped polynomial times a Gaussian."""

    answers: ClassVar[Mapping[str, str]] = {"densities": "score_samples", "samples": "sample"}
    captions: ClassVar[Mapping[str, str]] = {
        "fit": "Log densities of the rows, and of rows drawn from the model. If the model is "
        "right, both have the same distribution.",
    }

    n_components: int
    epsilon: float
    max_degree: int
    max_proposals: int
    degree_: int
    acceptance_rate_: float

    def _density_table(self, own: str) -> Table:
        names = ("degree_", "clip_", "normalizer_", "acceptance_rate_", own)
        rows = [[PARAMETERS[name][0], getattr(self, name)] for name in names]
        meanings = dict(PARAMETERS[name] for name in names)
        return Table("Density", ["parameter", "value"], rows, meanings)

    def _evidence(self) -> list[Fact]:
        if self.n_components == 1:  # a Gaussian, whatever the rows are
            return []
        return self._distance_facts() + self._degree_facts()

    def _distance_facts(self) -> list[Fact]:
        stats = self.stats_
        n = min(stats.get("rows_counted", stats.get("rows_used", 1)), MEASURED_ROWS)
        distance, chance = stats["distance"], KOLMOGOROV_CHANCE / math.sqrt(max(n, 1))
        values = {"distance": distance, "chance": chance, "epsilon": self.epsilon}
        if distance <= chance:
            return [Fact(True, Note("density_agrees", values))]
        if distance <= self.epsilon:
            return [Fact(True, Note("density_within_epsilon", values))]
        if not FAR_CODES.isdisjoint(self._codes()):
            return []
        return [Fact(False, Note("density_differs", values))]

    def _degree_facts(self) -> list[Fact]:
        bound = self.stats_.get("truncation_error", math.inf)
        values = {"degree": self.degree_, "bound": bound}
        if bound <= self.epsilon / 2:
            return [Fact(True, Note("truncation_small", values))]
        tried = self.stats_.get("scores") or {0: 0.0}
        at_limit = self.degree_ == max(tried) == self.max_degree
        if at_limit and (FAR_CODES | {"degree_still_rising"}).isdisjoint(self._codes()):
            return [Fact(False, Note("degree_at_limit", values))]
        return []

    def _noise_free(self, rows: RowSample) -> bool:
        variance = float(getattr(self, "variance_", math.inf))
        return variance <= LEAST_VARIANCE * float(rows.x.var(axis=0).sum())

    def _fit_view(self, rows: RowSample) -> FitView:
        model: Any = self
        sample = model.sample(self._affordable(len(rows.x)))
        given = (rows.given, rows.y) if self.labelled else (rows.given,)
        pairs = (given, sample if isinstance(sample, tuple) else (sample,))
        logs, drawn = (as_floats(model.score_samples(*each)) for each in pairs)
        return Distribution("Log densities of rows", DENSITY_AXIS, logs, drawn)

    def _affordable(self, n: int) -> int:
        """Return how many rows are drawn; raise where the sampler accepts hardly any."""
        rate = float(self.acceptance_rate_)
        if rate * self.max_proposals < 2 * FEWEST_DRAWN:
            raise NoPictureError(
                "no_rows_drawn",
                "no rows can be drawn from this {name}: its sampler accepts {rate:.2g} of its "
                "proposals; use implicitmoments.plot.components",
                name=type(self).__name__,
                rate=rate,
            )
        return max(min(n, int(rate * PROPOSALS)), FEWEST_DRAWN)


class SphericalDensitySummary(DensitySummary):
    """Data of a ``SphericalMixtureDensity`` for the report and the pictures."""

    kind = "density"
    fewest_rows = 2
    results = ("variance_", "center_", "degree_", "acceptance_rate_")
    saved: ClassVar[Mapping[str, Any]] = {"hypothesis_": ClippedDensity[SphericalSpan]}
    variants: ClassVar[Mapping[Any, Any]] = {Expansion: Constant | JointExpansion | OrderByOrder}
    points = ("center_",)
    captions: ClassVar[Mapping[str, str]] = {
        **DensitySummary.captions,
        "spectra": "Variance of the rows beyond the noise along each principal direction. Filled: "
        "the directions along which the density is expanded.",
        "components": "Rows on two directions, coloured by log density. A density has no "
        "components.",
        "components_one_column": "Log density of the rows along the column.",
    }

    center_: Any
    hypothesis_: ClippedDensity[SphericalSpan]

    def _title(self) -> str:
        return f"a density of degree {self.degree_} for a spherical mixture"

    def _parameter_tables(self) -> list[Table]:
        center = zip(column_names(self), as_floats(self.center_).tolist(), strict=True)
        rows = [[*pair] for pair in center]
        return [
            self._density_table("variance_"),
            Table("Centre of the Gaussian", ["column", "value"], rows),
        ]

    def _component_view(self, rows: RowSample) -> Densities:
        model: Any = self
        center = as_floats(self.center_)
        basis = np.asarray(getattr(self.hypothesis_.span, "basis", np.zeros((0, len(center)))))
        leading = np.arange(len(basis), 0, -1.0)[:, None] * basis
        logs = as_floats(model.score_samples(rows.given))
        return Densities(leading, center, logs, "log density")


class RegressionDensitySummary(DensitySummary):
    """Data of a ``RegressionMixtureDensity`` for the report and the pictures."""

    kind = "regression-density"
    fewest_rows = 2
    labelled = True
    results = ("intercept_", "noise_", "coef_", "degree_", "acceptance_rate_")
    saved: ClassVar[Mapping[str, Any]] = {"hypothesis_": RegressionDensity}
    variants: ClassVar[Mapping[Any, Any]] = dict.fromkeys(
        (Expansion, LabelExpansion),
        ContractedExpansion | GradedExpansion | LabelConstant | PaperExpansion,
    )
    slopes = ("coef_",)
    captions: ClassVar[Mapping[str, str]] = {
        **DensitySummary.captions,
        "spectra": "Variance of the slopes along each direction of the inputs. Filled: the "
        "directions along which the density is expanded.",
        "components": "Rows around the least-squares line, coloured by log density. A density has "
        "no lines of its own.",
    }

    coef_: Any
    intercept_: float
    hypothesis_: RegressionDensity

    def _title(self) -> str:
        return f"a density of degree {self.degree_} for a mixture of regressions"

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

    def _component_view(self, rows: RowSample) -> Densities:
        model: Any = self
        frame = self.hypothesis_.frame
        directions = np.asarray(frame.basis) @ np.asarray(frame.whitener).T
        logs = as_floats(model.score_samples(rows.given, rows.y))
        residuals = rows.y - rows.x @ as_floats(self.coef_) - float(self.intercept_)
        center = rows.x.mean(axis=0)
        what = "log density of x and {target}"
        return Densities(directions[:1], center, logs, what, residuals=residuals)
