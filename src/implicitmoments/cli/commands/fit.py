"""The command ``fit``: from a file of rows to a file of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from implicitmoments.cli.console import plain_errors
from implicitmoments.cli.options import (
    KINDS,
    AsJson,
    Columns,
    Debug,
    DropMissing,
    FeatureNames,
    Quiet,
    Rows,
    Target,
    Weight,
)

__all__ = ["FIT", "fit"]

FIT = """\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments fit mixture rows.parquet --columns height,width --weight count
  implicitmoments fit mixture rows.csv -k 3 --scale -o scaled.im
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
            help=f"{', '.join(KINDS)}; or the name of its class.",
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
    weight: Weight = None,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="Divide each feature by its standard deviation in the file; the model remembers "
            "it, and its answers are in the units of the file.",
        ),
    ] = False,
    drop_missing: DropMissing = False,
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
    # SciPy and scikit-learn come with the work
    from implicitmoments.cli.build_model import build, find_model  # noqa: PLC0415
    from implicitmoments.cli.fit_file import fit_file  # noqa: PLC0415

    with plain_errors(debug, checkpoint):
        texts = {"n_components": components, "activation": activation, "degree": degree}
        fit_file(
            build(find_model(model), texts, settings or [], seed),
            file,
            Columns.typed(columns, target, weight, drop_missing=drop_missing),
            output,
            checkpoint,
            scale=scale,
            as_json=as_json,
            quiet=quiet,
        )
