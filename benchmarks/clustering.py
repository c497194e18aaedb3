"""Clustering by the pairwise test, compared with EM, k-means and the Bayes rule.

Run: python benchmarks/clustering.py clusters [--seeds 10]
     python benchmarks/clustering.py distances [--seeds 10]
     python benchmarks/clustering.py rare [--seeds 10]

``clusters``: means at least ``separation`` apart, 50,000 rows; the adjusted Rand index against the
true components over that of the Bayes rule with the true means. ``distances``: six mixtures in 10
features whose largest distance of two means is 10 to 1,000 times the smallest, 8; found if every
mean is within 0.3. ``rare``: one of six components is light.
"""

from __future__ import annotations

import argparse
import math
import platform
import warnings
from collections.abc import Iterator
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from implicitmoments import SphericalMixtureClusterer
from implicitmoments.clustering.pair_test import BayesRule
from implicitmoments.datasets import make_spherical_mixture

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

N, FIRST_SEED = 50_000, 8_000
SETTINGS = [
    (6, 10.0, 20),
    (6, 6.0, 20),
    (10, 6.0, 20),
    (30, 8.0, 20),
    (30, 6.0, 20),
    (40, 8.0, 50),
]


def data(n: int, k: int, d: int, separation: float, seed: int) -> tuple[Floats, Any]:
    """Return rows and the truth, at the smallest radius that fits the means."""
    for factor in (0.72, 0.8, 0.9, 1.0, 1.2, 1.5):
        try:
            return make_spherical_mixture(
                n, k, d, radius=factor * separation, separation=separation, random_state=seed
            )
        except ValueError:  # no room
            continue
    raise ValueError(f"{k} means {separation} apart do not fit")


def methods(k: int, d: int, seed: int, *, ours: bool) -> Iterator[tuple[str, Any]]:
    """Yield the methods by name."""
    variance = None if k <= d else 1.0
    yield "this estimator", SphericalMixtureClusterer(k, variance=variance, random_state=seed)
    if not ours:
        yield "k-means, 1 start", KMeans(k, n_init=1, random_state=seed)
        yield "k-means, 10 starts", KMeans(k, n_init=10, random_state=seed)
        yield "EM, 1 start", GaussianMixture(k, covariance_type="spherical", random_state=seed)


def cluster_table(seeds: range, *, ours: bool) -> None:
    """Print adjusted Rand indices over those of the Bayes rule, and seconds."""
    print("| k | separation | d | method | median index | least index | s |")
    print("|---" * 7 + "|")
    for k, separation, d in SETTINGS:
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in seeds:
            X, truth = data(N, k, d, separation, seed)
            rule = BayesRule(truth.vectors, truth.weights, 1.0)
            best = adjusted_rand_score(truth.labels, rule.assign(X))
            for name, method in methods(k, d, seed, ours=ours):
                clock = perf_counter()
                labels = method.fit(X).predict(X)
                seconds = perf_counter() - clock
                index = adjusted_rand_score(truth.labels, labels) / best
                found.setdefault(name, []).append((index, seconds))
        for name, results in found.items():
            indices, seconds = np.array(results).T
            print(
                f"| {k} | {separation:g} | {d} | {name} | {np.median(indices):.4f} "
                f"| {min(indices):.4f} | {np.median(seconds):.2f} |",
                flush=True,
            )


def far_mixtures(seed: int) -> dict[str, Floats]:
    """Return the means of six mixtures at distances that are not comparable."""
    rng, d, s = np.random.default_rng(seed), 10, 8.0

    def simplex(k: int) -> Floats:
        return s / math.sqrt(2) * np.linalg.qr(rng.normal(size=(d, d)))[0][:k]

    def direction() -> Floats:
        v = rng.normal(size=d)
        return v / np.linalg.norm(v)

    found = {
        f"two groups of 3, {ratio:,} times as far": np.vstack(
            [simplex(3), simplex(3) + s * ratio * direction()]
        )
        for ratio in (10, 100, 1_000)
    }
    far, middle = 1_000 * s * np.eye(d)[0], 10 * s * np.eye(d)[1]
    pairs = [simplex(2) + a * far + b * middle for a in range(2) for b in range(2)]
    found["four pairs, 10 and 1,000 times as far"] = np.vstack(pairs)
    others = [1_000 * s * direction() for _ in range(4)]
    found["a pair, and four others 1,000 times as far"] = np.vstack([simplex(2), *others])
    powers = [s * 10.0**j * direction() for j in range(4)]
    found["distances 8, 80, 800, 8,000"] = np.vstack([np.zeros(d), *powers])
    return found


def distance_table(seeds: range) -> None:
    """Print in how many data sets all means at incomparable distances are found."""
    print("| means | k | all found | least index | tests | s |")
    print("|---" * 6 + "|")
    for name, example in far_mixtures(0).items():
        found, indices, tests, taken = 0, [], [], []
        for seed in seeds:
            means, rng = far_mixtures(seed)[name], np.random.default_rng(seed + 100)
            labels = rng.integers(len(means), size=20_000)
            X = means[labels] + rng.normal(size=(20_000, 10))
            clock = perf_counter()
            model = SphericalMixtureClusterer(len(means), random_state=seed).fit(X)
            taken.append(perf_counter() - clock)
            apart = np.linalg.norm(means[:, None] - model.means_, axis=2)
            found += bool(np.all(np.min(apart, axis=1) < 0.3))
            indices.append(adjusted_rand_score(labels, model.labels_))
            tests.append(model.stats_["n_tests"])
        print(
            f"| {name} | {len(example)} | {found} of {len(seeds)} | {min(indices):.4f} "
            f"| {np.median(tests):.0f} | {np.median(taken):.1f} |",
            flush=True,
        )


def rare_table(seeds: range) -> None:
    """Print in how many data sets a light component is found."""
    print("| weight | found | s |\n|---|---|---|")
    for weight in (0.02, 0.01, 0.005, 0.003):
        shares, found, taken = [(1 - weight) / 5] * 5 + [weight], 0, []
        for seed in seeds:
            X, truth = make_spherical_mixture(
                20_000, 6, 20, radius=8.0, separation=8.0, weights=shares, random_state=seed
            )
            clock = perf_counter()
            model = SphericalMixtureClusterer(6, random_state=seed).fit(X)
            taken.append(perf_counter() - clock)
            apart = np.linalg.norm(model.means_ - truth.vectors[5], axis=1)
            found += bool(np.min(apart) < 0.8)
        print(f"| {weight} | {found} of {len(seeds)} | {np.median(taken):.1f} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["clusters", "distances", "rare"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first seed")
    parser.add_argument("--ours", action="store_true", help="no other methods")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(given.first, given.first + given.seeds)
    print(f"{platform.machine()}, seeds {seeds.start} to {seeds.stop - 1}\n")
    if given.table == "clusters":
        cluster_table(seeds, ours=given.ours)
    elif given.table == "distances":
        distance_table(seeds)
    else:
        rare_table(seeds)


if __name__ == "__main__":
    main()
