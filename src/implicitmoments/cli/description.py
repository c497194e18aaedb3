"""A fitted model as a table or a document. Nothing here imports SciPy or scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.arrays import to_numpy
from implicitmoments.cli.columns import ModelColumns
from implicitmoments.cli.console import as_typed, check_model_path, print_line, print_tables
from implicitmoments.description import Table as Parameters
from implicitmoments.description import findings_of, short_number
from implicitmoments.notes import Note, Notes
from implicitmoments.registry import ESTIMATORS
from implicitmoments.saving import load

MOST_COMPONENTS, MOST_FEATURES = 12, 6  # in a printed table: terminals have 80 columns, 24 lines
# notes after which scaling of the columns is suggested
UNLIKE_COLUMNS = ("flat_direction",)


def describe_file(path: Path, *, as_json: bool) -> None:
    """Print the contents of a model file."""
    model, parameters = load_described(path)
    columns = ModelColumns.of(model)
    if as_json:
        print_document(model_document(model, parameters, columns))
        return
    rows = [
        ("model", ESTIMATORS[model.kind]),
        ("features", ", ".join(columns.labels)),
        *((name, columns.given[name]) for name in ("target", "weight") if name in columns.given),
    ]
    values = (f"{name}={value!r}" for name, value in parameters.items())
    between = ["parameters: " + ", ".join(values)]
    if _notes(model, columns):
        between.append("notes of the fit, with the options of implicitmoments fit:")
    print_tables(*model_tables(model, columns, rows, between=between))


def load_described(path: Path) -> tuple[Any, dict[str, Any]]:
    """Load what a model file shows of itself, and its parameters; without its estimator."""
    check_model_path(path)
    model = load(path)
    return model, model.get_params(deep=False)


def model_document(
    model: Any, parameters: Mapping[str, Any], columns: ModelColumns
) -> dict[str, Any]:
    """Return a fitted model as a document."""
    found = {name.rstrip("_"): getattr(model, name, None) for name in model.results}
    document = {
        "model": model.kind,
        "estimator": ESTIMATORS[model.kind],
        "features": columns.labels,
        "columns": columns.given,
        "parameters": parameters,
        "found": {
            name: to_numpy(value) if hasattr(value, "shape") else value
            for name, value in found.items()
            if value is not None
        },
    }
    notes = _notes(model, columns)
    if columns.scale is not None:
        notes.append(Note("found_is_scaled"))
        found_in_units = columns.in_file_units(model).items()
        in_units = {name.rstrip("_"): value for name, value in found_in_units}
        deviations = columns.deviations(model)
        if deviations is not None:
            in_units["standard_deviations"] = deviations
        document["scale"] = dict(zip(columns.labels, columns.scale, strict=True))
        document["in_file_units"] = in_units
    document["notes"] = [
        {"code": note.code, "sentence": note.sentence(as_typed), "values": note.values}
        for note in notes
    ]
    return document


def print_document(document: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print a document as JSON, with null for undefined numbers."""
    print_line(as_json_text(document, indent))


def as_json_text(document: Any, indent: int | None = None) -> str:
    r"""Return a document as JSON; what a terminal does not print is written as escapes.

    Examples
    --------
    >>> print(as_json_text({"é": chr(0x9B) + "2J"}))
    {"é": "\u009b2J"}
    """
    text = json.dumps(as_json_values(document), indent=indent, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def as_json_values(value: Any) -> Any:
    """Return a JSON-compatible value: lists of numbers, and null for non-finite ones.

    Examples
    --------
    >>> import numpy as np
    >>> as_json_values({"weights": np.array([0.5, np.nan]), "k": np.int64(2)})
    {'weights': [0.5, None], 'k': 2}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): as_json_values(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_values(each) for each in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def model_tables(
    model: Any,
    columns: ModelColumns,
    rows: Sequence[tuple[str, str]] = (),
    between: Sequence[str] = (),
) -> list[Any]:
    """Return the printed summary of a fitted model: components, findings, notes.

    ``rows`` of names and values come before the findings, ``between`` after them.
    """
    findings = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    hidden = {"weights", model.score_name}  # in the table of components, and among the rows
    found = {name: value for name, value in findings_of(model).items() if name not in hidden}
    for name, value in (*rows, *found.items(), *_scaled_rows(model, columns)):
        scaled = name == "variance" and columns.scale is not None
        findings.add_row("variance (scaled)" if scaled else name, value)
    notes = [f"note: {note.sentence(as_typed)}" for note in _notes(model, columns)]
    return [*_component_tables(model, columns), findings, *between, *notes]


def short_list(words: Sequence[str]) -> str:
    """Return words separated by commas; long lists are truncated.

    Examples
    --------
    >>> short_list([f"x{j}" for j in range(9)])
    'x0, x1, x2, x3, …, x8 (9)'
    """
    if len(words) <= MOST_FEATURES:
        return ", ".join(words)
    return ", ".join([*words[: MOST_FEATURES - 2], "…", words[-1]]) + f" ({len(words):,})"


def parameter_columns(model: Any, columns: ModelColumns) -> dict[str, list[Any]]:
    """Return the fitted parameters as columns with one entry per component, in file units.

    Columns of further tables, such as standard errors, are named after them. A density has names
    and values of its parameters.
    """
    first, *others = columns.units.described(model)._parameter_tables()
    joined = {name: [row[j] for row in first.rows] for j, name in enumerate(first.columns)}
    if first.columns[1:] == ["value"]:
        names = ("parameter", "value")
        rows = [row for table in (first, *others) for row in table.rows]
        return {name: [row[j] for row in rows] for j, name in enumerate(names)}
    for table in others:
        of = table.name.lower().removesuffix("s")
        for j, name in enumerate(table.columns[1:], start=1):
            joined[f"{of} of {name}"] = [row[j] for row in table.rows]
    return joined


def _component_tables(model: Any, columns: ModelColumns) -> list[Table]:
    """Return tables of the first components, in the units of the file.

    Means or coefficients, and standard deviations where components have covariances.
    """
    if not model.vectors or not hasattr(model, model.vectors):
        return []
    number = 2 if hasattr(model, "covariances_") else 1
    tables = columns.units.described(model)._parameter_tables()[:number]
    return [_shown_table(each, columns.n_features) for each in tables]


def _shown_table(found: Parameters, d: int) -> Table:
    """Return a table whose last ``d`` columns are features, cut to what a terminal shows."""
    cut = d > MOST_FEATURES
    shown = len(found.columns) - d + (MOST_FEATURES - 1 if cut else d)
    table = Table(box=SIMPLE_HEAD, title=found.name)
    for head in [*found.columns[:shown], *["…"] * cut]:
        table.add_column(head, justify="right")
    for row in found.rows[:MOST_COMPONENTS]:
        table.add_row(
            *(short_number(v) if isinstance(v, float) else str(v) for v in row[:shown]),
            *["…"] * cut,
        )
    if len(found.rows) > MOST_COMPONENTS:
        table.caption = f"{len(found.rows) - MOST_COMPONENTS} more; --json has all of them"
    return table


def _scaled_rows(model: Any, columns: ModelColumns) -> list[tuple[str, str]]:
    """Return the scale of the columns, and their deviation within components."""
    deviations = columns.deviations(model)
    named = {"columns were divided by": columns.scale}
    if deviations is not None and deviations.ndim == 1:
        named["standard deviation within components"] = deviations
    return [
        (
            what,
            short_list(
                [f"{n} {short_number(v)}" for n, v in zip(columns.labels, numbers, strict=True)]
            ),
        )
        for what, numbers in named.items()
        if numbers is not None
    ]


def _notes(model: Any, columns: ModelColumns) -> Notes:
    """Return the notes of a fit, and what the command line adds to them."""
    notes = Notes(model.notes_)
    if not set(notes.codes).isdisjoint(UNLIKE_COLUMNS):
        notes.append(Note("scale_columns" if columns.scale is None else "columns_were_scaled"))
    return notes
