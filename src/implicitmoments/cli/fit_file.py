"""Fit a model to a file of rows, and save it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.cli.columns import Columns, ModelColumns
from implicitmoments.cli.console import (
    UnwritableError,
    as_typed,
    bad_input,
    begin,
    joined,
    print_note,
    print_tables,
    print_warnings,
    show_progress,
)
from implicitmoments.cli.description import (
    model_document,
    model_tables,
    print_document,
    short_list,
)
from implicitmoments.cli.input_files import InputFiles
from implicitmoments.cli.input_rows import ModelRows, column_scales, open_table
from implicitmoments.cli.output import check_output
from implicitmoments.cli.sweep import compare_fits
from implicitmoments.column_names import feature_places, unnamed_columns
from implicitmoments.evaluation import DensityScores
from implicitmoments.notes import SENTENCES, CodedError, InputError
from implicitmoments.rows import COUNTED, FileTable, Table, counts_rows
from implicitmoments.saving import ModelFileError, save

FEW_ROWS = 20  # per component, below which a note is printed: means then have errors of 0.2
TARGETS_HINT = ", one of {names}"
LOOKED_AT = 1_024  # rows in which columns are examined; rarer text is found on reading
MOST_NAMED = 12  # columns in a suggestion


@dataclass(frozen=True)
class FitOptions:
    """How a model is fitted to a file, besides its parameters."""

    output: Path
    checkpoint: Path | None = None
    scale: bool = False  # divide the features by their standard deviations
    as_json: bool = False
    quiet: bool = False


def fit_file(
    models: Sequence[Any], files: InputFiles, columns: Columns, options: FitOptions
) -> None:
    """Fit a model to the rows of files, write it, and print a summary.

    Of several models, which differ in the number of components, the one of least BIC is written.
    """
    output, quiet = options.output, options.quiet
    _check_options(models, files, columns, options)
    clock = perf_counter()
    with show_progress(quiet) as progress, open_table(files, columns) as (source, _):
        if not quiet:
            _note_few_rows(models[-1], source)
            _note_columns(source, columns)
        rows: Table = source
        if options.scale:
            scales = column_scales(source, progress)
            rows = ModelRows(
                source,
                scale=scales,
                feature_names=source.feature_names,
                columns={**source.columns, "scale": scales},
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are among the notes of the model
            for model in models:
                begin(progress, f"fitting {_called(model, models)}")
                model.fit(rows, checkpoint=_journal(model, models, options), progress=progress)
            begin(progress, "measuring the fit")
            own, sweep = ModelColumns.of(models[0]), None
            if len(models) > 1:
                sweep = compare_fits(models, rows, own.log_volume(models[0]))
            model = models[0] if sweep is None else sweep.chosen()
            score = _level(model, rows, own)
        counts = {"rows": source.n_rows, "dropped": source.n_dropped}
    try:
        save(model, output)
    except ModelFileError as reason:
        raise UnwritableError(reason.code, reason.template, **reason.values) from reason
    seconds = perf_counter() - clock
    if options.as_json:
        measured = {**counts, "score": score, "seconds": round(seconds, 3)}
        document = model_document(model, model.get_params(deep=False), own)
        swept = {} if sweep is None else sweep.document()
        print_document(document | measured | swept | {"output": str(output)})
    elif quiet:
        print_warnings(model.notes_)
    else:
        shown = [] if sweep is None else [sweep.table(), sweep.choice().sentence(as_typed)]
        shown += model_tables(model, own, _first_lines(model, own, counts, score))
        print_tables(*shown, f"wrote {output} after {seconds:.1f} s")


def _called(model: Any, models: Sequence[Any]) -> str:
    """Return what the progress calls a model: one of several by its number of components."""
    return model.kind if len(models) == 1 else f"-k {model.n_components}"


def _check_options(
    models: Sequence[Any], files: InputFiles, columns: Columns, options: FitOptions
) -> None:
    """Raise before any work for what cannot be written or fitted."""
    check_output(options.output, *files.paths)
    for model in models:
        checkpoint = _journal(model, models, options)
        if checkpoint is None:
            continue
        check_output(checkpoint, *files.paths, option="--checkpoint")
        if checkpoint.resolve() == options.output.resolve():
            raise bad_input("output_is_checkpoint", path=options.output)
    model = models[0]
    if model.labelled and columns.target is None:
        names = _possible_targets(files, columns)
        sentence = SENTENCES["target_required"] + (TARGETS_HINT if names else "")
        raise InputError("target_required", sentence, kind=model.kind, names=names)
    if columns.target is not None and not model.labelled:
        raise bad_input("target_not_used", kind=model.kind)
    if len(models) > 1 and not hasattr(model, "bic"):
        raise bad_input("no_criterion", kind=model.kind)


def _possible_targets(files: InputFiles, columns: Columns) -> list[str]:
    """Return the columns of numbers that are neither features nor weights."""
    try:
        with open_table(files, Columns(), keep_missing=True) as (source, _):
            names: Sequence[str] = source.feature_names or unnamed_columns(source.n_features)
    except CodedError as error:  # it names the columns of numbers where others hold text
        names = error.values.get("numeric", [])
    return [name for name in names if name not in {*(columns.features or ()), columns.weight}]


def _journal(model: Any, models: Sequence[Any], options: FitOptions) -> Path | None:
    """Return the checkpoint of a model: one of several has its own, ``rows.journal.k3``."""
    path = options.checkpoint
    if path is None or len(models) == 1:
        return path
    return path.with_name(f"{path.name}.k{model.n_components}")


def _level(model: Any, rows: Table, own: ModelColumns) -> float | None:
    """Return how well a model describes the rows that were fitted, in the units of the file.

    The mean log density without outliers that the fit left out, or R²; None for clusters.
    """
    if not hasattr(model, "score"):
        return None
    densities = isinstance(model, DensityScores)
    level = model._log_likelihood(rows).near.mean if densities else float(model.score(rows))
    return level - own.log_volume(model)


def _first_lines(
    model: Any, own: ModelColumns, counts: dict[str, int], score: float | None
) -> list[tuple[str, str]]:
    """Return the lines shown before the findings."""
    rows = [("rows", f"{counts['rows']:,}")]
    if counts["dropped"]:
        rows.append(("incomplete rows dropped", f"{counts['dropped']:,}"))
    rows += [("features", str(own.n_features)), ("columns", short_list(own.labels))]
    return rows if score is None else [*rows, (model.score_name, f"{score:.5g}")]


def _note_few_rows(model: Any, source: FileTable) -> None:
    """Print before fitting that there are few rows per component."""
    k, n = model.n_components, source.n_rows
    if not isinstance(k, int) or k < 2:
        return
    unknowns = k * (source.n_features + 1) if model.labelled else k  # more than rows are refused
    if unknowns <= n < FEW_ROWS * k:
        print_note("few_rows_per_component_asked", k=k, n=n / k)


def _note_columns(source: FileTable, columns: Columns) -> None:
    """Print which columns number the rows or hold what ``predict`` wrote, unless typed.

    Rows of several files may be numbered in each file: the first one is examined.
    """
    n = source._parts[0][1]
    if columns.features or source.n_features < 2 or n < COUNTED:
        return
    names = source.feature_names or feature_places(source.columns, source.n_features)
    x = source.pick(np.arange(min(n, LOOKED_AT)))["x"]
    last = source.pick(np.array([n - 1]))["x"][0]
    doubtful: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, column, end in zip(names, x.T, last, strict=True):
        if counts_rows(column) and end - column[0] == n - 1:
            doubtful[name] = ("column_counts_rows", {"first": column[0], "last": end})
        elif name == "component" and np.all((column >= 0) & (column == np.floor(column))):
            doubtful[name] = ("column_of_answers", {})
    others = [name for name in names if name not in doubtful]
    option = f"--columns {joined(others)}" if 0 < len(others) <= MOST_NAMED else "--columns"
    for name, (code, values) in doubtful.items():
        print_note(code, column=name, option=option, **values)
