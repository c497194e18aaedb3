"""Commands that ask a fitted model: ``predict``, ``score`` and ``sample``, block by block."""

from __future__ import annotations

from typing import Annotated

import typer

from implicitmoments.cli.console import plain_errors
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
    Weight,
    WriteTo,
)

__all__ = ["PREDICT", "SAMPLE", "SCORE", "predict", "sample", "score"]

PREDICT = """\b
Examples:
  implicitmoments predict model.im new.csv > labels.csv
  implicitmoments predict model.im new.parquet --proba -o chances.parquet
  implicitmoments predict lines.im tones.csv --target tuned --proba
  implicitmoments predict lines.im tones.csv --component --keep stretch,tuned
  cut -d, -f1-4 new.csv | implicitmoments predict model.im - | sort | uniq -c
"""
SCORE = """\b
Examples:
  implicitmoments score model.im held_out.csv
  implicitmoments score lines.im held_out.csv --target tuned --json
  implicitmoments score model.im held_out.npy --rows -o log_densities.npy
"""
SAMPLE = """\b
Examples:
  implicitmoments sample model.im -n 1000 --seed 1 > drawn.csv
  implicitmoments sample model.im -n 500000 -o drawn.parquet
"""


def predict(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    file: Rows,
    *,
    output: WriteTo = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="The chance of each component instead.")
    ] = False,
    component: Annotated[
        bool,
        typer.Option("--component", help="Of regressions also the likeliest line of each row."),
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="A,B", help="Columns to write beside, of text or numbers."),
    ] = None,
    columns: FeatureNames = None,
    target: Target = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell the component of each row, or the mean of its label.

    Of mixtures and clusters it is the likeliest component, of regressions and activations the
    mean of the label. With --proba it is the chance of each component; of regressions that of
    each line given features and label, and so is --component.
    """
    from implicitmoments.cli.answer_file import predict_file  # noqa: PLC0415 (SciPy)

    with plain_errors(debug):
        chosen = Columns.typed(columns, target, along=keep)
        told = {"proba": proba, "component": component, "as_json": as_json, "quiet": quiet}
        predict_file(model, file, chosen, output, **told)


def score(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    file: Rows,
    *,
    output: WriteTo = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="The log density of each row, as a table.")
    ] = False,
    columns: FeatureNames = None,
    target: Target = None,
    weight: Weight = None,
    drop_missing: DropMissing = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell how well a model describes rows.

    It is the mean log density of a row, and the higher the better. Of mixture and density it is
    the density of the features x; of regressions that of the label y given x; of
    regression-density that of (x, y). Of activations it is the R² of the predictions. Clusters
    have no score.
    """
    from implicitmoments.cli.answer_file import score_file  # noqa: PLC0415 (SciPy)

    with plain_errors(debug):
        chosen = Columns.typed(columns, target, weight, drop_missing=drop_missing)
        score_file(model, file, chosen, output, rows=rows, as_json=as_json, quiet=quiet)


def sample(
    model: ModelFile,
    *,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Rows to draw.")] = 1_000,
    output: WriteTo = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="By default every call draws anew.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw rows from a model: features, and label and component where it has them."""
    from implicitmoments.cli.answer_file import sample_file  # noqa: PLC0415 (SciPy)

    with plain_errors(debug):
        sample_file(model, number, output, seed, as_json=as_json, quiet=quiet)
