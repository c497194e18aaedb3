"""Columns of a file: those that a user names, and those that a model was fitted to."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.cli.console import bad_input, print_note
from implicitmoments.column_names import as_unnamed, column_place
from implicitmoments.description import FileUnits, column_names, fit_columns

if TYPE_CHECKING:
    from implicitmoments.rows import FileTable


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


def _names(text: str, option: str) -> tuple[str, ...]:
    names = next(csv.reader([text], skipinitialspace=True), [])
    if not names:
        raise bad_input("no_names", option=option, text=text)
    return tuple(names)


def _places(words: str) -> str | None:
    """Return columns as their numbers in a file without names; None for a name that is none."""
    places = [column_place(word) for word in words.split(",")]
    return None if None in places else ",".join(map(str, places))


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """Columns of the file that a model was fitted to."""

    names: tuple[str, ...] | None  # of the features; None if the file had no names
    n_features: int
    # the columns of labels (``"target"``) and weights (``"weight"``), and the places of the
    # features (``"features"``) if they have no names
    given: Mapping[str, str]
    scale: Floats | None  # (n_features,), what the features were divided by
    labels: Sequence[str]  # the names of the features, or their places, x0, x1, …

    @classmethod
    def of(cls, model: Any) -> ModelColumns:
        """Return the columns of a fitted model; raise if they cannot be those of its file."""
        stored: Any = fit_columns(model)
        named = isinstance(stored, dict) and all(
            isinstance(words, str) for name, words in stored.items() if name != "scale"
        )
        if not named:
            raise bad_input("model_columns_damaged")
        given, names = dict(stored), getattr(model, "feature_names_in_", None)
        scale = given.pop("scale", None)
        if scale is not None and not (
            isinstance(scale, np.ndarray)
            and scale.shape == (model.n_features_in_,)
            and scale.dtype == np.float64
            and np.all(np.isfinite(scale) & (scale > 0))
        ):
            raise bad_input("model_scale_damaged")
        texts = None if names is None else tuple(map(str, names))
        return cls(texts, model.n_features_in_, given, scale, column_names(model))

    def choose(self, model: Any, columns: Columns, *, unnamed: bool, labelled: bool) -> Columns:
        """Complete the given columns by those of the fit; labels only if they are needed.

        ``unnamed``: the columns of the rows have no names; without places all are features.
        Places are given as numbers, which a file with names is asked for too.
        """
        names, given = self.names, self.given
        if unnamed or names is None:
            names, places = None, {name: _places(words) for name, words in given.items()}
            given = {name: words for name, words in places.items() if words is not None}
        if names is None and "features" in given:
            names = tuple(given["features"].split(","))
        if columns.features is None and names is not None:
            columns = replace(columns, features=names, from_model=frozenset({"columns"}))
        if labelled and model.labelled and columns.target is None:
            if "target" not in given:
                raise bad_input("target_required", kind=model.kind)
            own = columns.from_model | {"y"}
            columns = replace(columns, target=given["target"], from_model=own)
        return columns

    def order(self, source: FileTable, columns: Columns, quiet: bool) -> list[int] | None:
        """Return the place of each feature among the columns that were typed; None for as given.

        A note says which column stands for which feature if names differ.
        """
        if columns.features is None or "columns" in columns.from_model:
            return None
        there = source.feature_names
        if self.names is None and there is not None:
            return None  # a model without names takes columns in the order they are typed in
        own, typed = list(self.labels), list(there or ())
        if there is None:
            typed = [as_unnamed(word) or word for word in columns.features]
        if sorted(own) == sorted(typed):
            return None if own == typed else [typed.index(name) for name in own]
        if not quiet:
            pairs = [f"{b} for {a}" for a, b in zip(own, typed, strict=True) if a != b]
            print_note("columns_by_position", pairs=pairs)
        return None

    @property
    def units(self) -> FileUnits:
        """The units of the file that was fitted."""
        return FileUnits(self.scale)

    def log_volume(self, model: Any) -> float:
        """Return by how much log densities of scaled columns exceed those of the columns."""
        return self.units.log_volume(model)

    def in_file_units(self, model: Any) -> dict[str, Any]:
        """Return the fitted attributes that have units, in those of the file that was fitted."""
        return self.units.attributes(model)

    def deviations(self, model: Any) -> Floats | None:
        """Return the standard deviation of each column within components, in file units."""
        return self.units.deviations(model)
