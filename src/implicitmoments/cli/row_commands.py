"""Commands that answer for the rows of files by a fitted model: options and help.

Each command imports its work when it is called: ``--help`` does without.
"""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option

from implicitmoments.cli.console import bad_input, print_line, print_note
from implicitmoments.cli.options import (
    AsJson,
    Debug,
    Decimal,
    DropMissing,
    FeatureNames,
    ModelFile,
    NaValues,
    Quiet,
    RowsFiles,
    Sep,
    Target,
    Weight,
    WriteTo,
    typed_rows,
)


def predict(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    files: RowsFiles,
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
        str | None,
        Option("--keep", metavar="A,B", help="Copy these columns of the files to the output."),
    ] = None,
    columns: FeatureNames = None,
    target: Target = None,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
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

    given, chosen = typed_rows(files, sep, decimal, na_values, columns, target, carried=keep)
    how = {"proba": proba, "component": component, "as_json": as_json, "quiet": quiet}
    predict_file(model, given, chosen, output, **how)


def score(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    files: RowsFiles,
    *,
    rows: Annotated[
        bool, Option("--rows", help="Write the log density of each row, as a table.")
    ] = False,
    output: WriteTo = None,
    columns: FeatureNames = None,
    target: Target = None,
    weight: Weight = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
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

    more = {"weight": weight, "drop_missing": drop_missing}
    given, chosen = typed_rows(files, sep, decimal, na_values, columns, target, **more)
    score_file(model, given, chosen, output, rows=rows, as_json=as_json, quiet=quiet)


def evaluate(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    files: RowsFiles,
    *,
    columns: FeatureNames = None,
    target: Target = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Evaluate a model on rows that it was not fitted to.

    Prints the mean log density per row with its standard error beside that of the fit, BIC, the
    error of predictions of labels, and how many rows each component has.
    """
    from implicitmoments.cli.held_out import evaluate_file  # noqa: PLC0415

    more = {"drop_missing": drop_missing}
    given, chosen = typed_rows(files, sep, decimal, na_values, columns, target, **more)
    evaluate_file(model, given, chosen, as_json=as_json, quiet=quiet)


def compare(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    other: Annotated[
        Path,
        Argument(metavar="OTHER", help="Compare it with this model file.", show_default=False),
    ],
    files: RowsFiles,
    *,
    columns: FeatureNames = None,
    target: Target = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Compare two models on the same rows.

    Rows that neither model was fitted to are best. Prints the mean log density per row of both,
    or the squared error of their predictions, and whether the difference is larger than chance.
    """
    from implicitmoments.cli.held_out import compare_files  # noqa: PLC0415

    more = {"drop_missing": drop_missing}
    given, chosen = typed_rows(files, sep, decimal, na_values, columns, target, **more)
    compare_files((model, other), given, chosen, as_json=as_json, quiet=quiet)


def report(  # noqa: PLR0913 (options, each described)
    model: ModelFile,
    files: RowsFiles,
    *,
    output: Annotated[
        Path, Option("--output", "-o", help="Write the page to this file; replace it if present.")
    ] = Path("report.html"),
    title: Annotated[str | None, Option("--title", help="Give the page this title.")] = None,
    columns: FeatureNames = None,
    target: Target = None,
    drop_missing: DropMissing = False,
    open_page: Annotated[
        bool, Option("--open", help="Open the page in a browser afterwards.")
    ] = False,
    sep: Sep = None,
    decimal: Decimal = None,
    na_values: NaValues = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write an HTML page about a model and its rows.

    It has a verdict, pictures and numbers, in one file without network access.
    """
    from implicitmoments.cli.answers import report_file  # noqa: PLC0415
    from implicitmoments.cli.output import is_standard_output  # noqa: PLC0415

    more = {"drop_missing": drop_missing}
    given, chosen = typed_rows(files, sep, decimal, na_values, columns, target, **more)
    if is_standard_output(output):
        if open_page:
            raise bad_input("page_not_a_file")
        with TemporaryDirectory(prefix="implicitmoments-") as folder:
            page = Path(folder, "report.html")
            report_file(model, given, chosen, page, title=title, quiet=quiet)
            print_line(page.read_text("utf-8"))
        return
    written = report_file(model, given, chosen, output, title=title, quiet=quiet)
    if as_json:
        print_line(json.dumps({"output": str(written)}))
    elif not quiet:
        print_line(f"wrote {written}")
    if open_page and not webbrowser.open(written.resolve().as_uri()):
        print_note("no_browser", path=str(written))
