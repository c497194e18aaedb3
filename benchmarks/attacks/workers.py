"""Fits on Dask that lose workers.

Run: OMP_NUM_THREADS=1 python benchmarks/attack.py workers [--losses 3] [--rows 400000]

A Dask array, persisted on two single-threaded workers, is fitted by one estimator after the other.
In a second fit SIGKILL ends the process of one worker, and with it the rows that it holds, after a
pass chosen at random and up to the mean time of a pass. Compared are all bits of the two models.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import warnings
from importlib import import_module
from itertools import cycle
from logging import CRITICAL
from threading import Timer
from time import perf_counter
from typing import Any

import numpy as np

from attacks.fits import CASES, D, digest, draw_rows, make_model, where_labels_are

PARTS = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this attack."""
    parser.add_argument("--losses", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(CASES), help="one estimator")


def attack(given: argparse.Namespace) -> int:
    """Print how many fits are undisturbed by the loss of a worker; return the others."""
    dask, distributed = import_module("dask"), import_module("distributed")  # extras
    rng = np.random.default_rng(given.seed)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, Dask {dask.__version__}; ")
    print(f"{given.rows:,} rows in {PARTS} partitions, seed {given.seed}\n")
    print("| estimator | passes | killed after pass | seconds | without a loss | same bits |")
    print("|---|---|---|---|---|---|")
    names = cycle([given.only] if given.only else CASES)
    wrong = 0
    for _ in range(given.losses):
        name = next(names)
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        cluster = distributed.LocalCluster(**options, silence_logs=CRITICAL)
        with cluster, distributed.Client(cluster) as client, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong += not lose(client, name, given.rows, rng)
    print(f"\n{given.losses - wrong} of {given.losses} bit for bit")
    return wrong


def lose(client: Any, name: str, n: int, rng: np.random.Generator) -> bool:
    """Fit twice, the second time with a loss; print a line and return whether bits agree."""
    fit(client, name, 1_000 * PARTS)  # workers import their modules
    whole, passes, seconds = fit(client, name, n)
    at = int(rng.integers(passes - 1))
    killer = Timer(rng.uniform(0, seconds / passes), kill_a_worker, [client])
    found, _, taken = fit(client, name, n, killer, at)
    killer.join()
    print(f"| {name} | {passes} | {at + 1} | {taken:.1f} | {seconds:.1f} ", end="")
    print(f"| {'yes' if whole == found else 'NO'} |", flush=True)
    return whole == found


def fit(
    client: Any, name: str, n: int, killer: Timer | None = None, at: int = -1
) -> tuple[str, int, float]:
    """Fit rows that the workers hold; return a digest, the number of passes and seconds.

    ``killer`` starts after pass number ``at``.
    """
    da, delayed = import_module("dask.array"), import_module("dask").delayed
    column, size = where_labels_are(name), n // PARTS
    shape = (size, D + (column is not None))
    parts = [delayed(draw_rows)(name, size, i) for i in range(PARTS)]
    rows = client.persist(da.concatenate([da.from_delayed(p, shape, float) for p in parts]))
    import_module("distributed").wait(rows)
    y = None if column is None else rows[:, column]
    passes = 0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal passes
        del what
        if killer is not None and passes == at and done == total:
            killer.start()
        passes += done == total

    clock = perf_counter()
    model = make_model(name).fit(rows[:, :D], y, progress=progress)
    return digest(model), passes, perf_counter() - clock


def kill_a_worker(client: Any) -> None:
    """End the process of one worker, with the rows that it holds."""
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)
