"""Output of commands: a fitted model as a table or a document, and tables of rows in files."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from implicitmoments.arrays import to_numpy
from implicitmoments.cli.console import (
    as_typed,
    bad_input,
    name_full_device,
    print_line,
    print_tables,
    show_progress,
)
from implicitmoments.cli.input_rows import ModelColumns, load_model
from implicitmoments.estimator import Table as Parameters
from implicitmoments.estimator import findings_of
from implicitmoments.notes import Note, Notes
from implicitmoments.rows.files import require
from implicitmoments.saving.files import whole_file

if TYPE_CHECKING:
    from implicitmoments.cli.progress import PassProgress

# suffixes of the files that commands can write
TABLE_KINDS = (".csv", ".tsv", ".json", ".npy", ".parquet", ".arrow")
PAGE_KINDS = (".html", ".htm")
Piece: TypeAlias = Mapping[str, np.ndarray[Any, Any]]  # columns of some rows
MOST_COMPONENTS, MOST_FEATURES = 12, 6  # in a printed table: terminals have 80 columns, 24 lines
# notes after which scaling of the columns is suggested
UNLIKE_COLUMNS = ("columns_differ_in_spread", "flat_direction")


def describe_file(path: Path, *, as_json: bool) -> None:
    """Print the contents of a model file."""
    model, columns = load_model(path)
    if as_json:
        print_document(model_document(model, columns))
        return
    rows = [
        ("model", type(model).__name__),
        ("features", ", ".join(columns.labels)),
        *((name, columns.given[name]) for name in ("target", "weight") if name in columns.given),
    ]
    parameters = model.get_params(deep=False).items()
    written = "parameters: " + ", ".join(f"{name}={value!r}" for name, value in parameters)
    print_tables(*model_tables(model, columns, rows, between=[written]))


def model_document(model: Any, columns: ModelColumns) -> dict[str, Any]:
    """Return a fitted model as a document."""
    found = {name.rstrip("_"): getattr(model, name, None) for name in model.results}
    document = {
        "model": model.kind,
        "estimator": type(model).__name__,
        "features": columns.labels,
        "columns": columns.given,
        "parameters": model.get_params(deep=False),
        "found": {
            name: to_numpy(value) if hasattr(value, "shape") else value
            for name, value in found.items()
            if value is not None
        },
    }
    notes = _notes(model, columns)
    if columns.scale is not None:
        notes.append(Note("found_is_scaled"))
        found_in_units = columns.in_file_units(model).items()
        in_units = {name.rstrip("_"): value for name, value in found_in_units}
        deviations = columns.deviations(model)
        if deviations is not None:
            in_units["standard_deviations"] = deviations
        document["scale"] = dict(zip(columns.labels, columns.scale, strict=True))
        document["in_file_units"] = in_units
    document["notes"] = [
        {"code": note.code, "sentence": note.sentence(as_typed), "values": note.values}
        for note in notes
    ]
    return document


def print_document(document: Mapping[str, Any], indent: int | None = 2) -> None:
    """Print a document as JSON, with null for undefined numbers."""
    print_line(json.dumps(as_json_values(document), indent=indent, ensure_ascii=False))


def as_json_values(value: Any) -> Any:
    """Return a JSON-compatible value: lists of numbers, and null for non-finite ones.

    Examples
    --------
    >>> import numpy as np
    >>> as_json_values({"weights": np.array([0.5, np.nan]), "k": np.int64(2)})
    {'weights': [0.5, None], 'k': 2}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): as_json_values(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json_values(each) for each in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def model_tables(
    model: Any,
    columns: ModelColumns,
    rows: Sequence[tuple[str, str]] = (),
    between: Sequence[str] = (),
) -> list[Any]:
    """Return the printed summary of a fitted model: components, findings, notes.

    ``rows`` of names and values come before the findings, ``between`` after them.
    """
    findings = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    hidden = {"weights", model.score_name}  # in the table of components, and among the rows
    found = {name: value for name, value in findings_of(model).items() if name not in hidden}
    for name, value in (*rows, *found.items(), *_scaled_rows(model, columns)):
        scaled = name == "variance" and columns.scale is not None
        findings.add_row("variance (scaled)" if scaled else name, value)
    notes = [f"note: {note.sentence(as_typed)}" for note in _notes(model, columns)]
    return [*_component_tables(model, columns), findings, *between, *notes]


def short_list(words: Sequence[str]) -> str:
    """Return words separated by commas; long lists are truncated.

    Examples
    --------
    >>> short_list([f"x{j}" for j in range(9)])
    'x0, x1, x2, x3, …, x8 (9)'
    """
    if len(words) <= MOST_FEATURES:
        return ", ".join(words)
    return ", ".join([*words[: MOST_FEATURES - 2], "…", words[-1]]) + f" ({len(words):,})"


def _component_tables(model: Any, columns: ModelColumns) -> list[Table]:
    """Return tables of the first components, in the units of the file.

    Means or coefficients, and standard deviations where components have covariances.
    """
    if not model.vectors or not hasattr(model, model.vectors):
        return []
    twin = copy.copy(model)
    vars(twin).update(columns.in_file_units(model))
    number = 2 if hasattr(model, "covariances_") else 1
    return [_shown_table(each, columns.n_features) for each in twin._parameter_tables()[:number]]


def _shown_table(found: Parameters, d: int) -> Table:
    """Return a table whose last ``d`` columns are features, cut to what a terminal shows."""
    cut = d > MOST_FEATURES
    shown = len(found.columns) - d + (MOST_FEATURES - 1 if cut else d)
    table = Table(box=SIMPLE_HEAD, title=found.name)
    for head in [*found.columns[:shown], *["…"] * cut]:
        table.add_column(head, justify="right")
    for row in found.rows[:MOST_COMPONENTS]:
        table.add_row(
            *(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row[:shown]), *["…"] * cut
        )
    if len(found.rows) > MOST_COMPONENTS:
        table.caption = f"{len(found.rows) - MOST_COMPONENTS} more; --json has all of them"
    return table


def _scaled_rows(model: Any, columns: ModelColumns) -> list[tuple[str, str]]:
    """Return the scale of the columns, and their deviation within components."""
    deviations = columns.deviations(model)
    named = {"columns were divided by": columns.scale}
    if deviations is not None and deviations.ndim == 1:
        named["standard deviation within components"] = deviations
    return [
        (what, short_list([f"{n} {v:.4g}" for n, v in zip(columns.labels, numbers, strict=True)]))
        for what, numbers in named.items()
        if numbers is not None
    ]


def _notes(model: Any, columns: ModelColumns) -> Notes:
    """Return the notes of a fit, and what the command line adds to them."""
    notes = Notes(model.notes_)
    if not set(notes.codes).isdisjoint(UNLIKE_COLUMNS):
        notes.append(Note("scale_columns" if columns.scale is None else "columns_were_scaled"))
    return notes


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


def write_table(
    path: Path | None,
    pieces: Iterable[Piece],
    n_rows: int,
    *,
    what: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write a table incrementally, in the format of its suffix; to stdout without a path.

    Standard output gets CSV, or JSON if asked for; with a path, JSON is the number of rows and
    the path. ``what`` names the progress.
    """
    if path is None:
        with name_full_device("standard output"):
            _write_text(pieces, sys.stdout, ".json" if as_json else ".csv")
        return
    kind = path.suffix.lower()
    with (
        show_progress(quiet) as progress,
        name_full_device(str(path)),
        whole_file(path) as file,
    ):
        pieces = _watch(pieces, progress, what, n_rows)
        if kind == ".npy":
            _write_npy(pieces, file, n_rows)
        elif kind in (".parquet", ".arrow"):
            _write_arrow(pieces, file, kind)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            _write_text(pieces, text, kind)
            text.detach()
    if as_json:
        print_document({"rows": n_rows, "output": str(path)}, indent=None)


def _watch(
    pieces: Iterable[Piece], progress: PassProgress | None, what: str, n_rows: int
) -> Iterator[Piece]:
    """Show the progress of pieces as they are written."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(next(iter(piece.values())))
        if progress is not None:
            progress(what, done, n_rows)


def _write_text(pieces: Iterable[Piece], file: IO[str], kind: str) -> None:
    """Write CSV, TSV, or a JSON list with one object per row."""
    if kind == ".json":
        before = "[\n"
        for piece in pieces:
            for row in _rows(piece):
                record = as_json_values(dict(zip(piece, row, strict=True)))
                file.write(before + json.dumps(record, ensure_ascii=False))
                before = ",\n"
        file.write("[]\n" if before == "[\n" else "\n]\n")
    else:
        out = csv.writer(file, delimiter="\t" if kind == ".tsv" else ",", lineterminator="\n")
        for i, piece in enumerate(pieces):
            if i == 0:
                out.writerow(piece)
            out.writerows(_rows(piece))
    file.flush()


def _write_npy(pieces: Iterable[Piece], file: IO[bytes], n_rows: int) -> None:
    """Write an array, with one axis if there is one column."""
    for i, piece in enumerate(pieces):
        columns = [*piece.values()]
        rows = np.ascontiguousarray(columns[0] if len(columns) == 1 else np.column_stack(columns))
        if i == 0:
            shape, descr = (n_rows, *rows.shape[1:]), np.lib.format.dtype_to_descr(rows.dtype)
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(rows.tobytes())


def _write_arrow(pieces: Iterable[Piece], file: IO[bytes], kind: str) -> None:
    """Write a Parquet or Arrow file, one batch per piece."""
    name = kind[1:].capitalize()
    arrow, writer = require("pyarrow", name), None
    try:
        for piece in pieces:
            table = arrow.table(dict(piece))
            if writer is None and kind == ".parquet":
                writer = require("pyarrow.parquet", name).ParquetWriter(file, table.schema)
            elif writer is None:
                writer = require("pyarrow.ipc", name).new_file(file, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _rows(piece: Piece) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_numbers, piece.values()), strict=True)


def _numbers(column: np.ndarray[Any, Any]) -> list[Any]:
    """Return Python numbers; float32 in its shortest decimal form."""
    if column.dtype == np.float32:
        return [float(str(number)) for number in column]
    listed: list[Any] = column.tolist()
    return listed
