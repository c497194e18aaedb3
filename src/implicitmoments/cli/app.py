"""The commands and their options. Each imports its work when it is called: ``--help`` is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from typer import Argument, Option

# What ``fit`` calls the estimators.
KINDS = {
    "mixture": "GaussianMixture",
    "spherical-mixture": "SphericalMixture",
    "regressions": "RegressionMixture",
    "activations": "ActivationSumRegressor",
    "density": "SphericalMixtureDensity",
    "regression-density": "RegressionMixtureDensity",
    "clusters": "SphericalMixtureClusterer",
}

Model: TypeAlias = Annotated[
    Path,
    Argument(metavar="MODEL", help="Model file written by fit.", exists=True, dir_okay=False),
]
Files: TypeAlias = Annotated[
    list[Path],
    Argument(
        metavar="FILE",
        help="Data files, read one after the other: CSV (also .csv.gz and .tsv), Parquet, Arrow, "
        ".npy or .zarr. Use - for CSV on standard input.",
    ),
]
Table: TypeAlias = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write a CSV file, or a Parquet file if the name ends in .parquet. "
        "Default: CSV on standard output.",
    ),
]
Columns: TypeAlias = Annotated[
    str | None,
    Option(
        metavar="A,B,C",
        help="Feature columns, separated by commas. Files without a header have columns x0, x1, "
        "and so on. Default: the columns that the model was fitted to; for fit, all columns that "
        "are neither labels nor weights.",
    ),
]
Labels: TypeAlias = Annotated[
    str | None, Option("--y", metavar="COLUMN", help="Column of labels (the response y).")
]
DropMissing: TypeAlias = Annotated[
    bool,
    Option("--drop-missing", metavar="", help="Leave out rows with missing or infinite values."),
]
Sep: TypeAlias = Annotated[
    str | None,
    Option(metavar="CHAR", help="Column separator of CSV files. Default: detected."),
]
Decimal: TypeAlias = Annotated[
    str | None,
    Option(metavar="CHAR", help="Decimal separator of CSV files. Default: detected."),
]
NaValues: TypeAlias = Annotated[
    list[str] | None,
    Option(metavar="TEXT", help="Additional string to treat as missing. May be repeated."),
]
Quiet: TypeAlias = Annotated[
    bool,
    Option("--quiet", "-q", metavar="", help="Print no notes, no summary and no progress."),
]

app = typer.Typer(
    help="Fit mixtures, regressions and densities to tables of numbers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        import implicitmoments  # noqa: PLC0415

        typer.echo(implicitmoments.__version__)
        raise typer.Exit


@app.callback()
def entry(
    version: Annotated[
        bool,
        Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Fit mixtures, regressions and densities to tables of numbers."""


@app.command()
def fit(  # noqa: PLR0913 (options, each described)
    kind: Annotated[str, Argument(metavar="KIND", help=f"Kind of model: {', '.join(KINDS)}.")],
    files: Files,
    *,
    n_components: Annotated[
        str,
        Option(
            "--n-components",
            "-k",
            metavar="K|auto|K-K",
            help="Number of components; auto chooses it. A range such as 2-8 fits every number, "
            "prints a table and keeps the model of least BIC.",
        ),
    ] = "auto",
    covariance_type: Annotated[
        str | None,
        Option(
            metavar="TYPE",
            help="Covariances of a mixture: full, tied, diag, spherical, tied_diag or "
            "tied_spherical; auto chooses the type of least BIC. Default: auto for mixture.",
        ),
    ] = None,
    activation: Annotated[
        str | None,
        Option(metavar="NAME", help="Activation function, for activations: relu, tanh, abs, …"),
    ] = None,
    columns: Columns = None,
    y: Labels = None,
    sample_weight: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of sample weights.")
    ] = None,
    drop_missing: DropMissing = False,
    random_state: Annotated[
        int, Option(metavar="SEED", min=0, help="Seed of the random numbers.")
    ] = 0,
    setting: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other parameter of the estimator, such as noise=student or max_iter=1000. "
            "May be repeated.",
        ),
    ] = None,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="Model file to write.")
    ] = Path("model.im"),
    checkpoint: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File for intermediate results; an interrupted fit resumes from it.",
        ),
    ] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    quiet: Quiet = False,
) -> None:
    """Fit a model to data files and save it."""
    from implicitmoments.cli.fit import build, fit_file  # noqa: PLC0415

    parameters = {
        "n_components": n_components,
        "covariance_type": covariance_type,
        "activation": activation,
        "random_state": random_state,
    }
    models = build(kind, parameters, setting or [])
    roles = {"columns": columns, "y": y, "sample_weight": sample_weight}
    text = {"sep": sep, "decimal": decimal, "na_values": na_values}
    options = {**roles, **text, "drop_missing": drop_missing}
    fit_file(models, files, options, output, checkpoint, quiet)


@app.command()
def predict(  # noqa: PLR0913
    model: Model,
    files: Files,
    *,
    proba: Annotated[
        bool,
        Option("--proba", metavar="", help="Write the probability of each component instead."),
    ] = False,
    component: Annotated[
        bool,
        Option("--component", metavar="", help="For regressions: most probable line of (x, y)."),
    ] = False,
    output: Table = None,
    columns: Columns = None,
    y: Labels = None,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    quiet: Quiet = False,
) -> None:
    """Predict the component of each row, or its label for regressions and activations."""
    from implicitmoments.cli.answers import predict_file  # noqa: PLC0415

    options = {"columns": columns, "y": y, "sep": sep, "decimal": decimal, "na_values": na_values}
    method = "predict_proba" if proba else "predict_component" if component else "predict"
    predict_file(model, files, options, method, output, quiet)


@app.command()
def score(  # noqa: PLR0913
    model: Model,
    files: Files,
    *,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write the log-likelihood of each row, as CSV or Parquet.",
        ),
    ] = None,
    columns: Columns = None,
    y: Labels = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    quiet: Quiet = False,
) -> None:
    """Print the mean log-likelihood per row and its standard error.

    For regressions it is the likelihood of y given x. For activations, which have no likelihood,
    it is the mean squared error.
    """
    from implicitmoments.cli.answers import score_file  # noqa: PLC0415

    options = {"columns": columns, "y": y, "sep": sep, "decimal": decimal, "na_values": na_values}
    score_file(model, files, {**options, "drop_missing": drop_missing}, output, quiet)


@app.command()
def sample(
    model: Model,
    n_samples: Annotated[
        int, Option("--n-samples", "-n", metavar="N", min=1, help="Number of rows to draw.")
    ] = 1_000,
    random_state: Annotated[
        int | None,
        Option(metavar="SEED", min=0, help="Seed of the random numbers. Default: a new one."),
    ] = None,
    output: Table = None,
) -> None:
    """Draw rows from a model, with their labels and components."""
    from implicitmoments.cli.answers import sample_file  # noqa: PLC0415

    sample_file(model, n_samples, random_state, output)


@app.command()
def describe(
    model: Model,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the parameters of the components, as CSV or Parquet.",
        ),
    ] = None,
) -> None:
    """Print the parameters of a model and the notes of its fit."""
    from implicitmoments.cli.describe import describe_file  # noqa: PLC0415

    describe_file(model, output)


@app.command()
def compare(  # noqa: PLR0913
    model: Model,
    other: Annotated[
        Path, Argument(metavar="OTHER", help="Second model file.", exists=True, dir_okay=False)
    ],
    files: Files,
    *,
    columns: Columns = None,
    y: Labels = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
) -> None:
    """Compare the log-likelihoods of two models, preferably on held-out data."""
    from implicitmoments.cli.answers import compare_files  # noqa: PLC0415

    options = {"columns": columns, "y": y, "sep": sep, "decimal": decimal, "na_values": na_values}
    compare_files(model, other, files, {**options, "drop_missing": drop_missing})


@app.command()
def report(  # noqa: PLR0913
    model: Model,
    files: Files,
    *,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="HTML file to write.")
    ] = Path("report.html"),
    title: Annotated[str | None, Option(metavar="TEXT", help="Title of the page.")] = None,
    open_page: Annotated[
        bool, Option("--open", metavar="", help="Open the page in a browser.")
    ] = False,
    columns: Columns = None,
    y: Labels = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    quiet: Quiet = False,
) -> None:
    """Write an HTML page about a model and its data."""
    from implicitmoments.cli.answers import report_file  # noqa: PLC0415

    options = {"columns": columns, "y": y, "sep": sep, "decimal": decimal, "na_values": na_values}
    report_file(model, files, {**options, "drop_missing": drop_missing}, output, title)
    if not quiet:
        typer.echo(f"Wrote {output}")
    if open_page:
        typer.launch(output.resolve().as_uri())


@app.command()
def demo(
    output: Annotated[
        Path, Option("--output", "-o", metavar="FOLDER", help="Folder for the results.")
    ] = Path("implicitmoments-demo"),
    random_state: Annotated[
        int, Option(metavar="SEED", min=0, help="Seed of the generated data.")
    ] = 0,
) -> None:
    """Fit four models to generated data and compare them with the truth."""
    from implicitmoments.cli.demo import run_demo  # noqa: PLC0415

    run_demo(output, random_state)
