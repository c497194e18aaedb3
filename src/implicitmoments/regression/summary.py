"""Summary of a fitted mixture of regressions: findings, parameters, evidence and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NotRequired

import numpy as np
from scipy.stats import chi2

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.description import RegressionMixtureDescription, as_floats
from implicitmoments.estimator import Fact, FittedEstimator
from implicitmoments.notes import Note
from implicitmoments.picture_data import Distribution, FitView, LinePicture, RowSample
from implicitmoments.regression.lines import Model, Standard
from implicitmoments.regression.outliers import NearLines

LEAST_NOISE = 1e-5  # of the scale of the labels: less is the floor of the fit
FALSE_ALARM = 1 / 1_500  # of the test that labels fit everywhere
DRAWS = 4  # labels drawn for each row
ROWS_PER_FEATURE = 20  # of that test
LINE_MISSING = {"line_missing", "line_looks_double"}  # notes that mention a missing line


class RegressionMixtureSummary(RegressionMixtureDescription, FittedEstimator):
    """Data of a ``RegressionMixture`` for the report and the pictures."""

    fewest_rows = 2
    labelled = True
    answers: ClassVar[Mapping[str, str]] = {
        "predictions": "predict",
        "components": "predict_component",
        "probabilities": "predict_proba",
        "densities": "score_samples",
        "samples": "sample",
    }
    saved: ClassVar[Mapping[str, Any]] = {
        **RegressionMixtureDescription.saved,
        "_model": Model,
        "_standard": Standard,
        "_near": NotRequired[NearLines | None],
    }
    captions: ClassVar[Mapping[str, str]] = {
        "spectra": "Eigenvalues of a moment of the slopes, from which one initialisation was "
        "read. The lines are fitted by likelihood and do not depend on a weak eigenvalue.",
        "components": "Rows by most probable line, on the direction along which the slopes differ "
        "most.",
        "components_of_one": "Rows and the line, along its slope.",
        "components_one_column": "Rows by most probable line.",
        "fit": "Residuals of {target} from the most probable line of each row, and those of "
        "labels drawn from the model. If the model is right, both have the same distribution.",
    }

    _standard: Standard

    def _title(self) -> str:
        k = self._k()
        return "one linear regression" if k == 1 else f"a mixture of {k:,} linear regressions"

    def _evidence(self) -> list[Fact]:
        stats, k, facts = self.stats_, self._k(), []
        height, usual = stats.get("highest_peak_left"), stats.get("noise_maximum", math.inf)
        exact = float(as_floats(self.noise_).max()) <= LEAST_NOISE * self._standard.scale
        if height is not None and height <= usual and not exact:
            facts.append(Fact(True, Note("no_peak_left", {"height": height, "usual": usual})))
        if k > 1 and stats.get("n_peaks") == k:
            facts.append(Fact(True, Note("lines_clear_before_em", {"k": k})))
        return facts + self._bic_facts()

    def _row_evidence(self, rows: RowSample) -> list[Fact]:
        """Test whether labels are as probable as labels drawn from the model, for all inputs.

        If one line stands for two, rows where the two are apart are less probable than labels
        drawn there, and rows where they meet are more probable: the difference of log densities
        depends on x.
        """
        model: Any = self
        labels = [model.sample(X=rows.given, random_state=seed)[1] for seed in range(DRAWS)]
        usual = np.mean([as_floats(model.score_samples(rows.given, y)) for y in labels], axis=0)
        excess = as_floats(model.score_samples(rows.given, rows.y)) - usual
        statistic, freedom = wald(excess, _features(rows.x))
        values = {"statistic": statistic, "freedom": freedom}
        if chi2.sf(statistic, freedom) >= FALSE_ALARM:
            return [Fact(True, Note("labels_fit_everywhere", values))]
        if not LINE_MISSING.isdisjoint(self._codes()):
            return []
        return [Fact(False, Note("labels_depend_on_x", values))]

    def _weighted(self) -> bool:
        return not math.isclose(self._standard.mass, self.stats_["rows_used"])

    def _noise_free(self, rows: RowSample) -> bool:
        least = LEAST_NOISE * float(rows.y.std() or 1.0)
        return float(as_floats(self.noise_).max()) <= least

    def _component_view(self, rows: RowSample) -> LinePicture:
        parts = (self.weights_, self.coef_, self.intercept_, self.noise_)
        weights, coef, intercept, noise = map(as_floats, parts)
        labels = self._likeliest(rows, rows.y)
        return LinePicture(weights, coef, intercept, noise, labels, self.degrees_of_freedom_)

    def _fit_view(self, rows: RowSample) -> FitView:
        model: Any = self
        drawn = self._residuals(rows, as_floats(model.sample(X=rows.given)[1]))
        axis = "residual from its line (σ of the noise)"
        return Distribution("Residuals", axis, self._residuals(rows, rows.y), drawn)

    def _likeliest(self, rows: RowSample, y: Floats) -> Any:
        model: Any = self
        return np.asarray(to_numpy(model.predict_component(rows.given, y)))

    def _residuals(self, rows: RowSample, y: Floats) -> Floats:
        own = self._likeliest(rows, y)
        coef, intercept, noise = map(as_floats, (self.coef_, self.intercept_, self.noise_))
        apart = y - np.einsum("nd,nd->n", rows.x, coef[own]) - intercept[own]
        residuals: Floats = apart / np.maximum(noise[own], np.finfo(np.float64).tiny)
        return residuals


def wald(values: Floats, features: Floats) -> tuple[float, int]:
    r"""Test whether values have mean 0 whatever the features are.

    :math:`g^T S^+ g` with :math:`g = \sum_i u_i \phi_i` and
    :math:`S = \sum_i u_i^2 \phi_i \phi_i^T` is asymptotically :math:`\chi^2` if they do, also
    when the variance of u depends on the features (White 1980).

    Parameters
    ----------
    values : array of shape (n,)
    features : array of shape (n, p)
    """
    moments = features * values[:, None]
    g, S = moments.sum(axis=0), moments.T @ moments
    return float(g @ np.linalg.pinv(S, hermitian=True) @ g), int(np.linalg.matrix_rank(S))


def _features(x: Floats) -> Floats:
    """Return 1, standardised columns and their products; fewer where rows are few."""
    n, d = x.shape
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    i, j = np.triu_indices(d)
    one = np.ones((n, 1))
    for kept in ([one, z, z[:, i] * z[:, j]], [one, z, z**2], [one, z]):
        if ROWS_PER_FEATURE * sum(part.shape[1] for part in kept) <= n:
            return np.hstack(kept)
    return one
