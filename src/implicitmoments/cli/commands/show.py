"""Commands that show a fitted model: ``describe`` and ``report``."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from implicitmoments.cli.console import plain_errors, remark, say
from implicitmoments.cli.options import (
    AsJson,
    Columns,
    Debug,
    DropMissing,
    FeatureNames,
    ModelFile,
    Quiet,
    Rows,
    Target,
)

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
    from implicitmoments.cli.show_model import describe_model  # noqa: PLC0415 (SciPy)

    with plain_errors(debug):
        describe_model(model, as_json=as_json)


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
    drop_missing: DropMissing = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser afterwards.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one HTML page about a model and the rows: verdict, pictures, numbers."""
    from implicitmoments.cli.show_model import report_model  # noqa: PLC0415 (SciPy)

    with plain_errors(debug):
        chosen = Columns.typed(columns, target, drop_missing=drop_missing)
        written = report_model(model, file, chosen, output, title=title, quiet=quiet)
        if as_json:
            say(json.dumps({"output": str(written)}))
        elif not quiet:
            say(f"wrote {written}")
        if open_page and not webbrowser.open(written.resolve().as_uri()):
            remark(f"there is no browser to open; open {written} in one yourself")
