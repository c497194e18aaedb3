"""Tables of groups: how large they are, what sets them apart, and which rows are typical."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.description import Table, counted, short_number
from implicitmoments.picture_data import LinePicture
from implicitmoments.plot.groups import DOUBT, Groups

TELLING = 3  # columns that describe a group in a line
LINE_COLUMNS = 4  # of the formula of a line
CLEAR = 0.3  # standard deviations from the mean of all rows, from which a column is mentioned
HEAT_COLUMNS = 24  # of the heatmap: the columns that differ most
HEAT_STEP, HEAT_STEPS = 0.3, 5  # deviations per shade, and shades of each sign
ROW_COLUMNS = 6  # of the table of rows
FEW_GROUPS, ROWS_EACH, ROWS_OF_MANY = 12, 3, 1  # typical and doubtful rows of each group
PAIRS = 12  # nearest pairs that are listed
SURE = 0.999  # a probability above which a row is in no doubt worth showing


@dataclass(frozen=True)
class Heat:
    """One cell of the heatmap."""

    text: str
    shade: int  # −5 … 5
    title: str


@dataclass(frozen=True)
class HeatTable:
    """Means of the groups in deviations from the mean of all rows."""

    columns: list[str]
    rows: list[tuple[int, str, list[Heat]]]  # group, its share, and its cells
    note: str


def size_table(groups: Groups) -> Table:
    """Return the groups by size, and what sets each apart."""
    shown = len(groups.rows.x)
    rows: list[list[Any]] = []
    for i in groups.order:
        own = groups.own[groups.labels == i]
        sure = float(own.mean()) if len(own) else float("nan")
        told = _line(groups, i) if isinstance(groups.view, LinePicture) else _apart(groups, i)
        rows.append([i, f"{groups.shares[i]:.1%}", int(groups.counts[i]), f"{sure:.0%}", told])
    counting = f"among {counted(shown, 'sampled row')}" if shown < groups.rows.total else "of all"
    note = (
        "The largest first. Share: by the model. Rows: those most probably of it, "
        f"{counting}. Certainty: the mean probability that they are."
    )
    lines = isinstance(groups.view, LinePicture)
    if not lines:
        note += " In brackets: standard deviations from the mean of all rows."
    last = "its line" if lines else "what sets it apart"
    columns = [groups.noun, "share", "rows", "certainty", last]
    return Table("Sizes and profiles", columns, rows, note=note)


def _apart(groups: Groups, i: int) -> str:
    apart = groups.deviations[i]
    order = np.argsort(-np.abs(np.nan_to_num(apart)), kind="stable")[:TELLING]
    parts = [
        f"{groups.names[j]} {number(groups.means[i, j])} ({signed(apart[j])})"
        for j in order
        if abs(apart[j]) >= CLEAR
    ]
    return ", ".join(parts) or "near the mean of all rows"


def _line(groups: Groups, i: int) -> str:
    """Return a line as a formula, with the columns that matter most."""
    view = groups.view
    if not isinstance(view, LinePicture):
        raise TypeError("only lines have a formula")
    slopes = groups.rows.units.slopes(view.coef[i])
    matters = np.abs(slopes) * groups.rows.shown.std(axis=0)
    kept = sorted(np.argsort(-matters, kind="stable")[:LINE_COLUMNS])
    terms = [
        f"{'−' if slopes[j] < 0 else '+'} {number(abs(slopes[j]))} · {groups.names[j]}"
        for j in kept
    ]
    more = " + …" if len(kept) < len(slopes) else ""
    return f"{groups.rows.target} = {number(view.intercept[i])} {' '.join(terms)}{more}"


def number(value: float) -> str:
    """Return a number in few digits, without an exponent where it has none in a file."""
    if not np.isfinite(value):
        return "–"
    return short_number(value).replace("-", "−")


def signed(value: float) -> str:
    """Return a difference with its sign and one digit."""
    if not np.isfinite(value):
        return "–"
    rounded = round(float(value), 1)
    return "0.0" if rounded == 0 else f"{rounded:+.1f}".replace("-", "−")


def heat_table(groups: Groups) -> HeatTable:
    """Return the means of the groups, shaded by their deviation from the whole."""
    chosen = sorted(groups.telling[:HEAT_COLUMNS])
    rows = []
    for i in groups.largest:
        cells = [
            Heat(
                signed(groups.deviations[i, j]),
                shade_of(groups.deviations[i, j]),
                f"{groups.noun} {i}: mean of {groups.names[j]} {number(groups.means[i, j])}",
            )
            for j in chosen
        ]
        rows.append((i, f"{groups.shares[i]:.0%}", cells))
    note = "Means in standard deviations above (+) or below (−) the mean of all rows."
    if groups.k > len(rows):
        note += f" The {len(rows)} largest of {groups.k} groups."
    if len(chosen) < len(groups.names):
        columns = counted(len(groups.names), "column")
        note += f" The {len(chosen)} of {columns} that differ most between groups."
    return HeatTable([groups.names[j] for j in chosen], rows, note)


def shade_of(deviation: float) -> int:
    """Return the shade of a deviation, −5 … 5."""
    if not np.isfinite(deviation):
        return 0
    return int(np.clip(np.rint(deviation / HEAT_STEP), -HEAT_STEPS, HEAT_STEPS))


def row_table(groups: Groups) -> Table:
    """Return the rows most typical and most doubtful of each group."""
    most = ROWS_EACH if groups.k <= FEW_GROUPS else ROWS_OF_MANY
    columns = sorted(groups.telling[:ROW_COLUMNS])
    rows = []
    for i in groups.largest:
        places = np.flatnonzero(groups.labels == i)
        sure = places[groups.own[places] >= DOUBT]
        near = sure if len(sure) else places
        typical = near[np.argsort(groups.apart[near], kind="stable")[:most]]
        least = places[np.argsort(groups.own[places], kind="stable")[:most]]
        doubtful = [at for at in least if groups.own[at] < SURE and at not in typical]
        rows += [_row(groups, at, "typical", columns) for at in typical]
        rows += [_row(groups, at, "doubtful", columns) for at in doubtful]
    sampled = len(groups.rows.x) < groups.rows.total
    note = (
        "Typical: near the centre of the group, and in no doubt. Doubtful: least probable there; "
        "next is the group it may be of. Row 1 is the first row of data, of the first file if "
        "there are several"
        + (
            f", and {counted(len(groups.rows.x), 'sampled row')} were compared."
            if sampled
            else "."
        )
    )
    heads = [groups.noun, "is", "row", "probability", "next", *(groups.names[j] for j in columns)]
    return Table("Typical and doubtful rows", heads, rows, note=note)


def _row(groups: Groups, at: int, what: str, columns: list[int]) -> list[Any]:
    numbers = groups.rows.numbers
    row = int(at if numbers is None else numbers[at]) + 1
    values = [float(groups.values[at, j]) for j in columns]
    own, second = f"{groups.own[at]:.1%}", int(groups.second[at])
    return [int(groups.labels[at]), what, row, own, second, *values]


def pair_table(groups: Groups) -> Table:
    """Return the nearest pairs of groups."""
    rows = [
        [f"{i} and {j}", float(f"{groups.distances[i, j]:.3g}"), groups.in_doubt(i, j)]
        for i, j in groups.nearest_pairs(PAIRS)
    ]
    note = (
        "Distance: in standard deviations within the groups. Rows in doubt: sampled rows of one "
        f"that are so with a probability below {DOUBT:.0%}, and else most probably of the other."
    )
    return Table("Nearest pairs", ["pair", "distance", "rows in doubt"], rows, note=note)
