"""What a fit measured, in words and in units that a reader has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from implicitmoments.report.tables import Table, short

__all__ = ["statistics_of"]

MOST_ENTRIES = 8  # of a statistic that is a mapping


class Words(NamedTuple):
    """What a statistic is called, what it means, and how its value is written."""

    name: str
    meaning: str
    told: Callable[[Any], Any] = lambda value: value


def _percent(part: float) -> str:
    return f"{part:.3g}" if part > 1 else "under 0.01%" if 0 < part < 1e-4 else f"{part:.2%}"


def _unless_rare(part: float) -> str:
    return _percent(part) if part >= 1e-3 else ""


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _start(kind: str) -> str:
    return "the moments" if kind == "moments" else "scattered rows"


def _by_number(values: Mapping[Any, float]) -> str:
    return _listed([f"{n}:\u00a0{short(value)}" for n, value in sorted(values.items())])


def _above_best(values: Mapping[Any, float]) -> str:
    """Write differences: levels hold a constant that depends on units."""
    ranked = sorted(values.items(), key=lambda pair: pair[1])
    if not ranked:
        return ""
    best = ranked[0][1]
    return _listed(
        [f"{n}:\u00a0{'best' if v == best else f'+{v - best:,.3g}'}" for n, v in ranked]
    )


def _listed(words: list[str]) -> str:
    more = f"; … ({len(words)})" if len(words) > MOST_ENTRIES else ""
    return "; ".join(words[:MOST_ENTRIES]) + more


# Of what is not here, some is drawn or told elsewhere on the page, some is in inner units, and
# some says nothing to whoever does not read the source.
WORDS = {
    "n_rows": Words("rows", "Rows that were fitted."),
    "rows_used": Words("rows", "Rows that were fitted, less those left out."),
    "rows_seen": Words("rows so far", "Rows that partial_fit has taken in."),
    "corrections": Words("moments read again", "Times that partial_fit began from all moments."),
    "moment_rows": Words("rows of the moments", "Rows whose moments were taken."),
    "sample_rows": Words("rows of the search", "Rows on which starts and repairs were compared."),
    "start": Words("EM started from", "The likelier of both starts is taken.", _start),
    "groups": Words("groups fitted apart", "Groups of rows far apart, each fitted on its own."),
    "n_peaks": Words(
        "lines seen at once",
        "Lines that stood out from the noise before EM began; the others were found by it.",
    ),
    "repairs_tried": Words(
        "repairs tried", "Components moved elsewhere to see if it is likelier."
    ),
    "repairs": Words("repairs kept", "Those of them that raised the likelihood."),
    "spectral_components": Words(
        "components by the spectrum", "Eigenvalues above the noise, from which the search began."
    ),
    "sample_bic": Words(
        "BIC above the best", "By the number of components; the less the better.", _above_best
    ),
    "bic_by_n_components": Words(
        "BIC above the best", "By the number of lines; the less the better.", _above_best
    ),
    "highest_peak_left": Words(
        "highest peak left (standard errors)",
        "Of what the lines leave unexplained; a missing line makes a peak.",
    ),
    "noise_maximum": Words(
        "highest peak of noise (standard errors)", "What noise alone makes, about."
    ),
    "n_landmarks": Words("rows compared in pairs", "Rows among which clusters were formed."),
    "doubt": Words(
        "rows in doubt", "Rows that may be of another component than they are given to.", _percent
    ),
    "within_variance": Words(
        "widest cluster (noise variances)", "The largest variance in a cluster, over the noise's."
    ),
    "split_rate": Words(
        "pairs split", "Pairs of one cluster that the test takes apart.", _percent
    ),
    "merge_rate": Words("pairs merged", "Pairs of two clusters that the test joins.", _percent),
    "same_rate": Words("pairs of one cluster", "Of all pairs of rows.", _percent),
    "radius": Words(
        "radius of the means (noise deviations)", "Root mean square distance from their centre."
    ),
    "truncation_error": Words(
        "higher degrees, at most", "Total variation that the degrees left out can make."
    ),
    "degree_for_epsilon": Words(
        "degree that is enough for sure",
        "From this degree on, those left out make less than epsilon.",
        lambda degree: "none below 200" if degree is None else degree,
    ),
    "normalizer_error": Words("error of the normaliser", "A standard error."),
    "negative_rows": Words(
        "rows of negative expansion", "Rows at which it is negative, and clipped.", _unless_rare
    ),
    "noise_share": Words(
        "noise, of the spread about one line", "Its variance over that of the labels.", _percent
    ),
    "n_coefficients": Words("coefficients", "Of the expansion."),
    "scores": Words(
        "held-out mean log density", "Of rows that were not fitted, by degree.", _by_number
    ),
    "error_by_degree": Words(
        "held-out error of the polynomial", "Squared, on rows not fitted, by degree.", _by_number
    ),
    "polynomial_error": Words("error of the polynomial", "Squared, expected on new rows."),
    "network_error": Words("error of the network", "Squared, expected on new rows."),
    "whitened": Words("inputs were standardised", "To mean 0 and covariance I."),
    "n_starts": Words("starts", "Starts of the polish that were compared."),
    "converged": Words("the polish converged", "Within max_iter steps."),
    "seconds_start": Words(
        "seconds for the start", "Moments, and EM on some of the rows.", _two_digits
    ),
    "seconds_search": Words("seconds for repairs", "On some of the rows.", _two_digits),
    "seconds_polish": Words("seconds for EM", "On all rows.", _two_digits),
}


def statistics_of(model: Any) -> Table:
    """Return what was measured, as far as it says something to a reader."""
    shown = {key: words for key, words in WORDS.items() if key in model.stats_}
    rows = [[words.name, words.told(model.stats_[key])] for key, words in shown.items()]
    told = [(row, words.meaning) for row, words in zip(rows, shown.values(), strict=True)]
    kept = [
        (row, meaning) for row, meaning in told if row[1] not in ("", None) and row[1] == row[1]
    ]
    return Table(
        "Statistics",
        ["statistic", "value"],
        [row for row, _ in kept],
        meanings={row[0]: meaning for row, meaning in kept},
    )
