"""Hostile Parquet and Arrow files."""

from __future__ import annotations

import datetime
import decimal
import io
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from attacks.fuzzing.changes import mutate_bytes, mutate_words, pick

__all__ = ["write_arrow", "write_parquet"]

N_ROWS = 97
PICKLED = b"cos\nsystem\n(S'touch ran'\ntR."


def _columns() -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}


@cache
def plain() -> tuple[Any, ...]:
    """Return tables of numbers of many types."""
    numbers = np.arange(N_ROWS)
    holes = pa.array([None if i % 7 == 3 else float(i) for i in range(N_ROWS)])
    cents = pa.array([decimal.Decimal(i) / 100 for i in range(N_ROWS)], pa.decimal128(30, 4))
    return (
        pa.table(_columns()),
        pa.table({name: column.astype("f4") for name, column in _columns().items()}),
        pa.table({"a": numbers, "b": numbers.astype("u1"), "c": numbers > 3}),
        pa.table({"a": numbers.astype("f2"), "b": cents, "c": numbers.astype("f8")}),
        pa.table({"a": holes, "b": numbers}),
    )


@cache
def odd() -> tuple[Any, ...]:
    """Return tables with values that are not numbers, or invalid names."""
    numbers = pa.array(np.arange(float(N_ROWS)))
    words = pa.array([f"w{i % 5}" for i in range(N_ROWS)])
    day = pa.array([datetime.date(2020, 1, 1)] * N_ROWS)
    listed = pa.array([[1.0]] * N_ROWS)
    record = pa.array([{"x": 1.0}] * N_ROWS)
    columns = [
        *(words, words.dictionary_encode(), day, listed, record, pa.nulls(N_ROWS)),
        *(pa.array([b"\xff\x00"] * N_ROWS), numbers.dictionary_encode()),
        *(pa.array([datetime.timedelta(1)] * N_ROWS), pa.array([None] * N_ROWS, pa.float64())),
        pa.array([10**30] * N_ROWS, pa.decimal128(38, 0)),
        pa.array([decimal.Decimal(10) ** 70] * N_ROWS, pa.decimal256(76, 0)),
    ]
    tables = [pa.table([numbers, column], names=["a", "b"]) for column in columns]
    names = (
        ["a", "a"],
        ["", "b"],
        ["a.b", "a"],
        ["a\x00", "b"],
        ["é", "\u202e"],
        ["a" * 9_999, "b"],
    )
    tables += [pa.table([numbers, numbers], names=pair) for pair in names]
    wide = [pa.array([1.0, 2.0])] * 3_000
    return (
        *tables,
        pa.table(wide, names=[f"c{i}" for i in range(3_000)]),
        pa.table({}),
        pa.table({"a": pa.array([], pa.float64())}),
        tables[0].replace_schema_metadata({"pandas": "{", "ARROW:schema": "////"}),
    )


def claimed() -> Any:
    """Return a table whose columns claim extension types."""
    claims = [
        {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": PICKLED},
        {"ARROW:extension:name": "arrow.bool8", "ARROW:extension:metadata": b"\xff"},
        {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": "["},
    ]
    fields = [pa.field(f"c{i}", pa.float64(), metadata=m) for i, m in enumerate(claims)]
    return pa.table([pa.array([1.0, 2.0])] * 3, schema=pa.schema(fields))


@cache
def parquet_examples() -> tuple[bytes, ...]:
    """Return small files with several ways of writing pages."""
    options: tuple[dict[str, Any], ...] = (
        {},
        {"row_group_size": 20, "compression": "gzip"},
        {"use_dictionary": False, "compression": "none"},
        {"data_page_version": "2.0", "compression": "zstd", "data_page_size": 64},
        {"use_dictionary": False, "use_byte_stream_split": True, "compression": "none"},
    )
    pairs = [(table, option) for table in plain() for option in options[:4]]
    pairs.append((plain()[0], options[4]))
    return tuple(_parquet(table, **option) for table, option in pairs)


@cache
def arrow_examples() -> tuple[bytes, ...]:
    """Return small files and streams, some of them compressed."""
    return tuple(
        _ipc(table, stream, compression)
        for table in plain()
        for stream in (False, True)
        for compression in (None, "lz4", "zstd")
    )


def write_parquet(folder: Path, rng: np.random.Generator) -> tuple[str, Path]:
    """Write one hostile Parquet file; return what was done, and its path."""
    made: dict[str, Callable[[], bytes]] = {
        "bytes": lambda: mutate_bytes(pick(parquet_examples(), rng), rng),
        "footer": lambda: _mutate_footer(pick(parquet_examples(), rng), rng),
        "pages": lambda: _mutate_pages(pick(parquet_examples(), rng), rng),
        "length of the footer": lambda: mutate_words(
            pick(parquet_examples(), rng)[:-8] + b"\xff\xff\xff\x7fPAR1", rng
        ),
        "other tables": lambda: _of_odd(rng, _parquet),
        "random": lambda: b"PAR1" + rng.bytes(int(rng.integers(0, 400))) + b"PAR1",
    }
    return _write(made, folder / "rows.parquet", rng)


def write_arrow(folder: Path, rng: np.random.Generator) -> tuple[str, Path]:
    """Write one hostile Arrow file or stream; return what was done, and its path."""
    made: dict[str, Callable[[], bytes]] = {
        "bytes": lambda: mutate_bytes(pick(arrow_examples(), rng), rng),
        "whole numbers": lambda: mutate_words(pick(arrow_examples(), rng), rng),
        "lengths": lambda: mutate_words(pick(arrow_examples(), rng), rng, N_ROWS),
        "sizes of buffers": lambda: mutate_words(pick(arrow_examples(), rng), rng, 8 * N_ROWS),
        "other tables": lambda: _of_odd(rng, _ipc),
        "random": lambda: (
            pick((b"", b"ARROW1\x00\x00", b"\xff\xff\xff\xff"), rng)
            + rng.bytes(int(rng.integers(0, 400)))
            + pick((b"", b"ARROW1"), rng)
        ),
    }
    return _write(made, folder / str(rng.choice(["rows.arrow", "rows.feather"])), rng)


def _write(
    made: dict[str, Callable[[], bytes]], path: Path, rng: np.random.Generator
) -> tuple[str, Path]:
    how = str(rng.choice(list(made)))
    path.write_bytes(made[how]())
    return how, path


def _parquet(table: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(table, file, **options)
    return file.getvalue()


def _ipc(table: Any, stream: bool = False, compression: str | None = None) -> bytes:
    file = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=40)
        writer.write_table(table)
    return file.getvalue()


def _of_odd(rng: np.random.Generator, write: Callable[[Any], bytes]) -> bytes:
    """Write a table that is not numeric, and change a few bytes in half of the cases."""
    table = pick((*odd(), claimed()), rng)
    try:
        data = write(table)
    except pa.ArrowException:  # what the format has no word for
        data = write(plain()[0])
    return mutate_bytes(data, rng) if rng.random() < 0.5 else data


def _mutate_footer(data: bytes, rng: np.random.Generator) -> bytes:
    """Change bytes of the footer, and update its length."""
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = bytearray(data[-8 - size : -8])
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(footer)))
        footer[place] = int(rng.integers(256))
        if rng.random() < 0.2:  # a long whole number, in groups of seven bits
            footer[place : place + 1] = b"\xff" * int(rng.integers(1, 10)) + b"\x01"
    return data[: -8 - size] + bytes(footer) + struct.pack("<I", len(footer)) + b"PAR1"


def _mutate_pages(data: bytes, rng: np.random.Generator) -> bytes:
    size = struct.unpack("<I", data[-8:-4])[0]
    pages = bytearray(data[: -8 - size])
    for _ in range(int(rng.integers(1, 6))):
        pages[int(rng.integers(4, len(pages)))] = int(rng.integers(256))
    return bytes(pages) + data[-8 - size :]
