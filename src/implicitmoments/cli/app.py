"""Definition of the commands: options, help and examples.

SciPy and scikit-learn take a second to import, so that each command imports its work when it is
called: ``--help`` does without.
"""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from typer import Argument, Option

import implicitmoments
from implicitmoments.cli.console import (
    Command,
    CommandGroup,
    bad_input,
    print_line,
    print_note,
    print_tables,
)
from implicitmoments.cli.options import (
    COVARIANCE,
    KINDS,
    LAYOUT,
    NUMBER,
    SCALE,
    SETTING,
    AsJson,
    Debug,
    DropMissing,
    FeatureNames,
    Layout,
    ModelFile,
    Quiet,
    RowsFile,
    Target,
    Weight,
    WriteTo,
    kinds_beginning,
)

app = typer.Typer(
    name="implicitmoments",
    cls=CommandGroup,
    help="Learn latent-variable models from implicit high-order moment tensors.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help that a pipe and a narrow window can show
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(implicitmoments.__version__)
        raise typer.Exit


@app.callback(
    epilog="""\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments report model.im rows.csv -o report.html --open

\b
Exit codes: 0 success, 1 failure during the work, 2 bad usage or bad input, 130 interrupted,
143 terminated.
"""
)
def entry(
    version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn latent-variable models from implicit high-order moment tensors."""


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments fit mixture rows.csv -k 3 -o model.im
  implicitmoments fit mixture rows.parquet --columns height,width --weight count
  implicitmoments fit mixture rows.csv -k 2-8 -o model.im
  implicitmoments fit mixture rows.csv -k 3 --scale -o scaled.im
  implicitmoments fit mixture rows.csv -k auto --covariance auto -o ellipses.im
  implicitmoments fit regressions tones.csv --target tuned -k 2 -o lines.im
  implicitmoments fit activations data.csv --target y --activation relu -k auto
  implicitmoments fit density rows.npy -k 4 --degree 6 --set epsilon=0.1
  zcat rows.csv.gz | implicitmoments fit mixture - -k auto --json
  implicitmoments fit mixture huge.parquet -k 20 --checkpoint huge.journal
""",
)
def fit(  # noqa: PLR0913 (options, each described)
    kind: Annotated[
        str,
        Argument(metavar="KIND", help=KINDS, show_default=False, autocompletion=kinds_beginning),
    ],
    file: RowsFile,
    *,
    components: Annotated[
        str | None,
        Option("--components", "-k", metavar="N|auto|2-8|2,4,8", help=NUMBER),
    ] = None,
    output: Annotated[
        Path, Option("--output", "-o", help="The model file to write; replaced if present.")
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
            help="The activation function: relu, tanh, sigmoid, gelu, abs, cos, …",
        ),
    ] = None,
    degree: Annotated[
        str | None,
        Option(
            "--degree",
            metavar="N|cv",
            help="The degree of the polynomial, for kinds that have one.",
        ),
    ] = None,
    seed: Annotated[int, Option("--seed", min=0, help="The seed of all random numbers.")] = 0,
    settings: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help=SETTING),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        Option(
            "--checkpoint",
            help="A file for intermediate results, from which an interrupted fit resumes.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001 (read by the class of the command)
) -> None:
    """Fit a model to the rows of a file and write it to a model file."""
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415
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
    chosen = Columns.typed(columns, target, weight, drop_missing=drop_missing)
    fit_file(models, file, chosen, FitOptions(output, checkpoint, scale, as_json, quiet))


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments predict model.im new.csv > labels.csv
  implicitmoments predict model.im new.parquet --proba -o probabilities.parquet
  implicitmoments predict lines.im tones.csv --target tuned --proba
  implicitmoments predict lines.im tones.csv --component --keep stretch,tuned
  cut -d, -f1-4 new.csv | implicitmoments predict model.im - | sort | uniq -c
""",
)
def predict(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    file: RowsFile,
    *,
    output: WriteTo = None,
    proba: Annotated[
        bool, Option("--proba", help="Write the probability of each component instead.")
    ] = False,
    component: Annotated[
        bool,
        Option(
            "--component", help="Write the most probable line of each row too, for regressions."
        ),
    ] = False,
    keep: Annotated[
        str | None, Option("--keep", metavar="A,B", help="The columns of the file to copy.")
    ] = None,
    columns: FeatureNames = None,
    target: Target = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Predict the component of each row, or the mean of its label.

    For mixtures and clusters this is the most probable component, for regressions and activations
    the mean of the label. With --proba it is the probability of each component; for regressions
    that of each line given features and label, on which --component is based too.
    """
    from implicitmoments.cli.answers import predict_file  # noqa: PLC0415
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415

    how = {"proba": proba, "component": component, "as_json": as_json, "quiet": quiet}
    predict_file(model, file, Columns.typed(columns, target, carried=keep), output, **how)


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments score model.im held_out.csv
  implicitmoments score lines.im held_out.csv --target tuned --json
  implicitmoments score model.im held_out.npy --rows -o log_densities.npy
""",
)
def score(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    file: RowsFile,
    *,
    rows: Annotated[
        bool, Option("--rows", help="Write the log density of each row, as a table.")
    ] = False,
    output: WriteTo = None,
    columns: FeatureNames = None,
    target: Target = None,
    weight: Weight = None,
    drop_missing: DropMissing = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Score how well a model describes rows; higher is better.

    The score is the mean log density per row: for mixture and density that of the features x, for
    regressions that of the label y given x, for regression-density that of (x, y). For activations
    it is the R² of the predictions. Clusters have no score.
    """
    from implicitmoments.cli.answers import score_file  # noqa: PLC0415
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415

    chosen = Columns.typed(columns, target, weight, drop_missing=drop_missing)
    score_file(model, file, chosen, output, rows=rows, as_json=as_json, quiet=quiet)


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments evaluate model.im held_out.csv
  implicitmoments evaluate lines.im held_out.csv --target tuned --json
""",
)
def evaluate(
    model: ModelFile,
    file: RowsFile,
    *,
    columns: FeatureNames = None,
    target: Target = None,
    drop_missing: DropMissing = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Evaluate a model on rows that it was not fitted to.

    Prints the mean log density per row with its standard error beside that of the fit, BIC, the
    error of predictions of labels, and how many rows each component has.
    """
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415
    from implicitmoments.cli.held_out import evaluate_file  # noqa: PLC0415

    chosen = Columns.typed(columns, target, drop_missing=drop_missing)
    evaluate_file(model, file, chosen, as_json=as_json, quiet=quiet)


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments compare three.im four.im held_out.csv
  implicitmoments compare lines.im others.im held_out.csv --target tuned --json
""",
)
def compare(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    other: Annotated[
        Path, Argument(metavar="OTHER", help="Another model file.", show_default=False)
    ],
    file: RowsFile,
    *,
    columns: FeatureNames = None,
    target: Target = None,
    drop_missing: DropMissing = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Compare two models on the same rows.

    Rows that neither model was fitted to are best. Prints the mean log density per row of both,
    or the squared error of their predictions, and whether the difference is larger than chance.
    """
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415
    from implicitmoments.cli.held_out import compare_files  # noqa: PLC0415

    chosen = Columns.typed(columns, target, drop_missing=drop_missing)
    compare_files((model, other), file, chosen, as_json=as_json, quiet=quiet)


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments sample model.im -n 1000 --seed 1 > drawn.csv
  implicitmoments sample model.im -n 500000 -o drawn.parquet
""",
)
def sample(
    model: ModelFile,
    *,
    number: Annotated[
        int, Option("--number", "-n", min=1, help="The number of rows to draw.")
    ] = 1_000,
    output: WriteTo = None,
    seed: Annotated[
        int | None, Option("--seed", min=0, help="The seed; by default every call draws new rows.")
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


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments report model.im rows.csv -o report.html --open
  implicitmoments report lines.im tones.csv --target tuned --title "Tones"
""",
)
def report(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    file: RowsFile,
    *,
    output: Annotated[
        Path, Option("--output", "-o", help="The page to write; replaced if present.")
    ] = Path("report.html"),
    title: Annotated[str | None, Option("--title", help="The title of the page.")] = None,
    columns: FeatureNames = None,
    target: Target = None,
    drop_missing: DropMissing = False,
    open_page: Annotated[
        bool, Option("--open", help="Open the page in a browser afterwards.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write an HTML page about a model and its rows.

    It has a verdict, pictures and numbers, in one file without network access.
    """
    from implicitmoments.cli.answers import report_file  # noqa: PLC0415
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415
    from implicitmoments.cli.output import is_standard_output  # noqa: PLC0415

    chosen = Columns.typed(columns, target, drop_missing=drop_missing)
    if is_standard_output(output):
        if open_page:
            raise bad_input("page_not_a_file")
        with TemporaryDirectory(prefix="implicitmoments-") as folder:
            page = Path(folder, "report.html")
            report_file(model, file, chosen, page, title=title, quiet=quiet)
            print_line(page.read_text("utf-8"))
        return
    written = report_file(model, file, chosen, output, title=title, quiet=quiet)
    if as_json:
        print_line(json.dumps({"output": str(written)}))
    elif not quiet:
        print_line(f"wrote {written}")
    if open_page and not webbrowser.open(written.resolve().as_uri()):
        print_note("no_browser", path=str(written))


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments describe model.im
  implicitmoments describe model.im --json | jq .found.means
  implicitmoments describe model.im --format csv > components.csv
  implicitmoments describe model.im -o components.parquet
""",
)
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


@app.command(
    cls=Command,
    epilog="""\b
Examples:
  implicitmoments demo
  implicitmoments demo --seed 1 -o elsewhere
""",
)
def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="The folder to write to; created if missing.")
    ] = Path("implicitmoments-demo"),
    *,
    seed: Annotated[int, Option("--seed", min=0, help="The seed of the data.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Run the four problems on built-in data.

    Compares the results with the truth and a standard tool, and writes a report.
    """
    from implicitmoments.cli.demo import run_demo  # noqa: PLC0415

    run_demo(output, seed, as_json=as_json, quiet=quiet)
