"""Clustering by the pairwise test, compared with EM, k-means and plain distances.

Run: python benchmarks/clustering.py clusters [--seeds 5]
     python benchmarks/clustering.py errors [--plot docs/figures/clustering.svg]
     python benchmarks/clustering.py distances [--seeds 5]
     python benchmarks/clustering.py rare [--seeds 6]

Means at least ``separation`` apart in 20 features. The adjusted Rand index is taken against the
true components, and compared with the Bayes rule with the true means. Error rates of tests are
the mean of both kinds, on pairs from one and from two components, at the best threshold for
distances and at the chosen one for ours.

``distances``: six mixtures in 10 features whose largest distance of two means is 10 to 1,000 times
the smallest, 8; found if every mean is within 0.3. ``rare``: one of six components is light.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from implicitmoments import AssumptionWarning, SphericalMixtureClusterer
from implicitmoments.clustering.pairwise_test import (
    choose_test,
    difference_moments,
    hold_coordinates,
    random_differences,
)
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.moments.mean_span import find_span
from implicitmoments.rows import Rows
from spherical_peers import Floats, Labels, Spherical, peers, versions

D, N = 20, 50_000
SETTINGS = [(6, 10.0), (10, 10.0), (6, 6.0), (10, 6.0), (30, 8.0)]
SEPARATIONS = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0)
ORDERS = (2, 4, 6)
N_PAIRS = 40_000


def data(n: int, k: int, separation: float, seed: int) -> tuple[Floats, Spherical, Labels]:
    """Return rows, the truth and labels; at the smallest radius that fits the means."""
    for factor in (0.72, 0.8, 0.9, 1.0, 1.2, 1.5):
        try:
            X, truth = make_spherical_mixture(
                n, k, D, radius=factor * separation, separation=separation, random_state=seed
            )
        except ValueError:  # no room
            continue
        return X, Spherical(truth.weights, truth.vectors, np.ones(k)), np.asarray(truth.labels)
    raise ValueError(f"{k} means {separation} apart do not fit")


def cluster_table(n_seeds: int, n: int, without: list[str]) -> None:
    """Print adjusted Rand indices and seconds of all methods."""
    print(f"d = {D}, N = {n:,}, {n_seeds} seeds; {versions()}")
    print("| k | separation | method | adjusted Rand index | worst over Bayes rule | seconds |")
    print("|---" * 6 + "|")
    for k, separation in SETTINGS:
        found: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(n_seeds):
            X, truth, labels = data(n, k, separation, seed)
            best = adjusted_rand_score(labels, truth.predict(X))
            found.setdefault("Bayes rule", []).append((best, 1.0, 0.0))
            clock = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AssumptionWarning)
                model = SphericalMixtureClusterer(
                    k, variance=1.0 if k > D else None, random_state=seed
                ).fit(X)
            seconds = perf_counter() - clock
            index = adjusted_rand_score(labels, model.labels_)
            found.setdefault("SphericalMixtureClusterer", []).append(
                (index, index / best, seconds)
            )
            for name, fit in peers(without).items():
                other = fit(X, k, seed)
                index = adjusted_rand_score(labels, other.predict(X))
                found.setdefault(name, []).append((index, index / best, other.seconds))
        for name, rows in found.items():
            indices, ratios, taken = (list(c) for c in zip(*rows, strict=True))
            print(
                f"| {k} | {separation:g} | {name} | {np.mean(indices):.4f} "
                f"({min(indices):.4f}–{max(indices):.4f}) | {min(ratios):.4f} "
                f"| {np.median(taken):.2f} |",
                flush=True,
            )


def best_error(values: Floats, same: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    """Return the smallest mean error rate over all thresholds; small values mean "same"."""
    order = np.argsort(values)
    joined = np.concatenate([[0], np.cumsum(same[order])]) / np.sum(same)
    merged = np.concatenate([[0], np.cumsum(~same[order])]) / np.sum(~same)
    return float(np.min(1.0 - joined + merged) / 2)


def error_rates(k: int, separation: float, seed: int) -> dict[str, float]:
    """Return the error rates of pairwise tests on one data set."""
    X, _, labels = data(N, k, separation, seed)
    rng = np.random.default_rng(seed)
    i, j = rng.integers(N, size=(2, N_PAIRS))
    same = labels[i] == labels[j]
    rows = Rows.of(X)
    span = find_span(rows, k, None)
    left, right = span.coordinates(X[i]), span.coordinates(X[j])
    held = hold_coordinates(rows, span, seed)
    moments = {t: difference_moments(held, k, t, seed=seed) for t in ORDERS}
    test = choose_test(moments, random_differences(held, seed), seed=seed)
    joined = test.same(left, right)
    rates = {
        "distance": best_error(np.linalg.norm(X[i] - X[j], axis=1), same),
        "distance in the span": best_error(np.linalg.norm(left - right, axis=1), same),
        "pairwise test": float(np.mean(~joined[same]) + np.mean(joined[~same])) / 2,
        "estimated by the test": (test.split_rate + test.merge_rate) / 2,
    }
    for t in ORDERS:
        statistic = np.asarray(moments[t].hermite((left - right) / np.sqrt(2)))
        rates[f"order {t}, best threshold"] = best_error(statistic, same)
    return rates


def error_table(n_seeds: int, plot: Path | None) -> None:
    """Print error rates against separation and k; plot them if a path is given."""
    drawn: dict[int, dict[str, list[float]]] = {}
    for k in (6, 10):
        curves: dict[str, list[float]] = {}
        for separation in SEPARATIONS:
            runs = [error_rates(k, separation, seed) for seed in range(n_seeds)]
            for name in runs[0]:
                curves.setdefault(name, []).append(float(np.mean([run[name] for run in runs])))
            if separation == SEPARATIONS[0] and k == 6:
                print("| k | separation | " + " | ".join(curves) + " |")
                print("|---" * (len(curves) + 2) + "|")
            cells = " | ".join(f"{values[-1]:.4f}" for values in curves.values())
            print(f"| {k} | {separation:g} | {cells} |", flush=True)
        drawn[k] = curves
    if plot is not None:
        draw(drawn, plot)


def draw(drawn: dict[int, dict[str, list[float]]], path: Path) -> None:
    """Draw error rates against the separation, one panel per k."""
    import matplotlib as mpl  # noqa: PLC0415 (an extra)

    mpl.use("svg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    shown = ["distance", "distance in the span", "pairwise test", "estimated by the test"]
    styles = ["C1--", "C1-", "C0-", "C0:"]
    figure, panels = plt.subplots(1, len(drawn), figsize=(9, 3.6), sharey=True)
    for panel, (k, curves) in zip(panels, drawn.items(), strict=True):
        for name, style in zip(shown, styles, strict=True):
            values = np.maximum(curves[name], 1e-4)
            panel.semilogy(SEPARATIONS, values, style, marker=".", label=name)
        panel.set_title(f"k = {k}")
        panel.set_xlabel("least distance of two means / noise")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("error rate of a test of a pair")
    panels[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


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


def distance_table(n_seeds: int, first: int = 0) -> None:
    """Print in how many data sets all means at incomparable distances are found."""
    print(f"d = 10, N = 20,000, {n_seeds} seeds from {first}")
    print("| means | k | all found | adjusted Rand index, least | tests | seconds |")
    print("|---" * 6 + "|")
    for name, example in far_mixtures(0).items():
        found, indices, tests, taken = 0, [], [], []
        for seed in range(first, first + n_seeds):
            means = far_mixtures(seed)[name]
            rng = np.random.default_rng(seed + 100)
            labels = rng.integers(len(means), size=20_000)
            X = means[labels] + rng.normal(size=(20_000, 10))
            clock = perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AssumptionWarning)
                model = SphericalMixtureClusterer(len(means), random_state=seed).fit(X)
            taken.append(perf_counter() - clock)
            apart = np.linalg.norm(means[:, None] - model.means_, axis=2)
            found += bool(np.all(np.min(apart, axis=1) < 0.3))
            indices.append(adjusted_rand_score(labels, model.labels_))
            tests.append(model.stats_.get("n_tests", 1))
        print(
            f"| {name} | {len(example)} | {found} of {n_seeds} | {min(indices):.4f} "
            f"| {np.median(tests):.0f} | {np.median(taken):.1f} |",
            flush=True,
        )


def rare_table(n_seeds: int) -> None:
    """Print in how many data sets a light component is found."""
    print(f"k = 6, d = 20, separation 8, N = 20,000, {n_seeds} seeds")
    print("| weight | by default | with smallest_weight | landmarks | seconds |")
    print("|---" * 5 + "|")
    for weight in (0.02, 0.01, 0.005, 0.003):
        shares = [(1 - weight) / 5] * 5 + [weight]
        found, taken, landmarks = [0, 0], [], 0
        for seed in range(n_seeds):
            X, truth = make_spherical_mixture(
                20_000, 6, D, radius=8.0, separation=8.0, weights=shares, random_state=seed
            )
            for given, promise in enumerate((None, weight)):
                clock = perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AssumptionWarning)
                    model = SphericalMixtureClusterer(
                        6, smallest_weight=promise, random_state=seed
                    ).fit(X)
                if given:
                    taken.append(perf_counter() - clock)
                landmarks = model.stats_["n_landmarks"]
                apart = np.linalg.norm(model.means_ - truth.vectors[5], axis=1)
                found[given] += bool(np.min(apart) < 0.8)
        print(
            f"| {weight} | {found[0]} of {n_seeds} | {found[1]} of {n_seeds} "
            f"| {landmarks:,} | {np.median(taken):.1f} |",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["clusters", "errors", "distances", "rare"])
    parser.add_argument("--first", type=int, default=0, help="first seed of distances")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--without", nargs="*", default=[], help="peers left out, by name")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    run = {
        "clusters": lambda: cluster_table(arguments.seeds, arguments.rows, arguments.without),
        "errors": lambda: error_table(arguments.seeds, arguments.plot),
        "distances": lambda: distance_table(arguments.seeds, arguments.first),
        "rare": lambda: rare_table(arguments.seeds),
    }
    run[arguments.table]()


if __name__ == "__main__":
    main()
