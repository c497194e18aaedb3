"""Variance of two unbiased estimators of the Hermite tensor, orders 2 to 8.

Run: python benchmarks/hermite_variance.py

The paper's extended Hermite tensor uses one auxiliary Gaussian for all pairs of slots, Li and
Liu's a new one for each. Along a unit direction both second moments are known exactly; the
second column of each is a Monte Carlo check of the circuit itself.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from implicitmoments.circuits import hermite, vector
from implicitmoments.problems.li_liu import li_liu_hermite, li_liu_names, li_liu_variance
from implicitmoments.projections import RecursiveProjection, evaluate


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    x, y = vector("x"), vector("y")
    rng = np.random.default_rng(0)
    print(f"second moment along a unit direction, x ~ N(0, 1); Monte Carlo over {rows:,} rows")
    print("| order | H(x, y): exact | measured | size | Li-Liu: exact | measured | size | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for order in range(2, 9):
        along = RecursiveProjection([np.array([[1.0]])] * order)
        names = ("x", "y", *li_liu_names(order))
        drawn = {name: rng.normal(size=(rows, 1)) for name in names}
        one, many = hermite(x, y, order), li_liu_hermite(x, order)
        measured = [second_moment(evaluate(c, drawn, along).ravel()) for c in (one, many)]
        exact = 2.0 ** (order - 1), li_liu_variance(order)
        print(
            f"| {order} | {exact[0]:.0f} | {measured[0]} | {one.size} "
            f"| {exact[1]:.1f} | {measured[1]} | {many.size} | {exact[1] / exact[0]:.2f} |"
        )


def second_moment(values: np.ndarray) -> str:
    """Write a mean of squares with its standard error."""
    squares = values**2
    return f"{squares.mean():.2f} ± {squares.std() / math.sqrt(len(squares)):.2f}"


if __name__ == "__main__":
    main()
