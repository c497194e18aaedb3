"""Density of a spherical mixture with means of small norm, compared with EM and k-means.

Run: python benchmarks/mixture_density.py distance   total variation distance from the truth
     python benchmarks/mixture_density.py degrees    the same against the degree and the rows
     python benchmarks/mixture_density.py sampler    two-sample tests of the sampler

Four means of one norm in ten features. The total variation distance is E_F[(1 − H/F)_+] over
new samples of the truth F, with its standard error; ranges are over seeds.
"""

from __future__ import annotations

import argparse
import warnings
from time import perf_counter

import numpy as np
from scipy import stats

from implicitmoments import AssumptionWarning, SphericalMixtureDensity
from implicitmoments.datasets import make_spherical_mixture
from spherical_peers import Floats, Spherical, peers, versions

K, D, N = 4, 10, 100_000
RADII = (1.2, 1.5, 2.0)
FRESH = 100_000
DRAWS = 10_000


def data(n: int, radius: float, seed: int) -> tuple[Floats, Spherical]:
    """Return rows and the truth."""
    X, truth = make_spherical_mixture(n, K, D, radius=radius, random_state=seed)
    return X, Spherical(truth.weights, truth.vectors, np.ones(K))


def fitted(X: Floats, degree: int | str) -> tuple[SphericalMixtureDensity, float]:
    """Return a model and the seconds it took."""
    clock = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        model = SphericalMixtureDensity(K, degree=degree, random_state=0).fit(X)
    return model, perf_counter() - clock


def distance(log_hypothesis: Floats, log_truth: Floats) -> tuple[float, float]:
    """Return the total variation distance at rows of the truth, and its standard error."""
    short = np.maximum(0.0, 1.0 - np.exp(log_hypothesis - log_truth))
    return float(short.mean()), float(short.std() / np.sqrt(len(short)))


def spread(values: list[float]) -> str:
    """Write the mean and the range over seeds."""
    return f"{np.mean(values):.4f} ({min(values):.4f}–{max(values):.4f})"


def distance_table(n_seeds: int, n: int, without: list[str]) -> None:
    """Print distances and seconds of all methods."""
    print(f"d = {D}, k = {K}, N = {n:,}, {n_seeds} seeds; {versions()}")
    print("| norm of the means | method | total variation | standard error | seconds |")
    print("|---" * 5 + "|")
    for radius in RADII:
        found: dict[str, list[tuple[float, float, float]]] = {}
        degrees = []
        for seed in range(n_seeds):
            X, truth = data(n, radius, seed)
            Y, _ = truth.draw(FRESH, np.random.default_rng(seed))
            log_truth = truth.log_density(Y)
            for degree in (6, "auto", "cv"):
                model, seconds = fitted(X, degree)
                name = f"SphericalMixtureDensity, degree {degree}"
                tv = distance(model.score_samples(Y), log_truth)
                found.setdefault(name, []).append((*tv, seconds))
                if degree == "cv":
                    degrees.append(model.degree_)
            for name, fit in peers(without).items():
                other = fit(X, K, seed)
                tv = distance(other.log_density(Y), log_truth)
                found.setdefault(name, []).append((*tv, other.seconds))
        for name, rows in found.items():
            distances, errors, taken = (list(c) for c in zip(*rows, strict=True))
            print(
                f"| {radius} | {name} | {spread(distances)} | {max(errors):.4f} "
                f"| {np.median(taken):.2f} |",
                flush=True,
            )
        print(f"| {radius} | degrees chosen by cv: {degrees} | | | |", flush=True)


def degree_table(n_seeds: int) -> None:
    """Print distances by degree, rows and norm."""
    columns: list[int | str] = [2, 4, 6, 8, 10, 12, "cv"]
    print("| norm | N | " + " | ".join(f"degree {c}" for c in columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for radius in RADII:
        for n in (1_000, 10_000, 100_000):
            cells = []
            for degree in columns:
                values = []
                for seed in range(n_seeds):
                    X, truth = data(n, radius, seed)
                    Y, _ = truth.draw(20_000, np.random.default_rng(seed))
                    model, _ = fitted(X, degree)
                    values.append(distance(model.score_samples(Y), truth.log_density(Y))[0])
                cells.append(f"{np.median(values):.3f}")
            print(f"| {radius} | {n:,} | " + " | ".join(cells) + " |", flush=True)


def p_value(X: Floats, Y: Floats, truth: Spherical, wrong: Spherical) -> float:
    """Compare two samples by the log-likelihood ratio of the truth and the wrong mixture."""
    first, second = (truth.log_density(Z) - wrong.log_density(Z) for Z in (X, Y))
    return float(stats.ks_2samp(first, second).pvalue)


def sampler_table(n_seeds: int) -> None:
    """Print two-sample tests against the truth and against its mirror image."""
    print(f"{DRAWS:,} draws; the wrong mixture is the truth reflected at its centre")
    print("| norm | seed | p against truth | p against reflection | clip | accepted | seconds |")
    print("|---" * 7 + "|")
    for radius in RADII[:2]:
        for seed in range(n_seeds):
            X, truth = data(N, radius, seed)
            center = truth.weights @ truth.means
            wrong = Spherical(truth.weights, 2 * center - truth.means, truth.variances)
            model, _ = fitted(X, "cv")
            clock = perf_counter()
            drawn = model.sample(DRAWS)
            seconds = perf_counter() - clock
            rng = np.random.default_rng(1_000 + seed)
            p = [p_value(drawn, m.draw(DRAWS, rng)[0], truth, wrong) for m in (truth, wrong)]
            print(
                f"| {radius} | {seed} | {p[0]:.2g} | {p[1]:.2g} | {model.clip_:.1f} "
                f"| {model.stats_['acceptance_rate']:.4f} | {seconds:.2f} |",
                flush=True,
            )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["distance", "degrees", "sampler"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--without", nargs="*", default=[], help="peers left out, by name")
    arguments = parser.parse_args()
    if arguments.table == "distance":
        distance_table(arguments.seeds, arguments.rows, arguments.without)
    elif arguments.table == "degrees":
        degree_table(arguments.seeds)
    else:
        sampler_table(arguments.seeds)


if __name__ == "__main__":
    main()
