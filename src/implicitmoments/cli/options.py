"""Options and arguments that commands share, and the longer help texts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

from implicitmoments.registry import ESTIMATORS

ModelFile: TypeAlias = Annotated[
    Path, Argument(metavar="MODEL", help="A model file written by fit.", show_default=False)
]
ROWS = (
    "The rows: .csv, .csv.gz, .tsv, .parquet, .arrow, .npy, .zarr, or - for CSV from standard "
    "input; .txt and names without a suffix are read as CSV."
)
RowsFile: TypeAlias = Annotated[str, Argument(metavar="FILE", help=ROWS, show_default=False)]
FEATURES = (
    "The features, by name or number. Default: those the model was fitted to; in fit all columns "
    "except those of --target and --weight."
)
FeatureNames: TypeAlias = Annotated[
    str | None, Option("--columns", metavar="A,B,C", help=FEATURES)
]
Target: TypeAlias = Annotated[
    str | None, Option("--target", metavar="NAME", help="The column of labels.")
]
Weight: TypeAlias = Annotated[
    str | None, Option("--weight", metavar="NAME", help="The column of sample weights.")
]
DropMissing: TypeAlias = Annotated[
    bool, Option("--drop-missing", help="Leave out rows with missing numbers.")
]
TABLE = (
    "The file to write: .csv, .tsv, .json, .npy, .parquet or .arrow. The default, or -, is CSV on "
    "standard output."
)
WriteTo: TypeAlias = Annotated[Path | None, Option("--output", "-o", help=TABLE)]
AsJson: TypeAlias = Annotated[
    bool, Option("--json", help="Print the result as JSON on standard output.")
]
Quiet: TypeAlias = Annotated[
    bool, Option("--quiet", "-q", help="Print only errors, warnings and the requested output.")
]
Debug: TypeAlias = Annotated[bool, Option("--debug", help="Print a traceback if an error occurs.")]

KINDS = f"The kind of model: {', '.join(ESTIMATORS)}; or the name of its class."
COVARIANCE = (
    "Covariances of a mixture: full, tied, diag, spherical, tied_diag, tied_spherical, or auto to "
    "choose among them. Fits GaussianMixture; without it, mixture fits SphericalMixture."
)
SETTING = (
    "Any other parameter of the model; may be repeated. --set help lists those that KIND takes."
)
LAYOUT = (
    "table for a terminal, json for the whole document, csv for the parameters, one row per "
    "component."
)
NUMBER = (
    "The number of components. auto chooses it; a range or a list fits a model for each number, "
    "shows their BIC, and writes the one of least BIC."
)
SCALE = (
    "Divide each feature by its standard deviation in the file; the model stores it, and its "
    "answers are in the units of the file."
)


def kinds_beginning(typed: str) -> list[str]:
    """Return the kinds that a shell may complete."""
    return [kind for kind in ESTIMATORS if kind.startswith(typed)]


class Layout(StrEnum):
    """Forms of a description."""

    table = "table"
    json = "json"
    csv = "csv"
