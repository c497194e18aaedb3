"""Rows that the proofs of the paper ask for, beside the rows that the closed form needs.

Run: python benchmarks/theory.py moments [--measured] [--largest 256000]
     python benchmarks/theory.py theorems
     python benchmarks/theory.py separation

``moments``: Proposition 3.2 at the problems, orders and relative error of
``benchmarks/sample_efficiency.py``, with probability 0.99; ``--measured`` repeats the measurement
of the closed form, which is otherwise left out. ``theorems``: rows and operations of the theorems,
and the error that a million rows guarantee. ``separation``: the least separation of Theorem 4.19.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from implicitmoments.datasets import Truth
from implicitmoments.problems import relu
from implicitmoments.theory import (
    Bound,
    activation_bound,
    clustering_bound,
    error_bound,
    least_separation,
    mixture_density_bound,
    regression_density_bound,
)
from implicitmoments.theory.applications import (
    activation_second_moment,
    mixture_second_moment,
    regression_second_moment,
)
from implicitmoments.theory.hermite_variance import log_hermite_second_moment
from implicitmoments.theory.proposition import Box
from sample_efficiency import PROBLEMS, SEEDS, TARGET, D, K, error, rows_needed

NOISE = 0.3  # of the regressions in sample_efficiency
TAU = 0.01
MEASURED_ROWS = 1e6


def second_moments(name: str, radius: float) -> Callable[[int], float]:
    """Return the logarithm of the second moment by order, in units of the longest vector."""
    if name == "ReLU sum":
        return activation_second_moment(relu())
    if name == "regressions":
        return regression_second_moment(radius**2 + NOISE**2)
    return mixture_second_moment(radius, radius)


def proposition(name: str, truth: Truth, m: int) -> float:
    """Return log10 of the rows of Proposition 3.2 for the target of sample_efficiency."""
    radius = float(np.max(np.linalg.norm(truth.vectors, axis=1)))
    unit = radius if name in ("mixture", "differences") else 1.0
    vectors = truth.vectors / unit
    products = (vectors @ vectors.T) ** m
    norm = math.sqrt(float(truth.weights @ products @ truth.weights))
    k = min(len(truth.weights), K)
    length = math.log(radius / unit)
    query = log_hermite_second_moment(m, 0.0)
    box = Box.of_moment((k, D, m), TAU, second_moments(name, radius), query, length=length)
    log_n = box.log_rows(math.log(TARGET * norm))
    return (log_n + math.log(m + 1)) / math.log(10)


def moment_table(orders: list[int], measured: bool, largest: int) -> None:
    """Print the rows of Proposition 3.2, and those that the closed form needs."""
    print(f"rows for a relative error of {TARGET}, d = {D}, probability {1 - TAU}")
    print("| problem | m | Proposition 3.2 |" + (" closed form |" if measured else ""))
    print("|---" * (3 + measured) + "|")
    sizes = [250 * 4**i for i in range(12) if 250 * 4**i <= largest]
    for m in orders:
        for name, make in PROBLEMS.items():
            truths = [make(1_000, seed, False)[1] for seed in SEEDS]
            log_rows = np.median([proposition(name, truth, m) for truth in truths])
            cells = f"| {name} | {m} | 10^{log_rows:.1f} |"
            if measured:
                errors: list[float] = []
                for n in sizes:
                    found = [error(make, "closed form", n, m, seed) for seed in SEEDS]
                    errors.append(float(np.median(found)))
                    if errors[-1] <= TARGET:
                        break
                cells += f" {rows_needed(sizes[: len(errors)], errors)[0]} |"
            print(cells, flush=True)


def theorem_table() -> None:
    """Print rows, operations and orders of the theorems, and what a million rows guarantee."""
    statements: list[tuple[str, Callable[..., Bound], dict[str, object]]] = [
        ("4.7, ReLU", activation_bound, {}),
        ("4.16, R = 2", mixture_density_bound, {"radius": 2.0}),
        ("4.19, s = 40", clustering_bound, {"separation": 40.0}),
        ("4.22, σ = 1, text", regression_density_bound, {"sigma": 1.0}),
        ("4.22, σ = 1, direct", regression_density_bound, {"sigma": 1.0, "method": "direct"}),
        ("4.22, σ = 0.5, direct", regression_density_bound, {"sigma": 0.5, "method": "direct"}),
    ]
    print(f"k = {K}, d = {D}, probability {1 - TAU}")
    print("| theorem | ε | highest order | V | rows | operations | error from 10^6 rows |")
    print("|---" * 7 + "|")
    for name, guarantee, parameters in statements:
        for epsilon in (0.5, 0.1):
            options = {"k": K, "d": D, "tau": TAU, **parameters}
            bound = guarantee(epsilon=epsilon, **options)
            reached = error_bound(guarantee, MEASURED_ROWS, **options)
            print(
                f"| {name} | {epsilon} | {2 * (bound.order or 0)} "
                f"| 10^{bound.log10_second_moment:.0f} "
                f"| 10^{bound.log10_rows:.0f} | 10^{bound.log10_operations:.0f} "
                f"| {reached:.2g} |",
                flush=True,
            )


def separation_table() -> None:
    """Print the least separation of Theorem 4.19, and the rows at one and a half of it."""
    print("α = 0.1, equal weights, d = k, probability 2/3")
    print(
        "| k | largest over smallest distance | least s | over √log(k/α) | order | rows at 1.5 s |"
    )
    print("|---" * 6 + "|")
    for k in (2, 10, 100, 1_000, 10_000):
        for ratio in (1.0, 3.0):
            s = least_separation(k, k, 0.1, ratio=ratio)
            bound = clustering_bound(k, k, 0.1, separation=1.5 * s, ratio=ratio)
            constant = s / math.sqrt(math.log(k / 0.1))
            print(
                f"| {k:,} | {ratio:g} | {s:.1f} | {constant:.1f} | {bound.order} "
                f"| 10^{bound.log10_rows:.0f} |",
                flush=True,
            )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["moments", "theorems", "separation"])
    parser.add_argument("--orders", type=int, nargs="+", default=[2, 4, 6])
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--largest", type=int, default=256_000)
    given = parser.parse_args()
    if given.table == "moments":
        moment_table(given.orders, given.measured, given.largest)
    elif given.table == "theorems":
        theorem_table()
    else:
        separation_table()


if __name__ == "__main__":
    main()
