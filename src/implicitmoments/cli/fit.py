"""The command ``fit``: from a file of rows to a file of a model."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

import implicitmoments
from implicitmoments.cli.building import LABELLED, MODELS, build, find_model
from implicitmoments.cli.console import plain_errors, show
from implicitmoments.cli.options import AsJson, Debug, FeatureNames, Quiet, Rows, Target
from implicitmoments.cli.progress import told_passes
from implicitmoments.cli.reading import Columns, open_table, remembered
from implicitmoments.cli.summary import component_table, document_of, finding_table, notes_of
from implicitmoments.cli.writing import check_output
from implicitmoments.samples.files import FileSource
from implicitmoments.saving import ModelFileError

__all__ = ["EXAMPLES", "fit"]

EXAMPLES = """\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments fit mixture rows.parquet --columns height,width --weight count
  implicitmoments fit regressions tones.csv --target tuned -k 2 -o lines.im
  implicitmoments fit activations data.csv --target y --activation relu -k auto
  implicitmoments fit density rows.npy -k 4 --degree 6 --set epsilon=0.1
  zcat rows.csv.gz | implicitmoments fit mixture - -k auto --json
  implicitmoments fit mixture huge.parquet -k 20 --checkpoint huge.journal
"""


def fit(  # noqa: PLR0913 (options, each described)
    model: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"{', '.join(MODELS)}; or the name of its class.",
            show_default=False,
        ),
    ],
    file: Rows,
    *,
    components: Annotated[
        str | None,
        typer.Option(
            "--components",
            "-k",
            metavar="N|auto",
            help="The number of components; auto where the model can choose it.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the model is written; replaced.")
    ] = Path("model.im"),
    columns: FeatureNames = None,
    target: Target = None,
    weight: Annotated[
        str | None,
        typer.Option(
            "--weight", metavar="NAME", help="The column that says how often rows count."
        ),
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option("--activation", metavar="NAME", help="relu, softplus, gelu, abs, cos, …"),
    ] = None,
    degree: Annotated[
        str | None,
        typer.Option("--degree", metavar="N|cv", help="Of the polynomial, where there is one."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all random numbers.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; may be repeated."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", help="Keeps what is done, so that an interrupted fit can go on."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a model to the rows of a file and write it to another."""
    with plain_errors(debug, checkpoint):
        estimator = find_model(model)
        texts = {"n_components": components, "activation": activation, "degree": degree}
        fitted = build(estimator, texts, settings or [], seed)
        check_output(output, read=file)
        if checkpoint is not None:
            check_output(checkpoint, read=file)
            if checkpoint.resolve() == output.resolve():
                raise ValueError(f"{output} is the checkpoint as well; give -o another name")
        chosen = Columns.typed(columns, target, weight)
        _check_target(fitted, chosen, model)
        clock = perf_counter()
        with told_passes(quiet) as progress, open_table(file, chosen) as source:
            _learn(fitted, source, checkpoint, progress)
            fitted.columns_ = remembered(chosen, source)
            score = _score(fitted, source)
            n_rows = source.n_rows
        _save(fitted, output)
        seconds = perf_counter() - clock
        if as_json:
            measured = {"rows": n_rows, "score": score, "seconds": round(seconds, 3)}
            document = document_of(fitted) | measured | {"output": str(output)}
            typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
            sys.stdout.flush()
        elif not quiet:
            _show(fitted, n_rows, score, seconds, output)


def _check_target(model: Any, columns: Columns, word: str) -> None:
    labelled = isinstance(model, LABELLED)
    if labelled and columns.target is None:
        raise ValueError(f"{word} learns labels from features; name their column by --target")
    if not labelled and columns.target is not None:
        raise ValueError(
            f"{word} has no labels, so --target does not apply; name the features by --columns"
        )


def _learn(model: Any, source: FileSource, checkpoint: Path | None, progress: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model keeps them, and they are told as notes
        model.fit(source, checkpoint=checkpoint, progress=progress)


def _score(model: Any, source: FileSource) -> float | None:
    if not hasattr(model, "score"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(model.score(source))


def _save(model: Any, path: Path) -> None:
    try:
        implicitmoments.save(model, path)
    except ModelFileError as reason:
        raise RuntimeError(str(reason)) from reason  # the input was good


def _show(model: Any, n_rows: int, score: float | None, seconds: float, output: Path) -> None:
    rows = [("rows", f"{n_rows:,}"), ("features", str(model.n_features_in_))]
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
