"""From a file of rows to a file of a model."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import implicitmoments
from implicitmoments.cli.build_model import LABELLED, word_of
from implicitmoments.cli.column_warnings import doubtful_columns
from implicitmoments.cli.console import remark, say
from implicitmoments.cli.open_table import open_table, remembered
from implicitmoments.cli.options import Columns
from implicitmoments.cli.progress import told_passes
from implicitmoments.cli.scale import ModelRows, column_scales, log_volume
from implicitmoments.cli.summary import (
    component_table,
    document_of,
    feature_names,
    finding_table,
    listed,
    notes_of,
)
from implicitmoments.cli.write_table import check_output, show
from implicitmoments.rows import ProgressSource, Source
from implicitmoments.rows.files import FileSource
from implicitmoments.saving import ModelFileError

__all__ = ["fit_file"]

FEW_ROWS = 20  # a component


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
    """Fit a model to the rows of a file, write it to another and tell what was found."""
    check_output(output, file)
    if checkpoint is not None:
        check_output(checkpoint, file, option="--checkpoint")
        if checkpoint.resolve() == output.resolve():
            raise ValueError(
                f"{output} is named by -o and by --checkpoint; give one of them another name"
            )
    _check_target(model, columns)
    clock = perf_counter()
    with told_passes(quiet) as progress, open_table(file, columns) as source:
        if not quiet:
            _warn_of_many(model, source)
            for words in [] if columns.features else doubtful_columns(source):
                remark(words)
        rows: Source = source
        kept = remembered(columns, source)
        if scale:
            told = source if progress is None else ProgressSource(source, progress)
            kept["scale"] = column_scales(told)
            rows = ModelRows(source, scale=kept["scale"], feature_names=source.feature_names)
        _learn(model, rows, checkpoint, progress)
        model.columns_ = kept
        score = _score(model, rows)
        counted = {"rows": source.n_rows, "dropped": source.n_dropped}
    _save(model, output)
    seconds = perf_counter() - clock
    if as_json:
        measured = {**counted, "score": score, "seconds": round(seconds, 3)}
        document = document_of(model) | measured | {"output": str(output)}
        say(json.dumps(document, indent=2, ensure_ascii=False))
    elif not quiet:
        _show(model, counted, score, seconds, output)


def _check_target(model: Any, columns: Columns) -> None:
    word, labelled = word_of(model), isinstance(model, LABELLED)
    if labelled and columns.target is None:
        raise ValueError(f"{word} learns labels from features; name their column by --target")
    if not labelled and columns.target is not None:
        raise ValueError(
            f"{word} has no labels, so --target does not apply; name the features by --columns"
        )


def _warn_of_many(model: Any, source: FileSource) -> None:
    """Say before the work that it may be long and in vain."""
    k, n = model.n_components, source.n_rows
    if not isinstance(k, int) or k < 2:
        return
    lines = isinstance(model, implicitmoments.RegressionMixture)
    fewest = k * (source.n_features + 1) if lines else k  # with less the model refuses
    if fewest <= n < FEW_ROWS * k:
        remark(
            f"-k {k:,} leaves {n / k:.1f} rows a component, which may take long and tell little; "
            "try fewer"
        )


def _learn(model: Any, source: Source, checkpoint: Path | None, progress: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model keeps them, and they are told as notes
        model.fit(source, checkpoint=checkpoint, progress=progress)


def _score(model: Any, source: Source) -> float | None:
    if not hasattr(model, "score"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(model.score(source)) - log_volume(model)


def _save(model: Any, path: Path) -> None:
    try:
        implicitmoments.save(model, path)
    except ModelFileError as reason:
        raise RuntimeError(str(reason)) from reason  # the input was good


def _show(
    model: Any, counted: dict[str, int], score: float | None, seconds: float, output: Path
) -> None:
    rows = [("rows", f"{counted['rows']:,}")]
    if counted["dropped"]:
        rows.append(("incomplete rows dropped", f"{counted['dropped']:,}"))
    rows.append(("features", str(model.n_features_in_)))
    rows.append(("columns", listed(feature_names(model))))
    if score is not None:
        kind = "R²" if hasattr(model, "activation_") else "mean log-likelihood of a row"
        rows.append((kind, f"{score:.5g}"))
    table = component_table(model)
    show(
        *([] if table is None else [table]),
        finding_table(model, rows),
        *notes_of(model),
        f"wrote {output} after {seconds:.1f} s",
    )
