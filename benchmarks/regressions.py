"""Mixtures of regressions compared with EM from random starts, flexmix and mixtools.

Run: python benchmarks/regressions.py parameters | push [--seeds 10] [--jobs 1] [--settings k4 ...]
     python benchmarks/regressions.py perturbed [--seeds 5] [--settings 10:1-20k pairs-30k]
     python benchmarks/regressions.py awkward

A fit succeeds if its largest error of a coefficient vector is at most 1.2 times that of EM
started at the truth. Random EM is plain EM that shares no code with the library, started at lines
of random direction with the variance of y, and stopped when the mean log-likelihood rises by less
than 1e-6 in ten steps; of ten starts the best likelihood counts. Seconds are of the processor, and
the last column is the median and the range over seeds of their ratio to one random start in the
same process. flexmix and mixtools run if R has them, on the same rows, at most ``--limit`` seconds
each. ``--jobs`` fits so many data sets at a time, each in a process of one thread.

``perturbed`` changes every entry by about 1e-9 of itself, and ``random_state``, and counts fits
whose log-likelihood is at most 2 nats below that of EM from the truth.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import process_time
from typing import Any

import numpy as np
import sklearn
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from awkward_regressions import awkward
from implicitmoments import AssumptionWarning, RegressionMixture
from implicitmoments.arrays import to_numpy
from implicitmoments.datasets import Truth, make_regression_mixture
from regression_peers import Lines, fit_in_r, r_packages
from silence import lines as lines_em
from silence.rates import Run

Floats = np.ndarray[Any, np.dtype[np.float64]]
Data = tuple[Floats, Floats, Truth]
WITHIN = 1.2
ENOUGH = 2.0  # nats below EM from the truth
ONE_START = "EM, 1 random start"


def unit(k: int, d: int, n: int, seed: int, **how: Any) -> Data:
    """Return regressors of length 1 in random directions, noise 0.3."""
    return make_regression_mixture(n, k, d, random_state=seed, **{"noise": 0.3, **how})


def pairs(k: int, d: int, n: int, seed: int, distance: float = 0.5) -> Data:
    """Return regressors in pairs that are ``distance`` apart."""
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(k // 2, d))
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    away = rng.normal(size=(k // 2, d))
    away -= np.sum(away * middle, axis=1, keepdims=True) * middle
    away *= distance / 2 / np.linalg.norm(away, axis=1, keepdims=True)
    return drawn(np.vstack([middle + away, middle - away]), rng.normal(size=(n, d)), rng)


def drawn(vectors: Floats, X: Floats, rng: np.random.Generator, noise: float = 0.3) -> Data:
    """Return labels on lines of equal weight at given inputs."""
    k = len(vectors)
    labels = rng.integers(k, size=len(X))
    y = np.sum(X * vectors[labels], axis=1) + noise * rng.normal(size=len(X))
    return X, y, Truth(np.full(k, 1 / k), vectors, labels, noise=noise)


def other_inputs(k: int, d: int, n: int, seed: int, law: str) -> Data:
    """Return inputs of mean 0 and variance 1 that are not Gaussian."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(k, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    if law == "exponential":
        X = rng.exponential(size=(n, d)) - 1
    elif law == "uniform":
        X = rng.uniform(-np.sqrt(3), np.sqrt(3), size=(n, d))
    elif law == "signs":
        X = rng.choice([-1.0, 1.0], size=(n, d))
    else:
        X = rng.standard_t(5, size=(n, d)) / np.sqrt(5 / 3)
    return drawn(vectors, X, rng)


def light(k: int, d: int, n: int, seed: int, ratio: float) -> Data:
    """Return half the lines ``ratio`` times as heavy as the other half."""
    return unit(k, d, n, seed, weights=[ratio] * (k // 2) + [1.0] * (k - k // 2))


PARAMETERS: dict[str, Callable[[int], Data]] = {
    "k4": lambda s: unit(4, 20, 20_000, s),
    "k8": lambda s: unit(8, 20, 50_000, s),
    "k12": lambda s: unit(12, 20, 30_000, s),
    "k12-100k": lambda s: unit(12, 20, 100_000, s),
    "k16": lambda s: unit(16, 20, 200_000, s),
    "k6-d4": lambda s: unit(6, 4, 100_000, s),
    "pairs": lambda s: pairs(12, 20, 100_000, s),
    "10:1": lambda s: unit(8, 20, 50_000, s, weights=np.geomspace(10, 1, 8)),
    "norms": lambda s: unit(8, 20, 50_000, s, radius=(0.5, 2.0)),
}
PUSH: dict[str, Callable[[int], Data]] = {
    "noise-1-k4": lambda s: unit(4, 20, 20_000, s, noise=1.0),
    "noise-1-k8": lambda s: unit(8, 20, 50_000, s, noise=1.0),
    "noise-1-k12": lambda s: unit(12, 20, 200_000, s, noise=1.0),
    "half-light": lambda s: light(8, 20, 50_000, s, 10.0),
    "six-light": lambda s: light(12, 20, 100_000, s, 12.0),
    "10:1-20k": lambda s: unit(8, 20, 20_000, s, weights=np.geomspace(10, 1, 8)),
    "10:1-8k": lambda s: unit(8, 20, 8_000, s, weights=np.geomspace(10, 1, 8)),
    "k12-10:1": lambda s: unit(12, 10, 20_000, s, weights=np.geomspace(10, 1, 12)),
    "pairs-30k": lambda s: pairs(12, 20, 30_000, s),
    "k24": lambda s: unit(24, 20, 200_000, s),
    "k32": lambda s: unit(32, 20, 300_000, s),
    "d100": lambda s: unit(5, 100, 50_000, s),
    "exponential": lambda s: other_inputs(8, 20, 50_000, s, "exponential"),
    "uniform": lambda s: other_inputs(8, 20, 50_000, s, "uniform"),
    "signs": lambda s: other_inputs(8, 20, 50_000, s, "signs"),
    "student": lambda s: other_inputs(8, 20, 50_000, s, "student"),
}


@dataclass(frozen=True)
class Outcome:
    """Largest error of a coefficient vector, seconds, and how many lines."""

    error: float
    seconds: float
    k: int


def largest_error(coef: Floats, truth: Truth) -> float:
    """Return the largest distance in the best matching of fitted and true regressors."""
    if len(coef) < len(truth.weights):
        return float("inf")
    apart = np.linalg.norm(coef[:, None, :] - truth.vectors[None], axis=2)
    i, j = linear_sum_assignment(apart)
    return float(apart[i, j].max())


class Plain(lines_em.PlainEM):
    """Plain EM for rows of which the truth is known."""

    def __init__(self, data: Data) -> None:
        X, y, self.truth = data
        w = self.truth.weights
        coef = np.column_stack([np.zeros(len(w)), self.truth.vectors])
        super().__init__(lines_em.Data("", X, y, w, coef, np.full(len(w), self.truth.noise)))

    def error(self, lines: Lines) -> float:
        """Return the largest error of the lines."""
        return largest_error(lines.coef[:, 1:], self.truth)

    def random(self, rng: np.random.Generator) -> tuple[float, Lines]:
        """Return the likelihood and lines of EM from one random start."""
        k, d = self.truth.vectors.shape
        directions = rng.normal(size=(k, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        coef = np.column_stack([np.zeros(k), 0.75 * directions])
        n, variance = len(self.data.y), float(self.data.y.var())
        return self.run(Lines(np.full(k, 1 / k), coef, np.full(k, variance)), 500, 1e-6 * n)


def fit_ours(data: Data, seed: int, k: int | str) -> Outcome:
    """Fit the estimator."""
    X, y, truth = data
    clock = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        model = RegressionMixture(k, random_state=seed).fit(X, y)
    seconds = process_time() - clock
    found = largest_error(to_numpy(model.coef_), truth)
    return Outcome(found, seconds, model.n_components_)


def fit_random(plain: Plain, seed: int, n_starts: int) -> dict[str, Outcome]:
    """Fit plain EM from one random start and from several."""
    rng = np.random.default_rng(seed)
    k, best, outcomes = len(plain.truth.weights), (-np.inf, 0.0), {}
    clock = process_time()
    for start in range(n_starts):
        likelihood, lines = plain.random(rng)
        best = max(best, (likelihood, plain.error(lines)))
        if start + 1 in (1, n_starts):
            name = f"EM, {start + 1} random start" + ("s" if start else "")
            outcomes[name] = Outcome(best[1], process_time() - clock, k)
    return outcomes


def fit_r(data: Data, seed: int, method: str, limit: float) -> Outcome | None:
    """Fit with an R package; None if it fails or takes too long."""
    X, y, truth = data
    fits = fit_in_r(method, (X, y), seed, ks=[len(truth.weights)], limit=limit)
    for seconds, lines in fits.values():
        return Outcome(largest_error(lines.coef[:, 1:], truth), seconds, len(lines.weights))
    return None


def compare(settings: dict[str, Callable[[int], Data]], arguments: argparse.Namespace) -> None:
    """Print success rates and seconds of every method in every setting."""
    packages = [name for name in r_packages() if name not in arguments.without]
    print(
        f"{arguments.seeds} seeds; Python {platform.python_version()}, NumPy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}; R packages: {', '.join(packages) or 'none'}"
    )
    heads = "setting | method | as good as EM from the truth | seconds (range) | worst ratio"
    print(f"| {heads} | times one random start (range) |")
    print("|---" * 6 + "|")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    sets = [(name, seed) for name in settings for seed in seeds]
    fitted = Run(seeds, arguments.jobs).map(partial(fit_all, arguments, packages), sets)
    for name in settings:
        found: dict[str, list[tuple[Outcome | None, float]]] = {}
        for goal, outcomes in islice(fitted, len(seeds)):
            for method, outcome in outcomes.items():
                found.setdefault(method, []).append((outcome, goal))
        one = [outcome for outcome, _ in found.get(ONE_START, []) if outcome is not None]
        for method, rows in found.items():
            cells = f"{row_of(rows, method)} | {times_of(rows, one)}"
            print(f"| {name} | {method} | {cells} |", flush=True)


def fit_all(
    arguments: argparse.Namespace, packages: list[str], given: tuple[str, int]
) -> tuple[float, dict[str, Outcome | None]]:
    """Fit one data set by every method; also return the error of EM from the truth."""
    name, seed = given
    with threadpool_limits(1, user_api="blas"):
        data = (PARAMETERS | PUSH)[name](seed)
        plain = Plain(data)
        goal = plain.error(plain.from_truth()[1])
        outcomes: dict[str, Outcome | None] = {
            "RegressionMixture": fit_ours(data, seed, len(data[2].weights)),
        }
        if "auto" not in arguments.without:
            outcomes['RegressionMixture("auto")'] = fit_ours(data, seed, "auto")
        if "random" not in arguments.without:
            outcomes |= fit_random(plain, seed, arguments.starts)
        for package in packages:
            outcomes[package] = fit_r(data, seed, package, arguments.limit)
    return goal, outcomes


def perturbed(settings: dict[str, Callable[[int], Data]], arguments: argparse.Namespace) -> None:
    """Print how many fits of perturbed rows reach EM from the truth."""
    print("| setting, seed | RegressionMixture | seconds |")
    print("|---" * 3 + "|")
    for name, make in settings.items():
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            X, y, truth = make(seed)
            goal, k = Plain((X, y, truth)).from_truth()[0], len(truth.weights)
            good, seconds = [], []
            for at in range(arguments.perturbations):
                rng = np.random.default_rng([seed, at])
                Z, z = (a * (1 + 1e-9 * rng.normal(size=a.shape)) for a in (X, y))
                clock = process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AssumptionWarning)
                    model = RegressionMixture(k, random_state=at).fit(Z, z)
                seconds.append(process_time() - clock)
                good.append(model.lower_bound_ * len(y) > goal - ENOUGH)
            taken = f"{np.median(seconds):.1f} (at most {max(seconds):.1f})"
            print(f"| {name}, {seed} | {sum(good)} of {len(good)} | {taken} |", flush=True)


def times_of(rows: list[tuple[Outcome | None, float]], one: list[Outcome]) -> str:
    """Return the ratios of seconds to those of one random start."""
    times = [
        outcome.seconds / start.seconds
        for (outcome, _), start in zip(rows, one, strict=False)
        if outcome is not None
    ]
    return f"{np.median(times):.2f} ({min(times):.2f}–{max(times):.2f})" if times else ""


def row_of(rows: list[tuple[Outcome | None, float]], method: str) -> str:
    """Return the cells of one method."""
    there = [(outcome, goal) for outcome, goal in rows if outcome is not None]
    if not there:
        return f"0 of {len(rows)} | over the limit | "
    ratios = [outcome.error / goal for outcome, goal in there]
    seconds = [outcome.seconds for outcome, _ in there]
    good = sum(ratio <= WITHIN for ratio in ratios)
    more = ""
    if "auto" in method:
        ks = [outcome.k for outcome, _ in there]
        more = f", k from {min(ks)} to {max(ks)}"
    return (
        f"{good} of {len(rows)}{more} | {np.median(seconds):.2f} "
        f"({min(seconds):.2f}–{max(seconds):.2f}) | {max(ratios):.2f}"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["parameters", "push", "perturbed", "awkward"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="data sets that are fitted at a time")
    parser.add_argument("--settings", nargs="*", help="by name; all by default")
    parser.add_argument("--starts", type=int, default=10, help="of random EM")
    parser.add_argument("--perturbations", type=int, default=20)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a fit in R")
    parser.add_argument("--without", nargs="*", default=[], help="auto, random, flexmix")
    arguments = parser.parse_args()
    if arguments.table == "awkward":
        awkward()
        return
    settings = PARAMETERS if arguments.table == "parameters" else PUSH
    if arguments.table == "perturbed":
        settings = PARAMETERS | PUSH
        arguments.settings = arguments.settings or ["10:1-20k", "pairs-30k"]
    chosen = arguments.settings or list(settings)
    if unknown := [name for name in chosen if name not in settings]:
        parser.error(f"no setting {', '.join(unknown)}; there are {', '.join(settings)}")
    with threadpool_limits(1, user_api="blas"):
        run = perturbed if arguments.table == "perturbed" else compare
        run({name: settings[name] for name in chosen}, arguments)


if __name__ == "__main__":
    main()
