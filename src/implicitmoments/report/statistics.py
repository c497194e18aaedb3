"""Tables of statistics and settings of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.description import Table
from implicitmoments.estimator import FittedEstimator
from implicitmoments.notes import format_value

# parameters that a table of settings has even where they are defaults
ESSENTIAL = ("n_components", "covariance_type", "activation", "degree", "random_state")
DIGITS = 5  # significant digits in tables; all of them are copied
MOST_ENTRIES = 8  # of a statistic that is a mapping
RARE = 1e-3  # share below which clipped rows are not shown


def cell(value: Any) -> str:
    """Return the text of a cell: a number in few digits.

    Examples
    --------
    >>> cell(12_345), cell(-0.123456), cell(float("nan")), cell(True)
    ('12,345', '−0.12346', '–', 'yes')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if is_number(value):
        if not np.isfinite(float(value)):
            return "–" if np.isnan(float(value)) else "∞" if value > 0 else "−∞"
        return f"{float(value):.{DIGITS}g}".replace("-", "−")
    return str(value)


def exact(value: Any) -> str:
    """Return a number with all digits, for copying."""
    return repr(float(value))


def is_number(value: Any) -> bool:
    """Say whether a cell is a number and not a Boolean."""
    return isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)


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
    words = {"moments": "the moments", "merge": "micro-components"}
    return words.get(kind, kind)


def _by_number(values: Mapping[Any, float]) -> str:
    return _joined([f"{n}:\u00a0{cell(value)}" for n, value in sorted(values.items())])


def _above_best(values: Mapping[Any, float]) -> str:
    """Return differences from the best: levels include a constant that depends on units."""
    ranked = sorted(values.items(), key=lambda pair: pair[1])
    above = [f"{n}:\u00a0+{value - ranked[0][1]:,.3g}" for n, value in ranked[1:]]
    return _joined([f"{n}:\u00a0best" for n, _ in ranked[:1]] + above)


def _joined(words: list[str]) -> str:
    more = f"; … ({len(words)})" if len(words) > MOST_ENTRIES else ""
    return "; ".join(words[:MOST_ENTRIES]) + more


# Other entries of stats_ are shown elsewhere on the page, are in internal units, or mean nothing
# without the source.
STATISTICS = {
    "rows_used": Statistic("rows", "Rows of the fit, without outliers."),
    "rows_seen": Statistic("rows so far", "Rows taken in so far, piece by piece."),
    "sample_rows": Statistic("rows of the search", "Rows used to compare starts and moves."),
    "start": Statistic("EM initialised from", "The start of higher likelihood is used.", _start),
    "bic_by_n_components": Statistic(
        "BIC above the best", "By number of components; lower is better.", _above_best
    ),
    "bic_by_covariance_type": Statistic(
        "BIC above the best type", "By type of covariance; lower is better.", _above_best
    ),
    "n_landmarks": Statistic("landmarks", "Rows among which clusters were formed."),
    "misclassification_rate": Statistic(
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
    "normalizer_error": Statistic("error of the normaliser", "A standard error."),
    "negative_rows": Statistic(
        "rows with a negative expansion", "The density is clipped there.", _unless_rare
    ),
    "noise_share": Statistic(
        "noise share", "Noise variance over the variance of y around one line.", _percent
    ),
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
    "seconds_search": Statistic("seconds for moves", "On a sample of the rows.", _two_digits),
    "seconds_em": Statistic("seconds for EM", "On all rows.", _two_digits),
}


def statistics_of(model: FittedEstimator) -> Table:
    """Return the statistics of a fit that mean something to a reader."""
    rows, meanings = [], {}
    for key, statistic in STATISTICS.items():
        value = statistic.written(model.stats_[key]) if key in model.stats_ else None
        if value is not None and cell(value) not in ("", "–"):
            rows.append([statistic.name, value])
            meanings[statistic.name] = statistic.meaning
    return Table("Statistics", ["statistic", "value"], rows, meanings)


def settings_of(
    model: Any, default: Mapping[str, Any], value: Callable[[Any], str] = repr
) -> Table:
    """Return the parameters that say what was fitted, and those that differ from the default.

    The latter first. ``value`` writes their values.
    """
    given = model.get_params(deep=False)
    changed = frozenset(
        name
        for name, own in given.items()
        if own is not default[name] and repr(own) != repr(default[name])
    )
    rows = [
        [name, value(given[name]), value(default[name])]
        for name in sorted(given, key=lambda name: (name not in changed, name))
        if name in changed or name in ESSENTIAL
    ]
    note = "All others are defaults."
    note = f"In bold: differs from the default. {note}" if changed else note
    return Table("Settings", ["parameter", "value", "default"], rows, marked=changed, note=note)
