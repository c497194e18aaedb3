"""How often a fit has notes: ideally never if it is correct, and always if it is wrong.

Run: python benchmarks/notes.py mixtures [--seeds 10]
     python benchmarks/notes.py regressions [--seeds 10]

``mixtures`` fits spherical mixtures with the number of components they have, with one fewer and
with one column in another unit, with Gaussian and with other noise, and counts the fits in which
``notes_`` has a note that a component is not spherical, or that columns differ in spread.
``regressions`` does the same for mixtures of lines, of which one or two are missing.
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
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture

# rows, components, features, radius, separation
MIXTURES = [
    (30_000, 30, 20, 4.0, 4.0),
    (60_000, 60, 30, 6.0, 5.0),
    (10_000, 8, 6, 4.0, 3.0),
    (3_000, 60, 30, 6.0, 5.0),
    (2_000, 4, 5, 8.0, 8.0),
    (1_000, 4, 50, 8.0, 8.0),
    (400, 3, 2, 6.0, 6.0),
]
# rows, lines, features, noise
LINES = [(5_000, 3, 2, 0.3), (5_000, 4, 5, 0.5), (30_000, 8, 10, 0.5), (2_000, 2, 3, 1.0)]
NOISES: dict[str, Callable[..., Any]] = {
    "Laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
    "Student 5": lambda rng, shape: rng.standard_t(5, size=shape) * np.sqrt(3 / 5),
}
UNIT = 0.2  # of one column


def count(said: list[list[str]], *codes: str) -> str:
    """Return in how many fits there is a note with one of some codes; any note without one."""
    found = sum(bool(set(notes) & set(codes)) if codes else bool(notes) for notes in said)
    return f"{found} of {len(said)}"


def notes_of(model: Any, *rows: Any) -> list[str]:
    """Return the codes of the notes on a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes: list[str] = model.fit(*rows).notes_.codes
    return codes


def mixtures(seeds: int) -> None:
    """Print how often fits of mixtures have notes."""
    other = " | ".join(f"{name} noise, k: not spherical" for name in NOISES)
    wrong = "k − 1: not spherical | other unit: column named"
    print(f"| rows | k | d | separation | k: any note | {wrong} | {other} |")
    print("|" + "---|" * (7 + len(NOISES)))
    for n, k, d, radius, separation in MIXTURES:
        said: dict[str, list[list[str]]] = {}
        for seed in range(seeds):
            X, truth = make_spherical_mixture(
                n, k, d, radius=radius, separation=separation, random_state=seed
            )
            rng, means = np.random.default_rng(seed), truth.vectors[truth.labels]
            scaled = X.copy()
            scaled[:, 0] = means[:, 0] + UNIT * (X - means)[:, 0]
            tried = {"right": (k, X), "fewer": (k - 1, X), "unit": (k, scaled)}
            tried |= {name: (k, means + draw(rng, X.shape)) for name, draw in NOISES.items()}
            for name, (number, rows) in tried.items():
                notes = notes_of(im.SphericalMixture(number, random_state=seed), rows)
                said.setdefault(name, []).append(notes)
        wide = [count(said[name], "component_not_spherical") for name in ("fewer", *NOISES)]
        unlike = count(said["unit"], "columns_differ_in_spread")
        cells = [count(said["right"]), wide[0], unlike, *wide[1:]]
        print(f"| {n:,} | {k} | {d} | {separation:g} | {' | '.join(cells)} |", flush=True)


def regressions(seeds: int) -> None:
    """Print how often fits of mixtures of regressions have notes."""
    print("| rows | k | d | noise | k: any note | k − 1: a line missing | one line: missing |")
    print("|" + "---|" * 7)
    for n, k, d, noise in LINES:
        said: dict[int, list[list[str]]] = {}
        for seed in range(seeds):
            X, y, _ = make_regression_mixture(n, k, d, noise=noise, random_state=seed)
            for number in {k, k - 1, 1}:
                notes = notes_of(im.RegressionMixture(number, random_state=seed), X, y)
                said.setdefault(number, []).append(notes)
        missing = [count(said[j], "line_missing", "line_looks_double") for j in (k - 1, 1)]
        cells = [count(said[k]), *missing]
        print(f"| {n:,} | {k} | {d} | {noise:g} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["mixtures", "regressions"])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, ", end="")
    print(f"scikit-learn {sklearn.__version__}; {given.seeds} seeds\n")
    {"mixtures": mixtures, "regressions": regressions}[given.table](given.seeds)


if __name__ == "__main__":
    main()
