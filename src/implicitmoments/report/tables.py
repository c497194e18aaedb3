"""Parameters and settings of a model as tables, and tables as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from html import escape
from numbers import Integral, Real
from typing import Any

import numpy as np

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.clustering import SphericalMixtureClusterer
from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.estimator import counted
from implicitmoments.mixture import SphericalMixture
from implicitmoments.regression import RegressionMixture

__all__ = ["Table", "html_of", "parameters_of", "settings_of", "short"]

MOST_ROWS, MOST_COLUMNS = 300, 120  # of a table on a page; the model has the rest
FOLDED = 25  # rows from which a table is folded up
DIGITS = 5


@dataclass(frozen=True, eq=False)
class Table:
    """A table with names of columns.

    Attributes
    ----------
    name : str
        Its heading.
    columns : sequence of str
    rows : sequence of sequences
        Of numbers and strings.
    meanings : mapping of str to str
        What the first cells of rows mean.
    marked : set of str
        First cells of rows that stand out.
    note : str
        Beneath the heading.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    meanings: Mapping[str, str] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()
    note: str = ""


@singledispatch
def parameters_of(model: Any) -> list[Table]:
    """Return the parameters of a fitted model."""
    raise TypeError(
        f"a report is of the estimators of implicitmoments, got {type(model).__name__}"
    )


@parameters_of.register(SphericalMixture)
@parameters_of.register(SphericalMixtureClusterer)
def _of_means(model: Any) -> list[Table]:
    means, weights = _numbers(model.means_), _numbers(model.weights_)
    variances = np.broadcast_to(_numbers(model.variance_), len(weights))
    columns = ["component", "weight", "variance", *_features(model)]
    return [Table("Components", columns, _stacked(weights, variances, means))]


@parameters_of.register(RegressionMixture)
def _of_lines(model: RegressionMixture) -> list[Table]:
    coef, shift, weights, noise = (
        _numbers(a) for a in (model.coef_, model.intercept_, model.weights_, model.noise_)
    )
    names = _features(model)
    lines = Table(
        "Lines",
        ["component", "weight", "noise", "intercept", *names],
        _stacked(weights, noise, shift, coef),
    )
    errors = _stacked(_numbers(model.intercept_errors_), _numbers(model.coef_errors_))
    return [lines, Table("Standard errors", ["component", "intercept", *names], errors)]


@parameters_of.register(ActivationSumRegressor)
def _of_directions(model: ActivationSumRegressor) -> list[Table]:
    if not hasattr(model, "directions_"):
        rows = [["degree", model.degree_], ["directions", len(model.polynomial_.basis)]]
        return [Table("Polynomial", ["parameter", "value"], rows)]
    parts = (
        model.weights_,
        model.weight_errors_,
        model.direction_errors_,
        model.directions_,
    )
    columns = ["component", "weight", "its error", "angle error (rad)", *_features(model)]
    return [Table("Directions", columns, _stacked(*map(_numbers, parts)))]


@parameters_of.register(SphericalMixtureDensity)
def _of_density(model: SphericalMixtureDensity) -> list[Table]:
    center = [[*pair] for pair in zip(_features(model), _numbers(model.center_), strict=True)]
    return [
        _density_table(model, "variance_"),
        Table("Centre of the Gaussian", ["column", "value"], center),
    ]


@parameters_of.register(RegressionMixtureDensity)
def _of_label_density(model: RegressionMixtureDensity) -> list[Table]:
    slope = [[*pair] for pair in zip(_features(model), _numbers(model.slope_), strict=True)]
    slope = [["intercept", model.intercept_], *slope]
    return [
        _density_table(model, "noise_"),
        Table("Line of least squares", ["column", "value"], slope),
    ]


DENSITY = {
    "degree_": ("degree", "Of the polynomial that multiplies a Gaussian."),
    "clip_": ("largest ratio to the Gaussian", "The polynomial is clipped there."),
    "normalizer_": ("normaliser", "The integral of the clipped polynomial times the Gaussian."),
    "acceptance_rate_": ("acceptance rate", "The part of proposals that sample() keeps."),
    "variance_": ("variance of the Gaussian", "That of the noise, along every direction."),
    "noise_": (
        "noise assumed by the expansion",
        "A standard deviation, read off the moments unless it is given. It holds the spread of "
        "the intercepts too, and is not the scatter about each line.",
    ),
}


def _density_table(model: Any, own: str) -> Table:
    names = ("degree_", "clip_", "normalizer_", "acceptance_rate_", own)
    rows = [[DENSITY[name][0], getattr(model, name)] for name in names]
    meanings = dict(DENSITY[name] for name in names)
    return Table("Density", ["parameter", "value"], rows, meanings)


def settings_of(model: Any) -> Table:
    """Return the parameters the estimator was made with, those that differ from default first."""
    given = model.get_params(deep=False)
    default = type(model)().get_params(deep=False)
    changed = frozenset(name for name in given if _differs(given[name], default[name]))
    rows = [
        [name, repr(given[name]), repr(default[name])]
        for name in sorted(given, key=lambda name: (name not in changed, name))
    ]
    note = "In bold: other than the default." if changed else "All are defaults."
    return Table("Settings", ["parameter", "value", "default"], rows, marked=changed, note=note)


def _differs(value: Any, default: Any) -> bool:
    return value is not default and repr(value) != repr(default)


def html_of(table: Table, name: str) -> str:
    """Return a table with a button that copies it; folded up where it is long."""
    first = table.rows[0] if table.rows else [""] * len(table.columns)
    head = "".join(
        f'<th scope="col"{_aligned(i, value)}>{escape(str(name))}</th>'
        for i, (name, value) in enumerate(zip(table.columns, first, strict=True))
        if i < MOST_COLUMNS
    )
    body = "".join(_html_row(row[:MOST_COLUMNS], table) for row in table.rows[:MOST_ROWS])
    inner = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.name)}">'
        f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
    cut = _cut(table)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    button = f'<button type="button" data-copies="{name}">Copy as TSV</button>'
    title = f"<h3>{escape(table.name)}</h3>{button}"
    if len(table.rows) > FOLDED:
        words = f"{counted(len(table.rows), 'row')}, {counted(len(table.columns), 'column')}"
        inner = f"<details><summary>{words}</summary>{inner}</details>"
    return f'<div class="table"><div class="bar">{title}</div>{note}{inner}{cut}</div>'


def _aligned(i: int, value: Any) -> str:
    return ' class="n"' if i and _is_number(value) else ""


def _cut(table: Table) -> str:
    if len(table.rows) <= MOST_ROWS and len(table.columns) <= MOST_COLUMNS:
        return ""
    return (
        f'<p class="note">The first {min(MOST_ROWS, len(table.rows)):,} of '
        f"{len(table.rows):,} rows and {min(MOST_COLUMNS, len(table.columns)):,} of "
        f"{len(table.columns):,} columns; the model holds all of them.</p>"
    )


def _html_row(row: Sequence[Any], table: Table) -> str:
    first, *others = row
    marked = ' class="changed"' if first in table.marked else ""
    meaning = table.meanings.get(first, "")
    title = f' title="{escape(meaning)}"' if meaning else ""
    cells = "".join(f"<td{_exactly(value)}>{escape(short(value))}</td>" for value in others)
    return f'<tr{marked}><th scope="row"{title}>{escape(short(first))}</th>{cells}</tr>'


def _exactly(value: Any) -> str:
    """Keep all digits for whoever copies."""
    if not _is_number(value):
        return ""
    return f' class="n" data-v="{float(value)!r}"'


def short(value: Any) -> str:
    """Write a cell: a number in few digits."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if _is_number(value):
        if not np.isfinite(float(value)):
            return "–" if np.isnan(float(value)) else "∞" if value > 0 else "−∞"
        return f"{float(value):.{DIGITS}g}".replace("-", "−")
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)


def _numbers(array: Any) -> Floats:
    return np.asarray(to_numpy(array), dtype=np.float64)


def _features(model: Any) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{i}" for i in range(model.n_features_in_)]


def _stacked(*parts: Floats) -> list[list[Any]]:
    table = np.column_stack(parts)
    return [[i, *(float(value) for value in row)] for i, row in enumerate(table)]
