"""Columns that a model was fitted to: their names, their order, and the scale of ``--scale``."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, to_numpy
from implicitmoments.cli.console import bad_input, print_note
from implicitmoments.cli.input_table import (
    CarriedColumns,
    Columns,
    is_array,
    is_number,
    open_table,
)
from implicitmoments.estimator import fit_columns
from implicitmoments.rows import Block, Progress, RowDraws, Rows, Source, mean_and_covariance
from implicitmoments.rows.files import FileSource
from implicitmoments.saving import load

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative to a mean: a column that is constant


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """Columns of the file that a model was fitted to."""

    names: tuple[str, ...] | None  # of the features; None if the file had no names
    n_features: int
    # the columns of labels (``"target"``) and weights (``"weight"``), and the numbers of the
    # features (``"features"``) if they have no names
    given: Mapping[str, str]
    scale: Floats | None  # (n_features,), what the features were divided by

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
        return cls(texts, model.n_features_in_, given, scale)

    @property
    def labels(self) -> list[str]:
        """The names of the features, or x0, x1, … if they have none."""
        return list(self.names or (f"x{j}" for j in range(self.n_features)))

    @property
    def numbers(self) -> list[str]:
        """The numbers of the features in a file without names."""
        if "features" in self.given:
            return self.given["features"].split(",")
        taken = [self.given.get(name) for name in ("target", "weight")]
        free = [str(j) for j in range(self.n_features + len(taken)) if str(j) not in taken]
        return free[: self.n_features]

    def choose(self, model: Any, path: str, columns: Columns, *, labelled: bool) -> Columns:
        """Complete the given columns by those of the fit; labels only if they are needed.

        Columns of arrays have no names; without numbers all of them are features.
        """
        names, given = self.names, self.given
        if is_array(path):
            names = None
            given = {name: words for name, words in given.items() if is_number(words)}
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

    def order(self, source: FileSource, columns: Columns, quiet: bool) -> list[int] | None:
        """Return the place of each feature among the columns that were typed; None for as given.

        A note says which column stands for which feature if names differ.
        """
        if columns.features is None or "columns" in columns.from_model:
            return None
        there = source.feature_names
        if self.names is None and there is not None:
            return None  # a model without names takes columns in the order they are typed in
        own = self.numbers if self.names is None else list(self.names)
        typed = list(columns.features if there is None else there)
        if sorted(own) == sorted(typed):
            return None if own == typed else [typed.index(name) for name in own]
        if not quiet:
            called = [f"column {j}" for j in typed] if there is None else typed
            pairs = [f"{b} for {a}" for a, b in zip(own, called, strict=True) if a != b]
            print_note("columns_by_position", pairs=pairs)
        return None

    def log_volume(self, model: Any) -> float:
        """Return by how much log densities of scaled columns exceed those of the columns."""
        if self.scale is None or model.density_of_labels:
            return 0.0
        return math.fsum(np.log(self.scale))

    def in_file_units(self, model: Any) -> dict[str, Array]:
        """Return the fitted attributes that have units, in those of the file that was fitted."""
        scale = 1.0 if self.scale is None else self.scale
        return {
            name: to_numpy(getattr(model, name)) * (scale if name in model.points else 1 / scale)
            for name in (*model.points, *model.slopes)
            if hasattr(model, name)
        }

    def deviations(self, model: Any) -> Floats | None:
        """Return the standard deviation of each column within components, in file units.

        Of shape (n_features,), or (n_components, n_features) if components differ.
        """
        variance = getattr(model, "variance_", None)
        if self.scale is None or variance is None:
            return None
        deviation = np.sqrt(np.asarray(to_numpy(variance), dtype=np.float64))
        return np.asarray(deviation[..., None] * self.scale)

    def with_scaled_names(self, model: Any) -> Any:
        """Return a copy of the model whose columns are named as what they are: "width / 2.5"."""
        twin = copy.copy(model)
        if self.scale is not None:
            pairs = zip(self.labels, self.scale, strict=True)
            twin.feature_names_in_ = np.asarray([f"{n} / {s:.4g}" for n, s in pairs], dtype=object)
        return twin


class ModelRows(Source):
    """Rows of a file as a model takes them: columns in its order, divided by its scale.

    ``order`` holds the columns of the source in the order of the model. ``feature_names`` and
    ``columns`` are for a fit to store; a fitted model would compare names with its own.
    """

    n_rows: int

    def __init__(
        self,
        source: Source,
        order: list[int] | None = None,
        scale: Floats | None = None,
        *,
        feature_names: tuple[str, ...] | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        self.n_rows, self.n_features = source.n, source.n_features
        self.feature_names, self.columns = feature_names, dict(columns or {})
        self._source, self._order, self._scale = source, order, scale

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read rows of the file, and lay them out for the model."""
        return self._lay_out(self._source.read(rows, rng))

    def pick(self, rows: Any, *, what: str = "") -> Block:
        """Return some rows by their numbers."""
        return self._lay_out(self._source.pick(rows, what=what))

    def _lay_out(self, block: Block) -> Block:
        x = block["x"]
        if self._order is not None:
            x = np.ascontiguousarray(x[:, self._order])
        if self._scale is not None:
            x = x / self._scale.astype(x.dtype)
        return {**block, "x": x}


def column_scales(source: Source, progress: Progress | None = None) -> Floats:
    """Return the standard deviation of each column in one pass; 1 for one that is constant."""
    found = mean_and_covariance(Rows(source, progress=progress))
    deviations = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    varies = deviations > ROUNDING * np.abs(found.mean)
    return np.where(varies, deviations, 1.0)


def load_model(path: Path) -> tuple[Any, ModelColumns]:
    """Load a fitted model, and the columns it was fitted to."""
    if str(path) == "-":
        raise bad_input("model_from_standard_input")
    model = load(path)
    return model, ModelColumns.of(model)


@contextmanager
def open_for_model(
    model: Any, path: str, columns: Columns, *, labelled: bool = True, quiet: bool
) -> Iterator[tuple[ModelRows, CarriedColumns | None]]:
    """Open a file of rows as a model takes them: columns in its order, divided by its scale.

    Beside them come the columns that are copied beside the answers.
    """
    own = ModelColumns.of(model)
    chosen = own.choose(model, path, columns, labelled=labelled)
    with open_table(path, chosen) as (source, carried):
        if source.n_dropped and not quiet:
            print_note("incomplete_rows_dropped", n=source.n_dropped)
        if source.n_features != own.n_features:
            raise bad_input("features_differ", found=source.n_features, expected=own.n_features)
        yield ModelRows(source, own.order(source, chosen, quiet), own.scale), carried
