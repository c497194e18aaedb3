"""A fitted model as a short table, and as a JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.cli.console import print_line, print_tables
from implicitmoments.cli.model_columns import ModelColumns, load_model
from implicitmoments.cli.vocabulary import COMMAND_LINE
from implicitmoments.estimator import findings_of
from implicitmoments.notes import Note, Notes

MOST_COMPONENTS, MOST_FEATURES = 12, 6  # in a printed table (starting values)
# notes after which scaling of the columns is suggested
UNLIKE_COLUMNS = ("columns_differ_in_spread", "flat_direction")


def describe_file(path: Path, *, as_json: bool) -> None:
    """Print the contents of a model file."""
    model, columns = load_model(path)
    if as_json:
        print_document(model_document(model, columns))
        return
    rows = [
        ("model", type(model).__name__),
        ("features", ", ".join(columns.labels)),
        *((name, columns.given[name]) for name in ("target", "weight") if name in columns.given),
    ]
    parameters = model.get_params(deep=False).items()
    written = "parameters: " + ", ".join(f"{name}={value!r}" for name, value in parameters)
    print_tables(*model_tables(model, columns, rows, between=[written]))


def model_document(model: Any, columns: ModelColumns) -> dict[str, Any]:
    """Return a fitted model as a document."""
    found = {name.rstrip("_"): getattr(model, name, None) for name in model.results}
    document = {
        "model": model.kind,
        "estimator": type(model).__name__,
        "features": columns.labels,
        "columns": columns.given,
        "parameters": model.get_params(deep=False),
        "found": {
            name: to_numpy(value) if hasattr(value, "shape") else value
            for name, value in found.items()
            if value is not None
        },
    }
    notes = _notes(model, columns)
    if columns.scale is not None:
        notes.append(Note("found_is_scaled"))
        units = (*model.points, *model.slopes)
        in_units = {
            name.rstrip("_"): columns.in_file_units(model, name)
            for name in units
            if hasattr(model, name)
        }
        deviations = columns.deviations(model)
        if deviations is not None:
            in_units["standard_deviations"] = deviations
        document["scale"] = dict(zip(columns.labels, columns.scale, strict=True))
        document["in_file_units"] = in_units
    document["notes"] = [
        {"code": note.code, "sentence": note.sentence(COMMAND_LINE), "values": note.values}
        for note in notes
    ]
    return document


def print_document(document: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print a document as JSON, with null for undefined numbers."""
    print_line(json.dumps(as_json_values(document), indent=indent, ensure_ascii=False))


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
    notes = [f"note: {note.sentence(COMMAND_LINE)}" for note in _notes(model, columns)]
    return [*_component_table(model, columns), findings, *between, *notes]


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


def _component_table(model: Any, columns: ModelColumns) -> list[Table]:
    """Return a table of the first components, in the units of the file."""
    if not model.vectors or not hasattr(model, model.vectors):
        return []
    found = columns.model_in_file_units(model)._parameter_tables()[0]
    d = columns.n_features
    cut = d > MOST_FEATURES
    shown = len(found.columns) - d + (MOST_FEATURES - 1 if cut else d)
    table = Table(box=SIMPLE_HEAD, title=found.name)
    for head in [*found.columns[:shown], *["…"] * cut]:
        table.add_column(head, justify="right")
    for row in found.rows[:MOST_COMPONENTS]:
        table.add_row(*(_cell(value) for value in row[:shown]), *["…"] * cut)
    if len(found.rows) > MOST_COMPONENTS:
        table.caption = f"{len(found.rows) - MOST_COMPONENTS} more; --json has all of them"
    return [table]


def _scaled_rows(model: Any, columns: ModelColumns) -> list[tuple[str, str]]:
    """Return the scale of the columns, and their deviation within components."""
    deviations = columns.deviations(model)
    named = {"columns were divided by": columns.scale}
    if deviations is not None and deviations.ndim == 1:
        named["standard deviation within components"] = deviations
    return [(name, _by_column(columns, n)) for name, n in named.items() if n is not None]


def _by_column(columns: ModelColumns, numbers: Floats) -> str:
    pairs = zip(columns.labels, numbers, strict=True)
    return short_list([f"{name} {value:.4g}" for name, value in pairs])


def _notes(model: Any, columns: ModelColumns) -> Notes:
    """Return the notes of a fit, and what the command line adds to them."""
    notes = Notes(model.notes_)
    if not set(notes.codes).isdisjoint(UNLIKE_COLUMNS):
        notes.append(Note("scale_columns" if columns.scale is None else "columns_were_scaled"))
    return notes


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
