"""Fits with a checkpoint that are killed and resumed.

Run: OMP_NUM_THREADS=1 python benchmarks/attack.py kills [--kills 100] [--rows 6000] [--seed 0]

Each estimator fits a file of rows with a checkpoint. SIGKILL ends the process within a pass, after
a block chosen at random, of which all before it have been kept; between two passes, when the last
block has been measured and the pass has not been kept; or at any time from its start, while
modules are imported and files written. The fit is started again with the same checkpoint, and all
bits of its model are compared with those of a fit without a checkpoint.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from attacks.fits import (
    CASES,
    SCRIPT,
    child,
    digest,
    make_model,
    report,
    where_labels_are,
    write_rows,
)

BLOCK_ROWS = 1_000  # so that passes over few rows have several blocks
PLACES = ("within a pass", "between passes", "at any time")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this attack."""
    parser.add_argument("--kills", type=int, default=100, help="of all estimators together")
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="for files; the system's by default")
    parser.add_argument("--only", choices=list(CASES), help="one estimator")
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)


def attack(given: argparse.Namespace) -> int:
    """Print how many resumed fits have the bits of an undisturbed one; return the others."""
    if given.fit:
        fit_and_report(*given.fit)
        return 0
    rng = np.random.default_rng(given.seed)
    cells = list(product([given.only] if given.only else CASES, PLACES))
    shares = {cell: len(range(i, given.kills, len(cells))) for i, cell in enumerate(cells)}
    print(f"Python {platform.python_version()}, NumPy {np.__version__}; ", end="")
    print(f"{given.kills} kills, {given.rows:,} rows, seed {given.seed}\n")
    print("| estimator | passes | blocks | killed | kills | resumed with the same bits |")
    print("|---|---|---|---|---|---|")
    wrong = 0
    for name in dict.fromkeys(name for name, _ in cells):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / "rows.npy"
            write_rows(name, path, given.rows)
            clock = perf_counter()
            whole = child("kills", "--fit", name, path, "", -1)
            seconds = perf_counter() - clock
            for place in PLACES:
                n = shares[name, place]
                equal = sum(
                    resume(name, path, kill(name, path, place, whole, seconds, rng), whole)
                    for _ in range(n)
                )
                passes = sum(whole["ends"])
                print(f"| {name} | {passes} | {len(whole['ends'])} | {place} ", end="")
                print(f"| {n} | {equal} of {n} |", flush=True)
                wrong += n - equal
    print(f"\n{given.kills - wrong} of {given.kills} bit for bit")
    return wrong


def kill(
    name: str,
    path: Path,
    place: str,
    whole: dict[str, Any],
    seconds: float,
    rng: np.random.Generator,
) -> Path:
    """Kill a fit; return its checkpoint."""
    checkpoint, at = path.with_name("checkpoint"), -1
    for old in path.parent.glob("checkpoint*"):
        old.unlink()
    if place != "at any time":
        ends = np.array(whole["ends"])
        at = int(rng.choice(np.flatnonzero(ends == (place == "between passes"))))
    fit = ["kills", "--fit", name, str(path), str(checkpoint), str(at)]
    command = [sys.executable, "-W", "ignore", str(SCRIPT), *fit]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        if at < 0:
            sleep(float(rng.uniform(0, seconds)))
            process.kill()
    if at >= 0 and process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"{name} ended with status {process.returncode} and not by its kill")
    return checkpoint


def resume(name: str, path: Path, checkpoint: Path, whole: dict[str, Any]) -> bool:
    """Start a killed fit again; return whether its model has the same bits."""
    found = child("kills", "--fit", name, path, checkpoint, -1)
    return bool(found["digest"] == whole["digest"])


def fit_and_report(name: str, path: str, checkpoint: str, at: str) -> None:
    """Fit in this process, which kills itself after block number ``at`` unless that is -1."""
    ends: list[bool] = []

    def progress(what: str, done: int, total: int) -> None:
        del what
        ends.append(done == total)
        if len(ends) == int(at) + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    model, y = make_model(name, BLOCK_ROWS), where_labels_are(name)
    model.fit(path, y, checkpoint=checkpoint or None, progress=progress)
    report(digest=digest(model), ends=ends)
