"""Cost of a checkpoint: many short passes, and large sums stored within a long pass.

Run: python benchmarks/checkpoints.py

Passes with and without a journal alternate, on the same rows. A pass sums the Gram matrix of rows
in memory. The second table stores square matrices and reads them back.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.rows import ArraySource, Block, Journal, JournaledSource, Source


def gram(block: Block, rows: range) -> dict[str, Any]:
    """Return the Gram matrix of a block."""
    return {"gram": block["x"].T @ block["x"], "rows": len(rows)}


def pass_seconds(source: Source, n_rows: int) -> float:
    """Time one pass in blocks of 5,000 rows."""
    clock = perf_counter()
    source.fold(gram, range(n_rows), 5_000, what="gram")
    return perf_counter() - clock


def short_passes(folder: Path, n_passes: int) -> None:
    """Print the time of a short pass without a journal, with one, and read from one."""
    print("| rows | features | ms a pass | with a journal | overhead | from the journal | MB |")
    print("|---|---|---|---|---|---|---|")
    for n_rows, n_features in ((40_000, 20), (40_000, 50), (80_000, 100)):
        X = np.random.default_rng(0).normal(size=(n_rows, n_features))
        plain, path = ArraySource(X), folder / f"{n_rows}-{n_features}"
        alone, kept = [], []
        with Journal(path) as journal:
            journaled = JournaledSource(plain, journal)
            for _ in range(n_passes):
                alone.append(pass_seconds(plain, n_rows))
                kept.append(pass_seconds(journaled, n_rows))
        with Journal(path) as journal:
            journaled = JournaledSource(plain, journal)
            known = [pass_seconds(journaled, n_rows) for _ in range(n_passes)]
        ms = [1e3 * statistics.median(times) for times in (alone, kept, known)]
        print(
            f"| {n_rows:,} | {n_features} | {ms[0]:.2f} | {ms[1]:.2f} | "
            f"{sum(kept) / sum(alone) - 1:.1%} | {ms[2]:.2f} | {path.stat().st_size / 1e6:.1f} |"
        )


def large_sums(folder: Path) -> None:
    """Print the time to store the sums of an unfinished pass, and to read them back."""
    print("\n| MB | seconds to keep | to recall | MB of file |")
    print("|---|---|---|---|")
    for side in (350, 1_100, 3_500):
        sums = {"a": np.random.default_rng(0).normal(size=(side, side))}
        path = folder / f"{side}"
        with Journal(path, every=0) as journal:
            taken = []
            for i in range(5):
                clock = perf_counter()
                journal.keep(0, "", sums, next_row=i)
                taken.append(perf_counter() - clock)
            clock = perf_counter()
            journal.recall(0, "", lambda: np.zeros(0))  # NumPy's arrays go nowhere else
            recalled = perf_counter() - clock
        print(
            f"| {sums['a'].nbytes / 1e6:.0f} | {statistics.median(taken):.3f} | {recalled:.3f} | "
            f"{path.stat().st_size / 1e6:.0f} |"
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=1_000)
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SQLite {sqlite3.sqlite_version}\n"
    )
    with TemporaryDirectory() as name:
        short_passes(Path(name), options.passes)
        large_sums(Path(name))


if __name__ == "__main__":
    main()
