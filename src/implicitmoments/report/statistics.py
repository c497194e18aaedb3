"""Tables of statistics and settings of a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scipy.stats import ks_2samp

from implicitmoments.estimator import Fact, FittedEstimator, Table, notes_of
from implicitmoments.notes import Note, Notes, format_value
from implicitmoments.picture_data import Distribution, NoPictureError, RowSample
from implicitmoments.plot.canvas import frozen_copy, sample_rows
from implicitmoments.report.page import cell

MOST_ENTRIES = 8  # of a statistic that is a mapping
RARE = 1e-3  # share below which clipped rows are not shown


class Statistic(NamedTuple):
    """The name of a statistic, its meaning, and how its value is written."""

    name: str
    meaning: str
    written: Callable[[Any], Any] = lambda value: value


def _percent(share: float) -> str:
    return f"{share:.3g}" if share > 1 else format_value(share, "percent")


def _unless_rare(share: float) -> str:
    return _percent(share) if share >= RARE else ""


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _start(kind: str) -> str:
    return "the moments" if kind == "moments" else "k-means++"


def _by_number(values: Mapping[Any, float]) -> str:
    return _joined([f"{n}:\u00a0{cell(value)}" for n, value in sorted(values.items())])


def _above_best(values: Mapping[Any, float]) -> str:
    """Return differences from the best: levels include a constant that depends on units."""
    ranked = sorted(values.items(), key=lambda pair: pair[1])
    return _joined(
        [
            f"{n}:\u00a0{f'+{v - ranked[0][1]:,.3g}' if i else 'best'}"
            for i, (n, v) in enumerate(ranked)
        ]
    )


def _joined(words: list[str]) -> str:
    more = f"; … ({len(words)})" if len(words) > MOST_ENTRIES else ""
    return "; ".join(words[:MOST_ENTRIES]) + more


# Other entries of stats_ are shown elsewhere on the page, are in internal units, or mean nothing
# without the source.
STATISTICS = {
    "n_rows": Statistic("rows", "Rows of the fit."),
    "rows_used": Statistic("rows", "Rows of the fit, without outliers."),
    "rows_seen": Statistic("rows so far", "Rows passed to partial_fit."),
    "corrections": Statistic(
        "moments decoded again", "How often partial_fit restarted from all moments."
    ),
    "moment_rows": Statistic("rows of the moments", "Rows used to estimate moments."),
    "sample_rows": Statistic("rows of the search", "Rows used to compare starts and moves."),
    "start": Statistic("EM initialised from", "The start of higher likelihood is used.", _start),
    "groups": Statistic("groups fitted apart", "Groups far apart, each fitted separately."),
    "n_peaks": Statistic(
        "lines clear before EM", "Lines clear of the noise before EM; EM found the others."
    ),
    "n_moves_tried": Statistic(
        "moves tried", "Components moved elsewhere to increase the likelihood."
    ),
    "n_moves": Statistic("moves accepted", "Moves that increased the likelihood."),
    "spectral_components": Statistic(
        "components by the spectrum", "Eigenvalues above the noise, where the search began."
    ),
    "sample_bic": Statistic(
        "BIC above the best", "By number of components; lower is better.", _above_best
    ),
    "bic_by_n_components": Statistic(
        "BIC above the best", "By number of lines; lower is better.", _above_best
    ),
    "highest_peak_left": Statistic(
        "highest peak left (standard errors)",
        "Of the characteristic function beside the lines; a missing line makes a peak.",
    ),
    "noise_maximum": Statistic(
        "highest peak of noise (standard errors)", "What noise alone reaches."
    ),
    "n_landmarks": Statistic("landmarks", "Rows among which clusters were formed."),
    "doubt": Statistic(
        "expected misclassification rate", "Share of rows assigned to a wrong component.", _percent
    ),
    "within_variance": Statistic(
        "widest cluster (noise variances)", "Largest variance within a cluster over the noise."
    ),
    "split_rate": Statistic(
        "pairs split", "Pairs within a cluster that the test splits.", _percent
    ),
    "merge_rate": Statistic(
        "pairs merged", "Pairs of two clusters that the test joins.", _percent
    ),
    "same_rate": Statistic("pairs within a cluster", "Share of all pairs of rows.", _percent),
    "radius": Statistic(
        "radius of the means (noise deviations)", "Root mean square distance from their centre."
    ),
    "truncation_error": Statistic(
        "contribution of higher degrees, at most", "In total variation."
    ),
    "degree_for_epsilon": Statistic(
        "sufficient degree",
        "Higher degrees contribute less than epsilon.",
        lambda degree: "none below 200" if degree is None else degree,
    ),
    "normalizer_error": Statistic("error of the normaliser", "A standard error."),
    "negative_rows": Statistic(
        "rows with a negative expansion", "The density is clipped there.", _unless_rare
    ),
    "noise_share": Statistic(
        "noise share", "Noise variance over the variance of y around one line.", _percent
    ),
    "n_coefficients": Statistic("coefficients", "Of the expansion."),
    "scores": Statistic("held-out mean log density", "Of held-out rows, by degree.", _by_number),
    "error_by_degree": Statistic(
        "held-out error of the polynomial",
        "Squared error on held-out rows, by degree.",
        _by_number,
    ),
    "polynomial_error": Statistic("error of the polynomial", "Squared, expected on new rows."),
    "network_error": Statistic("error of the network", "Squared, expected on new rows."),
    "whitened": Statistic("inputs standardised", "To mean 0 and identity covariance."),
    "n_starts": Statistic("starts", "Initialisations of the network that were compared."),
    "converged": Statistic("network converged", "Within max_iter steps."),
    "seconds_start": Statistic(
        "seconds for the start", "Moments, and EM on a sample of the rows.", _two_digits
    ),
    "seconds_search": Statistic("seconds for moves", "On a sample of the rows.", _two_digits),
    "seconds_em": Statistic("seconds for EM", "On all rows.", _two_digits),
}


def statistics_of(model: FittedEstimator) -> Table:
    """Return the statistics of a fit that mean something to a reader."""
    shown = [
        ([statistic.name, statistic.written(model.stats_[key])], statistic.meaning)
        for key, statistic in STATISTICS.items()
        if key in model.stats_
    ]
    shown = [
        (row, meaning) for row, meaning in shown if row[1] not in ("", None) and row[1] == row[1]
    ]
    rows, meanings = [row for row, _ in shown], {row[0]: meaning for row, meaning in shown}
    return Table("Statistics", ["statistic", "value"], rows, meanings)


def settings_of(model: Any) -> Table:
    """Return the parameters of the estimator, those that differ from the default first."""
    given = model.get_params(deep=False)
    default = type(model)().get_params(deep=False)
    changed = frozenset(name for name in given if _differs(given[name], default[name]))
    rows = [
        [name, repr(given[name]), repr(default[name])]
        for name in sorted(given, key=lambda name: (name not in changed, name))
    ]
    note = "In bold: differs from the default." if changed else "All are defaults."
    return Table("Settings", ["parameter", "value", "default"], rows, marked=changed, note=note)


def _differs(value: Any, default: Any) -> bool:
    return value is not default and repr(value) != repr(default)


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
