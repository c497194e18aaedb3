"""Parameters that RegressionMixture accepts, and notes about its fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from implicitmoments.moments.components import component_stats
from implicitmoments.notes import Note
from implicitmoments.regression.fit import FittedLines
from implicitmoments.regression.likelihood import Model
from implicitmoments.regression.standardise import Standard
from implicitmoments.rows import Rows, Whitening
from implicitmoments.rows.second_moments import find_deviations
from implicitmoments.validation import (
    check_enough_rows,
    check_flag,
    check_number,
    check_option,
    check_unknowns,
    check_whole,
    check_whole_or,
)

HIGH = 1.2  # times the noise maximum: heavy-tailed inputs raise the maximum by less
EXACT = 1e-6  # of the scale of y: smaller residuals are rounding, and so are their peaks
ROWS_PER_PARAMETER = 3  # of the largest mixture that n_components="auto" tries


def check_parameters(estimator: Any) -> tuple[int | None, Model]:
    """Check the parameters; the number of lines is None where BIC chooses it."""
    k = check_whole_or("n_components", estimator.n_components, ("auto",), 1)
    noise_type = check_option("noise_type", estimator.noise_type, ("shared", "separate"))
    check_whole("max_iter", estimator.max_iter, 1)
    check_whole("max_components", estimator.max_components, 1)
    check_number("tol", estimator.tol, 0.0)
    intercept = check_flag("fit_intercept", estimator.fit_intercept)
    return None if isinstance(k, str) else k, Model(noise_type == "shared", intercept)


def most_lines(estimator: Any, n_rows: int, n_coefficients: int, k: int | None) -> int:
    """Return the largest number of lines to fit; raise where the rows are too few for k."""
    if k is None:
        enough = n_rows // (ROWS_PER_PARAMETER * (n_coefficients + 1))
        return max(1, min(int(estimator.max_components), enough))
    check_enough_rows(n_rows, k, k)
    if k > 1:  # one line has the minimum-norm solution, whatever the number of features
        check_unknowns(k, n_coefficients, n_rows)
    return k


def data_notes(
    rows: Rows,
    standard: Standard,
    model: Model,
    k: int | None,
    names: Sequence[str] | None,
) -> list[Note]:
    """Return notes about rows that differ from what the fit assumes."""
    notes: list[Note] = []
    if standard.constant:
        notes.append(Note("constant_labels"))
    if k != 1:  # one line is least squares, which assumes nothing of x
        # without intercepts points were standardised about 0, not about their mean
        whitening = standard.whitening if model.intercept else Whitening.of(rows, reduce=True)
        deviations = find_deviations(rows, whitening, names)
        if deviations is not None:
            notes.append(Note("inputs_not_gaussian", deviations))
    return notes


def fit_notes(stats: dict[str, Any], noise: float) -> list[Note]:
    """Return a note where the residuals show another line; ``noise`` is relative to sd(y)."""
    if noise < EXACT:
        return []
    gains = stats["split_gain_by_line"]
    widest = max(range(len(gains)), key=gains.__getitem__)
    if gains[widest] > stats["split_penalty"]:
        penalty = stats["split_penalty"]
        values = {"line": widest, "gain": gains[widest], "penalty": penalty}
        return [Note("line_looks_double", values)]
    left, usual = stats["highest_peak_left"], stats["noise_maximum"]
    if left > HIGH * usual:
        return [Note("line_missing", {"peak": left, "noise_maximum": usual})]
    return []


def fit_stats(fitted: FittedLines, standard: Standard) -> dict[str, Any]:
    """Return the numbers of a fit, in the units of the user."""
    units = 2 * fitted.n_scored * float(np.log(standard.scale))
    return {
        "n_varying": standard.n_features,
        "n_peaks": fitted.start.n_peaks,
        "n_decoded": fitted.n_decoded,
        "n_moves": fitted.n_moves,
        "highest_peak_left": fitted.left.highest_peak,
        "noise_maximum": fitted.left.noise_maximum,
        "split_gain_by_line": fitted.left.split_gains.tolist(),
        "split_penalty": fitted.left.split_penalty,
        "bic_by_n_components": {k: score + units for k, score in fitted.bic_by_k.items()},
        "mean_log_likelihood_history": fitted.em.history,
        **component_stats(fitted.decoded),
    }
