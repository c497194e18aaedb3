"""Means of spherical mixtures decoded from moments, compared with EM from k-means starts.

Run: python benchmarks/overcomplete.py main     the table, ten seeds, with scikit-learn
     python benchmarks/overcomplete.py push     the limits of decoding, and their indicators

Success: every mean within 0.5, before any EM. scikit-learn: GaussianMixture with spherical
covariances; of ten starts the likeliest is kept. All in one process, on the
threads that OMP_NUM_THREADS allows.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from implicitmoments.datasets import random_directions
from implicitmoments.moments import SphericalMixtureProblem, implicit_moments
from implicitmoments.rows import DrawPurpose, RowDraws

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

CLOSE = 0.5


@dataclass(frozen=True)
class Setting:
    """One mixture: k means in d features, at a radius or spread over radii."""

    k: int
    d: int
    separation: float
    radius: float
    n: int = 60_000
    spread: bool = False

    def __str__(self) -> str:
        where = f"0.3–1 × {self.radius:g}, one at 0" if self.spread else f"{self.radius:g}"
        return f"{self.k} | {self.d} | {self.separation:g} | {where} | {self.n:,}"

    def draw(self, seed: int) -> tuple[Floats, Floats]:
        """Return rows and means."""
        radius = (0.3 * self.radius, self.radius) if self.spread else self.radius
        n_apart = self.k - self.spread
        means = random_directions(
            n_apart, self.d, radius=radius, separation=self.separation, random_state=seed
        )
        if self.spread:
            means = np.vstack([means, np.zeros((1, self.d))])
        rng = RowDraws(seed, range(self.n), (DrawPurpose.ROWS,))
        labels = rng.categorical(np.full(self.k, 1 / self.k))
        return means[labels] + rng.normal(self.d), means


MAIN = [
    Setting(30, 20, 4, 4),
    Setting(30, 20, 6, 5),
    Setting(60, 30, 6, 5),
    Setting(30, 20, 2.5, 6, spread=True),
    Setting(30, 20, 2.5, 5, spread=True),
]
PUSH = [
    Setting(100, 30, 5, 5, 200_000),
    Setting(100, 30, 5, 5),
    Setting(200, 30, 4.5, 5, 200_000),
    Setting(200, 30, 4.5, 5),
    Setting(30, 20, 3, 3),
    Setting(30, 20, 2.5, 2.5),
    Setting(30, 20, 2, 2),
    *[Setting(30, 20, 4, 4, n) for n in (30_000, 20_000, 10_000, 5_000)],
    *[Setting(60, 30, 6, 5, n) for n in (20_000, 10_000, 5_000)],
]


def distances(found: Floats, means: Floats) -> Floats:
    """Return the distance of every mean from the found one matched to it."""
    apart = np.linalg.norm(found[:, None] - means[None], axis=2)
    rows, columns = linear_sum_assignment(apart)
    ordered = np.empty(len(means))
    ordered[columns] = apart[rows, columns]
    return ordered


def by_moments(X: Floats, k: int) -> tuple[Floats, float, Any]:
    """Decode; seconds include every pass."""
    clock = perf_counter()
    problem = SphericalMixtureProblem(X)
    found = implicit_moments(problem, n_components=k, order=1).components()
    return found.guesses, perf_counter() - clock, found


def by_em(X: Floats, k: int, n_starts: int, seed: int) -> list[tuple[float, Floats, float]]:
    """Return likelihood, means and seconds of each start."""
    fits = []
    for start in range(n_starts):
        clock = perf_counter()
        model = GaussianMixture(k, covariance_type="spherical", random_state=1_000 * seed + start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X)
        fits.append((float(model.lower_bound_), model.means_, perf_counter() - clock))
    return fits


def summary(errors: list[Floats], seconds: list[float], n_exempt: int) -> str:
    """Format successes, mean number of missed means, largest error and median seconds."""
    counted = [e[: len(e) - n_exempt] for e in errors]  # the mean at the centre is the last
    good = sum(bool(e.max() < CLOSE) for e in counted)
    lost = np.mean([np.sum(e >= CLOSE) for e in counted])
    worst = max(float(e.max()) for e in counted)
    return f"{good}/{len(errors)} | {lost:.1f} | {worst:.2f} | {np.median(seconds):.1f}"


def main_table(n_seeds: int, n_starts: int) -> None:
    """Print the table, with scikit-learn."""
    head = "success | means missed | largest error | seconds"
    print(f"| method | k | d | separation | radius | N | {head} |\n" + "|---" * 10 + "|")
    for setting in MAIN:
        # with spread norms, the mean at the centre does not count for any method
        exempt = int(setting.spread)
        ours: list[tuple[Floats, float]] = []
        starts: list[list[tuple[float, Floats, float]]] = []
        for seed in range(n_seeds):
            X, means = setting.draw(seed)
            found, seconds, _ = by_moments(X, setting.k)
            ours.append((distances(found, means), seconds))
            fits = by_em(X, setting.k, n_starts, seed)
            starts.append([(bound, distances(m, means), s) for bound, m, s in fits])
        line = summary([e for e, _ in ours], [s for _, s in ours], exempt)
        print(f"| moments | {setting} | {line} |")
        line = summary([f[0][1] for f in starts], [f[0][2] for f in starts], exempt)
        print(f"| EM, 1 start | {setting} | {line} |")
        best = [max(f, key=lambda fit: fit[0])[1] for f in starts]
        line = summary(best, [sum(fit[2] for fit in f) for f in starts], exempt)
        print(f"| EM, {n_starts} starts | {setting} | {line} |", flush=True)


def push_table(n_seeds: int) -> None:
    """Print the limits of decoding, with the gap to the noise floor and what was reported."""
    print(
        "| k | d | separation | radius | N | success | means missed | largest error | seconds "
        "| gap | reported error | reported unresolved | confused | confused, not reported |"
    )
    print("|---" * 14 + "|")
    for setting in PUSH:
        errors, seconds, gaps = [], [], []
        reported: list[float] = []
        said = confused = missed = 0
        for seed in range(n_seeds):
            X, means = setting.draw(seed)
            guesses, taken, found = by_moments(X, setting.k)
            errors.append(distances(guesses, means))
            seconds.append(taken)
            gaps.append(found.gap)
            reported.append(float(found.errors.max()))
            # confused: farther than half the separation from every mean
            nearest = np.linalg.norm(guesses[:, None] - means[None], axis=2).min(axis=1)
            astray = nearest >= setting.separation / 2
            said += int(np.sum(~found.resolved))
            confused += int(np.sum(astray))
            missed += int(np.sum(found.resolved & astray))
        line = summary(errors, seconds, 0)
        noise = f"{min(gaps):.2f}–{max(gaps):.2f} | {min(reported):.2f}–{max(reported):.2f}"
        print(f"| {setting} | {line} | {noise} | {said} | {confused} | {missed} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["main", "push"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--starts", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.table == "main":
        main_table(arguments.seeds or 10, arguments.starts)
    else:
        push_table(arguments.seeds or 3)


if __name__ == "__main__":
    main()
