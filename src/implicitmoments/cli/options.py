"""Options and arguments that commands share, and the longer help texts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from typer import Argument, Option

from implicitmoments.registry import ESTIMATORS

if TYPE_CHECKING:
    from implicitmoments.cli.columns import Columns
    from implicitmoments.cli.input_files import InputFiles

SEED = 0  # of a fit without --seed: the same command gives the same model
ModelFile: TypeAlias = Annotated[
    Path,
    Argument(metavar="MODEL", help="Read this model file, written by fit.", show_default=False),
]
ROWS = (
    "Read rows from these files, one after the other; a pattern such as 'data/*.csv' stands for "
    "all files that match. Formats are .csv, .csv.gz, .tsv, .parquet, .arrow, .npy and .zarr; - "
    "is CSV from standard input; .txt and names without a suffix are read as CSV."
)
RowsFiles: TypeAlias = Annotated[
    list[str], Argument(metavar="FILE", help=ROWS, show_default=False)
]
FEATURES = (
    "Use these columns as features, by name or number; columns without names are called x0, x1 "
    "and so on. By default they are those the model was fitted to, and in fit all columns except "
    "those of --target and --weight."
)
FeatureNames: TypeAlias = Annotated[
    str | None, Option("--columns", metavar="A,B,C", help=FEATURES)
]
Target: TypeAlias = Annotated[
    str | None, Option("--target", metavar="NAME", help="Take the labels from this column.")
]
Weight: TypeAlias = Annotated[
    str | None,
    Option("--weight", metavar="NAME", help="Take the sample weights from this column."),
]
DropMissing: TypeAlias = Annotated[
    bool, Option("--drop-missing", help="Leave out rows with missing numbers.")
]
SEP = (
    "Separate the columns of CSV files by this character; tab is a tab. By default it is the one "
    "that cuts most lines into the same number of cells."
)
Sep: TypeAlias = Annotated[str | None, Option("--sep", metavar="CHARACTER", help=SEP)]
Decimal: TypeAlias = Annotated[
    str | None,
    Option(
        "--decimal",
        metavar="CHARACTER",
        help="Read this character as the decimal separator of CSV files. By default it is a "
        "point, or a comma if numbers have one.",
    ),
]
MARKERS = (
    "Take these cells of CSV files for missing numbers too; the option may be repeated. Empty "
    "cells, NA, N/A, NaN, null and others that pandas knows are missing by default."
)
NaValues: TypeAlias = Annotated[
    list[str] | None, Option("--na-values", metavar="A,B", help=MARKERS)
]
TABLE = (
    "Write to this file: .csv, .tsv, .json, .npy, .parquet or .arrow. The default, or -, is CSV "
    "on standard output."
)
WriteTo: TypeAlias = Annotated[Path | None, Option("--output", "-o", help=TABLE)]
AsJson: TypeAlias = Annotated[
    bool, Option("--json", help="Print the result as JSON on standard output.")
]
Quiet: TypeAlias = Annotated[
    bool, Option("--quiet", "-q", help="Print only errors, warnings and the requested output.")
]
Debug: TypeAlias = Annotated[bool, Option("--debug", help="Print a traceback if an error occurs.")]

KINDS = f"Fit this kind of model: {', '.join(ESTIMATORS)}; or give the name of its class."
COVARIANCE = (
    "Fit a mixture with these covariances: full, tied, diag, spherical, tied_diag, "
    "tied_spherical, or auto to choose among them. It is a GaussianMixture; without this option, "
    "mixture fits SphericalMixture."
)
SETTING = (
    "Set any other parameter of the model; the option may be repeated. --set help lists those "
    "that KIND takes."
)
LAYOUT = (
    "Print a table for a terminal, json for the whole document, or csv for the parameters with "
    "one row per component."
)
NUMBER = (
    "Fit this number of components. auto chooses it; a range or a list fits a model for each "
    "number, shows their BIC, and writes the one of least BIC."
)
SCALE = (
    "Divide each feature by its standard deviation in the file; the model stores it, and its "
    "answers are in the units of the file."
)


def typed_rows(
    files: Sequence[str],
    sep: str | None,
    decimal: str | None,
    na_values: Sequence[str] | None,
    columns: str | None,
    target: str | None,
    **more: Any,
) -> tuple[InputFiles, Columns]:
    """Return the files and the columns that a command reads, as their options say.

    ``more`` are those of ``Columns.typed`` that not every command has.
    """
    from implicitmoments.cli.columns import Columns  # noqa: PLC0415 (--help does without)
    from implicitmoments.cli.input_files import InputFiles  # noqa: PLC0415

    given = InputFiles.of(files, sep, decimal, na_values)
    return given, Columns.typed(columns, target, **more)


def kinds_beginning(typed: str) -> list[str]:
    """Return the kinds that a shell may complete."""
    return [kind for kind in ESTIMATORS if kind.startswith(typed)]


class Layout(StrEnum):
    """Forms of a description."""

    table = "table"
    json = "json"
    csv = "csv"
