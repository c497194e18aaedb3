"""Files of numbers in CSV, Parquet, Arrow, .npy and Zarr: their columns, and tables of rows."""

from __future__ import annotations

import csv
import importlib
import io
import json
import mmap
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeAlias

import numpy as np

from implicitmoments.notes import CodedError, InputError
from implicitmoments.rows.passes import blocks
from implicitmoments.validation import unnamed_columns

Numbers: TypeAlias = np.ndarray[Any, Any]

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TABLES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
SEPARATORS = ("\t", ";", "|", ",")  # a decimal comma is no separator where another one fits
FRONT_BYTES = 2**20  # of text that shows separators and names
LINES = 200  # of it, whose numbers of cells are compared
MISSING = ("<NA>", "None")  # cells that stand for a missing number, beside those of Arrow
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
    # tables(columns, size) reads tables of at most so many rows, (n, columns), NaN where a number
    # is missing
    tables: Callable[[list[str], int], Iterator[Numbers]]
    n_rows: int | None = None  # if it is known
    single: frozenset[str] = frozenset()  # columns of single precision


class RawRows:
    """Numbers in a file, one after the other, by rows or by columns."""

    def __init__(
        self,
        file: IO[bytes],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        offset: int = 0,
        by_columns: bool = False,
    ) -> None:
        self.file, self.shape, self.dtype = file, shape, dtype
        self._offset, self._by_columns, self._lock = offset, by_columns, Lock()
        weakref.finalize(self, file.close)

    def tables(self, size: int) -> Iterator[Numbers]:
        """Read all rows in order, ``size`` at a time."""
        n, width = self.shape
        for rows in blocks(range(n), size):
            if self._by_columns:
                starts = (j * n + rows.start for j in range(width))
                yield np.stack([self._read(start, len(rows)) for start in starts], axis=1)
            else:
                yield self._read(rows.start * width, len(rows) * width).reshape(-1, width)

    def _read(self, first: int, n: int) -> Numbers:
        with self._lock:
            self.file.seek(self._offset + first * self.dtype.itemsize)
            found: Numbers = np.fromfile(self.file, self.dtype, n)
        if len(found) < n:
            raise unreadable(getattr(self.file, "name", "the file"), "it ends before its last row")
        return found


def open_part(path: Path, text: TextFormat) -> Part:
    """Open a file by its suffix."""
    name = path.name.lower()
    if name.endswith(CSV):
        return _open_csv(path, text)
    if text != TextFormat():
        template = "`sep`, `decimal` and `na_values` are for CSV files, and {file} is none"
        raise InputError("not_a_text_file", template, file=str(path))
    if description_of(path) is not None or name.endswith(".zarr"):
        return _open_zarr(path)
    if name.endswith((".parquet", ".pq")):
        return _open_parquet(path)
    if name.endswith(TABLES):
        return _open_arrow(path)
    if name.endswith(".npy"):
        return _open_npy(path)
    template = "{file} ends in none of {kinds}"
    raise InputError(
        "unknown_kind", template, file=str(path), kinds=[*CSV, *TABLES, ".npy", ".zarr"]
    )


# text


def _open_csv(path: Path, text: TextFormat) -> Part:
    reader, pa = require("pyarrow.csv", "CSV"), require("pyarrow", "CSV")
    with reading(path), pa.input_stream(str(path)) as stream:
        front = stream.read(FRONT_BYTES).decode("utf-8-sig", "replace")
    sep = text.sep or ("\t" if ".tsv" in path.name.lower() else find_separator(front))
    with reading(path):
        lines = list(islice(csv.reader(io.StringIO(front, newline=""), delimiter=sep), LINES))
    if not lines:
        raise InputError("no_rows", "{file} is empty, expected at least one row", file=str(path))
    decimal = text.decimal or find_decimal(lines, sep)
    head, places = lines[0], unnamed_columns(len(lines[0]))
    has_names = not all(_is_number(cell, decimal) for cell in head) or head == [
        str(j) for j in range(len(head))
    ]
    names = head if has_names else places
    missing = [*reader.ConvertOptions().null_values, *MISSING, *text.na_values]

    def stream_of(types: Mapping[str, Any]) -> Any:
        return reader.open_csv(
            path,
            read_options=reader.ReadOptions(
                column_names=None if has_names else names, block_size=FRONT_BYTES
            ),
            parse_options=reader.ParseOptions(delimiter=sep, newlines_in_values=True),
            convert_options=reader.ConvertOptions(
                decimal_point=decimal,
                null_values=missing,
                column_types=types,
                include_columns=list(types) or None,
            ),
        )

    with reading(path):
        schema = stream_of({}).schema
    flags = {f.name for f in schema if pa.types.is_boolean(f.type)}

    def tables(columns: list[str], size: int) -> Iterator[Numbers]:  # noqa: ARG001
        types = {name: pa.bool_() if name in flags else pa.float64() for name in columns}
        try:
            for batch in stream_of(types):
                yield numbers_of(pa, batch, columns)
        except Exception as reason:
            text = partial(stream_of, dict.fromkeys(columns, pa.string()))
            check_text(text, str(path), columns, set(missing), decimal)
            raise unreadable(path, reason) from reason

    return Part(str(path), list(names), has_names, tables)


def check_text(
    read: Callable[[], Iterable[Any]],
    file: str,
    columns: Sequence[str],
    missing: set[str],
    decimal: str,
) -> None:
    """Raise for the first cell of a text file that is no number."""
    first = 0
    try:
        for batch in read():
            for name in columns:
                for row, cell in enumerate(batch.column(name).to_pylist()):
                    if cell is not None and cell not in missing and not _is_number(cell, decimal):
                        template = (
                            "{file}: column {column!r} holds {cell!r} in row {row}, expected a "
                            "number (the first row is row 0); select the numeric columns with "
                            "`columns`, encode categories as numbers, or set `sep`, `decimal` or "
                            "`na_values`"
                        )
                        values = {"column": name, "cell": cell[:80], "row": first + row}
                        raise InputError("cell_not_a_number", template, file=file, **values)
            first += batch.num_rows
    except CodedError:
        raise
    except Exception:
        return  # the file cannot be read as text either


def find_separator(text: str) -> str:
    """Return the character that cuts most lines into the same number of cells, more than one."""

    def agreement(sep: str) -> float:
        try:
            widths = [
                len(line)
                for line in islice(csv.reader(io.StringIO(text, newline=""), delimiter=sep), LINES)
            ]
        except csv.Error:
            return 0.0
        width, n = Counter(widths).most_common(1)[0] if widths else (0, 0)
        return n / len(widths) if width > 1 else 0.0

    best = max(SEPARATORS, key=agreement)
    return best if agreement(best) else ","


def find_decimal(lines: Sequence[Sequence[str]], sep: str) -> str:
    """Return the decimal separator that more cells have, a point or a comma."""
    if sep == ",":
        return "."
    number = re.compile(r"[+-]?[0-9]*([.,])[0-9]+(?:[eE][+-]?[0-9]+)?")
    found = Counter(m[1] for cell in chain(*lines) if (m := number.fullmatch(cell.strip())))
    return "," if found[","] > found["."] else "."


def _is_number(cell: str, decimal: str = ".") -> bool:
    if decimal != ".":
        cell = cell.replace(".", "_").replace(decimal, ".")
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


# tables of Arrow


def _holds_numbers(pa: Any, kind: Any) -> bool:
    types = pa.types
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null
    return any(test(kind) for test in tests)


def numbers_of(pa: Any, batch: Any, columns: Sequence[str]) -> Numbers:
    """Return columns of a record batch as numbers (n, columns), with NaN where one is missing."""
    single = all(pa.types.is_float32(batch.schema.field(name).type) for name in columns)
    table = np.empty((batch.num_rows, len(columns)), np.float32 if single else np.float64)
    for j, name in enumerate(columns):
        column = batch.column(name)
        if not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
        table[:, j] = column.to_numpy(zero_copy_only=False)
    return table


def _arrow_part(
    path: Path, schema: Any, n_rows: int, batches: Callable[[list[str], int], Iterator[Any]]
) -> Part:
    pa = require("pyarrow", "Arrow")
    kinds = dict(zip(schema.names, schema.types, strict=True))
    single = frozenset(name for name, kind in kinds.items() if pa.types.is_float32(kind))

    def tables(columns: list[str], size: int) -> Iterator[Numbers]:
        for name in columns:
            if not _holds_numbers(pa, kinds[name]):
                template = "column {column!r} of {file} holds {kind}; select the numeric columns "
                template += "with `columns`"
                values = {"column": name, "file": str(path), "kind": str(kinds[name])}
                raise InputError("column_not_numeric", template, **values)
        with reading(path):
            for batch in batches(columns, size):
                yield numbers_of(pa, batch, columns)

    return Part(str(path), list(schema.names), True, tables, n_rows, single)


def _open_parquet(path: Path) -> Part:
    """Open a Parquet file; ``pre_buffer`` would read whole row groups ahead."""
    parquet = require("pyarrow.parquet", "Parquet")
    with reading(path):
        file = parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)

    def batches(columns: list[str], size: int) -> Iterator[Any]:
        return iter(file.iter_batches(max(size, 1_024), columns=columns, use_threads=False))

    return _arrow_part(path, file.schema_arrow, int(file.metadata.num_rows), batches)


def _open_arrow(path: Path) -> Part:
    """Open an Arrow file or stream.

    It is mapped, so that only the parts of a batch that are used are read, and its pages are
    released after every table: they would count as memory of the process.
    """
    pa, ipc = require("pyarrow", "Arrow"), require("pyarrow.ipc", "Arrow")
    with reading(path), path.open("rb") as file:
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
                if hasattr(mapped, "madvise"):
                    mapped.madvise(mmap.MADV_DONTNEED)

    with reading(path):
        lengths = [batch.num_rows for batch in record_batches()]
        open_reader = ipc.open_file if mapped[:6] == b"ARROW1" else ipc.open_stream
        schema = open_reader(pa.py_buffer(mapped)).schema
    return _arrow_part(path, schema, sum(lengths), batches)


# arrays


def _array_part(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], tables: Callable[[int], Any]
) -> Part:
    if dtype.kind not in "fiub" or len(shape) != 2 or min(shape) < 1:
        template = "{file} holds an array of shape {shape} and type {dtype}, expected numbers "
        template += "(n_samples, n_features)"
        values = {"file": str(path), "shape": shape, "dtype": str(dtype)}
        raise InputError("wrong_array", template, **values)
    names = unnamed_columns(shape[1])

    def chosen(columns: list[str], size: int) -> Iterator[Numbers]:
        at = [int(name[1:]) for name in columns]
        with reading(path):
            for table in tables(size):
                yield table if columns == names else table[:, at]

    single = frozenset(names) if dtype == np.float32 else frozenset[str]()
    return Part(str(path), names, False, chosen, shape[0], single)


def _open_npy(path: Path) -> Part:
    with reading(path):
        mapped = np.lib.format.open_memmap(path, mode="r")  # which checks sizes
    shape, dtype, by_columns = mapped.shape, mapped.dtype, mapped.flags.fnc
    rows = RawRows(path.open("rb", buffering=0), shape, dtype, mapped.offset, by_columns)
    return _array_part(path, shape, dtype, rows.tables)


def description_of(path: Path) -> Path | None:
    """Return the file that describes a Zarr array or group, or None if there is none."""
    found = (path / name for name in ("zarr.json", ".zarray", ".zgroup"))
    return next((file for file in found if file.is_file()), None)


def _open_zarr(path: Path) -> Part:
    """Open a Zarr array whose description names codecs of numbers only."""
    zarr = require("zarr", "Zarr", "zarr")
    with reading(path):
        description = description_of(path)
        about = json.loads(description.read_text("utf-8")) if description else {}
        unknown = sorted({name.removeprefix("numcodecs.") for name in _codecs(about)} - CODECS)
        if unknown:
            raise ValueError(f"the codec {unknown[0]!r} is not one of {', '.join(sorted(CODECS))}")
        array = zarr.open_array(path, mode="r")
        shape, dtype, step = tuple(array.shape), np.dtype(array.dtype), int(array.chunks[0])

    def tables(size: int) -> Iterator[Numbers]:
        for rows in blocks(range(shape[0]), max(step, size // step * step)):
            yield np.asarray(array[rows.start : rows.stop])

    return _array_part(path, shape, dtype, tables)


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
        raise unreadable(file, reason) from reason


def unreadable(file: object, reason: object) -> InputError:
    """Return the error of a file that cannot be read, with what a library said."""
    said = " ".join(str(reason).split())[:200] or type(reason).__name__
    template = "{file} cannot be read ({reason}); it may be empty, cut off or damaged"
    return InputError("unreadable", template, file=str(file), reason=said)


def require(module: str, kind: str, extra: str = "files") -> Any:
    """Import a module that reads or writes files of a kind, which an extra installs."""
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        template = "{kind} needs {library}; pip install 'implicitmoments[{extra}]'"
        values = {"kind": kind, "library": module.split(".", maxsplit=1)[0], "extra": extra}
        raise MissingLibraryError("not_installed", template, **values) from reason
