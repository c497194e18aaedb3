"""Which order of the pairwise test pays: the test alone, with the exact moment.

Run: python benchmarks/pairwise_orders.py [--plot docs/figures/pairwise_orders.svg]

Means at the corners of a simplex, all at the same distance: k means in k features, the case in
which plain distances are worst. Printed is the separation at which the mean of both error rates,
at the best threshold, is 1 %, by order; and for the likelihood ratio, the best of all tests. Order
2 is the distance of two rows.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.special import comb

from spherical_peers import Floats

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

ORDERS = (2, 4, 6, 8, 12, 16)
COMPONENTS = (4, 10, 30, 100, 300, 1_000, 3_000, 10_000)
ERROR = 0.01


def best_error(values: Floats, same: Mask) -> float:
    """Return the smallest mean error rate over all thresholds; small values mean "same"."""
    order = np.argsort(values)
    joined = np.concatenate([[0], np.cumsum(same[order])]) / np.sum(same)
    merged = np.concatenate([[0], np.cumsum(~same[order])]) / np.sum(~same)
    return float(np.min(1.0 - joined + merged) / 2)


def hermites(z: Floats, most: int) -> Floats:
    """Return h_0, …, h_most of every number, in a new first axis."""
    found = [np.ones_like(z), z]
    for n in range(1, most):
        found.append((z * found[-1] - math.sqrt(n) * found[-2]) / math.sqrt(n + 1))
    return np.array(found)


def simplex_statistics(sums: Floats) -> dict[int, Floats]:
    """Return P_t of means at the corners of a simplex, up to a factor.

    By h_t((x − y)/√2) = 2^{−t/2} Σ_a (−1)^a C(t, a)^{1/2} h_{t−a}(x) h_a(y) the sum over all pairs
    of corners is one over orders; sums are those of h_a over the coordinates, (most + 1, n).
    """
    return {
        t: sum((-1) ** a * math.sqrt(comb(t, a)) * sums[t - a] * sums[a] for a in range(t + 1))
        / 2 ** (t / 2)
        for t in ORDERS
    }


def separations(k: int, n: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the separation at which each test has the error rate of 1 %."""
    most = max(ORDERS)
    grid = np.arange(5.0, 45.0, 0.25)
    near = int(np.sum(grid <= 16.0))  # the likelihood ratio needs no more
    sums, corners = np.empty((most + 1, 2 * n)), np.empty((2, 2 * n))
    powers = np.empty((2, near, 2 * n))  # Σ exp(±s z_i/2), for the likelihood ratio
    for rows in np.array_split(np.arange(2 * n), max(1, 2 * n * k // 4_000_000)):
        z = rng.normal(size=(k, len(rows)))
        sums[:, rows], corners[:, rows] = sums_of_hermites(z, most), z[:2]
        for j, sign in enumerate((1, -1)):
            value, step = (
                np.exp(sign * grid[0] / 2 * z),
                np.exp(sign * (grid[1] - grid[0]) / 2 * z),
            )
            for i in range(near):
                powers[j, i, rows] = np.sum(value, axis=0)
                value *= step
    same = np.arange(2 * n) < n
    found: dict[str, float] = {}
    errors: dict[str, list[float]] = {}
    own = hermites(corners, most).sum(axis=1)
    for i, s in enumerate(grid):
        # x − x' of corners 1 and 2: s/2 is added to one coordinate and taken from another
        moved = corners + np.array([[s / 2], [-s / 2]]) * ~same
        values = simplex_statistics(sums + hermites(moved, most).sum(axis=1) - own)
        statistics = {f"order {t}": values[t] for t in ORDERS}
        if i < near:
            ratio = [
                powers[j, i] + np.sum(np.exp(c * moved) - np.exp(c * corners), axis=0)
                for j, c in enumerate((s / 2, -s / 2))
            ]
            statistics["likelihood ratio"] = np.log(ratio[0]) + np.log(ratio[1])
        for name, value in statistics.items():
            if name not in found:
                errors.setdefault(name, []).append(best_error(value, same))
                if errors[name][-1] <= ERROR:
                    found[name] = interpolate(grid[: i + 1], errors[name])
        if len(found) == len(ORDERS) + 1:
            break
    return found


def sums_of_hermites(z: Floats, most: int) -> Floats:
    """Return the sums of h_0, …, h_most over the first axis of (k, n), (most + 1, n)."""
    before, value, found = np.zeros_like(z), np.ones_like(z), []
    for n in range(most + 1):
        found.append(value.sum(axis=0))
        before, value = value, (z * value - math.sqrt(n) * before) / math.sqrt(n + 1)
    return np.array(found)


def interpolate(grid: Floats, errors: list[float]) -> float:
    """Return where the error rate passes the target, on a logarithmic scale."""
    if len(errors) == 1:
        return float(grid[0])
    last, now = (math.log(max(e, 1e-6)) for e in errors[-2:])
    step = (math.log(ERROR) - last) / (now - last)
    return float(grid[-2] + step * (grid[-1] - grid[-2]))


def order_table(plot: Path | None, largest: int) -> None:
    """Print the separation that each order needs, against k; plot it if a path is given."""
    rng, rows = np.random.default_rng(0), []
    names = [*(f"order {t}" for t in ORDERS), "likelihood ratio"]
    print("| k | √log k | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 2) + "|")
    sizes = [k for k in COMPONENTS if k <= largest]
    for k in sizes:
        found = separations(k, 10_000 if k <= 1_000 else 2_000, rng)
        rows.append(found)
        cells = " | ".join(f"{found[name]:.1f}" if name in found else "> 45" for name in names)
        print(f"| {k:,} | {math.sqrt(math.log(k)):.2f} | {cells} |", flush=True)
    if plot is not None:
        import matplotlib as mpl  # noqa: PLC0415 (an extra)

        mpl.use("svg")
        import matplotlib.pyplot as plt  # noqa: PLC0415

        figure, panel = plt.subplots(figsize=(6, 3.8))
        for name in names:
            style = "k--" if name == "likelihood ratio" else "-"
            values = [found.get(name, math.nan) for found in rows]
            panel.semilogx(sizes, values, style, marker=".", label=name)
        panel.set_ylim(7, 25)
        panel.set_xlabel("k")
        panel.set_ylabel("separation for an error rate of 1 %")
        panel.grid(alpha=0.3)
        panel.legend(frameon=False, fontsize=8)
        figure.tight_layout()
        figure.savefig(plot)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=COMPONENTS[-1], help="largest k")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    order_table(arguments.plot, arguments.largest)


if __name__ == "__main__":
    main()
