"""Densities of spherical mixtures and of mixtures of regressions: distance from the truth.

Run: python benchmarks/densities.py spherical    distance and seconds, by norm of means and rows
     python benchmarks/densities.py regression   the same, by signal, noise, weights and intercepts
     python benchmarks/densities.py degrees      the default beside every fixed degree
     python benchmarks/densities.py sampler      two-sample tests of the samplers
     python benchmarks/densities.py em           spherical densities beside EM (scikit-learn)

The distance is total variation, E_F[(1 − H/F)_+], over new samples of the truth F. Cells are
medians over seeds, with the range; seconds are those of the processor. ``--settings`` selects
settings by a part of their names.
"""

from __future__ import annotations

import argparse
import math
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, TypeAlias

import numpy as np
import scipy
import sklearn
from scipy.special import logsumexp
from scipy.stats import ks_2samp
from sklearn.mixture import GaussianMixture

from implicitmoments import (
    AssumptionWarning,
    RegressionMixtureDensity,
    SphericalMixtureDensity,
)

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
FRESH = 50_000  # rows at which distances are measured: the standard error is below 0.001
DRAWS = 10_000
DEGREES = (2, 4, 6, 8, 10, 12, 16, 24)


@dataclass(frozen=True, eq=False)
class Means:
    """A mixture of spherical Gaussians of variance 1: weights (k,) and means (k, d)."""

    weights: Floats
    means: Floats

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, ...]:
        """Return rows."""
        labels = rng.choice(len(self.weights), n, p=self.weights)
        return (self.means[labels] + rng.normal(size=(n, self.means.shape[1])),)

    def log_density(self, X: Floats) -> Floats:
        """Return the log density of rows."""
        squares = np.sum((X[:, None, :] - self.means) ** 2, axis=2)
        constant = X.shape[1] / 2 * math.log(2 * math.pi)
        logs: Floats = logsumexp(np.log(self.weights) - squares / 2, axis=1) - constant
        return logs

    def wrong(self) -> Means:
        """Return the reflection at the centre: first and second moments agree."""
        return Means(self.weights, 2 * self.weights @ self.means - self.means)


@dataclass(frozen=True, eq=False)
class Lines:
    """A mixture of regressions: weights (k,), slopes (k, d), noise, intercepts (k,), mean of x."""

    weights: Floats
    slopes: Floats
    noise: float
    intercepts: Floats | float = 0.0
    mean: float = 0.0

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, ...]:
        """Return rows and labels."""
        labels = rng.choice(len(self.weights), n, p=self.weights)
        X = rng.normal(size=(n, self.slopes.shape[1])) + self.mean
        intercepts = np.broadcast_to(self.intercepts, len(self.weights))[labels]
        y = np.sum(X * self.slopes[labels], axis=1) + intercepts
        return X, y + self.noise * rng.normal(size=n)

    def log_density(self, X: Floats, y: Floats) -> Floats:
        """Return the log density of (x, y)."""
        z = (y[:, None] - X @ self.slopes.T - self.intercepts) / self.noise
        joint = logsumexp(np.log(self.weights) - z**2 / 2, axis=1)
        constant = (X.shape[1] + 1) / 2 * math.log(2 * math.pi) + math.log(self.noise)
        logs: Floats = joint - np.sum((X - self.mean) ** 2, axis=1) / 2 - constant
        return logs

    def wrong(self) -> Lines:
        """Return slopes reflected at their mean: all second moments agree."""
        reflected = 2 * self.weights @ self.slopes - self.slopes
        return Lines(self.weights, reflected, self.noise, self.intercepts, self.mean)


Truth: TypeAlias = Means | Lines
Setting: TypeAlias = tuple[Callable[[np.random.Generator], Truth], int]


def directions(k: int, d: int, norm: float, rng: np.random.Generator) -> Floats:
    """Return k vectors (k, d) of one norm."""
    vectors = rng.normal(size=(k, d))
    found: Floats = vectors * (norm / np.linalg.norm(vectors, axis=1, keepdims=True))
    return found


def equal_means(norm: float, rng: np.random.Generator) -> Means:
    """Return four means of one norm in ten features."""
    return Means(np.full(4, 0.25), directions(4, 10, norm, rng))


def random_means(rng: np.random.Generator) -> Means:
    """Return two to six means: weights from a Dirichlet distribution, norms up to 3."""
    k = int(rng.integers(2, 7))
    weights = rng.dirichlet(np.full(k, rng.choice([1.0, 5.0])))
    norms = rng.uniform(0.5, 3.0) * rng.uniform(0.3, 1.0, size=(k, 1))
    return Means(weights, norms * directions(k, k + int(rng.integers(6)), 1.0, rng))


def equal_lines(signal: float, noise: float, mean: float, rng: np.random.Generator) -> Lines:
    """Return three slopes of one norm in five features."""
    return Lines(np.full(3, 1 / 3), directions(3, 5, signal, rng), noise, mean=mean)


def crossing_lines(intercept: float, rng: np.random.Generator) -> Lines:  # noqa: ARG001
    """Return the lines ±(c + x_0 / 2) in two features."""
    slopes = np.array([[0.5, 0.0], [-0.5, 0.0]])
    return Lines(np.full(2, 0.5), slopes, 1.0, np.array([intercept, -intercept]))


def one_truth(truth: Truth, rng: np.random.Generator) -> Truth:  # noqa: ARG001
    """Return the same truth for every seed."""
    return truth


UNEQUAL = {
    "weights .95, .05; slopes 0, 1": Lines(
        np.array([0.95, 0.05]), np.array([[0.0, 0, 0], [1, 0, 0]]), 0.5
    ),
    "weights .5, .3, .2; slopes .2, .6, 1.2": Lines(
        np.array([0.5, 0.3, 0.2]), np.array([[0.2, 0, 0], [0, -0.6, 0], [0, 0, 1.2]]), 0.7
    ),
    "weights .7, .3; slopes .3, 1; intercepts 0, 1": Lines(
        np.array([0.7, 0.3]), np.array([[0.3, 0, 0], [0, 1, 0]]), 0.7, np.array([0.0, 1.0])
    ),
}
SPHERICAL: Mapping[str, Setting] = {
    "norm 1.2, 1,000 rows": (partial(equal_means, 1.2), 1_000),
    "norm 1.2, 10,000 rows": (partial(equal_means, 1.2), 10_000),
    "norm 1.2, 100,000 rows": (partial(equal_means, 1.2), 100_000),
    "norm 1.5, 100,000 rows": (partial(equal_means, 1.5), 100_000),
    "norm 2.0, 1,000 rows": (partial(equal_means, 2.0), 1_000),
    "norm 2.0, 10,000 rows": (partial(equal_means, 2.0), 10_000),
    "norm 2.0, 100,000 rows": (partial(equal_means, 2.0), 100_000),
    "norm 2.35, 200,000 rows": (partial(equal_means, 2 * math.sqrt(math.log(4))), 200_000),
    "random, 4,000 rows": (random_means, 4_000),
    "random, 50,000 rows": (random_means, 50_000),
}
REGRESSION: Mapping[str, Setting] = {
    "signal 1, noise 1, 100,000 rows": (partial(equal_lines, 1.0, 1.0, 0.0), 100_000),
    "signal .3, noise 1, 100,000 rows": (partial(equal_lines, 0.3, 1.0, 0.0), 100_000),
    "signal 1, noise 1, 5,000 rows": (partial(equal_lines, 1.0, 1.0, 0.0), 5_000),
    "signal 1, noise 2, 100,000 rows": (partial(equal_lines, 1.0, 2.0, 0.0), 100_000),
    "signal 1, noise .7, 100,000 rows": (partial(equal_lines, 1.0, 0.7, 0.0), 100_000),
    "signal 1, noise .5, 100,000 rows": (partial(equal_lines, 1.0, 0.5, 0.0), 100_000),
    "x of mean 2, 100,000 rows": (partial(equal_lines, 1.0, 1.0, 2.0), 100_000),
    "intercepts ±1, 100,000 rows": (partial(crossing_lines, 1.0), 100_000),
    "intercepts ±2.5, 100,000 rows": (partial(crossing_lines, 2.5), 100_000),
    **{
        f"{name}; {n:,} rows": (partial(one_truth, truth), n)
        for name, truth in UNEQUAL.items()
        for n in (10_000, 100_000)
    },
}


def fit(truth: Truth, data: tuple[Floats, ...], **options: Any) -> tuple[Any, float]:
    """Return a fitted density and the seconds of processor time it took."""
    wanted = SphericalMixtureDensity if len(data) == 1 else RegressionMixtureDensity
    model = wanted(len(truth.weights), random_state=0, **options)
    clock = process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        model.fit(*data)
    return model, process_time() - clock


def distance(model: Any, truth: Truth, seed: int) -> float:
    """Return the total variation distance of a density from the truth."""
    fresh: Any = truth.draw(FRESH, np.random.default_rng([seed, 1]))
    gap = model.score_samples(*fresh) - truth.log_density(*fresh)
    return float(np.mean(np.maximum(0.0, 1.0 - np.exp(gap))))


def middle(values: list[float], digits: int = 4) -> str:
    """Write the median, and the range over seeds."""
    low, high = min(values), max(values)
    return f"{np.median(values):.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def versions() -> str:
    """Return the versions of the libraries."""
    names = f"NumPy {np.__version__}, SciPy {scipy.__version__}, scikit-learn"
    return f"Python {platform.python_version()}, {names} {sklearn.__version__}"


def measured(
    setting: Setting, seeds: range, **options: Any
) -> tuple[list[float], list[float], list[int]]:
    """Return distances, seconds and degrees of the fits of a setting, by seed."""
    make, n = setting
    distances, taken, degrees = [], [], []
    for seed in seeds:
        rng = np.random.default_rng([seed, 0])
        truth = make(rng)
        model, seconds = fit(truth, truth.draw(n, rng), **options)
        distances.append(distance(model, truth, seed))
        taken.append(seconds)
        degrees.append(int(model.degree_))
    return distances, taken, degrees


def distance_table(settings: Mapping[str, Setting], seeds: range) -> None:
    """Print the distance, the degree and the seconds of the default, by setting."""
    print(f"{len(seeds)} seeds from {seeds[0]}; {versions()}")
    print("| setting | total variation | degrees | seconds |")
    print("|---" * 4 + "|")
    for name, setting in settings.items():
        distances, seconds, degrees = measured(setting, seeds)
        chosen = f"{np.median(degrees):.0f} ({min(degrees)}–{max(degrees)})"
        print(
            f"| {name} | {middle(distances)} | {chosen} | {np.median(seconds):.2f} |", flush=True
        )


def degree_table(settings: Mapping[str, Setting], seeds: range) -> None:
    """Print median distances of the default and of fixed degrees, by setting."""
    print(f"{len(seeds)} seeds from {seeds[0]}; {versions()}")
    names = " | ".join(f"degree {n}" for n in DEGREES)
    print(f"| setting | default | {names} | default over the best |")
    print("|---" * (len(DEGREES) + 3) + "|")
    for name, setting in settings.items():
        chosen = measured(setting, seeds)[0]
        fixed = [measured(setting, seeds, degree=n)[0] for n in DEGREES]
        ratio = float(np.median(np.array(chosen) / np.min(fixed, axis=0)))
        cells = " | ".join(f"{np.median(values):.4f}" for values in (chosen, *fixed))
        print(f"| {name} | {cells} | {ratio:.2f} |", flush=True)


def sampler_table(settings: Mapping[str, Setting], seeds: range) -> None:
    """Print p-values of samples against the truth and against a wrong mixture."""
    print(f"{DRAWS:,} draws, Kolmogorov-Smirnov tests of the log-likelihood ratio; {versions()}")
    print("| setting | seed | p against the truth | p against the wrong | accepted | seconds |")
    print("|---" * 6 + "|")
    for name, (make, n) in settings.items():
        for seed in seeds:
            rng = np.random.default_rng([seed, 0])
            truth = make(rng)
            wrong = truth.wrong()
            model, _ = fit(truth, truth.draw(n, rng))
            clock = process_time()
            drawn = model.sample(DRAWS)
            seconds = process_time() - clock
            samples: list[Any] = [
                drawn if isinstance(drawn, tuple) else (drawn,),
                truth.draw(DRAWS, rng),
                wrong.draw(DRAWS, rng),
            ]
            ratios = [truth.log_density(*s) - wrong.log_density(*s) for s in samples]
            right, other = (ks_2samp(ratios[0], each).pvalue for each in ratios[1:])
            print(
                f"| {name} | {seed} | {right:.2g} | {other:.2g} "
                f"| {model.stats_['acceptance_rate']:.4f} | {seconds:.2f} |",
                flush=True,
            )


def em_table(settings: Mapping[str, Setting], seeds: range) -> None:
    """Print distances and seconds of the density and of EM from one start."""
    print(f"{len(seeds)} seeds from {seeds[0]}; {versions()}")
    print("| setting | density | seconds | EM, 1 start | seconds |")
    print("|---" * 5 + "|")
    for name, setting in settings.items():
        distances, seconds, _ = measured(setting, seeds)
        others, taken = [], []
        for seed in seeds:
            rng = np.random.default_rng([seed, 0])
            truth = setting[0](rng)
            (X,) = truth.draw(setting[1], rng)
            model = GaussianMixture(len(truth.weights), covariance_type="spherical")
            clock = process_time()
            model.set_params(random_state=seed).fit(X)
            taken.append(process_time() - clock)
            others.append(distance(model, truth, seed))
        print(
            f"| {name} | {middle(distances)} | {np.median(seconds):.2f} | {middle(others)} "
            f"| {np.median(taken):.2f} |",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    tables = ("spherical", "regression", "degrees", "sampler", "em")
    parser.add_argument("table", choices=tables)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--settings", default="", help="a part of the names of the settings")
    given = parser.parse_args()
    every = {"spherical": SPHERICAL, "regression": REGRESSION, "em": SPHERICAL}
    settings = every.get(given.table, {**SPHERICAL, **REGRESSION})
    chosen = {name: each for name, each in settings.items() if given.settings in name}
    run = {"degrees": degree_table, "sampler": sampler_table, "em": em_table}
    run.get(given.table, distance_table)(chosen, range(given.first, given.first + given.seeds))


if __name__ == "__main__":
    main()
