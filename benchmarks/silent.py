"""How often a fit is wrong, and how often it says so, on data that are not in other benchmarks.

Run: OMP_NUM_THREADS=1 python benchmarks/silent.py KIND [--seeds 10] [--first 0] [--jobs 1]

Each kind of data is a module of benchmarks/silence, which describes it.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable

import numpy as np
import sklearn

from silence.activations import activations
from silence.advice import advice
from silence.coverage import coverage, coverage_of_mixtures
from silence.degenerate import degenerate
from silence.discrete import discrete
from silence.extra import extra
from silence.rates import Run
from silence.shape import shape
from silence.small import small
from silence.tails import tails
from silence.wild_rows import wild_rows

KINDS: dict[str, Callable[[Run], None]] = {
    "activations": activations,
    "advice": advice,
    "coverage": coverage,
    "coverage_of_mixtures": coverage_of_mixtures,
    "degenerate": degenerate,
    "discrete": discrete,
    "extra": extra,
    "outliers": wild_rows,
    "shape": shape,
    "small": small,
    "tails": tails,
}


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="data sets that are fitted at a time")
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, ", end="")
    print(f"scikit-learn {sklearn.__version__}; {given.seeds} seeds from {given.first}\n")
    KINDS[given.kind](Run(range(given.first, given.first + given.seeds), given.jobs))


if __name__ == "__main__":
    main()
