"""Floating-point rate of an accumulation pass, compared with a matrix product.

Run: python benchmarks/throughput.py
     OMP_NUM_THREADS=1 python benchmarks/throughput.py --sizes 30 --processor   on a shared machine

Passes of the closed form at k = p on rows of a Gaussian, with weights of one and of both signs.
A symmetric rank-N update of side s counts N·s² operations, half of a general product. The
last columns divide by the rate of a general product of the same shape, measured in between.
"""

from __future__ import annotations

import argparse
import statistics
import tracemalloc
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from implicitmoments.moments import HermiteProblem, implicit_moments
from implicitmoments.moments.chain import ChainWindow, SymmetricChain, Window, open_window
from implicitmoments.moments.form_means import even_mean
from implicitmoments.moments.hermite_problem import all_rows
from implicitmoments.rows import MemoryBudget, RowDraws
from implicitmoments.testing import chain_of_powers


def rows_of_a_gaussian(d: int) -> Any:
    """Return a buffer of rows that is read repeatedly, so that generating rows costs nothing."""
    buffer = np.random.default_rng(0).normal(size=(MemoryBudget.MOST_ROWS, d))

    def make(rows: range, _: RowDraws) -> Any:
        return buffer[: len(rows)]

    return make


class Signed(HermiteProblem):
    """Weights of both signs, made from the points."""

    def weigh(self, order: int, block: Any, rows: range) -> Any:
        """Return the first coordinate."""
        del order, rows
        return block["x"][:, 0]


def chain_of_order(order: int, p: int, k: int) -> SymmetricChain:
    """Return nested spans of powers of k random vectors."""
    return chain_of_powers(np.random.default_rng(1).normal(size=(k, p)), order)


def operations(chain: SymmetricChain, window: Window, n: int) -> float:
    """Count the products of one pass: images along the chain, the window, the Gram matrices."""
    p, r = chain.p, chain.order
    total = 0.0
    for s in range(2, r + 1):
        total += 2 * chain.dim(s) * chain.dim(s - 1) * p + 2 * chain.dim(s) * chain.dim(s - 2)
    if isinstance(window, ChainWindow):
        total += 2 * chain.dim(r) * p * (window.dim + chain.dim(r - 1))
    sides = [*(chain.dim(s) for s in range(r + 1)), window.dim]
    return n * (total + sum(side**2 for side in sides))


def seconds(
    run: Callable[[], Any], repeats: int = 5, clock: Callable[[], float] = perf_counter
) -> float:
    """Return the median time of several runs."""
    taken = []
    for _ in range(repeats):
        start = clock()
        run()
        taken.append(clock() - start)
    return statistics.median(taken)


def gemm_rate(side: int, clock: Callable[[], float]) -> float:
    """Return operations per second of (side × rows) @ (rows × side) of 4,096 rows."""
    A = np.random.default_rng(0).normal(size=(4_096, side))
    B = A + 0.0
    times = 10
    taken = seconds(lambda: [A.T @ B for _ in range(times)], clock=clock)
    return 2 * times * len(A) * side**2 / taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--sizes", type=int, nargs="+", help="only the first table, at these k")
    parser.add_argument("--processor", action="store_true", help="count processor time")
    options = parser.parse_args()
    n, clock = options.rows, process_time if options.processor else perf_counter
    print(
        "| pass | k = p | weights | side | GFLOP/s | product GFLOP/s | ratio |\n"
        + "|---" * 7
        + "|"
    )
    for size in options.sizes or (20, 30, 50):
        for order in (1, 2):
            chain = chain_of_order(order, size, size)
            window = open_window(chain, size)
            for signed in (False, True):
                problem = (Signed if signed else HermiteProblem)(rows_of_a_gaussian(size))
                view = all_rows(problem, n)
                product = gemm_rate(window.dim, clock)
                run = partial(even_mean, view, chain, window)
                taken = seconds(run, 3, clock)
                rate = operations(chain, window, n) / taken
                product = (product + gemm_rate(window.dim, clock)) / 2
                print(
                    f"| order {2 * order + 2} | {size} | {'signed' if signed else 'ones'} "
                    f"| {window.dim} | {rate / 1e9:.1f} | {product / 1e9:.1f} "
                    f"| {rate / product:.2f} |",
                    flush=True,
                )
    if options.sizes:
        return
    print("\n| rows | seconds | peak MB |\n|---|---|---|")
    chain = chain_of_order(1, 30, 30)
    window = open_window(chain, 30)
    for rows in (50_000, 100_000, 200_000, 400_000):
        view = all_rows(HermiteProblem(rows_of_a_gaussian(30)), rows)
        taken = seconds(lambda v=view: even_mean(v, chain, window), 3)  # type: ignore[misc]
        tracemalloc.start()
        even_mean(view, chain, window)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(f"| {rows:,} | {taken:.2f} | {peak:.0f} |", flush=True)
    queries()


def queries() -> None:
    """Print the time of queries against order and k; O(order · k² p) per row."""
    print("\n| order | k = p | microseconds per row | ns / (order · k² p) |\n|---|---|---|---|")
    for size in (10, 20, 40):
        X = np.random.default_rng(0).normal(size=(20_000, size))
        X += 2 * np.eye(size)[np.arange(20_000) % size]
        for order in (2, 4, 6, 8):
            moments = implicit_moments(
                HermiteProblem(X), n_components=size, order=order, drop_noise=False
            )
            taken = seconds(lambda m=moments, X=X: m.hermite(X), 3) / len(X)  # type: ignore[misc]
            print(
                f"| {order} | {size} | {1e6 * taken:.1f} | {1e9 * taken / order / size**3:.2f} |"
            )


if __name__ == "__main__":
    main()
