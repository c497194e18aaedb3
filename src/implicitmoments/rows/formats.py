"""Files of numbers in CSV, Parquet, Arrow, .npy and Zarr: their columns, and tables of rows."""

from __future__ import annotations

import csv
import importlib
import io
import json
import mmap
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from implicitmoments.notes import CodedError, InputError
from implicitmoments.rows.table import blocks, check_cells
from implicitmoments.validation import unnamed_columns

Numbers: TypeAlias = np.ndarray[Any, Any]

# Codecs of numbers. A description may name others, and Zarr would run them: one of numcodecs'
# unpickles, and those of installed packages are imported.
CODECS = frozenset(
    (
        *("bytes", "endian", "transpose", "sharding_indexed", "crc32c", "gzip", "blosc", "zstd"),
        *("zlib", "bz2", "lzma", "lz4", "delta", "shuffle", "bitround", "fixedscaleoffset"),
        *("quantize", "packbits", "astype", "crc32", "adler32", "fletcher32"),
    )
)


class MissingFileError(CodedError, FileNotFoundError):
    """A file does not exist."""


class MissingLibraryError(CodedError, ImportError):
    """A file or a picture needs a library that is not installed."""


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written; None stands for what its first lines show."""

    sep: str | None = None  # between columns
    decimal: str | None = None
    na_values: tuple[str, ...] = ()  # cells that stand for a missing number, beside the usual ones

    def __post_init__(self) -> None:
        for name, given in (("sep", self.sep), ("decimal", self.decimal)):
            if given is not None and not (len(given) == 1 and given.isascii()):
                template = "`{name}` must be one character, got {given!r}"
                raise InputError("not_one_character", template, name=name, given=given)


@dataclass(frozen=True)
class Part:
    """An open file."""

    file: str
    names: list[str]
    has_names: bool
    # tables(columns, size) reads tables of about so many rows, (n, columns), NaN where a number is
    # missing
    tables: Callable[[list[str], int], Iterator[Numbers]]
    n_rows: int | None = None  # if it is known
    single: frozenset[str] = frozenset()  # columns of single precision


def open_part(path: Path, text: TextFormat) -> Part:
    """Open a file by its suffix."""
    suffix = next((each for each in READERS if path.name.lower().endswith(each)), None)
    if suffix is None:
        template = "{file} ends in none of {kinds}"
        raise InputError("unknown_kind", template, file=str(path), kinds=list(READERS))
    if READERS[suffix] is not open_csv and text != TextFormat():
        template = "`sep`, `decimal` and `na_values` are for CSV files, and {file} is none"
        raise InputError("not_a_text_file", template, file=str(path))
    with reading(path):
        return READERS[suffix](path, text)


# text


def open_csv(path: Path, text: TextFormat, *, front_bytes: int = 2**20) -> Part:
    """Open a text file whose first lines show how it is written."""
    reader, pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
    with pa.input_stream(str(path)) as stream:
        front = stream.read(front_bytes).decode("utf-8-sig", "replace")
    sep = text.sep or ("\t" if ".tsv" in path.name.lower() else find_separator(front))
    lines = cells_of(front, sep)
    if not lines:
        raise InputError("no_rows", "{file} is empty, expected at least one row", file=str(path))
    decimal = text.decimal or find_decimal(lines, sep)
    head = lines[0]
    # pandas numbers columns that have no names
    numbers = [str(j) for j in range(len(head))]
    has_names = head == numbers or not all(is_number(cell, decimal) for cell in head)
    names = head if has_names else unnamed_columns(len(head))
    missing = [*reader.ConvertOptions().null_values, "<NA>", "None", *text.na_values]

    read = reader.ReadOptions(column_names=None if has_names else names, block_size=front_bytes)
    parse = reader.ParseOptions(delimiter=sep, newlines_in_values=True)
    how = {"decimal_point": decimal, "null_values": missing}

    def stream_of(types: dict[str, Any]) -> Any:
        include = list(types) or None
        convert = reader.ConvertOptions(column_types=types, include_columns=include, **how)
        return reader.open_csv(path, read, parse, convert)

    flags = {f.name for f in stream_of({}).schema if pa.types.is_boolean(f.type)}

    def tables(columns: list[str], size: int) -> Iterator[Numbers]:  # noqa: ARG001
        kinds = {name: pa.bool_() if name in flags else pa.float64() for name in columns}
        try:
            for batch in stream_of(kinds):
                yield numbers_of(pa, batch, columns)
        except Exception:
            first = 0
            with suppress(pa.ArrowException, OSError, UnicodeError):
                for batch in stream_of(dict.fromkeys(columns, pa.string())):
                    cells = {name: batch.column(name).to_pylist() for name in columns}
                    check_cells(str(path), cells, first, number)
                    first += batch.num_rows
            raise

    def number(cell: str | float) -> None:
        if isinstance(cell, str) and cell not in missing and not is_number(cell, decimal):
            raise ValueError

    return Part(str(path), names, has_names, tables)


def cells_of(text: str, sep: str) -> list[list[str]]:
    """Return the cells of the first lines of a text."""
    lines: list[list[str]] = []
    with suppress(csv.Error):
        lines.extend(islice(csv.reader(io.StringIO(text, newline=""), delimiter=sep), 200))
    return lines


def find_separator(text: str) -> str:
    """Return the character that cuts most lines into the same number of cells, more than one."""

    def agreement(sep: str) -> float:
        widths = [len(cells) for cells in cells_of(text, sep)]
        width, n = Counter(widths).most_common(1)[0] if widths else (0, 0)
        return n / len(widths) if width > 1 else 0.0

    # a decimal comma is no separator where another one fits
    best = max("\t;|,", key=agreement)
    return best if agreement(best) else ","


def find_decimal(lines: Sequence[Sequence[str]], sep: str) -> str:
    """Return the decimal separator that more cells have, a point or a comma."""

    def votes(mark: str) -> int:
        return sum(mark in cell and is_number(cell, mark) for cells in lines for cell in cells)

    return "," if sep != "," and votes(",") > votes(".") else "."


def is_number(cell: str, decimal: str = ".") -> bool:
    """Say whether a cell is a number with a decimal separator."""
    mark = re.escape(decimal)
    number = rf"[+-]?((\d+({mark}\d*)?|{mark}\d+)(e[+-]?\d+)?|inf(inity)?|nan)"
    return re.fullmatch(number, cell.strip(), re.IGNORECASE) is not None


# tables of Arrow


def numbers_of(pa: Any, batch: Any, names: Sequence[str]) -> Numbers:
    """Return columns of a record batch as numbers (n, columns), with NaN where one is missing."""
    columns = [batch.column(name) for name in names]
    single = all(pa.types.is_float32(column.type) for column in columns)
    table = np.empty((batch.num_rows, len(names)), np.float32 if single else np.float64)
    for j, column in enumerate(columns):
        real = pa.types.is_floating(column.type)
        numbers = column if real else column.cast(pa.float64(), safe=False)
        table[:, j] = numbers.to_numpy(zero_copy_only=False)
    return table


def _arrow_part(
    path: Path, schema: Any, n_rows: int, batches: Callable[[list[str], int], Iterator[Any]]
) -> Part:
    types = require("pyarrow", "Arrow").types
    kinds = dict(zip(schema.names, schema.types, strict=True))
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    single = frozenset(name for name, kind in kinds.items() if types.is_float32(kind))

    def tables(columns: list[str], size: int) -> Iterator[Numbers]:
        for name in columns:
            if not any(test(kinds[name]) for test in (*numeric, types.is_null)):
                template = "column {column!r} of {file} holds {kind}; select others with `columns`"
                values = {"column": name, "file": str(path), "kind": str(kinds[name])}
                raise InputError("column_not_numeric", template, **values)
        for batch in batches(columns, size):
            yield numbers_of(require("pyarrow", "Arrow"), batch, columns)

    return Part(str(path), list(schema.names), True, tables, n_rows, single)


def open_parquet(path: Path, _: TextFormat) -> Part:
    """Open a Parquet file; ``pre_buffer`` would read whole row groups ahead."""
    parquet = require("pyarrow.parquet", "Parquet")
    file = parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)

    def batches(columns: list[str], size: int) -> Iterator[Any]:
        return iter(file.iter_batches(max(size, 1_024), columns=columns, use_threads=False))

    return _arrow_part(path, file.schema_arrow, int(file.metadata.num_rows), batches)


def open_arrow(path: Path, _: TextFormat) -> Part:
    """Open an Arrow file or stream, mapped, so that only the columns that are used are read."""
    pa, ipc = require("pyarrow", "Arrow"), require("pyarrow.ipc", "Arrow")
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def record_batches() -> Iterator[Any]:
        if mapped[:6] == b"ARROW1":
            reader = ipc.open_file(pa.py_buffer(mapped))
            yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            yield from ipc.open_stream(pa.py_buffer(mapped))

    def batches(columns: list[str], size: int) -> Iterator[Any]:  # noqa: ARG001
        for batch in record_batches():
            batch.validate()  # lengths come from the file: Arrow would read beyond a buffer
            for rows in blocks(range(batch.num_rows), size):
                yield batch.slice(rows.start, len(rows))
                release_pages(mapped)

    open_reader = ipc.open_file if mapped[:6] == b"ARROW1" else ipc.open_stream
    schema = open_reader(pa.py_buffer(mapped)).schema
    n_rows = sum(batch.num_rows for batch in record_batches())
    return _arrow_part(path, schema, n_rows, batches)


def release_pages(mapped: Any) -> None:
    """Release the pages of a file that is mapped: they would count as memory of the process."""
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


# arrays


def array_part(
    path: Path | str, array: Any, names: Any = None, *, has_names: bool = False, step: int = 1
) -> Part:
    """Return rows of a mapped or chunked array as a part, read in multiples of ``step`` rows."""
    shape, dtype = tuple(array.shape), np.dtype(array.dtype)
    if dtype.kind not in "fiub" or len(shape) != 2 or min(shape) < 1:
        template = "{file} holds an array {shape} of {dtype}, expected numbers (n_rows, n_columns)"
        values = {"file": str(path), "shape": shape, "dtype": str(dtype)}
        raise InputError("wrong_array", template, **values)
    every = unnamed_columns(shape[1]) if names is None else names

    def tables(columns: list[str], size: int) -> Iterator[Numbers]:
        at = [every.index(name) for name in columns]
        for rows in blocks(range(shape[0]), max(step, size // step * step)):
            table = np.asarray(array[rows.start : rows.stop])
            yield table if columns == every else table[:, at]
            release_pages(getattr(array, "_mmap", None))

    single = frozenset(every) if dtype == np.float32 else frozenset[str]()
    return Part(str(path), every, has_names, tables, shape[0], single)


def open_npy(path: Path, _: TextFormat) -> Part:
    """Open an array of NumPy, mapped."""
    return array_part(path, np.lib.format.open_memmap(path, mode="r"))  # which checks sizes


def open_zarr(path: Path, _: TextFormat) -> Part:
    """Open a Zarr array whose description names codecs of numbers only."""
    zarr = require("zarr", "Zarr", "zarr")
    about = [path / name for name in ("zarr.json", ".zarray") if (path / name).is_file()]
    names = _codecs(json.loads(about[0].read_text("utf-8")))
    unknown = sorted({name.removeprefix("numcodecs.") for name in names} - CODECS)
    if unknown:
        raise ValueError(f"the codec {unknown[0]!r} is not one of {', '.join(sorted(CODECS))}")
    array = zarr.open_array(path, mode="r")
    return array_part(path, array, step=int(array.chunks[0]))


def _codecs(about: Any) -> Iterator[str]:
    """Yield the names of all codecs of a description, and of those within them."""
    for entry in ("codecs", "index_codecs", "filters", "compressor"):
        given = about.get(entry)
        for codec in given if isinstance(given, list) else [given]:
            if isinstance(codec, dict):
                yield from (str(codec[key]) for key in ("id", "name") if key in codec)
                yield from _codecs(codec.get("configuration") or {})
            elif codec is not None:
                yield str(codec)


READERS: dict[str, Callable[[Path, TextFormat], Part]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), open_csv),
    **dict.fromkeys((".parquet", ".pq"), open_parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), open_arrow),
    ".npy": open_npy,
    ".zarr": open_zarr,
}


# errors


@contextmanager
def reading(file: object) -> Iterator[None]:
    """Convert any error of a reading library to one error that names the file.

    Given a damaged file, libraries raise KeyError, MemoryError, RecursionError and many others.
    """
    try:
        yield
    except (CodedError, FileNotFoundError, GeneratorExit):
        raise
    except Exception as reason:
        said = " ".join(str(reason).split())[:200] or type(reason).__name__
        template = "{file} cannot be read ({reason}); it may be empty or damaged, or not in UTF-8"
        raise InputError("unreadable", template, file=str(file), reason=said) from reason


def require(module: str, kind: str, extra: str = "files") -> Any:
    """Import a module that reads or writes files of a kind, which an extra installs."""
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        template = "{kind} needs {library}; pip install 'implicitmoments[{extra}]'"
        values = {"kind": kind, "library": module.split(".", maxsplit=1)[0], "extra": extra}
        raise MissingLibraryError("not_installed", template, **values) from reason
