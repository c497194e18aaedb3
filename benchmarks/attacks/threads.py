"""Fits and predictions of every estimator at a time, in threads of one process.

Run: python benchmarks/attack.py threads [--calls 200] [--threads 8]

Each call fits an estimator or predicts with a fitted one, in random order. Compared with the same
call alone are all bits of the model or of the predictions, and afterwards the threads that BLAS
may use with those before.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from attacks.fits import CASES, D, digest, draw_rows, make_model, where_labels_are

KINDS = ("fit", "predict")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this attack."""
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--blas", type=int, default=2, help="threads of BLAS before the calls")
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)


def attack(given: argparse.Namespace) -> int:
    """Print how many calls have the results of a call alone; return the others."""
    warnings.simplefilter("ignore")
    set_blas(given.blas)
    print(f"Python {platform.python_version()}, NumPy {np.__version__}; {given.calls} calls in ")
    print(f"{given.threads} threads, {given.rows:,} rows, seed {given.seed}\n")
    calls = make_calls(given.rows)
    alone = {name: call() for name, call in calls.items()}
    rng = np.random.default_rng(given.seed)
    chosen = [str(name) for name in rng.choice(list(calls), given.calls)]
    before = blas_threads()
    with ThreadPoolExecutor(given.threads) as pool:
        found = list(pool.map(lambda name: calls[name](), chosen))
    after = blas_threads()
    print("| estimator | fits | equal to one alone | predictions | equal to one alone |")
    print("|---|---|---|---|---|")
    for name in CASES:
        cells = [count_equal(f"{name} {kind}", chosen, found, alone) for kind in KINDS]
        print(f"| {name} | {cells[0][0]} | {cells[0][1]} | {cells[1][0]} | {cells[1][1]} |")
    same = sum(count_equal(name, chosen, found, alone)[1] for name in calls)
    print(f"\n{same} of {given.calls} bit for bit; threads of BLAS {before} before, {after} after")
    return int(given.calls - same + (before != after))


def count_equal(
    name: str, chosen: list[str], found: list[Any], alone: dict[str, Any]
) -> tuple[int, int]:
    """Return how many calls of a name there were, and how many gave what one alone does."""
    of_name = [bits for each, bits in zip(chosen, found, strict=True) if each == name]
    return len(of_name), sum(bits == alone[name] for bits in of_name)


def make_calls(n: int) -> dict[str, Callable[[], Any]]:
    """Return a fit and a prediction of every estimator, which give all bits of their results."""
    calls: dict[str, Callable[[], Any]] = {}
    for name in CASES:
        rows, column = draw_rows(name, n, 0), where_labels_are(name)
        X, y = rows[:, :D], None if column is None else rows[:, column]
        model = make_model(name).fit(X, y)
        answer = model.predict if hasattr(model, "predict") else model.score_samples

        def fit(name: str = name, X: Any = X, y: Any = y) -> str:
            return digest(make_model(name).fit(X, y))

        def predict(answer: Any = answer, X: Any = X) -> bytes:
            return np.asarray(answer(X)).tobytes()

        calls[f"{name} fit"], calls[f"{name} predict"] = fit, predict
    return calls


def blas_threads() -> int:
    """Return the threads that BLAS may use."""
    blas = (lib for lib in threadpool_info() if lib["user_api"] == "blas")
    return max(int(lib["num_threads"]) for lib in blas)


def set_blas(n_threads: int) -> None:
    """Set the threads of BLAS, by a thread that ends: until then others may be ignored."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(threadpool_limits, n_threads, user_api="blas").result()
