"""Options and arguments that commands share, each described once."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = [
    "KINDS",
    "AsJson",
    "Columns",
    "Debug",
    "DropMissing",
    "FeatureNames",
    "ModelFile",
    "Quiet",
    "Rows",
    "Target",
    "Weight",
    "WriteTo",
]

# the words of fit, and the classes that the library has for them
KINDS = {
    "mixture": "SphericalMixture",
    "density": "SphericalMixtureDensity",
    "clusters": "SphericalMixtureClusterer",
    "regressions": "RegressionMixture",
    "regression-density": "RegressionMixtureDensity",
    "activations": "ActivationSumRegressor",
}

ModelFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A file that fit has written.", show_default=False)
]
Rows: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Rows: .csv, .csv.gz, .tsv, .parquet, .arrow, .npy, .zarr, or - for CSV from "
        "standard input; .txt and names without an end are read as CSV.",
        show_default=False,
    ),
]
FeatureNames: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A,B,C",
        help="The features, by name or number. By default those the model was fitted to; in fit "
        "all columns but those of --target and --weight.",
    ),
]
Target: TypeAlias = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="The column of the labels.")
]
Weight: TypeAlias = Annotated[
    str | None,
    typer.Option("--weight", metavar="NAME", help="The column that says how often rows count."),
]
DropMissing: TypeAlias = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows that lack a number.")
]
WriteTo: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Where to: .csv, .tsv, .json, .npy, .parquet or .arrow. By default CSV on standard "
        "output.",
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output.")
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors and what was asked for.")
]
Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Print a traceback where something goes wrong.")
]


@dataclass(frozen=True)
class Columns:
    """Which columns are features, labels and weights, as they were typed; None for not at all.

    What a model chose in their place is in ``kept``: the library's word and the option. Rows that
    lack a number in one of them are refused, unless they are to be dropped. Columns ``along`` go
    along with answers.
    """

    features: tuple[str, ...] | None = None
    target: str | None = None
    weight: str | None = None
    drop_missing: bool = False
    along: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def typed(
        cls,
        columns: str | None,
        target: str | None,
        weight: str | None = None,
        *,
        drop_missing: bool = False,
        along: str | None = None,
    ) -> Columns:
        """Take names apart at commas, unless they stand between quotes, as in CSV."""
        features = None if columns is None else _names(columns, "--columns")
        beside = () if along is None else _names(along, "--keep")
        return cls(features, target, weight, drop_missing, beside)

    def keep(
        self, *, features: tuple[str, ...] | None = None, target: str | None = None
    ) -> Columns:
        """Take columns that a model was fitted to."""
        if features is not None:
            return replace(self, features=features, kept={**self.kept, "columns": "--columns"})
        return replace(self, target=target, kept={**self.kept, "y": "--target"})


def _names(text: str, option: str) -> tuple[str, ...]:
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names:
        raise ValueError(f"{option} takes names separated by commas, got {text!r}")
    return tuple(names)
