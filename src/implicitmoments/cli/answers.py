"""Commands on a fitted model: predictions for the rows of a file, samples, and the report."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.arrays import to_numpy
from implicitmoments.cli.columns import Columns, ModelColumns
from implicitmoments.cli.console import (
    MissingError,
    bad_input,
    name_full_device,
    print_line,
    print_note,
    print_warnings,
)
from implicitmoments.cli.description import load_described, parameter_columns, print_document
from implicitmoments.cli.input_files import InputFiles
from implicitmoments.cli.input_rows import (
    CarriedColumns,
    load_model,
    open_for_model,
)
from implicitmoments.cli.output import (
    PAGE_KINDS,
    TABLE_KINDS,
    Piece,
    check_output,
    write_table,
)
from implicitmoments.cli.row_answers import Answer, RowAnswers, with_nan
from implicitmoments.evaluation import DensityScores
from implicitmoments.notes import InputError, Note
from implicitmoments.rows import Block

DRAWN_ROWS = 65_536  # per block: memory does not grow with the number of rows

# the column that answers a question
NAMED = {
    "labels": "component",
    "predictions": "prediction",
    "components": "component",
    "densities": "log_density",
}
# what to do instead, by question
INSTEAD = {
    "labels": "it is a density; score --rows gives it for each row",
    "predictions": "it is a density; score --rows gives it for each row",
    "probabilities": "predict --proba is for mixtures and regressions; predict gives its labels",
    "components": "predict --component is for regressions; predict gives the component of other "
    "models",
    "densities": "it has no density; predict answers for each row",
    "score": "it has no density; predict gives its clusters",
    "samples": "it has no distribution of the features",
}


def predict_file(
    model: Path,
    files: InputFiles,
    columns: Columns,
    output: Path | None,
    *,
    proba: bool,
    component: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the component of each row, or the mean of its label, or probabilities."""
    _check_table(output, *files.paths, model)
    if columns.carried and output is not None and output.suffix.lower() == ".npy":
        raise bad_input("numbers_only", path=output)
    fitted, _ = load_model(model)
    question = "predictions" if "predictions" in fitted.answers else "labels"
    answer = _answer(fitted, "probabilities" if proba else question, *["components"] * component)
    how = {"labelled": proba or component, "as_json": as_json, "quiet": quiet}
    _write_answers(fitted, files, columns, answer, output, **how)


def score_file(
    model: Path,
    files: InputFiles,
    columns: Columns,
    output: Path | None,
    *,
    rows: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print how well a model describes rows, or write the log density of each."""
    if output is not None and not rows:
        raise bad_input("output_without_rows")
    if columns.drop_missing and rows:
        raise bad_input("rows_not_dropped")
    _check_table(output, *files.paths, model)
    fitted, own = load_model(model)
    if rows:
        answer = _answer(fitted, "densities", minus=own.log_volume(fitted))
        _write_answers(fitted, files, columns, answer, output, as_json=as_json, quiet=quiet)
        return
    if not hasattr(fitted, "score"):
        raise _no_answer(fitted, "score")
    with open_for_model(fitted, files, columns, quiet=quiet) as (source, _):
        counts, notes = {"rows": source.n_rows}, []
        if isinstance(fitted, DensityScores):
            sums = fitted._log_likelihood(source)
            found, notes, counts["outliers"] = sums.mean, sums.notes, sums.far.n
        else:
            found = float(fitted.score(source))
    found -= own.log_volume(fitted)
    if as_json:
        print_document({"score": found, **counts}, indent=None)
    else:
        for note in notes if not quiet else []:
            print_note(note.code, **note.values)
        if quiet:
            print_warnings(notes)
        print_line(repr(found))


def sample_file(
    model: Path, number: int, output: Path | None, seed: int | None, *, as_json: bool, quiet: bool
) -> None:
    """Write rows drawn from a model."""
    _check_table(output, model)
    fitted, own = load_model(model)
    draw = plain_method(fitted, "samples")
    sizes = [min(DRAWN_ROWS, number - i) for i in range(0, number, DRAWN_ROWS)]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes)).tolist()
    pieces = (_named(own, draw(n, random_state=s)) for n, s in zip(sizes, seeds, strict=True))
    write_table(output, pieces, number, what="drawing", as_json=as_json, quiet=quiet)


def write_parameters(model: Path, output: Path | None, *, as_json: bool) -> None:
    """Write the fitted parameters of a model as a table, one row per component."""
    _check_table(output, model)
    described, _ = load_described(model)
    found = parameter_columns(described, ModelColumns.of(described))
    piece = {name: np.asarray(values) for name, values in found.items()}
    n_rows = len(next(iter(found.values())))
    write_table(output, [piece], n_rows, what="writing", as_json=as_json, quiet=False)


def report_file(
    model: Path,
    files: InputFiles,
    columns: Columns,
    output: Path,
    *,
    title: str | None,
    quiet: bool,
) -> Path:
    """Write a report on a model and its rows, and return its path."""
    check_output(output, *files.paths, model, kinds=PAGE_KINDS)
    try:
        from implicitmoments.report import write_report  # noqa: PLC0415 (draws: an extra)
    except ModuleNotFoundError as missing:
        raise MissingError(
            "library_missing",
            "the report needs {library}; pip install 'implicitmoments[plot]'",
            library=missing.name,
        ) from missing
    fitted, _ = load_model(model)
    with (
        name_full_device(str(output)),
        open_for_model(fitted, files, columns, quiet=quiet) as (source, _),
    ):
        subtitle = f"Rows of {files.name}, model {model.name}"
        return write_report(fitted, source, path=output, title=title, subtitle=subtitle)


def _answer(model: Any, *questions: str, minus: float = 0.0) -> Answer:
    """Return the columns that answer questions about a block; ``minus`` is of log densities."""
    methods = {question: plain_method(model, question) for question in questions}

    def answer(block: Block) -> Piece:
        piece: dict[str, Any] = {}
        for question, method in methods.items():
            alone = question in ("labels", "predictions") or "y" not in block
            found = to_numpy(method(block["x"]) if alone else method(block["x"], block["y"]))
            if question == "probabilities":
                piece |= {f"p{i}": column for i, column in enumerate(found.T)}
            else:
                piece[NAMED[question]] = found - minus if question == "densities" else found
        return piece

    return answer


def plain_method(model: Any, question: str) -> Any:
    """Return the method for a question, on a model that accepts plain arrays.

    Columns were found by their names before.
    """
    if question not in model.answers:
        raise _no_answer(model, question)
    twin = copy.copy(model)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return getattr(twin, model.answers[question])


def _no_answer(model: Any, question: str) -> InputError:
    return bad_input("no_answer", kind=model.kind, question=question, instead=INSTEAD[question])


def _write_answers(
    model: Any,
    files: InputFiles,
    columns: Columns,
    answer: Answer,
    output: Path | None,
    *,
    labelled: bool = True,
    as_json: bool,
    quiet: bool,
) -> None:
    """Predict for files block by block, and write the results incrementally.

    A row that lacks a number has an empty answer.
    """
    how = {"labelled": labelled, "keep_missing": True, "quiet": quiet}
    with open_for_model(model, files, columns, **how) as (source, carried):
        answers = RowAnswers(source, answer)
        pieces: Iterable[Piece] = answers.pieces()
        if output is not None and output.suffix.lower() == ".npy" and answers.has_gaps():
            pieces = map(with_nan, pieces)
        write_table(
            output,
            (_beside(carried, piece) for piece in pieces),
            source.n_rows,
            what="predicting",
            as_json=as_json,
            quiet=quiet,
            counts=answers.counts,
        )
    if n := answers.counts["incomplete"]:
        note = Note("rows_unanswered", {"n": n, "rows": source.n_rows})
        if quiet:
            print_warnings([note])
        else:
            print_note(note.code, **note.values)


def _beside(carried: CarriedColumns | None, found: Piece) -> Piece:
    """Join results with columns of the file; rename them if the name is taken."""
    if carried is None:
        return found
    beside = carried.take(len(next(iter(found.values()))))
    return {**beside, **{n if n not in beside else f"{n}_found": v for n, v in found.items()}}


def _named(own: ModelColumns, drawn: Any) -> Piece:
    """Return drawn rows by the names of the columns, in the units of the file."""
    parts = [to_numpy(part) for part in (drawn if isinstance(drawn, tuple) else (drawn,))]
    x = parts[0] if own.scale is None else parts[0] * own.scale.astype(parts[0].dtype)
    piece = dict(zip(own.labels, x.T, strict=True))
    target = own.given.get("target", "y")
    for part in parts[1:]:
        name = "component" if np.issubdtype(part.dtype, np.integer) else target
        piece[name if name not in piece else f"{name}_drawn"] = part
    return piece


def _check_table(output: Path | None, *read: str | Path) -> None:
    if output is not None:
        check_output(output, *read, kinds=TABLE_KINDS)
