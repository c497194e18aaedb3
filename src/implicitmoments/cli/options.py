"""Options and arguments that commands share, each described once, and checks of them."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

from implicitmoments.cli.console import bad_input

# suffixes of the files that commands can write
TABLE_KINDS = (".csv", ".tsv", ".json", ".npy", ".parquet", ".arrow")
PAGE_KINDS = (".html", ".htm")

ModelFile: TypeAlias = Annotated[
    Path, Argument(metavar="MODEL", help="A model file written by fit.", show_default=False)
]
ROWS = (
    "Rows: .csv, .csv.gz, .tsv, .parquet, .arrow, .npy, .zarr, or - for CSV from standard input; "
    ".txt and names without a suffix are read as CSV."
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
    "Output file: .csv, .tsv, .json, .npy, .parquet or .arrow. Default: CSV on standard output."
)
WriteTo: TypeAlias = Annotated[Path | None, Option("--output", "-o", help=TABLE)]
AsJson: TypeAlias = Annotated[
    bool, Option("--json", help="Print the result as JSON on standard output.")
]
Quiet: TypeAlias = Annotated[
    bool, Option("--quiet", "-q", help="Print only errors and the requested output.")
]
Debug: TypeAlias = Annotated[bool, Option("--debug", help="Print a traceback if an error occurs.")]


@dataclass(frozen=True)
class Columns:
    """Which columns are features, labels and weights."""

    features: tuple[str, ...] | None = None  # all other columns by default
    target: str | None = None
    weight: str | None = None
    # whether rows that lack a number are left out; they are refused otherwise
    drop_missing: bool = False
    carried: tuple[str, ...] = ()  # columns that are written beside the answers
    # which of ``"columns"`` and ``"y"`` are those of the model, and were not typed
    from_model: frozenset[str] = frozenset()

    @classmethod
    def typed(
        cls,
        columns: str | None,
        target: str | None,
        weight: str | None = None,
        *,
        drop_missing: bool = False,
        carried: str | None = None,
    ) -> Columns:
        """Split names at commas, except between quotes, as in CSV."""
        features = None if columns is None else _names(columns, "--columns")
        beside = () if carried is None else _names(carried, "--keep")
        return cls(features, target, weight, drop_missing, beside)

    def with_features(self, features: tuple[str, ...]) -> Columns:
        """Take the features that a model was fitted to."""
        return replace(self, features=features, from_model=self.from_model | {"columns"})

    def with_target(self, target: str) -> Columns:
        """Take the labels that a model was fitted to."""
        return replace(self, target=target, from_model=self.from_model | {"y"})


def _names(text: str, option: str) -> tuple[str, ...]:
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names:
        raise bad_input("no_names", option=option, text=text)
    return tuple(names)


def check_output(
    path: Path, *read: str | Path, kinds: tuple[str, ...] = (), option: str = "-o"
) -> None:
    """Raise before any work if a file cannot be written, or is one of those that are read.

    It must have a suffix of ``kinds``, if there are any. The path was given by ``option``.
    """
    device = path.absolute().is_relative_to("/dev")  # /dev/stdout may be a file by another name
    if str(path) == "-" or device or (path.exists() and not path.is_file() and not path.is_dir()):
        instead = (
            "omit -o for standard output" if kinds == TABLE_KINDS else f"give {option} a file"
        )
        raise bad_input("output_not_a_file", path=path, instead=instead)
    target = Path(os.path.realpath(path))
    if kinds and target.suffix.lower() not in kinds:
        raise bad_input("output_kind", path=path, suffix=target.suffix, kinds=", ".join(kinds))
    if target.is_dir():
        raise bad_input("output_is_folder", path=path)
    if not target.parent.is_dir():
        raise bad_input("output_without_folder", path=path, folder=target.parent)
    places = (target.parent, *([target] if target.exists() else []))
    if not all(os.access(place, os.W_OK) for place in places):
        raise bad_input("output_not_permitted", path=path)
    if any(str(each) != "-" and Path(os.path.realpath(each)) == target for each in read):
        raise bad_input("output_is_input", path=path, option=option)
