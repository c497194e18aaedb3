"""What a fitted model says of itself: tables of parameters, findings and notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from implicitmoments.cli.console import as_table, print_notes, print_text
from implicitmoments.cli.files import check_output, unused, write_table
from implicitmoments.estimator import column_names, findings_of
from implicitmoments.notes import format_value, printable
from implicitmoments.saving import load


def describe_file(path: Path, output: Path | None) -> None:
    """Print what a model file holds, or write the parameters of its components."""
    check_output(output, [path])
    model = load(path)
    if output is not None:
        write_table(output, [parameter_columns(model)])
        return
    parameters = ", ".join(f"{name}={value!r}" for name, value in model.get_params().items())
    print_text(*summary(model), f"parameters: {printable(parameters)}")
    print_notes(model.notes_)


def summary(model: Any) -> list[Any]:
    """Return tables of the components and of the findings of a fit."""
    tables = [as_table(table.name, as_columns(table)) for table in model._parameter_tables()]
    rows = {
        "model": type(model).__name__,
        "features": format_value(column_names(model), ""),
        **getattr(model, "columns_in_", {}),
        **findings_of(model),
    }
    findings = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows.pop("weights", None)  # a column of the first table
    for name, value in rows.items():
        findings.add_row(name, printable(str(value)))
    return [*tables, findings]


def as_columns(table: Any) -> dict[str, list[Any]]:
    """Return the columns of a table by name; a feature may have the name of a parameter."""
    columns: dict[str, list[Any]] = {}
    for j, name in enumerate(table.columns):
        columns[unused(name, columns)] = [row[j] for row in table.rows]
    return columns


def parameter_columns(model: Any) -> dict[str, list[Any]]:
    """Return the parameters with one row per component; other tables add their names."""
    first, *others = model._parameter_tables()
    columns = as_columns(first)
    for table in others:
        for name, values in list(as_columns(table).items())[1:]:
            columns[f"{table.name.lower()}: {name}"] = values
    return columns
