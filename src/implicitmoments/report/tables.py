"""Tables of a report: groups, typical rows, statistics and settings."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from implicitmoments.estimator import FittedEstimator, Table, short_number
from implicitmoments.picture_data import LinePicture
from implicitmoments.plot.canvas import count_note
from implicitmoments.plot.groups import DOUBT, Groups


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
        return "–" if np.isnan(value) else f"{float(value):.5g}".replace("-", "−")
    return str(value)


def is_number(value: Any) -> bool:
    """Say whether a cell is a number and not a Boolean."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def number(value: float) -> str:
    """Return a number in few digits, without an exponent where it has none in a file."""
    return short_number(value).replace("-", "−") if np.isfinite(value) else "–"


def signed(value: float) -> str:
    """Return a difference with its sign and one digit.

    Examples
    --------
    >>> signed(1.26), signed(-0.3), signed(-0.04)
    ('+1.3', '−0.3', '0.0')
    """
    if not np.isfinite(value):
        return "–"
    rounded = round(float(value), 1)
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "0.0"


def size_table(groups: Groups) -> Table:
    """Return the groups by size, and what sets each apart."""
    lines, rows = isinstance(groups.view, LinePicture), []
    for i in groups.order:
        own = groups.own[groups.labels == i]
        certainty = f"{own.mean():.0%}" if len(own) else "–"
        told = _line(groups, i) if lines else _apart(groups, i)
        rows.append([i, f"{groups.shares[i]:.1%}", len(own), certainty, told])
    note = (
        "The largest first. Share: weight in the model. Rows: how many of "
        f"{count_note(groups.rows)} are assigned to the group. Certainty: their mean membership "
        "probability."
    )
    if not lines:
        note += " In brackets: standard deviations from the mean of all rows."
    last = "its line" if lines else "what sets it apart"
    columns = [groups.noun, "share", "rows", "certainty", last]
    return Table("Sizes and profiles", columns, rows, note=note)


def _apart(groups: Groups, i: int) -> str:
    """Return the three columns that are farthest from the mean of all rows."""
    apart, clear = np.nan_to_num(groups.deviations[i]), 0.3  # standard deviations
    order = np.argsort(-np.abs(apart), kind="stable")[:3]
    parts = [
        f"{groups.names[j]} {number(groups.means[i, j])} ({signed(apart[j])})"
        for j in order
        if abs(apart[j]) >= clear
    ]
    return ", ".join(parts) or "near the mean of all rows"


def _line(groups: Groups, i: int) -> str:
    """Return a line as a formula, with the four columns that matter most."""
    view: Any = groups.view
    slopes, spread = view.coef[i], groups.rows.x.std(axis=0)
    kept = sorted(np.argsort(-np.abs(slopes) * spread, kind="stable")[:4])
    terms = [
        f"{'−' if slopes[j] < 0 else '+'} {number(abs(slopes[j]))} · {groups.names[j]}"
        for j in kept
    ]
    more = " + …" if len(kept) < len(slopes) else ""
    return f"{groups.rows.target} = {number(view.intercept[i])} {' '.join(terms)}{more}"


class Heat(NamedTuple):
    """One cell of the heatmap."""

    text: str
    shade: int  # −5 … 5
    title: str


def heat_table(groups: Groups) -> Table:
    """Return the means of the groups, shaded by their deviation from the whole."""
    chosen = sorted(groups.telling[:24])  # columns that fit beside each other
    rows: list[list[Any]] = []
    for i in groups.largest:
        cells: list[Any] = [i]
        for j in chosen:
            deviation, name = groups.deviations[i, j], groups.names[j]
            title = f"{groups.noun} {i}: mean of {name} {number(groups.means[i, j])}"
            cells.append(Heat(signed(deviation), shade_of(deviation), title))
        rows.append(cells)
    note = "Means in standard deviations above (+) or below (−) the mean of all rows."
    if groups.k > len(rows) or len(groups.names) > len(chosen):
        note += (
            f" The {len(rows)} largest of {groups.k} groups, and the {len(chosen)} of "
            f"{len(groups.names)} columns that differ most between them."
        )
    columns = [groups.noun, *(groups.names[j] for j in chosen)]
    return Table("Group means", columns, rows, note=note)


def shade_of(deviation: float) -> int:
    """Return the shade of a deviation, −5 … 5: one step is 0.3 standard deviations."""
    return int(np.clip(np.rint(np.nan_to_num(deviation) / 0.3), -5, 5))


def row_table(groups: Groups) -> Table:
    """Return the rows most typical and most ambiguous of each group: three, or one of many."""
    most = 3 if groups.k <= 12 else 1
    columns, rows = sorted(groups.telling[:6]), []
    for i in groups.largest:
        places = np.flatnonzero(groups.labels == i)
        sure = places[groups.own[places] >= DOUBT]
        near = sure if len(sure) else places
        typical = near[np.argsort(groups.apart[near], kind="stable")[:most]]
        least = places[np.argsort(groups.own[places], kind="stable")[:most]]
        doubtful = [at for at in least if groups.own[at] < 0.999 and at not in typical]
        for what, those in (("typical", typical), ("ambiguous", doubtful)):
            for at in those:
                values = [float(groups.values[at, j]) for j in columns]
                own, second = f"{groups.own[at]:.1%}", int(groups.second[at])
                row = int(groups.rows.numbers[at]) + 1
                rows.append([i, what, row, own, second, *values])
    note = (
        "Typical: near the centre of the group, with a high membership probability. Ambiguous: "
        "lowest membership probability; next is the second most likely group. Row 1 is the first "
        f"row of the first file. {count_note(groups.rows)} were compared."
    )
    heads = [groups.noun, "is", "row", "probability", "next", *(groups.names[j] for j in columns)]
    return Table("Typical and ambiguous rows", heads, rows, note=note)


def pair_table(groups: Groups) -> Table:
    """Return the twelve nearest pairs of groups."""
    rows = [
        [f"{i} and {j}", float(f"{distance:.3g}"), groups.in_doubt(i, j)]
        for distance, i, j in groups.nearest_pairs[:12]
    ]
    note = (
        "Distance: in standard deviations within the groups. Ambiguous rows: rows of one group "
        f"with a membership probability below {DOUBT:.0%}, whose second most likely group is the "
        f"other, of {count_note(groups.rows)}."
    )
    return Table("Nearest pairs", ["pair", "distance", "ambiguous rows"], rows, note=note)


# Names and meanings. Other entries of stats_ are shown elsewhere on the page, are in internal
# units, or mean nothing without the source.
STATISTICS = {
    "rows_used": ("rows", "Rows of the fit, without outliers."),
    "rows_seen": ("rows so far", "Rows taken in so far, batch by batch."),
    "sample_rows": ("rows of the search", "Rows used to compare starts and moves."),
    "start": ("EM initialised from", "The start of highest likelihood."),
    "bic_by_n_components": ("BIC above the least", "By number of components."),
    "bic_by_covariance_type": ("BIC above the least, by type", "By type of covariance."),
    "n_landmarks": ("landmarks", "Rows among which clusters were formed."),
    "misclassification_rate": (
        "expected misclassification rate",
        "Share of rows assigned to a wrong component.",
    ),
    "within_variance": (
        "widest cluster (noise variances)",
        "Largest variance within a cluster over that of the noise.",
    ),
    "split_rate": ("pairs split", "Share of pairs within a cluster that the test splits."),
    "merge_rate": ("pairs merged", "Share of pairs of two clusters that the test joins."),
    "same_rate": ("pairs within a cluster", "Share of all pairs of rows."),
    "radius": ("radius of the means", "Root mean square distance from their centre, in σ."),
    "negative_rows": ("rows with a negative expansion", "The density is clipped there."),
    "noise_share": ("noise share", "Noise variance over the variance of y around one line."),
    "scores": ("held-out mean log density", "Of held-out rows, by degree."),
    "error_by_degree": ("held-out error of the polynomial", "Squared error, by degree."),
    "polynomial_error": ("error of the polynomial", "Squared, expected on new rows."),
    "network_error": ("error of the network", "Squared, expected on new rows."),
    "whitened": ("inputs standardised", "To mean 0 and identity covariance."),
    "n_starts": ("starts", "Initialisations of the network that were compared."),
    "seconds_search": ("seconds for moves", "On a sample of the rows."),
    "seconds_em": ("seconds for EM", "On all rows."),
}


def statistics_of(model: FittedEstimator) -> Table:
    """Return the statistics of a fit that mean something to a reader."""
    rows, meanings = [], {}
    for key in STATISTICS.keys() & model.stats_.keys():
        name, meaning = STATISTICS[key]
        value = _statistic(key, model.stats_[key])
        if cell(value) not in ("", "–", "None"):
            rows.append([name, value])
            meanings[name] = meaning
    return Table("Statistics", ["statistic", "value"], sorted(rows), meanings)


def _statistic(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        least = min(value.values(), default=0.0) if key.startswith("bic") else 0.0
        parts = [f"{n}:\u00a0{cell(v - least)}" for n, v in sorted(value.items())]
        more = [f"… ({len(parts)})"] if len(parts) > 8 else []
        return "; ".join(parts[:8] + more)
    is_share = key.endswith("_rate") or key == "negative_rows"
    return f"{value:.2%}" if is_share else value


def settings_of(model: Any) -> Table:
    """Return parameters that differ from their defaults, and those that say what was fitted."""
    essential = ("n_components", "covariance_type", "activation", "degree", "random_state")
    given, default = model.get_params(deep=False), type(model)().get_params(deep=False)
    changed = frozenset(name for name in given if repr(given[name]) != repr(default[name]))
    shown = sorted(changed) + [n for n in essential if n in given and n not in changed]
    rows = [[name, repr(given[name]), repr(default[name])] for name in shown]
    note = "In bold: differs from the default. All others are defaults."
    return Table("Settings", ["parameter", "value", "default"], rows, marked=changed, note=note)
