"""The verdict on a fit: points to check, and checks that passed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from scipy.stats import ks_2samp

from implicitmoments.estimator import Check, FittedEstimator, counted
from implicitmoments.notes import FIT, QUIET, Note
from implicitmoments.picture_data import NoPictureError, RowSample
from implicitmoments.plot.canvas import frozen_copy, sample_rows
from implicitmoments.plot.data_comparison import MOST_COMPARED
from implicitmoments.rows import KOLMOGOROV_CHANCE


class Verdict(NamedTuple):
    """Overall assessment of a fit."""

    points: list[Note | Check]  # notes that may mean a wrong answer, and checks that failed
    remarks: list[Note]  # quiet notes
    passed: list[Check]

    @property
    def summary(self) -> str:
        """The assessment in a sentence."""
        if self.points:
            return f"{counted(len(self.points), 'point')} to check:"
        if not self.passed:
            return "No check applies to this fit: look at the pictures before you rely on it."
        n = len(self.passed)
        return {1: "The check passed.", 2: "Both checks passed."}.get(n, f"All {n} checks passed.")


def verdict_of(model: Any, X: Any, y: Any = None, *, max_rows: int = MOST_COMPARED) -> Verdict:
    """Judge a fitted model by its notes, its measurements, and a random sample of rows."""
    rows = sample_rows(model, X, y, max_rows)
    checks = model._checks() + _compare_samples(model, rows)
    points: list[Note | Check] = [note for note in model.notes_ if note.code not in QUIET]
    points += [check for check in checks if not check.passed]
    remarks = [note for note in model.notes_ if note.code in QUIET]
    # what supports a fit presumes its model, and says nothing where another one is better
    doubted = not FIT.isdisjoint(model.notes_.codes)
    return Verdict(points, remarks, [c for c in checks if c.passed and not doubted])


def title_of(model: FittedEstimator, target: str) -> str:
    """Return the title of a model, with the name of its labels unless that is "y"."""
    own = model._title() + ("" if target == "y" else f" for {target}")
    return own[0].upper() + own[1:]


def _compare_samples(model: FittedEstimator, rows: RowSample) -> list[Check]:
    """Compare rows with rows drawn from the model.

    There is nothing to compare for models without samples, for fewer than 50 rows, between which
    chance reaches 0.27, for rows without noise, and for rows with weights, which the comparison
    would ignore.
    """
    if "samples" not in model.answers or len(rows.x) < 50:
        return []
    if model._weighted() or model._noise_free(rows):
        return []
    try:
        view = frozen_copy(model)._fit_view(rows)
    except NoPictureError as reason:
        return [Check("samples", False, str(reason))]
    gap = float(ks_2samp(view.rows, view.drawn, method="asymp").statistic)
    limit = KOLMOGOROV_CHANCE * math.sqrt(1 / len(view.rows) + 1 / len(view.drawn))
    words = (
        f"Kolmogorov–Smirnov distance between the data and samples of the model: {gap:.2g} "
        f"(chance gives up to {limit:.2g})"
    )
    return [Check("samples", gap <= limit, words)]
