"""Rows that a command reads: a file or standard input, and the columns that a model takes."""

from __future__ import annotations

import copy
import csv
import math
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.cli.console import OPTIONS, bad_input, name_full_device, print_note
from implicitmoments.estimator import fit_columns
from implicitmoments.notes import CodedError, InputError
from implicitmoments.rows import (
    Block,
    Progress,
    RowDraws,
    Rows,
    Source,
    leave_out_outliers,
    mean_and_covariance,
    open_file,
)
from implicitmoments.rows.files import FileSource, read_columns
from implicitmoments.saving import load

ARRAYS = (".npy", ".zarr")  # have no column names
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative to a mean: a column that is constant

GZIP = b"\x1f\x8b"  # first bytes of a gzip file (RFC 1952)
AS_CSV = (".txt", ".dat", ".data", "")  # suffixes that do not say what a file holds
OTHERS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "is a spreadsheet; save it as CSV"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "is JSON; write its rows as CSV"),
    **dict.fromkeys((".zip", ".7z", ".rar"), "is an archive; unpack it"),
    **dict.fromkeys((".pkl", ".pickle"), "is pickled, which is not loaded; write it as CSV"),
    ".npz": "holds several arrays; write one of them as .npy, by numpy.save",
    ".im": "is a model, expected a file of rows",
}


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


@contextmanager
def open_table(path: str, columns: Columns) -> Iterator[tuple[FileSource, CarriedColumns | None]]:
    """Open a file of rows, and the columns of it that are copied to the output.

    ``-`` is CSV from standard input, and a named pipe is read likewise. A file whose name does
    not say what it holds is read as CSV too.
    """
    place = Path(path)
    suffix, piped = place.suffix.lower(), path == "-" or place.is_fifo()
    if not piped and suffix in OTHERS and place.is_file():
        raise bad_input("not_rows", file=path, suffix=suffix, advice=OTHERS[suffix])
    if not piped and not (suffix in AS_CSV and place.is_file()):
        with _open(path, columns) as source:
            yield source, _carried(path, columns)
        return
    with tempfile.TemporaryDirectory(prefix="implicitmoments-") as folder:
        held = Path(folder, "rows")
        if piped:
            _copy(path, held)
        else:
            held.symlink_to(place.resolve())
        with open(held, "rb") as file:
            compressed = file.read(len(GZIP)) == GZIP
        held = held.rename(held.with_suffix(".csv.gz" if compressed else ".csv"))
        try:
            source, carried = _open(str(held), columns), _carried(str(held), columns)
        except CodedError as error:
            name = "standard input" if path == "-" else path
            raise type(error)(
                error.code, error.template, **{**error.values, "file": name}
            ) from error
    with source:  # it was parsed, and its copy is deleted
        yield source, carried


class CarriedColumns:
    """Columns of a file, text or numbers, that are copied to the output.

    They come in record batches of Arrow, in the order of the rows.
    """

    def __init__(self, names: Sequence[str], batches: Iterable[Any]) -> None:
        self.names = tuple(names)
        self._rows = (
            row
            for batch in batches
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        )

    def take(self, n_rows: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return the columns of the next rows."""
        rows = list(islice(self._rows, n_rows))
        if len(rows) != n_rows:
            raise bad_input("rows_missing")
        columns = zip(self.names, zip(*rows, strict=True), strict=True)
        return {name: np.fromiter(cells, object, n_rows) for name, cells in columns}


def _is_array(path: str) -> bool:
    """Say whether the columns of a file have no names."""
    return path.rstrip("/").lower().endswith(ARRAYS)


def _is_number(words: str) -> bool:
    """Say whether a comma-separated list contains only column indices."""
    return all(word.isdecimal() for word in words.split(","))


def _carried(path: str, columns: Columns) -> CarriedColumns | None:
    """Begin to read columns; the file is open from then on, and may be deleted."""
    if not columns.carried:
        return None
    return CarriedColumns(*read_columns(Path(path), columns.carried, what="--keep"))


def _copy(path: str, held: Path) -> None:
    """Copy a stream that can be read only once to a file."""
    if path == "-" and sys.stdin is None:
        raise bad_input("standard_input_closed")
    with (
        name_full_device(f"the temporary folder {tempfile.gettempdir()}"),
        nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream,
        open(held, "wb") as file,
    ):
        shutil.copyfileobj(stream, file)


def _open(path: str, columns: Columns) -> FileSource:
    """Open a file; columns may be given by index if the file has no matching names."""
    typed, by_number = (_arguments(columns, numbers) for numbers in (_is_array(path), True))
    try:
        try:
            return open_file(path, **typed)
        except InputError as error:
            if error.code != "no_such_column" or by_number == typed:
                raise
            try:
                return open_file(path, **by_number)
            except InputError:
                raise error from None
    except InputError as error:
        what = error.values.get("what")
        if error.code != "no_such_column" or what not in columns.from_model:
            raise
        raise bad_input(
            "model_column_missing", **error.values, option=OPTIONS[str(what)]
        ) from error


def _arguments(columns: Columns, numbers: bool) -> dict[str, Any]:
    def one(name: str | None) -> Any:
        return int(name) if numbers and name is not None and _is_number(name) else name

    return {
        "columns": columns.features and [one(name) for name in columns.features],
        "y": one(columns.target),
        "sample_weight": one(columns.weight),
        "drop_missing": columns.drop_missing,
    }


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
        if _is_array(path):
            names = None
            given = {name: words for name, words in given.items() if _is_number(words)}
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

    def in_file_units(self, model: Any) -> dict[str, Any]:
        """Return the fitted attributes that have units, in those of the file that was fitted.

        Spherical covariances of scaled columns are diagonal in the units of the file.
        """
        scale = 1.0 if self.scale is None else self.scale
        found: dict[str, Any] = {
            name: to_numpy(getattr(model, name)) * (scale if name in model.points else 1 / scale)
            for name in (*model.points, *model.slopes)
            if getattr(model, name, None) is not None
        }
        if self.scale is None or not hasattr(model, "covariances_"):
            return found
        kind, factors = model.covariance_type_, self.scale**2
        if kind in ("full", "tied"):
            factors = np.outer(self.scale, self.scale)
        spherical = "spherical" in kind
        if spherical:
            factors = np.where(np.isin(np.arange(self.n_features), model._varying), factors, 0.0)
        for name in ("covariances_", "covariance_errors_"):
            if getattr(model, name, None) is not None:
                values = np.asarray(to_numpy(getattr(model, name)))
                found[name] = (values[..., None] if spherical else values) * factors
        return {**found, "covariance_type_": kind.replace("spherical", "diag")}

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
    """Return the standard deviation of each column without outliers; 1 for a constant one."""
    rows, _, _ = leave_out_outliers(Rows(source, progress=progress), 1)
    found = mean_and_covariance(rows)
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

    Columns that are copied to the output come with them.
    """
    own = ModelColumns.of(model)
    chosen = own.choose(model, path, columns, labelled=labelled)
    with open_table(path, chosen) as (source, carried):
        if source.n_dropped and not quiet:
            print_note("incomplete_rows_dropped", n=source.n_dropped)
        if source.n_features != own.n_features:
            raise bad_input("features_differ", found=source.n_features, expected=own.n_features)
        yield ModelRows(source, own.order(source, chosen, quiet), own.scale), carried
