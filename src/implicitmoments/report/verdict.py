"""The verdict on a fit: its notes, and measurements for and against it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.stats import ks_2samp

from implicitmoments.estimator import Fact, FittedEstimator, notes_of
from implicitmoments.notes import Note, Notes
from implicitmoments.picture_data import Distribution, NoPictureError, RowSample
from implicitmoments.plot.row_sample import frozen_copy, sample_rows

MOST_ROWS = 5_000  # of a report
THRESHOLD = 2.0  # the Kolmogorov–Smirnov statistic passes this by chance once in 1,500
FEWEST_ROWS = 50  # fewer show nothing


@dataclass(frozen=True)
class Verdict:
    """What to think of a fit."""

    found: Note  # what the model is
    judgement: Note
    against: Notes  # notes of the fit, and measurements that speak against it
    in_favour: Notes  # measurements that support it


def verdict_of(model: Any, X: Any, y: Any = None, *, max_rows: int = MOST_ROWS) -> Verdict:
    """Judge a fitted model by its notes, its measurements, and a sample of rows.

    Parameters
    ----------
    max_rows : int
        Largest number of rows used, a random sample.
    """
    rows = sample_rows(model, X, y, max_rows)
    facts = model._evidence() + _compare_samples(model, rows)
    against = Notes(notes_of(model) + [fact.note for fact in facts if not fact.supports])
    in_favour = Notes(fact.note for fact in facts if fact.supports)
    if against:
        judgement = Note("points_to_check", {"n": len(against)})
    else:
        judgement = Note("all_checks_passed" if in_favour else "nothing_checked")
    values: dict[str, Any] = {
        "title": title_of(model, rows.target),
        "n_rows": rows.total,
        "n_columns": model.n_features_in_,
    }
    return Verdict(Note("fit_found", values), judgement, against, in_favour)


def title_of(model: FittedEstimator, target: str) -> str:
    """Return what a model is and for which labels; the name "y" is left out."""
    return model._title() + ("" if target == "y" else f" for {target}")


def _compare_samples(model: FittedEstimator, rows: RowSample) -> list[Fact]:
    """Compare rows with rows drawn from the model.

    There is nothing to compare for models without samples, for few rows, for rows without noise,
    and for rows with weights, which the comparison would ignore.
    """
    if "samples" not in model.answers or len(rows.x) < FEWEST_ROWS:
        return []
    if model._weighted() or model._noise_free(rows):
        return []
    twin = frozen_copy(model)
    try:
        view = twin._fit_view(rows)
    except NoPictureError as reason:
        return [Fact(False, Note("cannot_sample", {"rate": reason.values["rate"]}))]
    facts: list[Fact] = twin._row_evidence(rows)
    return [_same_distribution(view), *facts]


def _same_distribution(view: Distribution) -> Fact:
    """Compare the two distributions that the picture of the fit shows."""
    drawn = view.rows if view.drawn is None else view.drawn
    gap = float(ks_2samp(view.rows, drawn, method="asymp").statistic)
    limit = THRESHOLD * math.sqrt(1 / len(view.rows) + 1 / len(drawn))
    agree = gap <= limit
    values = {"gap": gap, "limit": limit}
    return Fact(agree, Note("samples_agree" if agree else "samples_differ", values))
