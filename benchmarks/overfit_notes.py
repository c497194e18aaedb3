"""How often a fit with too many components has a note, and how often one with the right number.

Run: python benchmarks/overfit_notes.py [--fits 100] [--seed 0]

``SphericalMixture(k)`` is fitted to single Gaussians (k of 2 to 4), to separated mixtures with one
component more than they have, and to the same mixtures with the right number. Sizes are drawn
log-uniformly from 300 to 5,000 rows, features from 1 to 10, components from 2 to 6 with weights
that differ, means at least 4 standard deviations apart. A note of any kind counts; the column in
brackets counts ``bic_prefers_fewer``, the note that BIC is lower with one component less.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn

import implicitmoments as im

ROWS, MOST_FEATURES, MOST_COMPONENTS = (300, 5_000), 10, 6
SEPARATION, SPREAD = 4.0, 8.0  # of means, in standard deviations of the noise
Drawn = tuple[Any, int]  # rows and the number of components to fit


def size(rng: np.random.Generator) -> tuple[int, int]:
    """Draw a number of rows and of features."""
    n = int(np.exp(rng.uniform(*np.log(ROWS))))
    return n, int(rng.integers(1, MOST_FEATURES + 1))


def blob(rng: np.random.Generator) -> Drawn:
    """Draw one Gaussian, to be fitted with 2 to 4 components."""
    return rng.normal(size=size(rng)), int(rng.integers(2, 5))


def mixture(rng: np.random.Generator, more: int = 0) -> Drawn:
    """Draw a separated mixture, to be fitted with ``more`` components than it has."""
    (n, d), k = size(rng), int(rng.integers(2, MOST_COMPONENTS + 1))
    while True:
        means = SPREAD * rng.normal(size=(k, d))
        distances = np.linalg.norm(means[:, None] - means, axis=2)
        if distances[np.triu_indices(k, 1)].min() >= SEPARATION:
            break
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 5.0)))
    return means[labels] + rng.normal(size=(n, d)), k + more


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kinds: dict[str, Callable[[np.random.Generator], Drawn]] = {
        "one Gaussian, k of 2 to 4": blob,
        "separated mixture, one component too many": lambda rng: mixture(rng, 1),
        "separated mixture, right number": mixture,
    }
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, ", end="")
    print(f"scikit-learn {sklearn.__version__}; seed {given.seed}\n")
    print("| rows | fits | with a note (bic_prefers_fewer) |\n|---|---|---|")
    warnings.simplefilter("ignore")
    for name, draw in kinds.items():
        rng, found = np.random.default_rng(given.seed), []
        for seed in range(given.fits):
            X, k = draw(rng)
            found.append(im.SphericalMixture(k, random_state=seed).fit(X).notes_.codes)
        noted, preferred = sum(map(bool, found)), sum("bic_prefers_fewer" in f for f in found)
        print(f"| {name} | {given.fits} | {noted} ({preferred}) |", flush=True)


if __name__ == "__main__":
    main()
