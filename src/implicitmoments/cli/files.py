"""Files that commands read and write: rows, and tables of results."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.notes import InputError
from implicitmoments.rows import Block, open_file
from implicitmoments.saving import replace_file

ROWS = 65_536  # of a block: results are written while files are read
Results: TypeAlias = Mapping[str, Any]  # columns of some rows


@contextmanager
def open_rows(files: Sequence[Path], options: Mapping[str, Any], **more: Any) -> Iterator[Any]:
    """Open the rows of files by the options of a command."""
    given = {name: value for name, value in {**options, **more}.items() if value is not None}
    if isinstance(given.get("columns"), str):
        given["columns"] = next(csv.reader([given["columns"]], skipinitialspace=True))
    with on_disk(files) as paths, open_file(paths, **given) as source:
        yield source


@contextmanager
def on_disk(files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """Copy standard input, ``-``, to a temporary CSV file, which can be read several times."""
    if Path("-") not in files:
        yield files
        return
    with tempfile.TemporaryDirectory(prefix="implicitmoments-") as folder:
        copy = Path(folder, "standard-input.csv")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield [copy if path == Path("-") else path for path in files]


def open_for_model(
    model: Any,
    files: Sequence[Path],
    options: Mapping[str, Any],
    *,
    labelled: bool,
    keep_missing: bool = False,
) -> Any:
    """Open rows with the columns that a model was fitted to, or those that were given."""
    fitted = getattr(model, "columns_in_", {})
    columns, y = options["columns"], options["y"]
    if columns is None and hasattr(model, "feature_names_in_"):
        columns = list(model.feature_names_in_)
    elif columns is None:
        columns = fitted.get("features")  # of a file without names, where some were chosen
    if y is None and labelled and model.labelled:
        y = fitted.get("target")
    more = {"columns": columns, "y": y, "keep_missing": keep_missing}
    return open_rows(files, options, **more)


def check_output(output: Path | None, inputs: Iterable[Path]) -> None:
    """Raise before any work for an output that cannot be written, or is an input."""
    if output is None:
        return
    reason = ""
    if output.is_dir():
        reason = "it is a folder"
    elif not output.parent.is_dir():
        reason = f"there is no folder {output.parent}"
    elif any(path.exists() and output.exists() and output.samefile(path) for path in inputs):
        reason = "it is an input file"
    if reason:
        raise InputError(
            "bad_output",
            "{path} cannot be written: {reason}; give another --output",
            path=str(output),
            reason=reason,
        )


def unused(name: str, taken: Collection[str]) -> str:
    """Return a name of a column that is not taken, by underscores at its end.

    Examples
    --------
    >>> unused("weight", ["height"]), unused("weight", ["weight"])
    ('weight', 'weight_')
    """
    while name in taken:
        name += "_"
    return name


def write_table(output: Path | None, pieces: Iterable[Results]) -> None:
    """Write columns as CSV, or as Parquet by the suffix; without a path to standard output.

    A file appears when it is complete. Pieces are written as they come.
    """
    if output is None:
        sys.stdout.flush()
        write_pieces(sys.stdout.buffer, pieces, ".csv")
        sys.stdout.flush()
        return
    with replace_file(output) as file:
        write_pieces(file, pieces, output.suffix.lower())


def write_pieces(file: Any, pieces: Iterable[Results], suffix: str) -> None:
    """Write columns to a binary file with Arrow."""
    import pyarrow as pa  # noqa: PLC0415 (only for tables)
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.parquet  # noqa: PLC0415

    kind = pa.parquet.ParquetWriter if suffix == ".parquet" else pa.csv.CSVWriter
    with ExitStack() as stack:
        writer = None
        for piece in pieces:
            table = pa.table({name: pa.array(column) for name, column in piece.items()})
            if writer is None:
                writer = stack.enter_context(kind(file, table.schema))
            writer.write_table(table)


def complete_rows(block: Block) -> Any:
    """Return which rows of a block lack no number, (n,)."""
    columns = [np.asarray(column) for column in block.values()]
    return np.isfinite(np.column_stack(columns)).all(axis=1)
