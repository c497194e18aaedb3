"""Seconds of fits of 150 rows: iris, and two lines in two columns. Median of five fits each."""

from __future__ import annotations

import warnings
from statistics import median
from time import perf_counter
from typing import Any

from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im

FITS = 5


def seconds(model: Any, *rows: Any) -> float:
    """Return the median time of fits, after one that loads what is needed."""
    times = []
    for _ in range(FITS + 1):
        clock = perf_counter()
        model.fit(*rows)
        times.append(perf_counter() - clock)
    return median(times[1:])


def main() -> None:
    """Print a table."""
    X = load_iris().data
    lines = im.datasets.make_regression_mixture(150, 2, 2, noise=0.3, random_state=0)[:2]
    both: dict[str, Any] = {"covariance_type": "auto", "random_state": 0}
    cases: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("SphericalMixture(3)", im.SphericalMixture(3, random_state=0), (X,)),
        ('SphericalMixture("auto")', im.SphericalMixture("auto", random_state=0), (X,)),
        ("GaussianMixture(3)", im.GaussianMixture(3, random_state=0), (X,)),
        ('GaussianMixture("auto")', im.GaussianMixture("auto", random_state=0), (X,)),
        ('the same, covariance_type="auto"', im.GaussianMixture("auto", **both), (X,)),
        ("scikit-learn, 3 components", Peer(3, random_state=0), (X,)),
        ("scikit-learn, n_init=20", Peer(3, n_init=20, random_state=0), (X,)),
        ("RegressionMixture(2)", im.RegressionMixture(2, random_state=0), lines),
        ('RegressionMixture("auto")', im.RegressionMixture("auto", random_state=0), lines),
    ]
    warnings.simplefilter("ignore")  # notes on iris
    print("| fit | s |\n|---|---|")
    for name, model, rows in cases:
        print(f"| `{name}` | {seconds(model, *rows):.2f} |", flush=True)


if __name__ == "__main__":
    main()
