"""True errors over reported ones: answers of the closed form, and vectors of components.

Run: python benchmarks/answer_errors.py answers       stats["relative_errors"]
     python benchmarks/answer_errors.py components    components().errors of resolved vectors

A ratio of 1 is an exact report. Every instance has its own hidden vectors and rows; the tables
show the median over instances, and the 10 and 90 percent quantiles.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from time import perf_counter
from typing import TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

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


@dataclass(frozen=True)
class Means:
    """Means of a mixture of unit variance, at random or on a line."""

    k: int
    d: int
    n: int = 20_000
    on_a_line: bool = False
    scale: float = 1.0  # of rows whose variance is then taken to be 1

    def __str__(self) -> str:
        wrong = f", variance {self.scale**2:.2f} taken as 1" if self.scale != 1 else ""
        where = ("on a line" if self.on_a_line else "at random") + wrong
        return f"{self.k} | {self.d} | {where} | {self.n:,}"

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and means."""
        if not self.on_a_line:
            X, truth = datasets.make_spherical_mixture(
                self.n, self.k, self.d, radius=5.0, separation=3.0, random_state=seed
            )
            return self.scale * X, self.scale * truth.vectors
        rng = np.random.default_rng(seed)
        direction = rng.normal(size=self.d)
        along = 4.0 * (np.arange(self.k) - (self.k - 1) / 2)
        means = rng.normal(size=self.d) + np.outer(along, direction) / np.linalg.norm(direction)
        return means[rng.integers(self.k, size=self.n)] + rng.normal(size=(self.n, self.d)), means


MEANS = [
    *[Means(k, 2) for k in (3, 4, 5)],
    *[Means(k, 3) for k in (4, 6, 8)],
    *[Means(k, d, on_a_line=True) for d in (2, 3, 10) for k in (3, 4)],
    *[Means(k, d, 60_000, on_a_line=True) for d in (3, 10) for k in (5, 6)],
    *[Means(10, 6, 60_000), Means(5, 20), Means(20, 30, 60_000)],
    *[Means(6, 3, scale=1.2), Means(10, 6, 60_000, scale=1.2)],
]


def components(seeds: range) -> None:
    """Print the calibration of ``components().errors``."""
    print(f"{len(seeds)} instances each; ratios of all resolved vectors")
    print("| k | d | means | rows | resolved | root mean square of true / reported | largest |")
    print("|---|---|---|---|---|---|---|")
    for means in MEANS:
        ratios: list[float] = []
        for seed in seeds:
            X, vectors = means.draw(seed)
            problem = SphericalMixtureProblem(X)
            found = implicit_moments(problem, n_components=means.k, order=1).components()
            distances = np.linalg.norm(vectors[:, None] - found.guesses[None], axis=2)
            true, rows = linear_sum_assignment(distances)
            apart = distances[true, rows]
            ratios += list((apart / found.errors[rows])[found.resolved[rows]])
        size = (
            f"{np.sqrt(np.mean(np.square(ratios))):.2f} | {max(ratios):.1f}" if ratios else "– | –"
        )
        print(f"| {means} | {len(ratios)} of {means.k * len(seeds)} | {size} |", flush=True)


TABLES = {"answers": answers, "components": components}


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1_000)
    asked = parser.parse_args()
    print(f"{date.today()}: NumPy {np.__version__}, {os.environ.get('OMP_NUM_THREADS')} thread")
    TABLES[asked.table](range(asked.first_seed, asked.first_seed + asked.instances))


if __name__ == "__main__":
    main()
