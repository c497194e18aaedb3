"""Speed and memory of passes over rows in files.

Run: python benchmarks/files.py [--megabytes 2000] [--folder /tmp]

Each line is a separate process that opens a file and passes over it twice, summing columns in
blocks of 16,384 rows. *Grown* is the increase of its peak resident memory, including pages of
mapped files. Files have just been written, so they are read from the system's cache.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import zarr

from implicitmoments.arrays import Floats
from implicitmoments.rows import BlockSource, Source, as_source, open_file

D, PIECE, BLOCK_ROWS = 16, 50_000, 16_384
NAMES = [f"c{j}" for j in range(D)]
KINDS = {
    "mapped.npy": "numpy.load, mapped",
    "rows.npy": ".npy",
    "columns.npy": ".npy, Fortran order",
    "one.parquet": "Parquet, one row group",
    "groups.parquet": "Parquet, groups of 50,000",
    "file.arrow": "Arrow file",
    "packed.feather": "Arrow file, LZ4",
    "stream.arrow": "Arrow stream",
    "rows.csv": "CSV",
    "chunks.zarr": "Zarr, chunks of 50,000",
    "blocks": "iterator of blocks",
}


def pieces(n: int) -> Iterator[Floats]:
    """Yield n rows of noise."""
    rng = np.random.default_rng(0)
    for _ in range(n // PIECE):
        yield rng.normal(size=(PIECE, D))


def tables(n: int) -> Iterator[Any]:
    """Yield the rows as record batches."""
    for x in pieces(n):
        yield pa.record_batch([np.ascontiguousarray(c) for c in x.T], names=NAMES)


def write(path: Path, n: int) -> None:
    """Write n rows, in batches if the format allows it."""
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    if path.suffix == ".npy":
        by_columns = path.stem == "columns"  # as many numbers, in another order
        header = {"descr": "<f8", "fortran_order": by_columns, "shape": (n, D)}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for x in pieces(n):
                file.write(x.data)
    elif path.name == "one.parquet":
        whole = pa.Table.from_batches(tables(n))
        pa.parquet.write_table(whole, path, row_group_size=n)
    elif path.suffix == ".zarr":
        array = zarr.create_array(path, shape=(n, D), chunks=(PIECE, D), dtype="f8")
        for i, x in enumerate(pieces(n)):
            array[i * PIECE : (i + 1) * PIECE] = x
    elif path.name != "blocks":
        with writer(path, schema) as file:
            for batch in tables(n):
                file.write_batch(batch)


def writer(path: Path, schema: Any) -> Any:
    """Return a writer of record batches."""
    if path.suffix == ".parquet":
        return pa.parquet.ParquetWriter(path, schema)
    if path.suffix == ".csv":
        return pa.csv.CSVWriter(path, schema)
    if path.stem == "stream":
        return pa.ipc.new_stream(path, schema)
    packed = pa.ipc.IpcWriteOptions(compression="lz4" if path.suffix == ".feather" else None)
    return pa.ipc.new_file(path, schema, options=packed)


def peak() -> int:
    """Return the peak of resident memory in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def measure(path: Path, n: int) -> None:
    """Print one line: the cost of opening and of two passes."""
    before, start = peak(), time.perf_counter()
    source: Source
    if path.name == "blocks":
        source = BlockSource(pieces(n))
    elif path.stem == "mapped":
        source = as_source(np.load(path, mmap_mode="r"))
    else:
        source = open_file(path)
    took = [time.perf_counter() - start]
    for _ in range(2):
        start = time.perf_counter()
        source.fold(lambda block, _: {"s": np.sum(block["x"], axis=0)}, range(n), BLOCK_ROWS)
        took.append(time.perf_counter() - start)
    cells = " | ".join(f"{seconds:.2f}" for seconds in took)
    print(f"| {KINDS[path.name]} | {cells} | {peak() - before} |", flush=True)


def main(given: Sequence[str] | None = None) -> None:
    """Write, measure and delete one file after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2_000)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    n = options.megabytes * 10**6 // (8 * D) // PIECE * PIECE
    if options.measure:
        measure(options.measure, n)
        return
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, pyarrow {pa.__version__},")
    print(f"Zarr {zarr.__version__}; {n:,} rows of {D} features, {8 * D * n / 1e6:,.0f} MB\n")
    print("| rows | open, s | first pass, s | second pass, s | grown, MB |")
    print("|---|---|---|---|---|", flush=True)
    for name in KINDS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            write(Path(folder) / name, n)
            again = ["--measure", f"{folder}/{name}", "--megabytes", str(options.megabytes)]
            subprocess.run([sys.executable, __file__, *again], check=True)


if __name__ == "__main__":
    main()
