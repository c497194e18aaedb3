"""Notes and statistics of fitted lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from implicitmoments.moments.components import component_stats
from implicitmoments.notes import Note
from implicitmoments.regression.fit import FittedLines
from implicitmoments.regression.lines import Lines, Standard
from implicitmoments.regression.unexplained import Unexplained
from implicitmoments.rows import Rows
from implicitmoments.rows.digits import digits_notes
from implicitmoments.rows.normality import find_deviations
from implicitmoments.rows.sentinels import sentinel_notes
from implicitmoments.search import ENOUGH, merge_note
from implicitmoments.search.tails import Rival, tails_note

HIGH = 1.2  # times the noise maximum: heavy-tailed inputs raise the maximum by less
EXACT = 1e-6  # of the scale of y: smaller residuals are rounding, and so are their peaks


def data_notes(
    rows: Rows,
    standard: Standard,
    k: int | None,
    names: Sequence[str] | None,
) -> list[Note]:
    """Return notes about rows that differ from what the fit assumes."""
    notes = standard.whitening.column_notes(names)
    if standard.constant:
        notes.append(Note("constant_labels"))
    if k != 1 and standard.inputs.n_features:
        # one line is least squares, which assumes nothing of x
        deviations = find_deviations(rows, standard.inputs, names)
        if deviations is not None:
            notes.append(Note("inputs_not_gaussian", deviations))
            notes += sentinel_notes(rows, names)
    return notes


def rounding_notes(
    standard: Standard, lines: Lines, epsilon: float, names: Sequence[str]
) -> list[Note]:
    """Return a note where the terms of a line are so large that residuals lose half their digits.

    The terms are the labels, and each coefficient times the mean of its column.
    """
    coef, _, noise = standard.original(lines)
    if noise.min() < EXACT * standard.scale:
        return []
    labels = np.full((lines.k, 1), abs(standard.center))
    sizes = np.hstack([labels, np.abs(coef * standard.inputs.mean)])
    deviations = np.repeat(noise[:, None], sizes.shape[1], axis=1)
    return digits_notes(sizes, deviations, epsilon, ["y", *names], "noise")


def fit_notes(fitted: FittedLines, noise: float) -> list[Note]:
    """Return notes where the residuals show another line, or two searches ended at other lines.

    Parameters
    ----------
    noise : float
        Relative to sd(y).
    """
    if noise < EXACT:
        return []
    apart, left, k = fitted.fit.apart, fitted.left, fitted.lines.k
    notes = _number_notes(left) if left.law is None else [_law_note(left.law, left.rivals, k)]
    return [*notes, Note("searches_disagree", {"apart": apart})] if apart > ENOUGH else notes


def _law_note(law: str, rivals: dict[str, Rival[Lines]], k: int) -> Note:
    """Return the note on noise of another law."""
    found, gain = rivals[law].state, rivals[law].gain
    if law == "separate":
        return Note("noise_differs", {"gain": gain})
    return tails_note(found.freedom, k, found.k, gain)


def _number_notes(left: Unexplained) -> list[Note]:
    """Return a note on two lines that are one, or on a line that the residuals show.

    Of the former and a line that looks double, that of lower BIC.
    """
    if left.less is not None and (left.more is None or left.less.gain > left.more.gain):
        return [merge_note(left.less)]
    if left.more is not None:
        gain, penalty = left.more.change, left.more.penalty
        values = {"line": left.more.components[0], "gain": gain, "penalty": penalty}
        return [Note("line_looks_double", values)]
    if left.peak.height > HIGH * left.peak.bound:
        values = {"peak": left.peak.height, "noise_maximum": left.peak.bound}
        return [Note("line_missing", values)]
    return []


def bound_notes(fitted: FittedLines, most: int, asked: int) -> list[Note]:
    """Return notes where the noise or the number of lines is at its bound, or the choice open.

    Parameters
    ----------
    most : int
        The largest number of lines that was tried.
    asked : int
        The largest that the user allowed; rows may be too few for it.
    """
    notes, lines = list[Note](), fitted.lines
    if fitted.bic_by_k and lines.k == most and asked > 1:
        limited = "stopped_at_max_components" if most == asked else "rows_limit_lines"
        notes.append(Note(limited, {"most": most}))
    open_to = {
        k: score - fitted.bic_by_k[lines.k]
        for k, score in fitted.bic_by_k.items()
        if k != lines.k and score - 2 * fitted.apart_by_k[k] < fitted.bic_by_k[lines.k]
    }
    if open_to:
        k = min(open_to, key=open_to.__getitem__)
        values = {"k": k, "difference": open_to[k], "apart": fitted.apart_by_k[k]}
        notes.append(Note("choice_uncertain", values))
    if fitted.at_floor and np.sqrt(lines.variances.max()) >= EXACT:
        ratio = math.sqrt(lines.variances.min() / (lines.weights @ lines.variances))
        notes.append(Note("noise_at_floor", {"lines": fitted.at_floor, "ratio": ratio}))
    return notes


def fit_stats(fitted: FittedLines, standard: Standard) -> dict[str, Any]:
    """Return the numbers of a fit, in the units of the user."""
    fit, units = fitted.fit, 2 * standard.mass * float(np.log(standard.scale))
    less = fitted.left.less
    return {
        "n_varying": standard.n_features,
        "n_peaks": fit.start.first.n_peaks,
        "n_decoded": fit.start.n_decoded,
        "n_moves": fit.found.accepted,
        "highest_peak_left": fitted.left.peak.height,
        "noise_maximum": fitted.left.peak.bound,
        "split_gain_by_line": fitted.left.split_gains.tolist(),
        "split_penalty": fitted.left.split_penalty,
        "bic_gain_by_noise": {name: each.gain for name, each in fitted.left.rivals.items()},
        **({} if less is None else {"merged_lines": less.components, "merge_loss": -less.change}),
        "searches_apart": fit.apart,
        "bic_by_n_components": {k: score + units for k, score in fitted.bic_by_k.items()},
        "mean_log_likelihood_history": fit.em.history,
        **component_stats(fit.start.decoded),
    }
