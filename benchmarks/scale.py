"""Fits of data larger than memory, and on Dask.

Run: python benchmarks/scale.py file [--gigabytes 10] [--repeats 1] [--folder DIR]
     python benchmarks/scale.py dask [--rows 3000000]

``file`` writes a .npy file of a spherical mixture, fits it in a separate process and prints the
peak resident memory of that process. Its processor time is compared with that of passes which
only read the file and multiply: each pass reads all blocks once, and an E-step multiplies twice.
They are measured before and after each fit. ``dask`` fits a Dask array with one and with two
single-threaded workers. The environment variable SCALE_FEATURES is the number of features, 30 by
default. ``benchmarks/reliability.py`` kills fits.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from implicitmoments import SphericalMixture
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.rows import open_file

K = 20
D = int(os.environ.get("SCALE_FEATURES", "30"))  # child processes read it
SPREAD: dict[str, Any] = {"radius": 6.0, "separation": 4.0}
WRITTEN_ROWS = 500_000
READ_ROWS = 8_192  # of a block, as in a fit
GROUND = ("reading", "products")
Floats = np.ndarray[Any, np.dtype[np.float64]]


def write_mixture(path: Path, n: int) -> None:
    """Write n rows of one mixture, in batches."""
    _, truth = make_spherical_mixture(1_000, K, D, random_state=0, **SPREAD)
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (n, D)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, WRITTEN_ROWS):
            m = min(WRITTEN_ROWS, n - start)
            rows = rng.normal(size=(m, D)) + truth.vectors[rng.integers(K, size=m)]
            rows.tofile(file)


def report(**values: Any) -> None:
    """Print a line for the parent process."""
    print(json.dumps(values), flush=True)


def child(arguments: list[str], **environment: str) -> dict[str, Any]:
    """Run this script in a separate process and read its last line."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def peak_memory() -> float:
    """Return the peak of the resident memory of this process, in MB.

    Not ``getrusage``, which includes the memory of the parent process.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**10


def fit_file(path: str) -> None:
    """Fit the file; report processor seconds, passes and peak memory."""
    before = peak_memory()
    rows: Counter[str] = Counter()
    parts: list[tuple[str, float]] = []
    clock = last = process_time()

    def progress(what: str, now: int, total: int) -> None:
        nonlocal last
        if now == total:
            rows[what] += total
            parts.append((what, round(process_time() - last, 1)))
            last = process_time()

    model = SphericalMixture(K, random_state=0).fit(path, progress=progress)
    seconds = process_time() - clock
    parts.append(("after passes", round(process_time() - last, 1)))
    _, truth = make_spherical_mixture(1_000, K, D, random_state=0, **SPREAD)
    apart = np.linalg.norm(truth.vectors[:, None] - model.means_, axis=2).min(axis=1)
    report(
        seconds=seconds,
        rows=dict(rows),
        parts=parts,
        before=before,
        peak=peak_memory(),
        error=float(apart.max()),
    )


def read_and_multiply(path: str) -> None:
    """Report processor seconds of reading all rows, and of the two products of an E-step."""
    slopes = np.random.default_rng(0).normal(size=(K, D))

    def touch(block: Any, rows: range) -> dict[str, Any]:
        return {"sum": block["x"][0, 0] * len(rows)}

    def multiply(block: Any, rows: range) -> dict[str, Any]:
        return {"sum": (slopes @ block["x"].T) @ block["x"] / len(rows)}

    with open_file(path) as source:
        pieces = range(source.n)
        source.fold(touch, pieces, READ_ROWS)  # values are checked in the first pass
        clock = process_time()
        source.fold(touch, pieces, READ_ROWS)
        reading = process_time() - clock
        clock = process_time()
        source.fold(multiply, pieces, READ_ROWS)
        report(reading=reading, products=process_time() - clock - reading)


def file_table(arguments: argparse.Namespace) -> None:
    """Print memory and processor time of a fit of a large file."""
    n = int(arguments.gigabytes * 1e9 / (8 * D))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rows.npy"
        write_mixture(path, n)
        size = path.stat().st_size / 1e9
        ground, fits = [child(["--read", str(path)])], []
        for _ in range(arguments.repeats):
            fits.append(child(["--fit", str(path)]))
            ground.append(child(["--read", str(path)]))
    reading, products = (float(np.mean([g[name] for g in ground])) for name in GROUND)
    found = fits[0]
    seconds = float(np.mean([fit["seconds"] for fit in fits]))
    passes = sum(found["rows"].values()) / n
    steps = sum(v for what, v in found["rows"].items() if what == "EM") / n
    floor = passes * reading + steps * products
    print(f"{size:.1f} GB, {n:,} rows, k = {K}, d = {D}; {os.cpu_count()} cores")
    print(f"passes over all rows: { {w: round(v / n, 1) for w, v in found['rows'].items()} }")
    print(f"processor time of each part of the fit: {found['parts']}")
    print("| | value |\n|---|---|")
    print(f"| reading the file once | {reading:.1f} s |")
    print(f"| the two products of an E-step on all rows | {products:.1f} s |")
    print(f"| reading {passes:.0f} times, products of {steps:.0f} E-steps | {floor:.1f} s |")
    print(f"| the fit | {seconds:.1f} s, {seconds / floor:.2f} times |")
    print(
        f"| peak resident memory | {found['peak']:.0f} MB ({found['before']:.0f} at the start) |"
    )
    print(f"| largest error of a mean | {found['error']:.4f} |")


def chunk(rows: int, seed: int) -> Floats:
    """Make the rows of one chunk."""
    _, truth = make_spherical_mixture(1_000, K, D, random_state=0, **SPREAD)
    rng = np.random.default_rng((7, seed))
    made: Floats = rng.normal(size=(rows, D)) + truth.vectors[rng.integers(K, size=rows)]
    return made


def dask_table(arguments: argparse.Namespace) -> None:
    """Print results and seconds of fits on one worker and on two."""
    import dask.array as da  # noqa: PLC0415 (an extra)
    from dask.delayed import delayed  # noqa: PLC0415
    from distributed import Client, LocalCluster, wait  # noqa: PLC0415

    size = arguments.rows // 16
    parts = [chunk(size, i) for i in range(16)]
    here = SphericalMixture(K, random_state=0).fit(np.concatenate(parts))
    del parts
    print(f"{16 * size:,} rows, k = {K}, d = {D}")
    print("| single-threaded workers | seconds | largest difference of a mean from NumPy |")
    print("|---|---|---|")
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster),
        ):
            made = [da.from_delayed(delayed(chunk)(size, i), (size, D), float) for i in range(16)]
            X = da.concatenate(made).persist()
            wait(X)
            SphericalMixture(2, random_state=0).fit(X[: size // 10])  # workers import
            clock = perf_counter()
            model = SphericalMixture(K, random_state=0).fit(X)
            seconds = perf_counter() - clock
        apart = np.abs(model.means_ - here.means_).max()
        print(f"| {n_workers} | {seconds:.1f} | {apart:.1e} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", choices=["file", "dask"])
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=1, help="fits of the file")
    parser.add_argument("--folder", help="for files; the system's by default")
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        fit_file(arguments.fit)
    elif arguments.read:
        read_and_multiply(arguments.read)
    elif arguments.table is None:
        parser.error("give file or dask")
    else:
        print(f"Python {platform.python_version()}, NumPy {np.__version__}")
        {"file": file_table, "dask": dask_table}[arguments.table](arguments)


if __name__ == "__main__":
    main()
