"""A file larger than memory should be, fitted by every estimator.

Run: OMP_NUM_THREADS=1 python benchmarks/attack.py files [--gigabytes 10] [--folder DIR]
     OMP_NUM_THREADS=1 python benchmarks/attack.py files --only SphericalMixture --gigabytes 1

Each estimator fits a .npy file of 20 features in a separate process, which reports its peak
resident memory. Rates are megabytes by seconds of processor time, which does not depend on other
work: of the file by the whole fit, and of what all passes read. Wrong is a peak above ``--limit``.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from attacks.fits import (
    CASES,
    D,
    child,
    make_model,
    peak_memory,
    report,
    where_labels_are,
    write_rows,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this attack."""
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--limit", type=float, default=500.0, help="MB of resident memory")
    parser.add_argument("--folder", help="for the file; the system's by default")
    parser.add_argument("--only", choices=list(CASES), help="one estimator")
    parser.add_argument("--fit", nargs=2, help=argparse.SUPPRESS)


def attack(given: argparse.Namespace) -> int:
    """Print memory, time and rates; return how many estimators took more than the limit."""
    if given.fit:
        fit_and_report(*given.fit)
        return 0
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores; ")
    print(f"{given.gigabytes:g} GB, {D} features\n")
    print(
        "| estimator | rows | passes | s | processor, s | file, MB/s | passes, MB/s | peak, MB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    above = 0
    for name in [given.only] if given.only else CASES:
        width = 8 * (D + (where_labels_are(name) is not None))
        n = int(given.gigabytes * 1e9) // width
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "rows.npy"
            write_rows(name, path, n)
            found = child("files", "--fit", name, path)
        megabytes, passes = n * width / 1e6, found["rows"] / n
        rate = megabytes / found["processor"]
        print(f"| {name} | {n:,} | {passes:.1f} | {found['seconds']:.0f} ", end="")
        print(f"| {found['processor']:.0f} | {rate:.0f} | {rate * passes:.0f} ", end="")
        print(f"| {found['peak']:.0f} |", flush=True)
        above += found["peak"] > given.limit
    return above


def fit_and_report(name: str, path: str) -> None:
    """Fit the file in this process; report time, rows read and peak memory."""
    rows: Counter[str] = Counter()

    def progress(what: str, done: int, total: int) -> None:
        rows[what] += total if done == total else 0

    clock, processor = perf_counter(), process_time()
    make_model(name).fit(path, where_labels_are(name), progress=progress)
    seconds, processor = perf_counter() - clock, process_time() - processor
    report(seconds=seconds, processor=processor, rows=sum(rows.values()), peak=peak_memory())
