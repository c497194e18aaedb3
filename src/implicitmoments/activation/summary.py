"""Summary of a fitted sum of activations: findings, parameters, evidence and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NotRequired

import numpy as np

from implicitmoments.activation.hypothesis import FittedPolynomial
from implicitmoments.activation.network import Network
from implicitmoments.description import ActivationSumRegressorDescription, as_floats
from implicitmoments.estimator import Fact, FittedEstimator
from implicitmoments.notes import Note
from implicitmoments.picture_data import (
    Directions,
    FitView,
    NoPictureError,
    Predictions,
    RowSample,
)
from implicitmoments.problems import Activation
from implicitmoments.problems.activation_sum import Conditions
from implicitmoments.rows import Whitening


class ActivationSumSummary(ActivationSumRegressorDescription, FittedEstimator):
    """Data of an ``ActivationSumRegressor`` for the report and the pictures."""

    fewest_rows = 4
    labelled = True
    answers: ClassVar[Mapping[str, str]] = {"predictions": "predict"}
    saved: ClassVar[Mapping[str, Any]] = {
        "activation_": Activation,
        "polynomial_": FittedPolynomial,
        "whitening_": Whitening | None,
        "conditions_": Conditions,
        "network_": NotRequired[Network],
        "_hypothesis": FittedPolynomial | Network,
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Eigenvalues of the moments, order by order. Filled: the directions used by "
        "the polynomial.",
        "components": "Rows on the two leading directions of the network, coloured by {target}.",
        "components_one_column": "Rows, with {target} against the column.",
        "fit": "Actual against predicted values of {target}. If the model is right, rows lie "
        "around the dashed line.",
    }

    whitening_: Whitening | None
    polynomial_: FittedPolynomial
    positive: bool

    def _title(self) -> str:
        if self._predicts_by() == "polynomial":
            return f"a polynomial of degree {self.degree_}"
        k = self._k()
        kind = "positive" if self.positive else "signed"
        return "one activation" if k == 1 else f"a {kind} sum of {k:,} activations"

    def _evidence(self) -> list[Fact]:
        stats = self.stats_
        polynomial, network = stats.get("polynomial_error"), stats.get("network_error")
        if polynomial is None or not math.isfinite(polynomial):
            return []
        if network is None:
            return [Fact(True, Note("polynomial_error", {"polynomial": polynomial}))]
        if self._predicts_by() == "polynomial":  # which a note mentions
            return []
        errors = {"network": network, "polynomial": polynomial}
        return [Fact(True, Note("network_error", errors))]

    def _caption(self, picture: str) -> str:
        words = super()._caption(picture)
        if picture == "components" and self._predicts_by() == "polynomial":
            words += " Predictions are those of the polynomial, not of the network."
        return words

    def _component_view(self, rows: RowSample) -> Directions:
        if not hasattr(self, "directions_"):
            raise NoPictureError(
                "no_directions",
                "this {name} has no directions, as `refine=False`; fit with `refine=True`, or use "
                "implicitmoments.plot.fit",
                name=type(self).__name__,
            )
        center = np.zeros(rows.x.shape[1]) if self.whitening_ is None else self.whitening_.mean
        return Directions(*map(as_floats, (self.weights_, self.directions_, center)))

    def _fit_view(self, rows: RowSample) -> FitView:
        model: Any = self
        return Predictions(as_floats(model.predict(rows.given)), by=self._predicts_by())
