"""Fits of data larger than memory, and on Dask.

Run: python benchmarks/scale.py file [--gigabytes 10] [--folder DIR]; SCALE_FEATURES=100 sets d
     python benchmarks/scale.py dask [--rows 3000000]

``file`` writes a .npy file of a spherical mixture, fits it in a separate process and prints the
peak resident memory of that process. The time is compared with that of passes which only read
the file and multiply: each pass reads all blocks once, and an E-step multiplies twice.
``dask`` fits a Dask array with one and with two single-threaded workers.
``benchmarks/attack.py`` kills fits and workers, and has files for every estimator.
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
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments import SphericalMixture
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.rows import open_file
from implicitmoments.rows.fold import fold_blocks

K = 20
D = int(os.environ.get("SCALE_FEATURES", "30"))  # child processes read it
SPREAD: dict[str, Any] = {"radius": 6.0, "separation": 4.0}
WRITTEN_ROWS = 500_000
READ_ROWS = 16_384
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
    """Fit the file; report seconds, passes and peak memory."""
    before = peak_memory()
    rows: Counter[str] = Counter()
    done = {"what": "", "rows": 0}

    def progress(what: str, now: int, total: int) -> None:
        if now == total:
            rows[what] += total
        done.update(what=what, rows=now)

    clock = perf_counter()
    model = SphericalMixture(K, random_state=0).fit(path, progress=progress)
    seconds = perf_counter() - clock
    _, truth = make_spherical_mixture(1_000, K, D, random_state=0, **SPREAD)
    apart = np.linalg.norm(truth.vectors[:, None] - model.means_, axis=2).min(axis=1)
    report(
        seconds=seconds,
        rows=dict(rows),
        before=before,
        peak=peak_memory(),
        error=float(apart.max()),
    )


def read_and_multiply(path: str) -> None:
    """Report the seconds of a pass that only reads, and of one that also multiplies twice."""
    slopes = np.random.default_rng(0).normal(size=(D + 1, K))

    def touch(block: Any, rows: range) -> dict[str, Any]:
        return {"sum": block["x"][0, 0] * len(rows)}

    def multiply(block: Any, rows: range) -> dict[str, Any]:
        x = np.column_stack([block["x"], np.zeros(len(rows))])
        return {"sum": (x @ slopes).T @ x}

    with open_file(path) as source:
        n = source.n
        source.fold(touch, range(n), READ_ROWS)  # values are checked in the first pass
        clock = perf_counter()
        source.fold(touch, range(n), READ_ROWS)
        reading = perf_counter() - clock
    block = np.random.default_rng(1).normal(size=(READ_ROWS, D))
    pieces = [range(s, min(s + READ_ROWS, n)) for s in range(0, n, READ_ROWS)]
    clock = perf_counter()
    fold_blocks(lambda rows: {"x": block[: len(rows)]}, multiply, pieces)
    report(reading=reading, products=perf_counter() - clock)


def file_table(arguments: argparse.Namespace) -> None:
    """Print memory and time of a fit of a large file."""
    n = int(arguments.gigabytes * 1e9 / (8 * D))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rows.npy"
        write_mixture(path, n)
        size = path.stat().st_size / 1e9
        ground = child(["--read", str(path)])
        found = child(["--fit", str(path)])
        again = child(["--read", str(path)])
    reading = (ground["reading"] + again["reading"]) / 2
    products = (ground["products"] + again["products"]) / 2
    passes = sum(found["rows"].values()) / n
    steps = sum(v for what, v in found["rows"].items() if what == "EM") / n
    floor = passes * reading + steps * products
    print(f"{size:.1f} GB, {n:,} rows, k = {K}, d = {D}; {os.cpu_count()} cores")
    print(f"passes over all rows: { {w: round(v / n, 1) for w, v in found['rows'].items()} }")
    print("| | value |\n|---|---|")
    print(f"| reading the file once | {reading:.1f} s |")
    print(f"| the two products of an E-step on all rows | {products:.1f} s |")
    print(f"| reading {passes:.0f} times, products of {steps:.0f} E-steps | {floor:.1f} s |")
    print(f"| the fit | {found['seconds']:.1f} s, {found['seconds'] / floor:.2f} times |")
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
