"""Parameters, statistics and settings of a model as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from numbers import Integral, Real
from typing import Any

import numpy as np

from implicitmoments.backends import Floats, to_numpy
from implicitmoments.learners import (
    ActivationSumRegressor,
    RegressionMixture,
    RegressionMixtureDensity,
    SphericalMixture,
    SphericalMixtureClusterer,
    SphericalMixtureDensity,
)

__all__ = ["Table", "html_of", "parameters_of", "settings_of", "statistics_of"]

MOST_ROWS, MOST_COLUMNS = 300, 120  # of a table on a page; the model has the rest
FOLDED = 25  # rows from which a table is folded up
MOST_ENTRIES = 12  # of a statistic that is a mapping
DIGITS = 5
ELSEWHERE = ("spectra", "noise_floor", "ranks", "moment_orders", "group_stats", "notes")


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
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


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
        Table("Density", ["parameter", "value"], _density_rows(model, "variance_")),
        Table("Centre", ["column", "value"], center),
    ]


@parameters_of.register(RegressionMixtureDensity)
def _of_label_density(model: RegressionMixtureDensity) -> list[Table]:
    slope = [[*pair] for pair in zip(_features(model), _numbers(model.slope_), strict=True)]
    rows = _density_rows(model, "intercept_", "noise_")
    return [
        Table("Density", ["parameter", "value"], rows),
        Table("Slope of least squares", ["column", "value"], slope),
    ]


def _density_rows(model: Any, *own: str) -> list[list[Any]]:
    names = ("degree_", "clip_", "normalizer_", "acceptance_rate_", *own)
    words = (name.rstrip("_").replace("_", " ") for name in names)
    return [[word, getattr(model, name)] for word, name in zip(words, names, strict=True)]


def statistics_of(model: Any) -> Table:
    """Return what was measured, as far as it is a number, a word or a few of them."""
    rows = [
        [name.replace("_", " "), value]
        for key, given in model.stats_.items()
        if key not in ELSEWHERE and not key.endswith("_history")
        for name, value in _flat(key, given)
    ]
    return Table("Statistics", ["statistic", "value"], rows)


def settings_of(model: Any) -> Table:
    """Return the parameters the estimator was made with, those that differ from default first."""
    given = model.get_params(deep=False)
    default = type(model)().get_params(deep=False)
    changed = {name: _differs(given[name], default[name]) for name in given}
    rows = [
        [name, repr(given[name]), "no" if changed[name] else "yes"]
        for name in sorted(given, key=lambda name: (not changed[name], name))
    ]
    return Table("Settings", ["parameter", "value", "default"], rows)


def _differs(value: Any, default: Any) -> bool:
    return value is not default and repr(value) != repr(default)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if len(value) <= MOST_ENTRIES:
            for key, entry in value.items():
                yield from _flat(f"{name}: {key}", entry)
    elif value is None or isinstance(value, str | Real | np.generic):
        yield name, value
    elif isinstance(value, tuple | list) and _few_numbers(value):
        yield name, ", ".join(_short(entry) for entry in value)


def _few_numbers(value: Sequence[Any]) -> bool:
    return len(value) <= MOST_ENTRIES and all(_is_number(entry) for entry in value)


def html_of(table: Table, name: str) -> str:
    """Return a table with a button that copies it; folded up where it is long."""
    first = table.rows[0] if table.rows else [""] * len(table.columns)
    head = "".join(
        f'<th scope="col"{_aligned(i, value)}>{escape(str(name))}</th>'
        for i, (name, value) in enumerate(zip(table.columns, first, strict=True))
        if i < MOST_COLUMNS
    )
    body = "".join(_html_row(row[:MOST_COLUMNS]) for row in table.rows[:MOST_ROWS])
    inner = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.name)}">'
        f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
    cut = _cut(table)
    button = f'<button type="button" data-copies="{name}">Copy as TSV</button>'
    title = f"<h3>{escape(table.name)}</h3>{button}"
    if len(table.rows) > FOLDED:
        words = f"{len(table.rows):,} rows, {len(table.columns):,} columns"
        inner = f"<details><summary>{words}</summary>{inner}</details>"
    return f'<div class="table"><div class="bar">{title}</div>{inner}{cut}</div>'


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


def _html_row(row: Sequence[Any]) -> str:
    first, *others = row
    cells = "".join(f"<td{_exactly(value)}>{escape(_short(value))}</td>" for value in others)
    return f'<tr><th scope="row">{escape(_short(first))}</th>{cells}</tr>'


def _exactly(value: Any) -> str:
    """Keep all digits for whoever copies."""
    if not _is_number(value):
        return ""
    return f' class="n" data-v="{float(value)!r}"'


def _short(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if _is_number(value):
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
