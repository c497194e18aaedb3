"""Rows that a command reads: files or standard input, and the columns that a model takes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.cli.columns import Columns, ModelColumns
from implicitmoments.cli.console import (
    OPTIONS,
    bad_input,
    check_model_path,
    name_full_device,
    print_note,
)
from implicitmoments.cli.input_files import InputFiles
from implicitmoments.notes import CodedError, InputError
from implicitmoments.rows import (
    Block,
    FileTable,
    Progress,
    RowDraws,
    Rows,
    Table,
    leave_out_outliers,
    mean_and_covariance,
    open_file,
    read_columns,
)
from implicitmoments.saving import load

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


@contextmanager
def open_table(
    files: InputFiles, columns: Columns, *, keep_missing: bool = False
) -> Iterator[tuple[FileTable, CarriedColumns | None]]:
    """Open files of rows, and the columns of them that are copied to the output.

    ``-`` is CSV from standard input, and a named pipe is read likewise. A file whose name does
    not say what it holds is read as CSV too. With ``keep_missing``, rows that lack a number are
    kept.
    """
    with ExitStack() as stack:
        with ExitStack() as copies:  # which are parsed at once
            places = [_place(path, copies) for path in files.paths]
            try:
                source = stack.enter_context(_open(files, places, columns, keep_missing))
                carried = _carried(files, places, columns)
            except CodedError as error:
                raise _renamed(error, dict(zip(places, files.paths, strict=True))) from error
            if carried is not None:
                stack.enter_context(copies.pop_all())
        yield source, carried


def _renamed(error: CodedError, paths: Mapping[str, str]) -> CodedError:
    """Return an error with the names of files as they were typed, instead of those of copies."""
    named = {name: paths.get(str(error.values.get(name))) for name in ("file", "other_file")}
    values = {n: "standard input" if p == "-" else p for n, p in named.items() if p is not None}
    return type(error)(error.code, error.template, **{**error.values, **values})


def _place(path: str, stack: ExitStack) -> str:
    """Return a path whose suffix says what the file holds: that of a copy or a link if need be."""
    place = Path(path)
    suffix, piped = place.suffix.lower(), path == "-" or place.is_fifo()
    if not piped and suffix in OTHERS and place.is_file():
        raise bad_input("not_rows", file=path, suffix=suffix, advice=OTHERS[suffix])
    if not piped and not (suffix in AS_CSV and place.is_file()):
        return path
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="implicitmoments-"))
    held = Path(folder, "rows")
    if piped:
        _copy(path, held)
    else:
        held.symlink_to(place.resolve())
    with open(held, "rb") as file:
        compressed = file.read(len(GZIP)) == GZIP
    return str(held.rename(held.with_suffix(".csv.gz" if compressed else ".csv")))


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


def _carried(files: InputFiles, places: Sequence[str], columns: Columns) -> CarriedColumns | None:
    """Begin to read columns."""
    if not columns.carried:
        return None
    return CarriedColumns(*read_columns(places, columns.carried, "--keep", files.text))


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


def _open(
    files: InputFiles, places: Sequence[str], columns: Columns, keep_missing: bool
) -> FileTable:
    """Open files; columns may be given by number if the files have no matching names."""
    typed, by_number = (_arguments(columns, numbers) for numbers in (files.unnamed, True))
    how: dict[str, Any] = {**vars(files.text), "keep_missing": keep_missing}
    given: Any = places[0] if len(places) == 1 else list(places)
    try:
        try:
            return open_file(given, **typed, **how)
        except InputError as error:
            if error.code != "no_such_column" or by_number == typed:
                raise
            try:
                return open_file(given, **by_number, **how)
            except InputError as other:
                if other.code not in ("no_such_column", "no_such_column_number"):
                    raise  # the columns are there
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
        return int(name) if numbers and name is not None and name.isdecimal() else name

    return {
        "columns": columns.features and [one(name) for name in columns.features],
        "y": one(columns.target),
        "sample_weight": one(columns.weight),
        "drop_missing": columns.drop_missing,
    }


class ModelRows(Table):
    """Rows of a file as a model takes them: columns in its order, divided by its scale.

    ``order`` holds the columns of the source in the order of the model. ``feature_names`` and
    ``columns`` are for a fit to store; a fitted model would compare names with its own.
    """

    n_rows: int

    def __init__(
        self,
        source: Table,
        order: list[int] | None = None,
        scale: Floats | None = None,
        *,
        feature_names: tuple[str, ...] | None = None,
        columns: Mapping[str, Any] | None = None,
        other_columns: Sequence[str] = (),
    ) -> None:
        self.n_rows, self.n_features = source.n, source.n_features
        self.feature_names, self.columns = feature_names, dict(columns or {})
        self.other_columns = tuple(other_columns)  # of the file, which the model does not take
        self._source, self._order, self._scale = source, order, scale

    def read(self, rows: range, rng: RowDraws) -> Block:
        """Read rows of the file, and lay them out for the model."""
        return self._lay_out(self._source.read(rows, rng))

    def pick(self, rows: Any, *, what: str = "") -> Block:
        """Return some rows by their numbers."""
        return self._lay_out(self._source.pick(rows, what=what))

    def _file_rows(self, rows: Any) -> Any:
        return self._source._file_rows(rows)

    def _lay_out(self, block: Block) -> Block:
        x = block["x"]
        if self._order is not None:
            x = np.ascontiguousarray(x[:, self._order])
        if self._scale is not None:
            x = x / self._scale.astype(x.dtype)
        return {**block, "x": x}


def column_scales(source: Table, progress: Progress | None = None) -> Floats:
    """Return the standard deviation of each column without outliers; 1 for a constant one."""
    rows, _, _ = leave_out_outliers(Rows(source, progress=progress), 1)
    found = mean_and_covariance(rows)
    deviations = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    varies = deviations > ROUNDING * np.abs(found.mean)
    return np.where(varies, deviations, 1.0)


def load_model(path: Path) -> tuple[Any, ModelColumns]:
    """Load a fitted model, and the columns it was fitted to."""
    check_model_path(path)
    model = load(path)
    return model, ModelColumns.of(model)


@contextmanager
def open_for_model(
    model: Any,
    files: InputFiles,
    columns: Columns,
    *,
    labelled: bool = True,
    keep_missing: bool = False,
    quiet: bool,
) -> Iterator[tuple[ModelRows, CarriedColumns | None]]:
    """Open files of rows as a model takes them: columns in its order, divided by its scale.

    Columns that are copied to the output come with them.
    """
    own = ModelColumns.of(model)
    chosen = own.choose(model, columns, unnamed=files.unnamed, labelled=labelled)
    with open_table(files, chosen, keep_missing=keep_missing) as (source, carried):
        if source.n_dropped and not quiet:
            print_note("incomplete_rows_dropped", n=source.n_dropped)
        if source.n_features != own.n_features:
            raise bad_input("features_differ", found=source.n_features, expected=own.n_features)
        order, others = own.order(source, chosen, quiet), source.other_columns
        yield ModelRows(source, order, own.scale, other_columns=others), carried
