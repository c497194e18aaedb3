"""Commands that fit a model, or show what a fitted one holds: options and help.

Each command imports its work when it is called: ``--help`` does without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from implicitmoments.cli.console import print_tables
from implicitmoments.cli.options import (
    COVARIANCE,
    KINDS,
    LAYOUT,
    NUMBER,
    SCALE,
    SEED,
    SETTING,
    AsJson,
    Debug,
    Decimal,
    DropMissing,
    FeatureNames,
    Layout,
    ModelFile,
    NaValues,
    Quiet,
    RowsFiles,
    Sep,
    Target,
    Weight,
    WriteTo,
    kinds_beginning,
    typed_rows,
)


def fit(  # noqa: PLR0913 (options, each described)
    kind: Annotated[
        str,
        Argument(metavar="KIND", help=KINDS, show_default=False, autocompletion=kinds_beginning),
    ],
    files: RowsFiles,
    *,
    components: Annotated[
        str | None,
        Option("--components", "-k", metavar="N|auto|2-8|2,4,8", help=NUMBER),
    ] = None,
    output: Annotated[
        Path, Option("--output", "-o", help="Write the model to this file; replace it if present.")
    ] = Path("model.im"),
    columns: FeatureNames = None,
    target: Target = None,
    weight: Weight = None,
    covariance: Annotated[
        str | None, Option("--covariance", metavar="TYPE", help=COVARIANCE)
    ] = None,
    scale: Annotated[bool, Option("--scale", help=SCALE)] = False,
    drop_missing: DropMissing = False,
    activation: Annotated[
        str | None,
        Option(
            "--activation",
            metavar="NAME",
            help="Use this activation function: relu, tanh, sigmoid, gelu, abs, cos and others.",
        ),
    ] = None,
    degree: Annotated[
        str | None,
        Option(
            "--degree",
            metavar="N|cv",
            help="Use a polynomial of this degree, for kinds that have one.",
        ),
    ] = None,
    seed: Annotated[
        int, Option("--seed", min=0, help="Draw all random numbers from this seed.")
    ] = SEED,
    settings: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help=SETTING),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        Option(
            "--checkpoint",
            help="Keep intermediate results in this file, from which an interrupted fit resumes.",
        ),
    ] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001 (read by the class of the command)
) -> None:
    """Fit a model to the rows of files and write it to a model file."""
    from implicitmoments.cli.fit_file import FitOptions, fit_file  # noqa: PLC0415
    from implicitmoments.cli.model_options import build_model, parameter_table  # noqa: PLC0415
    from implicitmoments.cli.sweep import swept_numbers  # noqa: PLC0415

    if "help" in (settings or []):
        print_tables(parameter_table(kind, shaped=covariance is not None))
        return
    texts = {
        "n_components": components,
        "covariance_type": covariance,
        "activation": activation,
        "degree": degree,
    }
    numbers = swept_numbers(components)
    asked = [components] if numbers is None else [str(number) for number in numbers]
    models = [
        build_model(kind, {**texts, "n_components": number}, settings or [], seed)
        for number in asked
    ]
    more = {"weight": weight, "drop_missing": drop_missing}
    given, chosen = typed_rows(files, sep, decimal, na_values, columns, target, **more)
    fit_file(models, given, chosen, FitOptions(output, checkpoint, scale, as_json, quiet))


def sample(
    model: ModelFile,
    *,
    number: Annotated[
        int, Option("--number", "-n", min=1, help="Draw this number of rows.")
    ] = 1_000,
    output: WriteTo = None,
    seed: Annotated[
        int | None,
        Option("--seed", min=0, help="Draw from this seed; by default every call draws new rows."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Draw rows from a model.

    They have features, and a label and a component if the model has them.
    """
    from implicitmoments.cli.answers import sample_file  # noqa: PLC0415

    sample_file(model, number, output, seed, as_json=as_json, quiet=quiet)


def describe(
    model: ModelFile,
    *,
    layout: Annotated[Layout, Option("--format", help=LAYOUT)] = Layout.table,
    output: WriteTo = None,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Describe what a model file holds.

    Prints fitted values, parameters, and notes of the fit.
    """
    from implicitmoments.cli.description import describe_file  # noqa: PLC0415

    if output is not None or layout is Layout.csv:
        from implicitmoments.cli.answers import write_parameters  # noqa: PLC0415

        write_parameters(model, output, as_json=as_json)
    else:
        describe_file(model, as_json=as_json or layout is Layout.json)


def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="Write to this folder; create it if missing.")
    ] = Path("implicitmoments-demo"),
    *,
    seed: Annotated[int, Option("--seed", min=0, help="Draw the data from this seed.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Run the four problems on built-in data.

    Compares the results with the truth and a standard tool, and writes a report.
    """
    from implicitmoments.cli.demo import run_demo  # noqa: PLC0415

    run_demo(output, seed, as_json=as_json, quiet=quiet)
