"""Commands that show a fitted model: ``describe`` and ``report``."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

import implicitmoments
from implicitmoments.cli.console import plain_errors, show
from implicitmoments.cli.options import (
    AsJson,
    Debug,
    FeatureNames,
    ModelFile,
    Quiet,
    Rows,
    Target,
)
from implicitmoments.cli.reading import Columns, columns_for, open_table
from implicitmoments.cli.summary import (
    component_table,
    document_of,
    feature_names,
    finding_table,
    notes_of,
)
from implicitmoments.cli.writing import check_output

__all__ = ["DESCRIBE", "REPORT", "describe", "report"]

DESCRIBE = """\b
Examples:
  implicitmoments describe model.im
  implicitmoments describe model.im --json | jq .found.means
"""
REPORT = """\b
Examples:
  implicitmoments report model.im rows.csv -o report.html --open
  implicitmoments report lines.im tones.csv --target tuned --title "Tones"
"""


def describe(model: ModelFile, as_json: AsJson = False, debug: Debug = False) -> None:
    """Tell what a model file holds: what was found, parameters, and notes of the fit."""
    with plain_errors(debug):
        fitted = implicitmoments.load(model)
        if as_json:
            typer.echo(json.dumps(document_of(fitted), indent=2, ensure_ascii=False))
            sys.stdout.flush()
            return
        kept = getattr(fitted, "columns_", {})
        rows = [
            ("model", type(fitted).__name__),
            ("features", ", ".join(feature_names(fitted))),
            *((name, kept[name]) for name in ("target", "weight") if name in kept),
        ]
        table = component_table(fitted)
        parameters = fitted.get_params(deep=False).items()
        show(
            *([] if table is None else [table]),
            finding_table(fitted, rows),
            "parameters: " + ", ".join(f"{name}={value!r}" for name, value in parameters),
            *notes_of(fitted),
        )


def report(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    file: Rows,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The page to write; replaced.")
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="Of the page.")] = None,
    columns: FeatureNames = None,
    target: Target = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser afterwards.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one HTML page about a model and the rows: verdict, pictures, numbers."""
    with plain_errors(debug):
        check_output(output, kinds=(".html", ".htm"), read=file)
        try:
            from implicitmoments.report import write_report  # noqa: PLC0415 (draws: an extra)
        except ModuleNotFoundError as missing:
            raise ImportError(
                f"the report needs {missing.name}; pip install 'implicitmoments[plot]'"
            ) from missing
        fitted = implicitmoments.load(model)
        chosen = columns_for(fitted, file, Columns.typed(columns, target), labelled=True)
        with open_table(file, chosen) as source:
            rows = "standard input" if file == "-" else Path(file).name
            names = f"Rows of {rows}, model {model.name}"
            written = write_report(fitted, source, path=output, title=title, subtitle=names)
        if as_json:
            typer.echo(json.dumps({"output": str(written)}))
        elif not quiet:
            show(f"wrote {written}")
        if open_page:
            webbrowser.open(written.resolve().as_uri())
