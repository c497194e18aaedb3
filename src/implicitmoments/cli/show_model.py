"""A fitted model shown: as a table, as JSON, or as a page about it and its rows."""

from __future__ import annotations

import json
from pathlib import Path

from implicitmoments.cli.align_columns import open_for_model
from implicitmoments.cli.console import naming, say
from implicitmoments.cli.open_table import columns_for, load_model
from implicitmoments.cli.options import Columns
from implicitmoments.cli.scale import names_kept, with_scaled_names
from implicitmoments.cli.summary import (
    component_table,
    document_of,
    feature_names,
    finding_table,
    notes_of,
)
from implicitmoments.cli.write_table import check_output, show

__all__ = ["describe_model", "report_model"]


def describe_model(model: Path, *, as_json: bool) -> None:
    """Print what a model file holds."""
    fitted = load_model(model)
    if as_json:
        say(json.dumps(document_of(fitted), indent=2, ensure_ascii=False))
        return
    kept = names_kept(fitted)
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


def report_model(
    model: Path,
    file: str,
    columns: Columns,
    output: Path,
    *,
    title: str | None,
    quiet: bool,
) -> Path:
    """Write a page about a model and the rows, and return where it is."""
    check_output(output, file, model, kinds=(".html", ".htm"))
    try:
        from implicitmoments.report import write_report  # noqa: PLC0415 (draws: an extra)
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"the report needs {missing.name}; pip install 'implicitmoments[plot]'"
        ) from missing
    loaded = load_model(model)
    fitted = with_scaled_names(loaded, feature_names(loaded))
    chosen = columns_for(loaded, file, columns, labelled=True)
    with naming(str(output)), open_for_model(loaded, file, chosen, quiet=quiet) as (source, _):
        rows = "standard input" if file == "-" else Path(file).name
        names = f"Rows of {rows}, model {model.name}"
        return write_report(fitted, source, path=output, title=title, subtitle=names)
