"""From a file of rows to a model file."""

from __future__ import annotations

import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.cli.console import print_note, print_tables, show_progress
from implicitmoments.cli.errors import UnwritableError, bad_input
from implicitmoments.cli.input_table import open_table
from implicitmoments.cli.model_columns import ModelColumns, ModelRows, column_scales
from implicitmoments.cli.options import Columns, check_output
from implicitmoments.cli.summary import model_document, model_tables, print_document, short_list
from implicitmoments.cli.vocabulary import joined
from implicitmoments.rows import Source
from implicitmoments.rows.files import FileSource
from implicitmoments.saving import ModelFileError, save

FEW_ROWS = 20  # per component
LOOKED_AT = 1_024  # rows in which a column is looked at
COUNTED = 20  # rows that a column must count: fewer may be a coincidence
MOST_NAMED = 12  # columns in a suggestion


def fit_file(
    model: Any,
    file: str,
    columns: Columns,
    output: Path,
    checkpoint: Path | None,
    *,
    scale: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit a model to the rows of a file, write it, and print what was found."""
    _check_files(file, output, checkpoint)
    _check_target(model, columns)
    clock = perf_counter()
    with show_progress(quiet) as progress, open_table(file, columns) as (source, _):
        if not quiet:
            _note_few_rows(model, source)
            _note_columns(source, columns)
        rows: Source = source
        if scale:
            scales = column_scales(source, progress)
            rows = ModelRows(
                source,
                scale=scales,
                feature_names=source.feature_names,
                columns={**source.columns, "scale": scales},
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are among the notes of the model
            model.fit(rows, checkpoint=checkpoint, progress=progress)
            own = ModelColumns.of(model)
            score = model.score(rows) - own.log_volume(model) if hasattr(model, "score") else None
        counts = {"rows": source.n_rows, "dropped": source.n_dropped}
    _save(model, output)
    seconds = perf_counter() - clock
    if as_json:
        measured = {**counts, "score": score, "seconds": round(seconds, 3)}
        print_document(model_document(model, own) | measured | {"output": str(output)})
    elif not quiet:
        ending = f"wrote {output} after {seconds:.1f} s"
        print_tables(*model_tables(model, own, _rows(model, own, counts, score)), ending)


def _rows(
    model: Any, own: ModelColumns, counts: dict[str, int], score: float | None
) -> list[tuple[str, str]]:
    """Return what is shown before the findings."""
    rows = [("rows", f"{counts['rows']:,}")]
    if counts["dropped"]:
        rows.append(("incomplete rows dropped", f"{counts['dropped']:,}"))
    rows += [("features", str(own.n_features)), ("columns", short_list(own.labels))]
    return rows if score is None else [*rows, (model.score_name, f"{score:.5g}")]


def _check_files(file: str, output: Path, checkpoint: Path | None) -> None:
    check_output(output, file)
    if checkpoint is None:
        return
    check_output(checkpoint, file, option="--checkpoint")
    if checkpoint.resolve() == output.resolve():
        raise bad_input("output_is_checkpoint", path=output)


def _check_target(model: Any, columns: Columns) -> None:
    if model.labelled and columns.target is None:
        raise bad_input("target_required", kind=model.kind)
    if not model.labelled and columns.target is not None:
        raise bad_input("target_not_used", kind=model.kind)


def _note_few_rows(model: Any, source: FileSource) -> None:
    """Print before the work that it may be long and in vain."""
    k, n = model.n_components, source.n_rows
    if not isinstance(k, int) or k < 2:
        return
    unknowns = k * (source.n_features + 1) if model.labelled else k  # more than rows are refused
    if unknowns <= n < FEW_ROWS * k:
        print_note("few_rows_per_component_asked", k=k, n=n / k)


def _note_columns(source: FileSource, columns: Columns) -> None:
    """Print which columns number the rows or hold what ``predict`` wrote, unless typed."""
    if columns.features or source.n_features < 2 or source.n_rows < COUNTED:
        return
    names = source.feature_names or tuple(map(str, range(source.n_features)))
    x = source.pick(np.arange(min(source.n_rows, LOOKED_AT)))["x"]
    last = source.pick(np.array([source.n_rows - 1]))["x"][0]
    doubtful: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, column, end in zip(names, x.T, last, strict=True):
        counts = column[0] == np.floor(column[0]) and np.all(np.diff(column) == 1)
        if counts and end - column[0] == source.n_rows - 1:
            doubtful[name] = ("column_counts_rows", {"first": column[0], "last": end})
        elif name == "component" and np.all((column >= 0) & (column == np.floor(column))):
            doubtful[name] = ("column_of_answers", {})
    others = [name for name in names if name not in doubtful]
    option = f"--columns {joined(others)}" if 0 < len(others) <= MOST_NAMED else "--columns"
    for name, (code, values) in doubtful.items():
        print_note(code, column=name, option=option, **values)


def _save(model: Any, path: Path) -> None:
    try:
        save(model, path)
    except ModelFileError as reason:
        raise UnwritableError(reason.code, reason.template, **reason.values) from reason
