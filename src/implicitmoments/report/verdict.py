"""The verdict on a fit: what was found, whether to believe it, what speaks against it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.stats import ks_2samp

from implicitmoments.estimator import Fact, FittedEstimator
from implicitmoments.notes import FIT, QUIET, Note, Notes
from implicitmoments.picture_data import NoPictureError, RowSample
from implicitmoments.plot.canvas import frozen_copy, sample_rows
from implicitmoments.plot.data_comparison import MOST_COMPARED
from implicitmoments.rows import KOLMOGOROV_CHANCE

FEWEST_COMPARED = 50  # of a comparison of distributions: chance reaches 0.27 between fewer


@dataclass(frozen=True)
class Verdict:
    """Overall assessment of a fit."""

    found: Note  # what the model is
    judgement: Note
    against: Notes  # notes of the fit, and measurements that speak against it
    in_favour: Notes  # measurements that support it

    @property
    def doubted(self) -> bool:
        """Whether something speaks against the fit that may make it wrong."""
        return not set(self.against.codes) <= QUIET


def verdict_of(model: Any, X: Any, y: Any = None, *, max_rows: int = MOST_COMPARED) -> Verdict:
    """Judge a fitted model by its notes, its measurements, and a random sample of rows."""
    rows = sample_rows(model, X, y, max_rows)
    facts = model._evidence() + _compare_samples(model, rows)
    against = Notes(model.notes_ + [fact.note for fact in facts if not fact.supports])
    # what supports a fit presumes its model, and says nothing where another one is better
    doubted = not FIT.isdisjoint(model.notes_.codes)
    in_favour = Notes(fact.note for fact in facts if fact.supports and not doubted)
    values: dict[str, Any] = {
        "title": title_of(model, rows.target),
        "n_rows": rows.total,
        "n_columns": model.n_features_in_,
    }
    return Verdict(Note("fit_found", values), _judge(against, in_favour), against, in_favour)


def _judge(against: Notes, in_favour: Notes) -> Note:
    if not against:
        passed = {"n": len(in_favour)}
        return Note("all_checks_passed", passed) if in_favour else Note("nothing_checked")
    code = "only_remarks" if set(against.codes) <= QUIET else "points_to_check"
    return Note(code, {"n": len(against)})


def title_of(model: FittedEstimator, target: str) -> str:
    """Return the title of a model, with the name of its labels unless that is "y"."""
    return model._title() + ("" if target == "y" else f" for {target}")


def _compare_samples(model: FittedEstimator, rows: RowSample) -> list[Fact]:
    """Compare rows with rows drawn from the model.

    There is nothing to compare for models without samples, for few rows, for rows without noise,
    and for rows with weights, which the comparison would ignore.
    """
    if "samples" not in model.answers or len(rows.x) < FEWEST_COMPARED:
        return []
    if model._weighted() or model._noise_free(rows):
        return []
    try:
        view = frozen_copy(model)._fit_view(rows)
    except NoPictureError as reason:
        return [Fact(False, Note("cannot_sample", {"rate": reason.values["rate"]}))]
    drawn = view.rows if view.drawn is None else view.drawn
    gap = float(ks_2samp(view.rows, drawn, method="asymp").statistic)
    limit = KOLMOGOROV_CHANCE * math.sqrt(1 / len(view.rows) + 1 / len(drawn))
    agree = gap <= limit
    note = Note("samples_agree" if agree else "samples_differ", {"gap": gap, "limit": limit})
    return [Fact(agree, note)]
