"""True errors over reported ones: answers of the closed form, and vectors of components.

Run: python benchmarks/answer_errors.py answers       stats["relative_errors"]

A ratio of 1 is an exact report. Every instance has its own hidden vectors and rows; the tables
show the median over instances, and the 10 and 90 percent quantiles.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from datetime import date
from time import perf_counter
from typing import TypeAlias

import numpy as np

from implicitmoments import datasets, implicit_moments
from implicitmoments.datasets import Truth
from implicitmoments.moments import HermiteProblem
from implicitmoments.problems import (
    ActivationSumProblem,
    PairwiseDifferenceProblem,
    RegressionMixtureProblem,
    SphericalMixtureProblem,
    relu,
)

Posed: TypeAlias = tuple[HermiteProblem, Truth, int]  # with the number of hidden vectors

K, D = 3, 8
N_POINTS = 20_000  # queries of the true error
ORDER = 6


def activation_sum(n: int, seed: int) -> Posed:
    """Pose a sum of ReLUs without noise."""
    X, y, truth = datasets.make_activation_sum(n, K, D, random_state=seed)
    return ActivationSumProblem(X, y, relu()), truth, K


def spherical_mixture(n: int, seed: int) -> Posed:
    """Pose a mixture with means of norm 2."""
    X, truth = datasets.make_spherical_mixture(n, K, D, radius=2.0, random_state=seed)
    return SphericalMixtureProblem(X), truth, K


def pairwise_differences(n: int, seed: int) -> Posed:
    """Pose differences of such a mixture: with 0, K (K − 1) + 1 different hidden vectors."""
    X, truth = datasets.make_spherical_mixture(2 * n, K, D, radius=2.0, random_state=seed)
    return PairwiseDifferenceProblem(X), truth.differences(), K * (K - 1) + 1


def regressions(n: int, seed: int) -> Posed:
    """Pose regressors of norm 1 with noise 0.3."""
    X, y, truth = datasets.make_regression_mixture(n, K, D, random_state=seed)
    return RegressionMixtureProblem(X, y), truth, K


PROBLEMS: dict[str, Callable[[int, int], Posed]] = {
    "activation sum": activation_sum,
    "spherical mixture": spherical_mixture,
    "pairwise differences": pairwise_differences,
    "regressions": regressions,
}


def answers(seeds: range) -> None:
    """Print the calibration of ``stats["relative_errors"]``."""
    print(f"k = {K} components, d = {D}, {len(seeds)} instances each")
    print("| problem | rows | order | true error | true / reported | 10–90 % | seconds, errors |")
    print("|---|---|---|---|---|---|---|")
    points = np.random.default_rng(1).normal(size=(N_POINTS, D))
    for name, pose in PROBLEMS.items():
        for n in (5_000, 20_000, 80_000, 320_000):
            rows: dict[int, list[tuple[float, float]]] = {}
            seconds = []
            for seed in seeds:
                problem, truth, k = pose(n, seed)
                m = implicit_moments(problem, n_components=k, order=ORDER)
                clock = perf_counter()
                reported = m.stats["relative_errors"]
                seconds.append((m.stats["seconds"], perf_counter() - clock))
                for order in reported:
                    found, exact = m.hermite(points, order), truth.hermite(points, order)
                    if np.any(found) and np.linalg.norm(exact) > 1e-9:  # differences: no odd ones
                        true = float(np.linalg.norm(found - exact) / np.linalg.norm(found))
                        rows.setdefault(order, []).append((true, reported[order]))
            first, more = np.median(seconds, axis=0)
            for order, pairs in rows.items():
                if order > 0:
                    true, ratio = np.median(pairs, axis=0)[0], [t / r for t, r in pairs]
                    low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
                    print(
                        f"| {name} | {n:,} | {order} | {true:.3f} | {middle:.2f} "
                        f"| {low:.2f}–{high:.2f} | {first:.2f}, {more:.2f} |"
                    )


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["answers"])
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1_000)
    asked = parser.parse_args()
    print(f"{date.today()}: NumPy {np.__version__}, {os.environ.get('OMP_NUM_THREADS')} thread")
    answers(range(asked.first_seed, asked.first_seed + asked.instances))


if __name__ == "__main__":
    main()
